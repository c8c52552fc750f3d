# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Compiles .cu files into objects that an ordinary cc_library takes as sources."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//bazel/cuda:archs.bzl", "nvcc_arch_flags", "parse_archs")
load("//bazel/cuda:settings.bzl", "StringSettingInfo")
load("//bazel/cuda:toolkit.bzl", "CudaToolkitInfo")

_COPTS = [
    "-std=c++20",
    # Lets a kernel be called with constexpr helpers of the standard library.
    "--expt-relaxed-constexpr",
    # One kernel variant per worker: the host compiles are short, ptxas is not.
    "--threads=1",
    "-Werror=all-warnings",
    "-Xcompiler=-fPIC,-Wall,-Wno-unknown-pragmas",
]

_MODES = {
    "dbg": ["-g", "-O0"],
    "fastbuild": ["-O1"],
    "opt": ["-O3", "-DNDEBUG"],
}

def _archs(ctx, toolkit):
    archs, problem = parse_archs(ctx.attr._archs[StringSettingInfo].value, toolkit.known_archs)
    if problem:
        fail("%s: %s" % (ctx.attr._archs.label, problem))
    return archs

# nvcc's options for every source, except the devices and the output.
def _common_arguments(ctx, context):
    arguments = ctx.actions.args()
    arguments.add_all(_COPTS + _MODES[ctx.var["COMPILATION_MODE"]] + ctx.attr.copts)
    arguments.add_all(context.defines, before_each = "-D")
    arguments.add_all(context.quote_includes, before_each = "-I")
    arguments.add_all(context.includes, before_each = "-I")
    arguments.add_all(context.system_includes, before_each = "-isystem")
    return arguments

def _compile(ctx, toolkit, context, source, output, flags, archs):
    one = ctx.actions.args()
    one.add_all(flags)
    one.add(source)
    one.add("-o", output)
    ctx.actions.run(
        executable = toolkit.nvcc,
        arguments = [_common_arguments(ctx, context), one],
        inputs = depset([source], transitive = [context.headers]),
        outputs = [output],
        mnemonic = "CudaCompile",
        progress_message = "Compiling %s for %s" % (source.short_path, ", ".join(archs)),
        # nvcc finds its host compiler, and the compiler finds its parts, through PATH.
        use_default_shell_env = True,
    )

def _compilation_context(ctx):
    return cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context

def _cuda_objects_impl(ctx):
    if not ctx.attr.toolkit:
        return [DefaultInfo()]
    toolkit = ctx.attr.toolkit[CudaToolkitInfo]
    archs = _archs(ctx, toolkit)
    context = _compilation_context(ctx)
    objects = []
    for source in ctx.files.srcs:
        object = ctx.actions.declare_file("_cuda/%s/%s.o" % (ctx.label.name, source.basename))
        _compile(ctx, toolkit, context, source, object, nvcc_arch_flags(archs) + ["-c"], archs)
        objects.append(object)
    return [DefaultInfo(files = depset(objects))]

_ATTRS = {
    "copts": attr.string_list(),
    "deps": attr.label_list(providers = [CcInfo]),
    "srcs": attr.label_list(allow_files = [".cu"], mandatory = True),
    "toolkit": attr.label(providers = [CudaToolkitInfo]),
    "_archs": attr.label(default = "//bazel/cuda:archs"),
}

cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = _ATTRS,
)

def _cuda_cubins_impl(ctx):
    if not ctx.attr.toolkit:
        return [DefaultInfo()]
    toolkit = ctx.attr.toolkit[CudaToolkitInfo]
    context = _compilation_context(ctx)
    cubins = []
    for source in ctx.files.srcs:
        for arch in _archs(ctx, toolkit):
            cubin = ctx.actions.declare_file("_cuda/%s/%s.%s.cubin" % (ctx.label.name, source.basename, arch))
            _compile(ctx, toolkit, context, source, cubin, ["-cubin", "-arch=" + arch], [arch])
            cubins.append(cubin)
    return [DefaultInfo(files = depset(cubins), runfiles = ctx.runfiles(files = cubins))]

# The machine code of each source and architecture in a separate file, for tests.
cuda_cubins = rule(
    implementation = _cuda_cubins_impl,
    attrs = _ATTRS,
)
