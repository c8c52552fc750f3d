#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Dequantises blocks of GGUF files by gguf, for kernels/packed/packed_format_test.cc.

    pip install gguf==0.19.0 numpy && python3 gguf_gen.py

Writes, for each type, 12 blocks of random bytes whose half-precision numbers are finite
(gguf_TYPE.u8), and their values in fp32 (gguf_TYPE.f32), little-endian. MXFP4's scales include the
smallest and the largest, with which values are subnormal or infinite.
"""

import pathlib

import gguf
import numpy

HERE = pathlib.Path(__file__).parent
BLOCKS = 12
# The offsets of the half-precision numbers in a block.
HALVES = {"Q4_0": [0], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
          "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108], "MXFP4": []}


def main():
    random = numpy.random.default_rng(0)
    for name, halves in HALVES.items():
        kind = gguf.GGMLQuantizationType[name]
        _, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (BLOCKS, size), dtype=numpy.uint8)
        for at in halves:
            numbers = random.normal(0, 0.01, (BLOCKS, 1)).astype(numpy.float16)
            # Subnormal numbers and zero occur too.
            numbers[0] = 3e-7
            numbers[1] = 0
            blocks[:, at : at + 2] = numbers.view(numpy.uint8)
        if name == "MXFP4":
            blocks[:, 0] = [0, 1, 2, 3, 120, 126, 127, 128, 252, 253, 254, 255]
        values = gguf.quants.dequantize(blocks, kind)
        blocks.tofile(HERE / f"gguf_{name.lower()}.u8")
        values.astype(numpy.float32).tofile(HERE / f"gguf_{name.lower()}.f32")


if __name__ == "__main__":
    main()
