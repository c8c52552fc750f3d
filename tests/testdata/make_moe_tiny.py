#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Makes qwen2_moe_tiny, dots1_tiny or gpt_oss_tiny, reference runs of README.md, in float64: make_moe_tiny.py FOLDER/NAME.

Needs the packages of third_party/python/transformers.txt, numpy and safetensors. The tokens are those of gemma3_tiny.
transformers stacks the experts of a layer; the files have them one by one, as published ones do.
"""

import json
import math
import pathlib
import sys

import numpy
import torch
import torch.nn.functional
import transformers
from safetensors.torch import save_file
from transformers.models.dots1 import modeling_dots1
from transformers.models.gpt_oss import modeling_gpt_oss
from transformers.models.qwen2_moe import modeling_qwen2_moe

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
SHARED = dict(vocab_size=257, hidden_size=24, intermediate_size=40, num_attention_heads=4, num_key_value_heads=2,
              moe_intermediate_size=16, max_position_embeddings=128, bos_token_id=256, eos_token_id=256,
              pad_token_id=None, dtype="float32", sliding_window=None)  # yapf: disable
MODELS = {
    "qwen2_moe_tiny": (transformers.Qwen2MoeForCausalLM, transformers.Qwen2MoeConfig(
        num_hidden_layers=2, num_experts=6, num_experts_per_tok=2, shared_expert_intermediate_size=24,
        architectures=["Qwen2MoeForCausalLM"], **SHARED)),
    "dots1_tiny": (transformers.Dots1ForCausalLM, transformers.Dots1Config(
        num_hidden_layers=3, n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=2, first_k_dense_replace=1,
        norm_topk_prob=True, routed_scaling_factor=2.5, architectures=["Dots1ForCausalLM"], **SHARED)),
    "gpt_oss_tiny": (transformers.GptOssForCausalLM, transformers.GptOssConfig(
        vocab_size=257, hidden_size=24, intermediate_size=16, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, sliding_window=12, num_local_experts=6, num_experts_per_tok=2,
        max_position_embeddings=128, bos_token_id=256, eos_token_id=256, pad_token_id=None, dtype="float32",
        rope_parameters={"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "beta_fast": 4.0,
                         "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 32},
        architectures=["GptOssForCausalLM"])),
}  # yapf: disable


def compute_in_float64():
    """transformers computes norms, softmax, scores and rotary positions in float32 whatever the type of the model."""

    def norm(self, x):
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.variance_epsilon))

    def yarn(self, x, position_ids):
        rope = self.config.rope_parameters
        width, factor = self.config.head_dim, rope["factor"]
        pairs = torch.arange(0, width, 2, dtype=torch.float64)
        frequencies = rope["rope_theta"]**(-pairs / width)

        def pair_that_turns(times):
            turns = rope["original_max_position_embeddings"] / (2 * math.pi * times)
            return width * math.log(turns) / (2 * math.log(rope["rope_theta"]))

        low, high = max(pair_that_turns(rope["beta_fast"]), 0), min(pair_that_turns(rope["beta_slow"]), width - 1)
        kept = 1 - ((pairs / 2 - low) / (high - low)).clamp(0, 1)
        angles = position_ids[..., None].double() * (frequencies * kept + frequencies / factor * (1 - kept))
        length = 0.1 * math.log(factor) + 1
        return angles.cos() * length, angles.sin() * length

    modeling_dots1.Dots1RMSNorm.forward = modeling_qwen2_moe.Qwen2MoeRMSNorm.forward = norm
    modeling_gpt_oss.GptOssRMSNorm.forward = norm
    as_published = modeling_gpt_oss.GptOssRotaryEmbedding.forward

    def checked_yarn(self, x, position_ids):
        made = yarn(self, x, position_ids)
        for one, published in zip(made, as_published(self, x, position_ids)):
            torch.testing.assert_close(one.expand_as(published), published, rtol=0, atol=1e-5)
        return made

    modeling_gpt_oss.GptOssRotaryEmbedding.forward = checked_yarn
    torch.Tensor.float = torch.Tensor.double
    cast = torch.Tensor.type
    torch.Tensor.type = lambda x, dtype: cast(x, torch.float64 if dtype == torch.float32 else dtype)
    softmax = torch.nn.functional.softmax
    torch.nn.functional.softmax = lambda x, dim=None, dtype=None, **rest: softmax(x, dim=dim)


def new_model(name):
    is_gpt_oss = name == "gpt_oss_tiny"
    torch.manual_seed(41 if is_gpt_oss else 20261130)
    make, config = MODELS[name]
    model = make._from_config(config, attn_implementation="eager", experts_implementation="eager").double()
    with torch.no_grad():
        tensors = dict(model.named_parameters()) | {k: v for k, v in model.named_buffers() if "correction_bias" in k}
        for key, tensor in tensors.items():
            value = torch.randn(tensor.shape, dtype=torch.float64) * 0.1
            if "norm" in key:
                value = 1 + value
            if ".gate.weight" in key or "expert_gate" in key or ".router." in key:
                value *= 5  # so that scores differ
            if "sinks" in key:
                value *= 10
            if is_gpt_oss and key.endswith("gate_up_proj"):
                value *= 1.5
            if is_gpt_oss and key.endswith("down_proj"):
                value *= 0.3
            if key.endswith("gate_up_proj_bias"):
                # Gates of the first unit, and ups of the next two, are about as often beyond their limit as not. What they
                # are multiplied by is small, so that roundings do not grow.
                value[:, [0, 3]] += 7
                value[:, 5] -= 7
                value[:, 1] -= 1
                value[:, [2, 4]] -= 2
            tensor.copy_(value.to(torch.float32).to(torch.float64))
    if not is_gpt_oss:
        width = config.hidden_size // config.num_attention_heads
        model.model.rotary_emb.inv_freq = 1.0 / 10000.0**(torch.arange(0, width, 2, dtype=torch.float64) / width)
    return model.train()


def unstacked(tensors):
    """The tensors of each expert, under the names that published files have; those of gpt-oss are stacked, and here
    have Zeroth's names."""
    result = {}
    for name, value in tensors.items():
        before, _, last = name.rpartition(".")
        if before + ".down_proj_bias" in tensors:
            kind = "bias" if last.endswith("bias") else "weight"
            for e, one in enumerate(value):
                one = one if kind == "bias" else one.T
                if last.startswith("down"):
                    result[f"{before}.{e}.down_proj.{kind}"] = one
                else:
                    result |= {f"{before}.{e}.gate_proj.{kind}": one[::2], f"{before}.{e}.up_proj.{kind}": one[1::2]}
            continue
        if last == "gate_up_proj" and value.dim() == 3:
            for e, both in enumerate(value):
                gate, up = both.chunk(2)
                result |= {f"{before}.{e}.gate_proj.weight": gate, f"{before}.{e}.up_proj.weight": up}
        elif last == "down_proj" and value.dim() == 3:
            result |= {f"{before}.{e}.down_proj.weight": one for e, one in enumerate(value)}
        else:
            result[name] = value
    return result


def values_of(model):
    buffers = {k: v for k, v in model.named_buffers() if "correction_bias" in k}
    return unstacked({k: v.detach().clone() for k, v in (dict(model.named_parameters()) | buffers).items()})


def train(name, tokens, noise=None):
    model = new_model(name)
    parameters = dict(model.named_parameters())
    # Stacked biases are the one-dimensional biases of experts.
    decayed = {k: p.dim() >= 2 and not k.endswith("_bias") for k, p in parameters.items()}
    groups = [{"params": [parameters[k] for k in decayed if decayed[k]], "weight_decay": SETTINGS["weight_decay"]},
              {"params": [parameters[k] for k in decayed if not decayed[k]], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=SETTINGS["lr"], betas=SETTINGS["betas"], eps=SETTINGS["eps"])
    run = {"initial": values_of(model), "loss": [], "grad_norm_before_clip": []}
    for step in range(STEPS):
        rows = torch.from_numpy(tokens[step * BATCH:(step + 1) * BATCH].astype(numpy.int64))
        optimizer.zero_grad()
        logits = model(rows[:, :-1]).logits
        assert logits.dtype == torch.float64
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        if noise is not None:
            for parameter in parameters.values():
                g = parameter.grad
                rms = g.square().mean().sqrt()
                draws = torch.randn(2, *g.shape, dtype=torch.float64, generator=noise)
                g += 3e-7 * (g * draws[0] + rms * draws[1]) * (g != 0)
        if step == 0:
            run["logits"] = logits.detach().clone()
            run["gradients"] = unstacked({k: v.grad.clone() for k, v in parameters.items()})
        norm = torch.nn.utils.clip_grad_norm_(parameters.values(), SETTINGS["clip"])
        run["loss"].append(loss.item())
        run["grad_norm_before_clip"].append(norm.item())
        optimizer.step()
    run["final"] = values_of(model)
    return run


def save(tensors, path):
    save_file({k: v.to(torch.float32).contiguous() for k, v in tensors.items()}, path, metadata={"format": "pt"})


def main():
    folder = pathlib.Path(sys.argv[1])
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
    (folder / "config.json").write_text(MODELS[folder.name][1].to_json_string(use_diff=False))
    expected = {"model": folder.name} | SETTINGS | {key: run[key] for key in ("loss", "grad_norm_before_clip")}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    print(run["loss"][0], run["loss"][-1], run["grad_norm_before_clip"][0], {k: len(v) for k, v in sensitive.items() if v})


if __name__ == "__main__":
    main()
