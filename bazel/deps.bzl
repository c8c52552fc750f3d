# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""The repositories Zeroth needs; importing projects call zeroth_dependencies() from their WORKSPACE."""

load("//third_party/aarch64:repository.bzl", "aarch64_toolchain_repository")
load("//third_party/abseil:repository.bzl", "abseil_repository")
load("//third_party/arrow:repository.bzl", "arrow_repository")
load("//third_party/bazel_packages:repository.bzl", "SYSTEM_BAZEL_REPOSITORIES", "no_coverage_tools", "system_bazel_repository")
load("//third_party/benchmark:repository.bzl", "benchmark_repository")
load("//third_party/cuda:repository.bzl", "cuda_repository")
load("//third_party/cudnn:repository.bzl", "cudnn_repository")
load("//third_party/googletest:repository.bzl", "googletest_repository")
load("//third_party/library:repository.bzl", "library_repositories")
load("//third_party/python:repository.bzl", "python_repository")
load("//third_party/rules_cc:repository.bzl", "rules_cc_repository")
load("//third_party/rules_shell:repository.bzl", "rules_shell_repository")

def _maybe(rule, name, **kwargs):
    if not native.existing_rule(name):
        rule(name = name, **kwargs)

def zeroth_dependencies():
    """Declares every repository Zeroth uses that the calling WORKSPACE has not declared before."""
    _maybe(abseil_repository, "com_google_absl")
    _maybe(googletest_repository, "com_google_googletest")
    _maybe(benchmark_repository, "com_google_benchmark")
    library_repositories(_maybe)
    _maybe(arrow_repository, "arrow")
    _maybe(rules_cc_repository, "rules_cc")
    _maybe(rules_shell_repository, "rules_shell")

    # The Python that tests use; empty if there is none.
    _maybe(python_repository, "zeroth_python")

    # Never fetched without --config=aarch64.
    _maybe(aarch64_toolchain_repository, "aarch64_toolchain")

    # Never fetched without a CUDA config.
    _maybe(cuda_repository, "cuda")
    _maybe(cudnn_repository, "cudnn")

    # Repositories that the distribution's Bazel refers to but does not ship; they differ by
    # version.
    for name, (package, folders) in SYSTEM_BAZEL_REPOSITORIES.items():
        _maybe(system_bazel_repository, name, folders = folders, package = package)
    _maybe(no_coverage_tools, "remote_coverage_tools")
