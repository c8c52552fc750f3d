# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""The loss that balances experts and its gradient as transformers computes them.

  balance_with_transformers.py REQUEST.json

REQUEST is a list of cases: "logits" of one layer's router, [tokens, experts], of one sequence, and
"top_k". Prints one JSON object: "cases", a list of "loss" and its "gradient" by the logits. Exit code 77 says
that this Python does not have the packages torch and transformers.
"""

import json
import sys


def main():
    try:
        import torch
        from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func
    except ImportError as error:
        print("no package:", error)
        sys.exit(77)
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    cases = []
    for case in request:
        logits = torch.tensor(case["logits"], dtype=torch.float64, requires_grad=True)
        loss = load_balancing_loss_func((logits,), logits.shape[1], case["top_k"])
        loss.backward()
        cases.append({"loss": float(loss.detach()), "gradient": logits.grad.flatten().tolist()})
    print(json.dumps({"cases": cases}))


main()
