# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""The operations of kernels/, each a folder, and the rule that builds one from its files' names."""

load("//bazel:cc.bzl", "zeroth_cc_library", "zeroth_linked_only")
load("//bazel:cuda.bzl", "cuda_cc_library", "cuda_library", "cuda_only", "if_cuda")

# An operation is in every program with kernels, and in every device's tests, once it is listed here.
OPERATIONS = [
    "activation",
    "adamw",
    "attention",
    "basic",
    "delta_net",
    "distillation",
    "divergence",
    "elementwise",
    "embedding",
    "fp8",
    "gemm",
    "linear_cross_entropy",
    "moe",
    "muon",
    "norm",
    "packed",
    "preference",
    "quantize",
    "rope",
    "sum_of_squares",
    "vocabulary",
]

def operation_targets(suffix):
    """Returns the labels of every operation's targets of this kind: "", "_cpu", "_cuda", …"""
    return ["//kernels/%s:%s%s" % (operation, operation, suffix) for operation in OPERATIONS]

def kernel_operation(
        name,
        hdrs = [],
        srcs = [],
        deps = [],
        cpu_hdrs = [],
        cpu_srcs = [],
        cpu_deps = [],
        cpu_copts = [],
        device_hdrs = [],
        device_deps = [],
        cuda_hdrs = [],
        cuda_srcs = [],
        cuda_deps = [],
        suite_hdrs = [],
        suite_srcs = [],
        suite_deps = []):
    """The targets of an operation, whose package has its name.

    NAME has NAME.h and NAME.cc: arguments, their check, and the call. NAME_cpu has *_cpu.cc;
    NAME_device_code has *.cu, and NAME_cuda these and *_cuda.cc; NAME_reference has
    testing/*_reference.{h,cc}; NAME_suite has *_suite.cc, which every device passes.

    Args:
      name: of the operation and its package.
      hdrs: further headers of NAME; the same goes for the other lists.
      srcs: further sources of NAME.
      deps: what NAME needs beside the common.
      cpu_hdrs: headers of NAME_cpu.
      cpu_srcs: further sources of NAME_cpu.
      cpu_deps: what NAME_cpu needs beside NAME and //kernels/cpu:vectors.
      cpu_copts: further options of the compiler.
      device_hdrs: headers of NAME_device_code.
      device_deps: what it needs beside NAME and //kernels/cuda:device_code.
      cuda_hdrs: headers of *_cuda.cc.
      cuda_srcs: further sources of NAME_cuda.
      cuda_deps: what *_cuda.cc needs beside NAME_device_code and //kernels/cuda:cuda_kernels.
      suite_hdrs: headers of NAME_suite.
      suite_srcs: further sources of it.
      suite_deps: what it needs beside NAME and //kernels/testing:kernels_suite.
    """
    zeroth_cc_library(
        name = name,
        srcs = [name + ".cc"] + srcs,
        hdrs = [name + ".h"] + hdrs,
        visibility = ["//bazel/visibility:kernels_users"],
        deps = ["//kernels:operation"] + deps,
    )
    inside = ["//kernels:__subpackages__"]
    zeroth_cc_library(
        name = name + "_cpu",
        srcs = native.glob(["*_cpu.cc"]) + cpu_srcs,
        hdrs = cpu_hdrs,
        copts = cpu_copts,
        openmp = True,
        visibility = inside,
        deps = [
            ":" + name,
            "//kernels/cpu:cpu_kernels",
            "//kernels/cpu:vectors",
        ] + cpu_deps,
        # Registers itself from static objects that nothing refers to; the linker would drop them.
        alwayslink = True,
    )
    cuda_library(
        name = name + "_device_code",
        srcs = native.glob(["*.cu"]),
        hdrs = device_hdrs,
        visibility = inside,
        deps = [
            ":" + name,
            "//kernels/cuda:cuda_kernels",
            "//kernels/cuda:device_code",
        ] + device_deps,
        alwayslink = True,
    )
    cuda_cc_library(
        name = name + "_cuda",
        srcs = native.glob(["*_cuda.cc"], allow_empty = True) + cuda_srcs,
        hdrs = cuda_hdrs,
        visibility = inside,
        deps = [":" + name + "_device_code"] + cuda_deps,
        alwayslink = True,
    )
    zeroth_cc_library(
        name = name + "_reference",
        testonly = True,
        srcs = native.glob(["testing/*_reference.cc"], allow_empty = True),
        hdrs = native.glob(["testing/*_reference.h"], allow_empty = True),
        visibility = inside,
        deps = [":" + name],
    )
    zeroth_cc_library(
        name = name + "_suite",
        testonly = True,
        srcs = native.glob(["*_suite.cc"]) + suite_srcs,
        hdrs = suite_hdrs,
        visibility = inside,
        deps = [
            ":" + name,
            ":" + name + "_reference",
            "//kernels/testing:kernels_suite",
            "//kernels/testing:rounding",
        ] + suite_deps,
        alwayslink = True,
    )

def linked_operations(name, suffix, deps, cuda = False, **kwargs):
    """Every operation's targets of this kind and `deps`, linked into what depends on this."""
    if cuda:
        zeroth_linked_only(
            name = name,
            target_compatible_with = cuda_only(),
            deps = if_cuda(operation_targets(suffix) + deps),
            **kwargs
        )
    else:
        zeroth_linked_only(name = name, deps = operation_targets(suffix) + deps, **kwargs)
