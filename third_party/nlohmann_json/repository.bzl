# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Finds the system's nlohmann-json, which is headers only."""

load("//third_party:system.bzl", "include_folder", "write_build_file")

def _nlohmann_json_repository_impl(ctx):
    include_dir = include_folder(ctx, "nlohmann/json.hpp", "nlohmann-json3-dev")
    ctx.symlink(include_dir + "/nlohmann", "include/nlohmann")
    write_build_file(ctx, ctx.attr._build_file)

nlohmann_json_repository = repository_rule(
    implementation = _nlohmann_json_repository_impl,
    attrs = {"_build_file": attr.label(default = "//third_party/nlohmann_json:nlohmann_json.BUILD")},
    configure = True,
    local = True,
)
