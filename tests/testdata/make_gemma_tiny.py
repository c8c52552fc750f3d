#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Makes gemma2_tiny or gemma3_vision_tiny, reference runs of README.md, in float64: make_gemma_tiny.py FOLDER/NAME.

Needs the packages of third_party/python/transformers.txt, numpy and safetensors. The tokens are those of gemma3_tiny.
gemma3_vision_tiny has the keys and the names of published models of text and images, and is trained on text alone.
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
GEMMA2 = transformers.Gemma2Config(
    vocab_size=257, hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, head_dim=8, query_pre_attn_scalar=12, sliding_window=12, attn_logit_softcapping=1.5,
    final_logit_softcapping=0.8, max_position_embeddings=128, bos_token_id=256, eos_token_id=256, pad_token_id=None,
    dtype="float32", architectures=["Gemma2ForCausalLM"])  # yapf: disable
# Like the published files, these omit keys with transformers' default values, such as the kinds of layers.
GEMMA3 = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "model_type": "gemma3",
    "boi_token_index": 250,
    "eoi_token_index": 251,
    "eos_token_id": [256, 255],
    "image_token_index": 252,
    "initializer_range": 0.02,
    "mm_tokens_per_image": 4,
    "torch_dtype": "float32",
    "transformers_version": "4.50.0.dev0",
    "text_config": {
        "head_dim": 8,
        "hidden_size": 24,
        "intermediate_size": 40,
        "model_type": "gemma3_text",
        "num_attention_heads": 4,
        "num_hidden_layers": 6,
        "num_key_value_heads": 2,
        "pad_token_id": None,  # the default, 0, is a token of the run, whose embedding would not learn
        "query_pre_attn_scalar": 6,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 12,
        "vocab_size": 257,
    },
    "vision_config": {
        "hidden_size": 8,
        "image_size": 16,
        "intermediate_size": 8,
        "model_type": "siglip_vision_model",
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "patch_size": 4,
        "vision_use_head": False,
    },
}  # yapf: disable
VISION = ("model.vision_tower.", "model.multi_modal_projector.")


def compute_in_float64():
    """transformers computes norms, softmax and rotary positions in float32 whatever the type of the model."""
    torch.Tensor.float = torch.Tensor.double
    softmax = torch.nn.functional.softmax
    torch.nn.functional.softmax = lambda x, dim=None, dtype=None, **rest: softmax(x, dim=dim)


def set_rope(name, model):
    frequencies = lambda theta: 1.0 / theta**(torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    if name == "gemma2_tiny":
        model.model.rotary_emb.inv_freq = frequencies(10000.0)
        return
    rope = model.model.language_model.rotary_emb
    for buffer, values in (("full_attention_inv_freq", frequencies(1e6) / 8), ("sliding_attention_inv_freq", frequencies(1e4))):
        assert torch.allclose(getattr(rope, buffer).double(), values)
        setattr(rope, buffer, values)


def new_model(name):
    torch.manual_seed(20261129)
    make, config = (transformers.Gemma2ForCausalLM, GEMMA2) if name == "gemma2_tiny" else (
        transformers.Gemma3ForConditionalGeneration, transformers.Gemma3Config(**GEMMA3))
    model = make._from_config(config, attn_implementation="eager").double()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            # Queries and keys are so large that the cap of scores bends most of them.
            std = 0.25 if "q_proj" in key or "k_proj" in key else 0.1
            value = torch.randn(parameter.shape, dtype=torch.float64) * std
            # Multiples of 2^-12, so that 1 + weight is exact in float32.
            if "norm" in key:
                value = torch.round(value * 4096) / 4096
            parameter.copy_(value.to(torch.float32).to(torch.float64))
    set_rope(name, model)
    return model.train()


def loss_of(model, rows):
    tokens = torch.from_numpy(rows[:, :-1].astype(numpy.int64))
    # No token is of an image.
    more = {"token_type_ids": torch.zeros_like(tokens)} if "Gemma3" in type(model).__name__ else {}
    logits = model(tokens, **more).logits
    targets = torch.from_numpy(rows[:, 1:].astype(numpy.int64))
    assert logits.dtype == torch.float64
    return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def trained(model):
    """The parameters of the text model, under the names of a model of text alone."""
    return {k.replace("model.language_model.", "model."): v
            for k, v in model.named_parameters() if not k.startswith(VISION)}


def published(model):
    """All tensors under the names of published models of text and images."""
    return {k.replace("model.language_model.", "language_model.model.").removeprefix("model.")
            if k.startswith("model.language_model.") or k.startswith(VISION) else k: v.detach()
            for k, v in model.named_parameters()}


def train(name, tokens, noise=None):
    model = new_model(name)
    parameters = trained(model)
    groups = [{"params": [p for p in parameters.values() if p.dim() >= 2], "weight_decay": SETTINGS["weight_decay"]},
              {"params": [p for p in parameters.values() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=SETTINGS["lr"], betas=SETTINGS["betas"], eps=SETTINGS["eps"])
    run = {"initial": {k: v.clone() for k, v in published(model).items()}, "loss": [], "grad_norm_before_clip": []}
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


def make(folder, config):
    """Writes the reference run of the model that new_model() makes and that `config`, a text, describes."""
    folder.mkdir(parents=True, exist_ok=True)
    compute_in_float64()
    tokens = numpy.load(pathlib.Path(__file__).parent / "gemma3_tiny" / "tokens.npy")
    run = train(folder.name, tokens)
    sensitive = {}
    for seed in range(NOISY_RUNS):
        noisy = train(folder.name, tokens, torch.Generator().manual_seed(seed))
        for name, value in run["final"].items():
            moved = (noisy["final"][name] - value).abs().flatten() > 1e-5
            sensitive[name] = sorted(set(sensitive.get(name, [])) | set(moved.nonzero().flatten().tolist()))
    (folder / "sensitive.json").write_text(json.dumps({k: v for k, v in sensitive.items() if v}) + "\n")
    numpy.save(folder / "tokens.npy", tokens)
    save(run["initial"], folder / "model.safetensors")
    save(run["final"], folder / "final.safetensors")
    save(run["gradients"], folder / "grads_step0.safetensors")
    save({"logits": run["logits"]}, folder / "logits_step0.safetensors")
    (folder / "config.json").write_text(config)
    expected = {"model": folder.name} | SETTINGS | {key: run[key] for key in ("loss", "grad_norm_before_clip")}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    print(run["loss"][0], run["loss"][-1], run["grad_norm_before_clip"][0], {k: len(v) for k, v in sensitive.items()})
    return tokens


def main():
    folder = pathlib.Path(sys.argv[1])
    tokens = make(
        folder,
        GEMMA2.to_json_string(use_diff=False) if folder.name == "gemma2_tiny" else json.dumps(GEMMA3, indent=2) + "\n")
    if folder.name != "gemma2_tiny":
        return
    for cap in ("attn_logit_softcapping", "final_logit_softcapping"):
        model = new_model(folder.name)
        for module in [model] + [layer.self_attn for layer in model.model.layers]:
            setattr(module, cap, None)
        setattr(model.config, cap, None)
        print("without", cap, loss_of(model, tokens[:BATCH])[1].item())


if __name__ == "__main__":
    main()
