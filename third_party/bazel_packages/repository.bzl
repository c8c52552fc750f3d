# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Repositories Bazel itself asks for, taken from the distribution's packages instead of a network."""

load("//third_party:system.bzl", "fail_missing")

# Name of the repository: Debian package, and where distributions put its files. The first folder that exists is taken.
SYSTEM_BAZEL_REPOSITORIES = {
    "bazel_skylib": ("bazel-skylib", ["/usr/share/bazel/tools/skylib", "/usr/share/bazel/skylib"]),
    "platforms": ("bazel-platforms", ["/usr/share/bazel/tools/platforms", "/usr/share/bazel/platforms"]),
    "rules_java": ("bazel-rules-java", ["/usr/share/bazel/rules/java", "/usr/share/bazel/rules_java"]),
    "rules_license": ("bazel-rules-license", ["/usr/share/bazel/rules/license", "/usr/share/bazel/rules_license"]),
    "rules_proto": ("bazel-rules-proto", ["/usr/share/bazel/rules/proto", "/usr/share/bazel/rules_proto"]),
    "rules_python": ("bazel-rules-python", ["/usr/share/bazel/rules/python", "/usr/share/bazel/rules_python"]),
}

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
        ctx,
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
