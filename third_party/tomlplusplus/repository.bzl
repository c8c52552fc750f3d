# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Finds the system's toml++, which is headers only."""

load("//third_party:system.bzl", "include_folder", "write_build_file")

def _tomlplusplus_repository_impl(ctx):
    include_dir = include_folder(ctx, "toml++/toml.h", "libtomlplusplus-dev")
    ctx.symlink(include_dir + "/toml++", "include/toml++")

    # The header of the registry's module, which is upstream's single file.
    ctx.file("include/toml.hpp", "#include \"toml++/toml.h\"  // Written by Zeroth's third_party/tomlplusplus.\n", executable = False)
    write_build_file(ctx, ctx.attr._build_file)

tomlplusplus_repository = repository_rule(
    implementation = _tomlplusplus_repository_impl,
    attrs = {"_build_file": attr.label(default = "//third_party/tomlplusplus:tomlplusplus.BUILD")},
    configure = True,
    local = True,
)
