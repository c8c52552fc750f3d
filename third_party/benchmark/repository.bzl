# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Finds the system's Google Benchmark through pkg-config."""

load("//third_party:system.bzl", "SYSROOT_VARIABLES", "fail_missing", "link_flags", "pkg_config", "write_build_file")

_PACKAGE = "libbenchmark-dev"

def _benchmark_repository_impl(ctx):
    include_dir = pkg_config(ctx, "benchmark", ["--variable=includedir"], _PACKAGE)
    library_dir = pkg_config(ctx, "benchmark", ["--variable=libdir"], _PACKAGE)
    if not ctx.path(library_dir + "/libbenchmark_main.a").exists:
        fail_missing(ctx, "the library libbenchmark_main.a in " + library_dir, _PACKAGE)
    ctx.symlink(include_dir + "/benchmark", "include/benchmark")
    ctx.symlink(library_dir + "/libbenchmark_main.a", "lib/libbenchmark_main.a")
    write_build_file(ctx, ctx.attr._build_file, {
        "%{linkopts}": repr(link_flags(ctx, library_dir, "benchmark")),
    })

benchmark_repository = repository_rule(
    implementation = _benchmark_repository_impl,
    attrs = {"_build_file": attr.label(default = "//third_party/benchmark:benchmark.BUILD")},
    configure = True,
    environ = ["PKG_CONFIG_PATH"] + SYSROOT_VARIABLES,
    local = True,
)
