# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Finds the system's xxHash through pkg-config."""

load("//third_party:system.bzl", "link_flags", "pkg_config", "write_build_file")

_PACKAGE = "libxxhash-dev"

def _xxhash_repository_impl(ctx):
    include_dir = pkg_config(ctx, "libxxhash", ["--variable=includedir"], _PACKAGE)
    library_dir = pkg_config(ctx, "libxxhash", ["--variable=libdir"], _PACKAGE)
    ctx.symlink(include_dir + "/xxhash.h", "include/xxhash.h")
    write_build_file(ctx, ctx.attr._build_file, {
        "%{linkopts}": repr(link_flags(library_dir, "xxhash")),
    })

xxhash_repository = repository_rule(
    implementation = _xxhash_repository_impl,
    attrs = {"_build_file": attr.label(default = "//third_party/xxhash:xxhash.BUILD")},
    configure = True,
    environ = ["PKG_CONFIG_PATH"],
    local = True,
)
