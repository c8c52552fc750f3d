# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Writes text.txt and expected.json: `gen.py TESTDATA`, with transformers, TRL and torch.

llama_tiny learns in float64 from the likeliest tokens of mistral_tiny for three steps of four
sequences of 32 bytes. In the run "all" the teacher's distribution is whole, and the divergence is
computed by TRL, whose loss of GKD lacks the square of the temperature.
"""

import json
import os
import random
import sys

import torch
import transformers
from trl.experimental.gkd import GKDTrainer

STEPS, ROWS, LENGTH, VOCABULARY = 3, 4, 32, 257
# k, alpha, temperature and learning rate of each run.
RUNS = {
    "mixed": (8, 0.5, 1.0, 1e-3),
    "warm": (5, 0.7, 2.0, 1e-3),
    "teacher": (16, 1.0, 0.8, 1e-3),
    "all": (VOCABULARY, 0.9, 1.5, 1e-3),
}


def load(folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    return model.double()


def divergence(student, teacher, k, temperature):
    """The mean over tokens of KL(teacher || student), both [tokens, vocabulary]."""
    if k == VOCABULARY:
        labels = torch.zeros(student.shape[:1], dtype=torch.long)
        return GKDTrainer.generalized_jsd_loss(
            student[None], teacher[None], labels[None], beta=0.0, temperature=temperature
        )
    top, ids = torch.topk(torch.log_softmax(teacher, -1), k)
    p = torch.softmax(top / temperature, -1)
    log_q = torch.log_softmax(student / temperature, -1).gather(-1, ids)
    return (p * (p.log() - log_q)).sum(-1).mean()


def run(tokens, k, alpha, temperature, lr):
    student, teacher = load("llama_tiny"), load("mistral_tiny")
    optimizer = torch.optim.AdamW(
        student.parameters(), lr=lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=0
    )
    expected = {"k": k, "alpha": alpha, "temperature": temperature, "lr": lr}
    expected.update(loss=[], grad_norm=[])
    for step in range(STEPS):
        rows = [
            tokens[(step * ROWS + row) * LENGTH :][: LENGTH + 1] for row in range(ROWS)
        ]
        batch = torch.tensor(rows)
        inputs, targets = batch[:, :-1], batch[:, 1:].reshape(-1)
        with torch.no_grad():
            of_teacher = teacher(input_ids=inputs).logits.view(-1, VOCABULARY)
        logits = student(input_ids=inputs).logits.view(-1, VOCABULARY)
        loss = alpha * temperature**2 * divergence(logits, of_teacher, k, temperature)
        loss = loss + (1 - alpha) * torch.nn.functional.cross_entropy(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        expected["loss"].append(loss.item())
        expected["grad_norm"].append(norm.item())
    return expected


def main():
    os.chdir(sys.argv[1])
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    random.seed(5)
    words = "red blue green small large round quick slow warm cold".split()
    text = " ".join(random.choice(words) for _ in range(200))[: STEPS * ROWS * LENGTH + 10]
    with open("distillation/text.txt", "w", encoding="utf-8") as file:
        file.write(text)
    expected = {name: run(list(text.encode()), *values) for name, values in RUNS.items()}
    with open("distillation/expected.json", "w", encoding="utf-8") as file:
        json.dump(expected, file, indent=1)


main()
