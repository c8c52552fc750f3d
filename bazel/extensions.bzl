# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""The module extension for MODULE.bazel: what Zeroth takes from the system there as well."""

load("//third_party/cuda:repository.bzl", "cuda_repository")
load("//third_party/cudnn:repository.bzl", "cudnn_repository")
load("//third_party/onednn:repository.bzl", "onednn_repository")
load("//third_party/pkg_config:repository.bzl", "pkg_config_repositories")
load("//third_party/python:repository.bzl", "python_repository")

def _declare(rule, name, **kwargs):
    rule(name = name, **kwargs)

def _system_impl(_):
    cuda_repository(name = "cuda")
    cudnn_repository(name = "cudnn")
    onednn_repository(name = "onednn")
    pkg_config_repositories(_declare, ["pcre2", "sentencepiece", "utf8proc"])
    python_repository(name = "zeroth_python")

system = module_extension(implementation = _system_impl)
