# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Builds GoogleTest from the sources a distribution installs, so that sanitizers see into it."""

load("//third_party:system.bzl", "fail_missing", "write_build_file")

_SOURCE = "/usr/src/googletest"

def _googletest_repository_impl(ctx):
    for folder in ["googletest", "googlemock"]:
        if not ctx.path(_SOURCE + "/" + folder + "/src").exists:
            fail_missing(ctx, "GoogleTest's sources in %s/%s" % (_SOURCE, folder), "googletest")
        ctx.symlink(_SOURCE + "/" + folder, folder)
    write_build_file(ctx, ctx.attr._build_file)

googletest_repository = repository_rule(
    implementation = _googletest_repository_impl,
    attrs = {"_build_file": attr.label(default = "//third_party/googletest:googletest.BUILD")},
    configure = True,
    local = True,
)
