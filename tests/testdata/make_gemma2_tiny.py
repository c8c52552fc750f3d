#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Makes gemma2_tiny, the reference run of README.md, in float64: make_gemma2_tiny.py FOLDER.

Needs the packages of third_party/python/transformers.txt, numpy and safetensors. The tokens are those of gemma3_tiny.
"""

import json
import pathlib
import sys

import numpy
import torch
import torch.nn.functional
import transformers
from safetensors.torch import save_file

STEPS, BATCH, NOISY_RUNS = 20, 8, 5
SETTINGS = {
    "model": "gemma2_tiny",
    "steps": STEPS,
    "global_batch": BATCH,
    "seq_len": 32,
    "optimizer": "AdamW",
    "decay": "parameters with two or more dimensions",
    "lr": 0.001,
    "betas": [0.9, 0.95],
    "eps": 1e-8,
    "weight_decay": 0.1,
    "clip": 1.0,
    "precision": "float64",
}
CONFIG = transformers.Gemma2Config(
    vocab_size=257, hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, head_dim=8, query_pre_attn_scalar=12, sliding_window=12, attn_logit_softcapping=1.5,
    final_logit_softcapping=0.8, max_position_embeddings=128, bos_token_id=256, eos_token_id=256, pad_token_id=None,
    dtype="float32", architectures=["Gemma2ForCausalLM"])  # yapf: disable


def compute_in_float64():
    """transformers computes norms, softmax and rotary positions in float32 whatever the type of the model."""
    torch.Tensor.float = torch.Tensor.double
    softmax = torch.nn.functional.softmax
    torch.nn.functional.softmax = lambda x, dim=None, dtype=None, **rest: softmax(x, dim=dim)


def new_model(weights=None):
    torch.manual_seed(20261129)
    model = transformers.Gemma2ForCausalLM._from_config(CONFIG, attn_implementation="eager").double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # Queries and keys are so large that the cap of scores bends most of them.
            std = 0.25 if "q_proj" in name or "k_proj" in name else 0.1
            value = torch.randn(parameter.shape, dtype=torch.float64) * std
            # Multiples of 2^-12, so that 1 + weight is exact in float32.
            if "norm" in name:
                value = torch.round(value * 4096) / 4096
            parameter.copy_(value.to(torch.float32).to(torch.float64))
        if weights is not None:
            model.load_state_dict(weights, strict=False)
    rope = model.model.rotary_emb
    rope.inv_freq = 1.0 / 10000.0**(torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    return model.train()


def loss_of(model, rows):
    logits = model(torch.from_numpy(rows[:, :-1].astype(numpy.int64))).logits
    targets = torch.from_numpy(rows[:, 1:].astype(numpy.int64))
    assert logits.dtype == torch.float64
    return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def train(tokens, noise=None):
    model = new_model()
    parameters = dict(model.named_parameters())
    groups = [{"params": [p for p in parameters.values() if p.dim() >= 2], "weight_decay": SETTINGS["weight_decay"]},
              {"params": [p for p in parameters.values() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=SETTINGS["lr"], betas=SETTINGS["betas"], eps=SETTINGS["eps"])
    run = {"initial": {k: v.detach().clone() for k, v in parameters.items()}, "loss": [], "grad_norm_before_clip": []}
    for step in range(STEPS):
        optimizer.zero_grad()
        logits, loss = loss_of(model, tokens[step * BATCH:(step + 1) * BATCH])
        loss.backward()
        if noise is not None:
            for parameter in parameters.values():
                g = parameter.grad
                rms = g.square().mean().sqrt()
                draws = torch.randn(2, *g.shape, dtype=torch.float64, generator=noise)
                g += 3e-7 * (g * draws[0] + rms * draws[1]) * (g != 0)
        if step == 0:
            run["logits"] = logits.detach().clone()
            run["gradients"] = {k: v.grad.clone() for k, v in parameters.items()}
        norm = torch.nn.utils.clip_grad_norm_(parameters.values(), SETTINGS["clip"])
        run["loss"].append(loss.item())
        run["grad_norm_before_clip"].append(norm.item())
        optimizer.step()
    run["final"] = {k: v.detach().clone() for k, v in parameters.items()}
    return run


def save(tensors, path):
    save_file({k: v.to(torch.float32).contiguous() for k, v in tensors.items()}, path, metadata={"format": "pt"})


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    compute_in_float64()
    tokens = numpy.load(pathlib.Path(__file__).parent / "gemma3_tiny" / "tokens.npy")
    run = train(tokens)
    sensitive = {}
    for seed in range(NOISY_RUNS):
        noisy = train(tokens, torch.Generator().manual_seed(seed))
        for name, value in run["final"].items():
            moved = (noisy["final"][name] - value).abs().flatten() > 1e-5
            sensitive[name] = sorted(set(sensitive.get(name, [])) | set(moved.nonzero().flatten().tolist()))
    (folder / "sensitive.json").write_text(json.dumps({k: v for k, v in sensitive.items() if v}) + "\n")
    numpy.save(folder / "tokens.npy", tokens)
    save(run["initial"], folder / "model.safetensors")
    save(run["final"], folder / "final.safetensors")
    save(run["gradients"], folder / "grads_step0.safetensors")
    save({"logits": run["logits"]}, folder / "logits_step0.safetensors")
    (folder / "config.json").write_text(CONFIG.to_json_string(use_diff=False))
    expected = SETTINGS | {key: run[key] for key in ("loss", "grad_norm_before_clip")}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    print(run["loss"][0], run["loss"][-1], run["grad_norm_before_clip"][0], {k: len(v) for k, v in sensitive.items()})
    for cap in ("attn_logit_softcapping", "final_logit_softcapping"):
        model = new_model()
        for module in [model] + [layer.self_attn for layer in model.model.layers]:
            setattr(module, cap, None)
        setattr(model.config, cap, None)
        print("without", cap, loss_of(model, tokens[:BATCH])[1].item())


if __name__ == "__main__":
    main()
