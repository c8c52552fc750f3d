# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Loads a model exported by Zeroth in transformers, and compares its logits with recorded ones.

  check_transformers.py EXPORTED RECORDED

RECORDED is a folder of tests/testdata, whose logits of the first step transformers computed in
float64 from the weights that EXPORTED must have again. Exit code 77 says that this Python does not
have the packages torch and transformers.
"""

import os
import sys

# For logits of about 1.
TOLERANCE = 1e-5


def fail(message):
    print("check_transformers.py:", message)
    sys.exit(1)


def main():
    exported, recorded = sys.argv[1:3]
    try:
        import numpy as np
        import torch
        import transformers
        from safetensors.numpy import load_file
    except ImportError as error:
        print("no package:", error)
        sys.exit(77)
    torch.set_num_threads(1)
    model, notes = transformers.AutoModelForCausalLM.from_pretrained(
        exported, dtype=torch.float32, output_loading_info=True
    )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if notes.get(kind):
            fail("%s of %s: %s" % (kind, exported, sorted(notes[kind])))
    logits = load_file(os.path.join(recorded, "logits_step0.safetensors"))["logits"]
    tokens = np.load(os.path.join(recorded, "tokens.npy")).astype(np.int64)
    inputs = torch.tensor(tokens[: logits.shape[0], : logits.shape[1]])
    with torch.no_grad():
        found = model(input_ids=inputs).logits.numpy()
    worst = float(np.abs(found - logits).max())
    print("%s: logits differ by at most %.2g" % (type(model).__name__, worst))
    if not worst < TOLERANCE:
        fail("transformers computes something else")


main()
