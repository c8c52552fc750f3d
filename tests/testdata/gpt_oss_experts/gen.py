#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Makes one gpt-oss model in both forms of its files, for checkpoint/hf_experts_test.cc.

    pip install torch==2.15.0 transformers==5.24.0 && python3 gen.py

mxfp4/ has random MXFP4 codes and scales, from the smallest to the largest, as published files do. dense/
has what transformers' convert_moe_packed_tensors makes of them, as GptOssForCausalLM saves it.
"""

import json
import pathlib
import shutil

import torch
from safetensors.torch import load_file, save_file
from transformers import GptOssConfig, GptOssForCausalLM, Mxfp4Config
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

HERE = pathlib.Path(__file__).parent
HIDDEN, INNER, EXPERTS, BLOCK = 32, 64, 3, 32
QUANTIZATION = {"quant_method": "mxfp4",
                "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                           "model.embed_tokens", "lm_head"]}


def random_mxfp4(rows, columns):
    blocks = torch.randint(0, 256, (EXPERTS, rows, columns // BLOCK, BLOCK // 2), dtype=torch.uint8)
    scales = torch.randint(110, 130, (EXPERTS, rows, columns // BLOCK), dtype=torch.uint8)
    scales.view(-1)[:4] = torch.tensor([0, 1, 253, 254], dtype=torch.uint8)
    return blocks, scales


def main():
    torch.manual_seed(0)
    config = GptOssConfig(vocab_size=16, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=1,
                          num_attention_heads=2, num_key_value_heads=1, head_dim=16,
                          num_local_experts=EXPERTS, num_experts_per_tok=2, max_position_embeddings=32,
                          layer_types=["sliding_attention"], sliding_window=8, dtype="bfloat16")
    model = GptOssForCausalLM(config).to(torch.bfloat16)
    packed = {}
    with torch.no_grad():
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter)
        experts = model.model.layers[0].mlp.experts
        for name, rows, columns in (("gate_up_proj", 2 * INNER, HIDDEN), ("down_proj", HIDDEN, INNER)):
            blocks, scales = random_mxfp4(rows, columns)
            getattr(experts, name).copy_(convert_moe_packed_tensors(blocks, scales))
            stored = "model.layers.0.mlp.experts." + name
            packed[stored + "_blocks"], packed[stored + "_scales"] = blocks, scales
    for form in ("dense", "mxfp4"):
        shutil.rmtree(HERE / form, ignore_errors=True)
    model.save_pretrained(HERE / "dense")
    (HERE / "dense" / "generation_config.json").unlink()
    (HERE / "mxfp4").mkdir()
    tensors = load_file(HERE / "dense" / "model.safetensors")
    for name in list(packed):
        tensors.pop(name.removesuffix("_blocks"), None)
    tensors.update(packed)
    save_file(tensors, HERE / "mxfp4" / "model.safetensors", metadata={"format": "pt"})
    described = json.loads((HERE / "dense" / "config.json").read_text())
    described["quantization_config"] = QUANTIZATION
    (HERE / "mxfp4" / "config.json").write_text(json.dumps(described, indent=2) + "\n")
    # transformers reads mxfp4/ as the published form.
    loaded = GptOssForCausalLM.from_pretrained(HERE / "mxfp4", quantization_config=Mxfp4Config(dequantize=True))
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value), name


if __name__ == "__main__":
    main()
