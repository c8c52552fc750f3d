# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""A header that is compiled once for all sources that include it first."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

_COMPILE = "c++-compile"

def _precompiled_header_impl(ctx):
    toolchain = ctx.attr._cc_toolchain[cc_common.CcToolchainInfo]
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    include_as = "zeroth/" + ctx.file.header.basename
    context = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context

    # GCC looks for NAME.gch beside NAME, so both lie in a folder of their own.
    folder = ctx.label.name + "_include"
    header = ctx.actions.declare_file("%s/%s" % (folder, include_as))
    ctx.actions.symlink(output = header, target_file = ctx.file.header)
    compiled = ctx.actions.declare_file("%s/%s.gch" % (folder, include_as))
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = header.path,
        output_file = compiled.path,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts,
        include_directories = context.includes,
        quote_include_directories = context.quote_includes,
        system_include_directories = context.system_includes,
        preprocessor_defines = context.defines,
        use_pic = True,
    )
    ctx.actions.run(
        mnemonic = "CppPrecompile",
        progress_message = "Precompiling %s" % header.short_path,
        executable = cc_common.get_tool_for_action(feature_configuration = features, action_name = _COMPILE),
        arguments = ["-x", "c++-header"] + cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = _COMPILE,
            variables = variables,
        ),
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = _COMPILE,
            variables = variables,
        ),
        inputs = depset([header, ctx.file.header], transitive = [context.headers, toolchain.all_files]),
        outputs = [compiled],
    )
    root = header.path[:-len(include_as) - 1]
    return [
        CcInfo(compilation_context = cc_common.create_compilation_context(
            headers = depset([header, compiled], transitive = [context.headers]),
            includes = depset([root]),
        )),
        DefaultInfo(files = depset([compiled])),
    ]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "copts": attr.string_list(doc = "Those of the sources that include it: GCC ignores a header compiled otherwise."),
        "deps": attr.label_list(providers = [CcInfo]),
        "header": attr.label(allow_single_file = True, mandatory = True, doc = "Included as zeroth/NAME.h."),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
)
