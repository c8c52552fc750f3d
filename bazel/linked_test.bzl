# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""A test that runs a binary which other tests run, too."""

def _linked_test_impl(ctx):
    program = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = program, target_file = ctx.executable.binary, is_executable = True)
    runfiles = ctx.runfiles(files = ctx.files.data).merge(ctx.attr.binary[DefaultInfo].default_runfiles)
    for data in ctx.attr.data:
        runfiles = runfiles.merge(data[DefaultInfo].default_runfiles)
    env = {name: ctx.expand_location(value, ctx.attr.data) for name, value in ctx.attr.env.items()}
    return [
        DefaultInfo(executable = program, runfiles = runfiles),
        testing.TestEnvironment(env),
    ]

# Links nothing: the test is another name of `binary`. `data` and `env` are as in a cc_test.
linked_test = rule(
    implementation = _linked_test_impl,
    attrs = {
        "binary": attr.label(cfg = "target", executable = True, mandatory = True),
        "data": attr.label_list(allow_files = True),
        "env": attr.string_dict(),
    },
    test = True,
)
