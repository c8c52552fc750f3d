#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Makes one gpt-oss model in both forms of its files, for checkpoint/hf_experts_test.cc, and as a GGUF file.

    pip install torch==2.15.0 transformers==5.24.0 gguf==0.19.0 && python3 gen.py

mxfp4/ has random MXFP4 codes and scales, from the smallest to the largest, as published files do. dense/
has what transformers' convert_moe_packed_tensors makes of them, as GptOssForCausalLM saves it. gguf/ has the same
codes and scales in the names, keys and blocks that llama.cpp's converter gives them; the package gguf decodes them.
"""

import json
import pathlib
import shutil

import gguf
import numpy
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


def add_mxfp4(writer, name, blocks, scales, expected):
    """ggml's block is its scale, then 16 bytes whose lower halves are the first 16 codes."""
    codes = torch.stack((blocks & 15, blocks >> 4), dim=-1).flatten(-2)
    halves = codes[..., :16] | codes[..., 16:] << 4
    packed = torch.cat((scales[..., None], halves), dim=-1).flatten(-2).numpy()
    decoded = gguf.quants.dequantize(packed, gguf.GGMLQuantizationType.MXFP4)
    assert numpy.array_equal(decoded, expected.float().numpy()), name
    writer.add_tensor(name, packed, raw_dtype=gguf.GGMLQuantizationType.MXFP4)


def write_gguf(config, tensors, packed):
    writer = gguf.GGUFWriter(HERE / "gguf" / "model.gguf", gguf.MODEL_ARCH_NAMES[gguf.MODEL_ARCH.GPT_OSS])
    rope = config.rope_parameters
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(INNER)
    writer.add_expert_feed_forward_length(INNER)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_sliding_window(config.sliding_window)
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
    writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT_OSS, config.num_hidden_layers)

    def add(name, value):
        renamed = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if value.dim() > 1 and "experts" not in name and "router" not in name:
            bits = value.contiguous().view(torch.int16).numpy().view(numpy.uint8)
            writer.add_tensor(renamed, bits, raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(renamed, value.float().numpy())

    for name, value in tensors.items():
        if ".mlp.experts." not in name:
            add(name + ".weight" if name.endswith("sinks") else name, value)
            continue
        stack = name.removesuffix("_bias")
        parts = [(stack, slice(None))]
        if "gate_up" in stack:
            parts = [(stack.replace("gate_up", kind), slice(i, None, 2)) for i, kind in enumerate(("gate", "up"))]
        for part, rows in parts:
            if name.endswith("_bias"):
                add(part + ".bias", value[:, rows].contiguous())
            else:
                add_mxfp4(writer, names.get_name(part + ".weight", try_suffixes=(".weight",)),
                          packed[name + "_blocks"][:, rows], packed[name + "_scales"][:, rows],
                          value.transpose(1, 2)[:, rows])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


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
    for form in ("dense", "gguf", "mxfp4"):
        shutil.rmtree(HERE / form, ignore_errors=True)
    model.save_pretrained(HERE / "dense")
    (HERE / "dense" / "generation_config.json").unlink()
    (HERE / "mxfp4").mkdir()
    tensors = load_file(HERE / "dense" / "model.safetensors")
    (HERE / "gguf").mkdir()
    write_gguf(config, tensors, packed)
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
