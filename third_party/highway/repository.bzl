# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Finds the system's Highway through pkg-config."""

load("//third_party:system.bzl", "link_flags", "pkg_config", "write_build_file")

_PACKAGE = "libhwy-dev"

def _highway_repository_impl(ctx):
    include_dir = pkg_config(ctx, "libhwy", ["--variable=includedir"], _PACKAGE)
    library_dir = pkg_config(ctx, "libhwy", ["--variable=libdir"], _PACKAGE)
    defines = [
        flag[len("-D"):]
        for flag in pkg_config(ctx, "libhwy", ["--cflags-only-other"], _PACKAGE).split(" ")
        if flag.startswith("-D")
    ]
    ctx.symlink(include_dir + "/hwy", "include/hwy")
    write_build_file(ctx, ctx.attr._build_file, {
        "%{defines}": repr(defines),
        "%{linkopts}": repr(link_flags(library_dir, "hwy")),
    })

highway_repository = repository_rule(
    implementation = _highway_repository_impl,
    attrs = {"_build_file": attr.label(default = "//third_party/highway:highway.BUILD")},
    configure = True,
    environ = ["PKG_CONFIG_PATH"],
    local = True,
)
