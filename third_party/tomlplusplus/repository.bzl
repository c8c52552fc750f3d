# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Finds the system's toml++, which is headers only."""

load("//third_party:system.bzl", "include_folder", "write_build_file")

def _tomlplusplus_repository_impl(ctx):
    include_dir = include_folder(ctx, "toml++/toml.h", "libtomlplusplus-dev")
    ctx.symlink(include_dir + "/toml++", "include/toml++")
    write_build_file(ctx, ctx.attr._build_file)

tomlplusplus_repository = repository_rule(
    implementation = _tomlplusplus_repository_impl,
    attrs = {"_build_file": attr.label(default = "//third_party/tomlplusplus:tomlplusplus.BUILD")},
    configure = True,
    local = True,
)
