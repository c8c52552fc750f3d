# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Generates and scores with transformers, as a reference for tools/generate and tools/evaluate.

  evaluate_with_transformers.py MODEL REQUEST.json

REQUEST has "prompt" (ids) and "new_tokens"; "tokens" (ids), "length" and "stride" of perplexity; and
"questions", of bytes as tokens, with "ctx", "endings" and "label". Prints one JSON object. Exit code
77 says that this Python does not have the packages torch and transformers.
"""

import json
import sys


def mean_loss(model, torch, tokens, length, stride):
    """The loop of "Perplexity of fixed-length models" in transformers' documentation."""
    total, count, previous_end = 0.0, 0, 0
    for begin in range(0, len(tokens), stride):
        end = min(begin + length, len(tokens))
        inputs = torch.tensor([tokens[begin:end]])
        targets = inputs.clone()
        targets[:, : -(end - previous_end)] = -100
        # The loss is a mean over the labels that are left once they are shifted by one.
        counted = int((targets[:, 1:] != -100).sum())
        if counted:
            total += float(model(inputs, labels=targets).loss) * counted
            count += counted
        previous_end = end
        if end == len(tokens):
            break
    return total / count


def choices(model, torch, questions):
    """acc and acc_norm as lm-evaluation-harness's multiple_choice has them."""
    right, right_by_length = 0, 0
    for question in questions:
        scores = []
        for ending in question["endings"]:
            context = list(question["ctx"].encode())
            whole = list((question["ctx"] + " " + ending).encode())
            log_p = torch.log_softmax(model(torch.tensor([whole[:-1]])).logits[0].double(), -1)
            scores.append(
                sum(float(log_p[i - 1, whole[i]]) for i in range(len(context), len(whole)))
            )
        by_length = [s / len(e) for s, e in zip(scores, question["endings"])]
        right += scores.index(max(scores)) == question["label"]
        right_by_length += by_length.index(max(by_length)) == question["label"]
    return right / len(questions), right_by_length / len(questions)


def main():
    path, request_path = sys.argv[1:3]
    try:
        import torch
        import transformers
    except ImportError as error:
        print("no package:", error)
        sys.exit(77)
    torch.set_num_threads(1)
    with open(request_path, encoding="utf-8") as file:
        request = json.load(file)
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    with torch.no_grad():
        prompt = torch.tensor([request["prompt"]])
        generated = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            max_new_tokens=request["new_tokens"],
            pad_token_id=0,
        )[0].tolist()[len(request["prompt"]) :]
        if generated and generated[-1] == model.config.eos_token_id:
            generated.pop()  # which ends a text and is not part of it
        accuracy, normalized = choices(model, torch, request["questions"])
        print(
            json.dumps(
                {
                    "generated": generated,
                    "mean": mean_loss(
                        model, torch, request["tokens"], request["length"], request["stride"]
                    ),
                    "accuracy": accuracy,
                    "normalized_accuracy": normalized,
                }
            )
        )


main()
