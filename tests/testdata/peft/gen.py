# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Writes the adapters of README.md: `gen.py TESTDATA [ADAPTER...]`, with PEFT, transformers and torch.

Each adapter starts from random values of float32, which PEFT writes. PEFT then trains it in float64
for three steps. Values in files are rounded once, at the end. The frozen weights of llama_nf4 and
qwen3_moe_nf4 are those that bitsandbytes restores from NF4; it also writes their bases.

transformers 5 has stacked the experts of mixtures, which were linear layers before. PEFT reads
adapters with the names of those layers, but its fused ones train other products. So adapters of
experts are trained here by their definition, weight + scale * B A, and PEFT must compute the first
loss from the same files.
"""

import json
import os
import sys

import numpy as np
import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

NF4_BASE = "peft/nf4_base"
NF4_MOE_BASE = "peft/nf4_moe_base"
NF4_BASES = (NF4_BASE, NF4_MOE_BASE)
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
STEPS, ROWS, LR = 3, 8, 1e-2

# Folder: the base, and the keys of its configuration besides a rank of 3 and an alpha of 5.
ADAPTERS = {
    "llama_lora": ("llama_tiny", {"target_modules": ALL}),
    "llama_dora": ("llama_tiny", {"target_modules": ALL, "use_dora": True}),
    "llama_rslora": ("llama_tiny", {"target_modules": ["q_proj", "down_proj"], "use_rslora": True}),
    "llama_saved": (
        "llama_tiny",
        {"target_modules": ["v_proj", "up_proj"], "modules_to_save": ["embed_tokens", "lm_head"]},
    ),
    "llama31_tied": (
        "llama31_tiny",
        {
            "target_modules": ["v_proj", "down_proj"],
            "modules_to_save": ["embed_tokens"],
            "ensure_weight_tying": True,
        },
    ),
    "gpt2_lora": (
        "gpt2_tiny",
        {"target_modules": ["c_attn", "attn.c_proj", "c_fc", "mlp.c_proj"], "fan_in_fan_out": True},
    ),
    "gpt2_dora": (
        "gpt2_tiny",
        {
            "target_modules": ["c_attn", "mlp.c_proj"],
            "fan_in_fan_out": True,
            "use_dora": True,
            "use_rslora": True,
        },
    ),
    # The other linear layers have no adapter, but are packed, too.
    "llama_nf4": (NF4_BASE, {"target_modules": ["q_proj", "v_proj", "up_proj", "down_proj"]}),
}


# Folder: the base, a linear layer of its attention, the module of its experts in files, and there
# the names of gate, up and down.
EXPERTS = {
    "qwen3_moe_lora": ("qwen3_moe_tiny", "q_proj", "mlp", ["gate_proj", "up_proj", "down_proj"]),
    "mixtral_lora": ("mixtral_tiny", "v_proj", "block_sparse_moe", ["w1", "w3", "w2"]),
    "qwen3_moe_nf4": (NF4_MOE_BASE, "q_proj", "mlp", ["gate_proj", "up_proj", "down_proj"]),
}


def write_nf4_base(base):
    """Writes a model in bf16 whose rows have even numbers of blocks, so that two ranks can share them."""
    torch.manual_seed(45)
    sizes = {
        "vocab_size": 257,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "tie_word_embeddings": True,
        "bos_token_id": 256,
        "eos_token_id": 256,
    }
    if base == NF4_MOE_BASE:
        experts = {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 128}
        config = transformers.Qwen3MoeConfig(
            **sizes, **experts, head_dim=32, norm_topk_prob=True, router_aux_loss_coef=0.0
        )
        model = transformers.Qwen3MoeForCausalLM(config)
    else:
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data.uniform_(0.7, 1.3)
        else:
            # Rows of different sizes, so that the magnitudes of blocks differ.
            parameter.data *= torch.linspace(0.5, 4, parameter.shape[-2]).unsqueeze(1)
    model.bfloat16().save_pretrained(base)
    os.remove(os.path.join(base, "generation_config.json"))


def restored(weight):
    """What bitsandbytes restores of a weight in NF4."""
    import bitsandbytes.functional as bnb

    codes, state = bnb.quantize_4bit(
        weight.contiguous(), blocksize=64, compress_statistics=True, quant_type="nf4"
    )
    # On CPUs bitsandbytes finds 8-bit codes in a table of 2^16 places, so that a magnitude less than
    # 2e-5 from a border may have the code beside the nearest one.
    magnitudes = weight.reshape(-1, 64).abs().amax(1) - state.offset
    scales = state.state2.absmax.repeat_interleave(256)[: len(magnitudes)]
    distances = (magnitudes / scales).unsqueeze(1) - state.state2.code
    state.absmax = distances.abs().argmin(1).to(torch.uint8)
    values = bnb.dequantize_4bit(codes, state)
    assert values.dtype == torch.float32 and not torch.equal(values, weight)
    return values


def quantise(model):
    """Restores the weights of the blocks' linear layers, and of each of their experts."""
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and name != "lm_head":
            module.weight.data = restored(module.weight.data)
        if name.endswith(".experts"):
            for both in module.gate_up_proj.data:
                gate, up = both.chunk(2)
                both.copy_(torch.cat([restored(gate), restored(up)]))
            for down in module.down_proj.data:
                down.copy_(restored(down))


def tokens_of(base):
    return "llama_tiny" if base in NF4_BASES else base


def base_model(path):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path,
        dtype=torch.float32,
        attn_implementation="eager",
        experts_implementation="eager",
    )
    if path in NF4_BASES:
        quantise(model)
    return model


def stored(model, value_of):
    """What `value_of` gives for trained parameters, under the names that PEFT stores them with."""
    # A tied parameter has several names here.
    values = {
        name: value_of(parameter)
        for name, parameter in model.state_dict(keep_vars=True).items()
        if parameter.requires_grad
    }
    return {
        name: value.detach().to(torch.float32).contiguous().clone()
        for name, value in peft.get_peft_model_state_dict(model, state_dict=values).items()
    }


def write(folder, base, options):
    torch.manual_seed(1)
    config = peft.LoraConfig(r=3, lora_alpha=5, task_type="CAUSAL_LM", **options)
    model = peft.get_peft_model(base_model(base), config)
    # B is zero at first, and would leave the gradients of A zero.
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.05)
        # The norms of the base's weights at first.
        if "magnitude" in name:
            parameter.data *= torch.empty_like(parameter).uniform_(0.7, 1.3)
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "README.md"))

    model = peft.PeftModel.from_pretrained(base_model(base), folder, is_trainable=True).double()
    model.train()
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    train(
        folder,
        base,
        trained,
        lambda tokens: model(input_ids=tokens).logits,
        lambda value_of: stored(model, value_of),
    )


def loss_of(logits_of, batch):
    logits = logits_of(batch[:, :-1])
    assert logits.dtype == torch.float64
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def train(folder, base, trained, logits_of, stored_of):
    tokens = tokens_of(base)
    rows = torch.tensor(np.load(os.path.join(tokens, "tokens.npy")).astype(np.int64))
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in trained.values() if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in trained.values() if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=LR,
        betas=(0.9, 0.95),
        eps=1e-8,
    )
    expected = {"base": base, "lr": LR, "loss": [], "grad_norm": []}
    if base in NF4_BASES:
        expected.update({"tokens": tokens, "base_dtype": "nf4"})
    for step in range(STEPS):
        batch = rows[step * ROWS : (step + 1) * ROWS]
        loss = loss_of(logits_of, batch)
        optimizer.zero_grad()
        loss.backward()
        expected["loss"].append(float(loss))
        if step == 0:
            gradients = stored_of(lambda parameter: parameter.grad)
            save_file(gradients, os.path.join(folder, "grads_step0.safetensors"))
        norm = torch.nn.utils.clip_grad_norm_(list(trained.values()), 1.0)
        expected["grad_norm"].append(float(norm))
        optimizer.step()
    final = stored_of(lambda parameter: parameter)
    save_file(final, os.path.join(folder, "final.safetensors"))
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
        json.dump(expected, file, indent=1)
    names = set(load_file(os.path.join(folder, "adapter_model.safetensors")))
    for other in ("grads_step0", "final"):
        assert set(load_file(os.path.join(folder, other + ".safetensors"))) == names, folder
    print(folder, expected["loss"], expected["grad_norm"])


def write_experts(folder, base, attention, module, projections):
    torch.manual_seed(1)
    config = peft.LoraConfig(
        r=3, lora_alpha=5, task_type="CAUSAL_LM", target_modules=[attention] + projections
    )
    config.base_model_name_or_path, config.inference_mode = base, True
    config.save_pretrained(folder)
    scale = config.lora_alpha / config.r
    model = base_model(base).double()
    weights = {name: p.detach() for name, p in model.named_parameters()}
    halves = {}

    def add(layer, out, size):
        halves[layer] = (
            torch.nn.Parameter(torch.randn(config.r, size) / (3 * size) ** 0.5),
            torch.nn.Parameter(torch.randn(out, config.r) * 0.05),
        )

    for layer in range(model.config.num_hidden_layers):
        block = f"model.layers.{layer}"
        add(f"{block}.self_attn.{attention}", *weights[f"{block}.self_attn.{attention}.weight"].shape)
        _, out, size = weights[f"{block}.mlp.experts.down_proj"].shape
        for expert in range(model.config.num_local_experts):
            for name in projections[:2]:
                add(f"{block}.{module}.experts.{expert}.{name}", size, out)
            add(f"{block}.{module}.experts.{expert}.{projections[2]}", out, size)

    def stored_of(value_of):
        return {
            f"base_model.model.{layer}.lora_{half}.weight": value_of(value)
            .detach()
            .to(torch.float32)
            .contiguous()
            .clone()
            for layer, pair in halves.items()
            for half, value in zip("AB", pair)
        }

    save_file(stored_of(lambda p: p), os.path.join(folder, "adapter_model.safetensors"))
    halves = {
        layer: tuple(torch.nn.Parameter(p.detach().double()) for p in pair)
        for layer, pair in halves.items()
    }

    def logits_of(tokens):
        adapted = {}

        def delta(layer):
            a, b = halves[layer]
            return scale * b @ a

        for layer in range(model.config.num_hidden_layers):
            block = f"model.layers.{layer}"
            linear = f"{block}.self_attn.{attention}"
            adapted[f"{linear}.weight"] = weights[f"{linear}.weight"] + delta(linear)
            numbers = range(model.config.num_local_experts)
            gate, up, down = (
                torch.stack([delta(f"{block}.{module}.experts.{e}.{name}") for e in numbers])
                for name in projections
            )
            for name, values in (
                ("gate_up_proj", torch.cat([gate, up], 1)),
                ("down_proj", down),
            ):
                name = f"{block}.mlp.experts.{name}"
                adapted[name] = weights[name] + values
        return torch.func.functional_call(model, adapted, (), {"input_ids": tokens}).logits

    rows = torch.tensor(np.load(os.path.join(tokens_of(base), "tokens.npy")).astype(np.int64))[:ROWS]
    own = loss_of(logits_of, rows)
    by_peft = peft.PeftModel.from_pretrained(base_model(base), folder).double()
    theirs = loss_of(lambda tokens: by_peft(input_ids=tokens).logits, rows)
    print(folder, "first loss", float(own), "by PEFT", float(theirs))
    assert abs(own - theirs) < 1e-9
    trained = {f"{layer}.{i}": p for layer, pair in halves.items() for i, p in enumerate(pair)}
    train(folder, base, trained, logits_of, stored_of)


def main():
    os.chdir(sys.argv[1])
    torch.set_num_threads(1)
    for folder, (base, options) in ADAPTERS.items():
        if sys.argv[2:] and folder not in sys.argv[2:]:
            continue
        if base in NF4_BASES:
            write_nf4_base(base)
        write(os.path.join("peft", folder), base, options)
    for folder, arguments in EXPERTS.items():
        if sys.argv[2:] and folder not in sys.argv[2:]:
            continue
        if arguments[0] in NF4_BASES:
            write_nf4_base(arguments[0])
        write_experts(os.path.join("peft", folder), *arguments)


main()
