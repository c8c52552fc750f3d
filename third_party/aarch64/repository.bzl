# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""The cross compiler of --config=aarch64; an empty repository in other builds."""

load("//third_party:system.bzl", "SYSROOT_VARIABLES", "fail_missing", "sysroot", "write_build_file")

_PREFIX = "aarch64-linux-gnu-"
_PACKAGE = "g++-aarch64-linux-gnu"
_TOOLS = ["ar", "cpp", "dwp", "gcc", "gcov", "ld", "nm", "objcopy", "objdump", "strip"]

def _include_folders(ctx, compiler, root):
    """Returns the folders in which the compiler itself finds headers, as it prints them."""
    result = ctx.execute([compiler, "--sysroot=" + root, "-E", "-xc++", "-v", "/dev/null"])
    lines = result.stderr.partition("#include <...>")[2].partition("End of search list")[0].splitlines()[1:]
    return [str(ctx.path(line.strip())) for line in lines] + [root]

def _aarch64_toolchain_repository_impl(ctx):
    root = sysroot(ctx)
    if not root:
        ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
        ctx.file("BUILD", "")
        return
    tools = {tool: str(ctx.which(_PREFIX + tool) or "/usr/bin/" + _PREFIX + tool) for tool in _TOOLS}
    if not ctx.path(tools["gcc"]).exists:
        fail_missing(ctx, "the program %sgcc" % _PREFIX, _PACKAGE)
    tools["llvm-cov"] = "/usr/bin/llvm-cov"  # which Bazel wants to be named, and does not run
    write_build_file(ctx, ctx.attr._build_file, {
        "%{include_folders}": repr(_include_folders(ctx, tools["gcc"], root)),
        "%{sysroot}": root,
        "%{tool_paths}": repr(tools),
    })

aarch64_toolchain_repository = repository_rule(
    implementation = _aarch64_toolchain_repository_impl,
    attrs = {"_build_file": attr.label(default = "//third_party/aarch64:toolchain.BUILD")},
    configure = True,
    environ = SYSROOT_VARIABLES,
    local = True,
)
