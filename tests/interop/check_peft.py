# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Loads an adapter written by Zeroth in PEFT, and compares its logits with Zeroth's.

  check_peft.py BASE ADAPTER EXPECTED.json

EXPECTED has "ids" and, for each of them, "logits" of the next token. Exit code 77 says that this
Python does not have the packages peft, torch and transformers.
"""

import json
import sys

# For logits of about 1, computed in float32.
TOLERANCE = 2e-5


def main():
    base, adapter, expected_path = sys.argv[1:4]
    try:
        import numpy as np
        import peft
        import torch
        import transformers
    except ImportError as error:
        print("no package:", error)
        sys.exit(77)
    torch.set_num_threads(1)
    with open(expected_path, encoding="utf-8") as file:
        expected = json.load(file)
    ids = torch.tensor([expected["ids"]])
    logits = np.array(expected["logits"])
    plain = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval()
    with torch.no_grad():
        before = plain(ids).logits[0].numpy()
        model = peft.PeftModel.from_pretrained(plain, adapter).eval()
        found = model(ids).logits[0].numpy()
    worst = float(np.abs(found - logits).max())
    moved = float(np.abs(before - logits).max())
    print("%s: logits differ by at most %.2g, from the base's by %.2g" % (adapter, worst, moved))
    if not (worst < TOLERANCE and moved > 100 * TOLERANCE):
        print("check_peft.py: PEFT computes something else")
        sys.exit(1)


main()
