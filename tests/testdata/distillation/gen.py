# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Writes text.txt and expected.json: `gen.py TESTDATA`, with transformers, TRL and torch.

llama_tiny learns in float64 from the likeliest tokens of mistral_tiny for three steps of four
sequences of 32 bytes. In the run "all", and in those of ONLINE, which expected_online.json has, the
teacher's distribution is whole, and the divergence is computed by TRL, whose loss of GKD lacks the
square of the temperature. The runs with LoRA begin with the adapter in lora/, which PEFT made.
"""

import json
import os
import random
import sys

import peft
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
# alpha, temperature, learning rate, the beta of TRL's GKD (0: forward, 1: reverse) and whether
# adapters learn.
ONLINE = {
    "forward": (0.5, 1.0, 1e-3, 0.0, False),
    "forward_warm": (0.9, 2.0, 1e-3, 0.0, False),
    "reverse": (0.5, 1.0, 1e-3, 1.0, False),
    "reverse_only": (1.0, 0.8, 1e-3, 1.0, False),
    "forward_lora": (0.7, 1.5, 1e-2, 0.0, True),
    "reverse_lora": (0.7, 1.5, 1e-2, 1.0, True),
}


def load(folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    return model.double()


def divergence(student, teacher, k, temperature, beta):
    """The mean over tokens of the divergence of two [tokens, vocabulary]."""
    if k == VOCABULARY:
        labels = torch.zeros(student.shape[:1], dtype=torch.long)
        return GKDTrainer.generalized_jsd_loss(
            student[None], teacher[None], labels[None], beta=beta, temperature=temperature
        )
    top, ids = torch.topk(torch.log_softmax(teacher, -1), k)
    p = torch.softmax(top / temperature, -1)
    log_q = torch.log_softmax(student / temperature, -1).gather(-1, ids)
    return (p * (p.log() - log_q)).sum(-1).mean()


def add_lora(student):
    torch.manual_seed(3)
    config = peft.LoraConfig(
        r=3,
        lora_alpha=5,
        task_type="CAUSAL_LM",
        target_modules=["q_proj", "v_proj", "up_proj"],
    )
    student = peft.get_peft_model(student.float(), config)
    student.save_pretrained("distillation/lora")
    os.remove("distillation/lora/README.md")
    return student.double()


def run(tokens, k, alpha, temperature, lr, beta=0.0, lora=False):
    student, teacher = load("llama_tiny"), load("mistral_tiny")
    if lora:
        student = add_lora(student)
    optimizer = torch.optim.AdamW(
        [parameter for parameter in student.parameters() if parameter.requires_grad],
        lr=lr,
        betas=(0.9, 0.95),
        eps=1e-8,
        weight_decay=0,
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
        loss = alpha * temperature**2 * divergence(logits, of_teacher, k, temperature, beta)
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
    tokens = list(text.encode())
    runs = {name: run(tokens, *values) for name, values in RUNS.items()}
    online = {}
    for name, values in ONLINE.items():
        online[name] = run(tokens, VOCABULARY, *values)
        online[name].update(beta=values[3], lora=values[4])
    for name, expected in (("expected", runs), ("expected_online", online)):
        with open(f"distillation/{name}.json", "w", encoding="utf-8") as file:
            json.dump(expected, file, indent=1)


main()
