#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Makes qwen3_5_gguf, a random model that llama.cpp's layout can express: make_qwen35_gguf.py FOLDER.

Rows are multiples of 32, the size of a block of Q8_0; the columns of a head are not.

It is a model without a run, whose logits of two rows transformers computes in float64. Needs what make_gemma_tiny.py needs.
"""

import json
import pathlib
import random
import struct
import sys

import make_gemma_tiny
import make_qwen35_tiny
import numpy
import torch
import transformers
from safetensors.numpy import save_file

WIDTH, INNER, VOCABULARY = 32, 64, 257
HEADS, KEY_VALUE_HEADS, HEAD = 4, 2, 8
KEY_HEADS, VALUE_HEADS, STATE, TAPS = 2, 6, 16, 4
TYPES = ["linear_attention", "full_attention"] * 2
CONFIG = {
    "architectures": ["Qwen3_5ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 256,
    "eos_token_id": 256, "dtype": "float32", "head_dim": HEAD, "hidden_act": "silu", "hidden_size": WIDTH,
    "initializer_range": 0.02, "intermediate_size": INNER, "layer_types": TYPES, "linear_conv_kernel_dim": TAPS,
    "linear_key_head_dim": STATE, "linear_num_key_heads": KEY_HEADS, "linear_num_value_heads": VALUE_HEADS,
    "linear_value_head_dim": STATE, "max_position_embeddings": 128, "model_type": "qwen3_5_text",
    "num_attention_heads": HEADS, "num_hidden_layers": len(TYPES), "num_key_value_heads": KEY_VALUE_HEADS,
    "rms_norm_eps": 1e-06, "rope_parameters": {
        "mrope_interleaved": True, "mrope_section": [1, 1, 0], "partial_rotary_factor": 0.5, "rope_theta": 10000.0,
        "rope_type": "default"}, "tie_word_embeddings": False, "torch_dtype": "float32", "vocab_size": VOCABULARY}  # yapf: disable


def shapes():
    yield "model.embed_tokens.weight", [VOCABULARY, WIDTH]
    yield "lm_head.weight", [VOCABULARY, WIDTH]
    yield "model.norm.weight", [WIDTH]
    values = VALUE_HEADS * STATE
    mixed = 2 * KEY_HEADS * STATE + values
    linear = {
        "in_proj_qkv.weight": [mixed, WIDTH], "in_proj_z.weight": [values, WIDTH], "in_proj_a.weight": [VALUE_HEADS, WIDTH],
        "in_proj_b.weight": [VALUE_HEADS, WIDTH], "conv1d.weight": [mixed, 1, TAPS], "A_log": [VALUE_HEADS],
        "dt_bias": [VALUE_HEADS], "norm.weight": [STATE], "out_proj.weight": [WIDTH, values]}  # yapf: disable
    full = {
        "q_proj.weight": [2 * HEADS * HEAD, WIDTH], "k_proj.weight": [KEY_VALUE_HEADS * HEAD, WIDTH],
        "v_proj.weight": [KEY_VALUE_HEADS * HEAD, WIDTH], "o_proj.weight": [WIDTH, HEADS * HEAD],
        "q_norm.weight": [HEAD], "k_norm.weight": [HEAD]}  # yapf: disable
    for layer, kind in enumerate(TYPES):
        prefix = "model.layers.%d." % layer
        for norm in ("input_layernorm.weight", "post_attention_layernorm.weight"):
            yield prefix + norm, [WIDTH]
        for name, shape in (linear if kind == "linear_attention" else full).items():
            yield prefix + ("linear_attn." if kind == "linear_attention" else "self_attn.") + name, shape
        for name, shape in (("gate", [INNER, WIDTH]), ("up", [INNER, WIDTH]), ("down", [WIDTH, INNER])):
            yield "%smlp.%s_proj.weight" % (prefix, name), shape


def value(name, draw):
    if name.endswith("A_log"):
        return draw.uniform(-4, 2.7)
    # Norms are multiples of 2^-12, so that 1 + weight is exact in float32.
    if "norm" in name:
        return round(draw.gauss(0, 0.1) * 4096) / 4096 + (1 if "linear_attn" in name else 0)
    return draw.gauss(0, 1.0 if "embed" in name else 0.2)


def record_logits(folder):
    make_qwen35_tiny.compute_in_float64()
    tokens = numpy.load(pathlib.Path(__file__).parent / "qwen3_5_tiny" / "tokens.npy")[:2]
    numpy.save(folder / "tokens.npy", tokens)
    model = transformers.Qwen3_5ForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    make_qwen35_tiny.set_rope(model)
    with torch.no_grad():
        logits, _ = make_gemma_tiny.loss_of(model, tokens)
    save_file({"logits": logits.numpy().astype(numpy.float32)}, folder / "logits_step0.safetensors")


def main(folder):
    draw = random.Random(35)
    header, data = {}, b""
    for name, shape in sorted(shapes()):
        count = 1
        for dim in shape:
            count *= dim
        begin = len(data)
        data += struct.pack("<%df" % count, *(value(name, draw) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2, sort_keys=True) + "\n")
    record_logits(folder)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
