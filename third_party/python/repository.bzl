# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Finds the Python that tests compare our files with; installs nothing and never fails."""

load("//third_party:system.bzl", "cached_folder", "write_build_file")

def _environment(ctx):
    """Returns the interpreter that environment.sh would print if it has made one, or None."""
    folder = cached_folder(ctx, "python", ctx.attr._requirements)
    if not folder:
        return None
    path = ctx.path(folder + "/bin/python")
    return str(path) if path.exists else None

def _python_repository_impl(ctx):
    interpreter = ctx.os.environ.get("ZEROTH_PYTHON", "") or _environment(ctx)
    ctx.file("interpreter.txt", (interpreter or "") + "\n", executable = False)
    write_build_file(ctx, ctx.attr._build_file)

python_repository = repository_rule(
    implementation = _python_repository_impl,
    attrs = {
        "_build_file": attr.label(default = "//third_party/python:python.BUILD"),
        "_requirements": attr.label(default = "//third_party/python:requirements.txt"),
    },
    configure = True,
    # bazelw sets ZEROTH_PYTHON once there is an environment, so that a running Bazel server looks again.
    environ = ["ZEROTH_PYTHON", "XDG_CACHE_HOME", "HOME"],
    local = True,
)
