# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""The installed CUDA toolkit, as the build sees it."""

CudaToolkitInfo = provider(
    doc = "An installed CUDA toolkit.",
    fields = {
        "known_archs": "numbers of the architectures that nvcc compiles for",
        "nvcc": "the compiler, as a File",
    },
)

def _cuda_toolkit_impl(ctx):
    return [CudaToolkitInfo(
        known_archs = [int(number) for number in ctx.attr.known_archs],
        nvcc = ctx.file.nvcc,
    )]

cuda_toolkit = rule(
    implementation = _cuda_toolkit_impl,
    attrs = {
        "known_archs": attr.string_list(mandatory = True),
        "nvcc": attr.label(mandatory = True, allow_single_file = True),
    },
)
