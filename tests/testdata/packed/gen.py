#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Packs a weight by bitsandbytes, for kernels/packed/packed_format_test.cc.

    pip install torch bitsandbytes==0.50.2 numpy && python3 gen.py

Writes raw little-endian arrays: the weight [160, 128] in fp32, its NF4 codes (two to a byte, the
first in the upper half), the 8-bit codes of the blocks' magnitudes, their fp32 scales and offset,
the 256 values of the 8-bit codes, and the weight that bitsandbytes restores, in fp32.
"""

import pathlib

import bitsandbytes.functional as bnb
import numpy
import torch

HERE = pathlib.Path(__file__).parent


def main():
    torch.manual_seed(0)
    # Rows of different sizes, so that magnitudes differ between blocks; and a block of zeros.
    weight = torch.randn(160, 128) * 0.02 * torch.linspace(0.2, 3, 160).unsqueeze(1)
    weight[7, :64] = 0
    weight = weight.to(torch.bfloat16).float()
    codes, state = bnb.quantize_4bit(
        weight, blocksize=64, compress_statistics=True, quant_type="nf4"
    )
    restored = bnb.dequantize_4bit(codes, state)
    arrays = {
        "weight.f32": weight,
        "nf4_codes.u8": codes,
        "nf4_magnitudes.u8": state.absmax,
        "nf4_scales.f32": torch.cat([state.state2.absmax, state.offset.reshape(1)]),
        "nf4_map.f32": state.state2.code,
        "nf4_restored.f32": restored,
    }
    for name, values in arrays.items():
        numpy.ascontiguousarray(values.numpy()).tofile(HERE / name)


if __name__ == "__main__":
    main()
