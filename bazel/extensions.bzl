# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""The module extension for MODULE.bazel: repositories that come from the system also with modules."""

load("//third_party/arrow:repository.bzl", "arrow_repository")
load("//third_party/cuda:repository.bzl", "cuda_repository")
load("//third_party/cudnn:repository.bzl", "cudnn_repository")
load("//third_party/library:repository.bzl", "library_repositories")
load("//third_party/python:repository.bzl", "python_repository")

def _declare(rule, name, **kwargs):
    rule(name = name, **kwargs)

def _system_impl(_):
    arrow_repository(name = "arrow")
    cuda_repository(name = "cuda")
    cudnn_repository(name = "cudnn")
    library_repositories(_declare, ["onednn", "pcre2", "sentencepiece", "utf8proc"])
    python_repository(name = "zeroth_python")

system = module_extension(implementation = _system_impl)
