# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Runs llama.cpp on a GGUF file, and compares its logits with recorded ones.

  check_llama_cpp.py MODEL_DIRECTORY FILE.gguf

The directory is one of tests/testdata: its logits of the first step come from Hugging Face's own
implementation in float64. Text must come back through the file's vocabulary, too. Exit code 77 says
that this Python does not have the package llama_cpp.
"""

import json
import os
import struct
import sys

# For logits of about 1. llama.cpp looks GELU up in a table of half-precision numbers, which costs
# GPT-2 3e-4; Llama, without one, agrees to 3e-7.
TOLERANCE = 1e-3


def fail(message):
    print("check_llama_cpp.py:", message)
    sys.exit(1)


def read_logits(np, path):
    data = open(path, "rb").read()
    (length,) = struct.unpack_from("<Q", data)
    entry = json.loads(data[8 : 8 + length])["logits"]
    begin, end = entry["data_offsets"]
    return np.frombuffer(data[8 + length + begin : 8 + length + end], np.float32).reshape(
        entry["shape"]
    )


def main():
    directory, path = sys.argv[1:3]
    try:
        import llama_cpp
        import numpy as np
    except ImportError as error:
        print("no package llama_cpp:", error)
        sys.exit(77)
    logits = read_logits(np, os.path.join(directory, "logits_step0.safetensors"))
    tokens = np.load(os.path.join(directory, "tokens.npy"))
    length = logits.shape[1]
    model = llama_cpp.Llama(
        model_path=path, n_ctx=64, logits_all=True, n_threads=1, n_gpu_layers=0, verbose=False,
        type_k=0, type_v=0,
    )
    for row in range(2):
        model.reset()
        model.eval([int(token) for token in tokens[row][:length]])
        found = np.array(model.scores[:length])
        worst = float(np.abs(found - logits[row]).max())
        print("row %d: logits differ by at most %.2g" % (row, worst))
        if not worst < TOLERANCE:
            fail("llama.cpp computes something else")
    # llama.cpp replaces invalid UTF-8.
    text = ("".join(map(chr, range(1, 0x180))) + "\u20ac\U0001f600").encode()
    ids = model.tokenize(text, add_bos=False, special=False)
    if ids != list(text):
        fail("llama.cpp cuts %r into %s" % (text, ids))
    if model.detokenize(ids) != text:
        fail("bytes do not come back from llama.cpp")


main()
