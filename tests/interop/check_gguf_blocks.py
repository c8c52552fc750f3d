# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Compares a quantised GGUF file with the one in F32 that the same model gives.

  check_gguf_blocks.py PLAIN.gguf QUANTISED.gguf
  check_gguf_blocks.py PLAIN.gguf QUANTISED.gguf LIBRARY.so

The public package "gguf" reads both. Where it can quantise a type, its bytes must be the same; what it
dequantises must be as near to the plain values as the type allows. LIBRARY is a build of ggml, whose
reference functions must then give the same bytes for every type but Q5_0, whose ties depend on its
compiler. "llama_cpp" in the place of a path
stands for the library in that Python package; exit code 77 says that there is none. Prints the
error of each type.
"""

import ctypes
import glob
import os
import sys

import gguf
import numpy as np

TYPE = gguf.GGMLQuantizationType
# Elements of a group that shares a scale, the steps of its codes, and the codes of scales.
GROUPS = {TYPE.Q8_0: (32, 254, None), TYPE.Q5_0: (32, 31, None), TYPE.Q5_1: (32, 31, None),
          TYPE.Q4_K: (32, 15, 63), TYPE.Q5_K: (32, 31, 63), TYPE.Q6_K: (16, 63, 128)}
SYMMETRIC = (TYPE.Q8_0, TYPE.Q5_0, TYPE.Q6_K)
BLOCK = 256


def fail(message):
    print("check_gguf_blocks.py:", message)
    sys.exit(1)


def ranges_of(values, kind):
    """The range that the codes of each group cover, for each element."""
    group = GROUPS[kind][0]
    groups = values.reshape(-1, group)
    if kind in SYMMETRIC:
        ranges = 2 * np.abs(groups).max(axis=1)
    elif kind == TYPE.Q5_1:
        ranges = groups.max(axis=1) - groups.min(axis=1)
    else:
        ranges = groups.max(axis=1) - np.minimum(groups.min(axis=1), 0)
    return np.repeat(ranges, group)


def check_error(name, kind, plain, found):
    group, steps, scale_codes = GROUPS[kind]
    plain, found = plain.ravel().astype(np.float64), found.ravel().astype(np.float64)
    ranges = ranges_of(plain, kind)
    # A code is off by at most one step, because scales may be chosen that clip a value.
    bound = 1.1 * ranges / steps
    if scale_codes:
        # The scale and the minimum of a group are rounded, to a share of the largest in the block.
        largest = np.repeat(ranges.reshape(-1, BLOCK).max(axis=1), BLOCK)
        bound += 1.1 * largest / scale_codes
    error = np.abs(plain - found)
    if not (error <= bound + 1e-7).all():
        fail("%s (%s): an element is off by %g of its bound" % (name, kind.name, (error / bound).max()))
    # Nearest codes under scales that are exact, from the extremes of the group.
    rounding = np.sqrt(np.mean((ranges / steps) ** 2) / 12)
    ratio = np.sqrt(np.mean(error**2)) / rounding
    if ratio > 1.1:
        fail("%s (%s): %.3f times the error of rounding" % (name, kind.name, ratio))
    return np.sqrt(np.mean(error**2) / np.mean(plain**2)), ratio


def open_ggml(path):
    if path == "llama_cpp":
        try:
            import llama_cpp
        except ImportError as error:
            print("no package llama_cpp:", error)
            sys.exit(77)
        path = glob.glob(os.path.join(os.path.dirname(llama_cpp.__file__), "lib", "libggml-base*"))[0]
    return ctypes.CDLL(path)


def ggml_bytes(library, kind, plain):
    block, size = gguf.GGML_QUANT_SIZES[kind]
    plain = np.ascontiguousarray(plain, np.float32)
    out = np.zeros(plain.size // block * size, np.uint8)
    function = getattr(library, "quantize_row_%s_ref" % kind.name.replace("Q", "q"))
    function.restype = None
    function(plain.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
             ctypes.c_int64(plain.size))
    return out


def main():
    plain = {t.name: t for t in gguf.GGUFReader(sys.argv[1]).tensors}
    quantised = {t.name: t for t in gguf.GGUFReader(sys.argv[2]).tensors}
    library = open_ggml(sys.argv[3]) if len(sys.argv) > 3 else None
    if sorted(plain) != sorted(quantised):
        fail("the files have other tensors")
    errors = {}
    for name, tensor in quantised.items():
        kind, values = tensor.tensor_type, np.array(plain[name].data)
        if plain[name].shape.tolist() != tensor.shape.tolist():
            fail("%s has another shape" % name)
        if kind in (TYPE.F32, TYPE.F16):
            if not np.array_equal(values.astype(np.float16 if kind == TYPE.F16 else np.float32), tensor.data):
                fail("%s has other values" % name)
            errors.setdefault(kind, []).append((0, 0))
            continue
        data = np.array(tensor.data)
        if kind in (TYPE.Q8_0, TYPE.Q5_0, TYPE.Q5_1):
            if not np.array_equal(gguf.quants.quantize(values, kind), data):
                fail("the package makes other blocks of %s, %s" % (name, kind.name))
        if library and kind != TYPE.Q5_0 and not np.array_equal(ggml_bytes(library, kind, values), data.ravel()):
            wrong = np.mean(ggml_bytes(library, kind, values) != data.ravel())
            fail("ggml makes other blocks of %s, %s: %g of the bytes" % (name, kind.name, wrong))
        errors.setdefault(kind, []).append(
            check_error(name, kind, values, gguf.quants.dequantize(data, kind)))
    for kind, found in sorted(errors.items()):
        print("%s: %d tensors, relative error %.4f, %.3f of rounding"
              % (kind.name, len(found), *np.max(found, axis=0)))


main()
