# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Makes the packages of the programs. Their names depend on what the programs need, so the output is a folder."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")

def _packages_impl(ctx):
    output = ctx.actions.declare_directory(ctx.label.name)
    programs = {name: program.files.to_list()[0] for program, name in ctx.attr.programs.items()}
    arguments = ctx.actions.args()
    arguments.add(ctx.file.script)
    root = ctx.attr._cc_toolchain[cc_common.CcToolchainInfo].sysroot
    if root:
        arguments.add("--root=" + root)
    arguments.add_all([output.path, ctx.attr.version])
    arguments.add_all(ctx.files.dispatcher)
    arguments.add_joined(ctx.files.licenses, join_with = ",")
    arguments.add_all(["%s=%s" % (name, file.path) for name, file in programs.items()])
    ctx.actions.run_shell(
        arguments = [arguments],
        # Finds patchelf, strip, readelf and qemu, as the compiler is found.
        command = 'exec python3 -B "$@"',
        inputs = programs.values() + ctx.files.dispatcher + ctx.files.licenses + ctx.files.scripts + [ctx.file.script],
        mnemonic = "Package",
        outputs = [output],
        progress_message = "Packing the programs",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([output]), runfiles = ctx.runfiles(files = [output]))]

packages = rule(
    implementation = _packages_impl,
    attrs = {
        "dispatcher": attr.label(allow_single_file = True),
        "licenses": attr.label_list(allow_files = True, mandatory = True),
        "programs": attr.label_keyed_string_dict(allow_files = True, mandatory = True),
        "script": attr.label(allow_single_file = True, mandatory = True),
        "scripts": attr.label_list(allow_files = True, doc = "what `script` reads beside its arguments"),
        "version": attr.string(mandatory = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
)
