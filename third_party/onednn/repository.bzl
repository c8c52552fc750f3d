# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Finds the system's oneDNN, which installs no pkg-config module."""

load("//third_party:system.bzl", "include_folder", "library_folder", "link_flags", "write_build_file")

_PACKAGE = "libdnnl-dev"

def _onednn_repository_impl(ctx):
    prefix = ctx.os.environ.get("DNNLROOT", "")
    include_dir = include_folder(
        ctx,
        "oneapi/dnnl/dnnl.hpp",
        _PACKAGE,
        [prefix + "/include"] if prefix else [],
    )
    library_dir = library_folder(
        ctx,
        "libdnnl.so",
        _PACKAGE,
        [prefix + "/lib", prefix + "/lib64"] if prefix else [],
    )
    ctx.symlink(include_dir + "/oneapi/dnnl", "include/oneapi/dnnl")
    write_build_file(ctx, ctx.attr._build_file, {
        "%{linkopts}": repr(link_flags(library_dir, "dnnl")),
    })

onednn_repository = repository_rule(
    implementation = _onednn_repository_impl,
    attrs = {"_build_file": attr.label(default = "//third_party/onednn:onednn.BUILD")},
    configure = True,
    environ = ["DNNLROOT"],
    local = True,
)
