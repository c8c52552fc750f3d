# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Repositories Bazel itself asks for, taken from the distribution's packages instead of a network."""

load("//third_party:system.bzl", "fail_missing")

def _system_bazel_repository_impl(ctx):
    for folder in ctx.attr.folders:
        root = ctx.path(folder)
        if not root.exists:
            continue
        for entry in root.readdir():
            if entry.basename != "WORKSPACE":
                ctx.symlink(entry, entry.basename)
        ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
        return
    fail_missing(
        "Bazel's '%s' rules (looked in %s)" % (ctx.name, ", ".join(ctx.attr.folders)),
        ctx.attr.package,
    )

system_bazel_repository = repository_rule(
    implementation = _system_bazel_repository_impl,
    attrs = {
        "folders": attr.string_list(doc = "Where distributions put it; the first that exists."),
        "package": attr.string(doc = "The Debian package that installs it."),
    },
    local = True,
)

_COVERAGE_BUILD = """# Written by Zeroth's third_party/bazel_packages/repository.bzl.
filegroup(
    name = "coverage_report_generator",
    visibility = ["//visibility:public"],
)
"""

def _no_coverage_tools_impl(ctx):
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    ctx.file("BUILD", _COVERAGE_BUILD)

no_coverage_tools = repository_rule(
    implementation = _no_coverage_tools_impl,
    doc = "`bazel test` resolves this label always, and uses it only in `bazel coverage`.",
)
