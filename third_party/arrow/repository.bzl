# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Finds the C++ libraries of Apache Arrow and Parquet; installs nothing and never fails."""

load("//third_party:system.bzl", "SYSROOT_VARIABLES", "cached_folder", "write_build_file")

_HEADER = "include/parquet/arrow/reader.h"

def _library(ctx, folder, name):
    """Returns the file name of a shared library, whose version is part of it, or None."""
    lib = ctx.path(folder + "/lib")
    names = [path.basename for path in lib.readdir()] if lib.exists else []
    found = sorted([file for file in names if file.startswith("lib%s.so" % name)])
    return found[0] if found else None

def _arrow_repository_impl(ctx):
    home = ctx.os.environ.get("ARROW_HOME", "")
    if home and not ctx.path(home + "/" + _HEADER).exists:
        fail("\n\nARROW_HOME=%s does not hold Arrow's headers (%s).\nCorrect it, or unset it.\n" % (home, _HEADER))
    target = ctx.os.environ.get("ZEROTH_TARGET", "")
    folder = home or cached_folder(ctx, "arrow" + ("_" + target if target else ""), ctx.attr._contents)
    libraries = [_library(ctx, folder, name) for name in ["parquet", "arrow"]] if folder else []
    if not folder or not ctx.path(folder + "/" + _HEADER).exists or None in libraries:
        # buildifier: disable=print
        print("This build leaves out parquet and compressed files: Arrow was not found (./bazelw fetches it, ARROW_HOME names its folder).")
        ctx.file("include/empty", "")
        defines = []
        linkopts = []
    else:
        ctx.symlink(folder + "/include", "include")
        defines = ["ZEROTH_HAS_ARROW=1"]

        # //tools/install copies the libraries to the second folder.
        linkopts = ["-L%s/lib" % folder, "-Wl,-rpath,%s/lib" % folder, "-Wl,-rpath,$$ORIGIN/../lib/zeroth"]
        linkopts += ["-l:" + library for library in libraries]
    write_build_file(ctx, ctx.attr._build_file, {
        "%{defines}": repr(defines),
        "%{linkopts}": repr(linkopts),
    })

arrow_repository = repository_rule(
    implementation = _arrow_repository_impl,
    attrs = {
        "_build_file": attr.label(default = "//third_party/arrow:arrow.BUILD"),
        "_contents": attr.label(default = "//third_party/arrow:arrow.txt"),
    },
    configure = True,
    # bazelw sets ARROW_HOME once the libraries are there, so that a running Bazel server looks again.
    environ = ["ARROW_HOME"] + SYSROOT_VARIABLES,
    local = True,
)
