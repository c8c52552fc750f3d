#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Makes qwen3_5_tiny, a reference run of README.md, in float64: make_qwen35_tiny.py FOLDER/qwen3_5_tiny.

Needs what make_gemma_tiny.py needs. Linear attention is transformers' torch_recurrent_gated_delta_rule.
"""

import pathlib
import sys

import make_gemma_tiny
import torch
import transformers
from transformers.models.qwen3_5 import modeling_qwen3_5

# Norms with a small eps would magnify rounding where a head's first outputs are nearly zero.
CONFIG = transformers.Qwen3_5TextConfig(
    vocab_size=257, hidden_size=24, intermediate_size=40, num_hidden_layers=4, num_attention_heads=4,
    num_key_value_heads=2, head_dim=8, rms_norm_eps=0.01, linear_key_head_dim=6, linear_value_head_dim=5,
    linear_num_key_heads=2, linear_num_value_heads=4, max_position_embeddings=128, bos_token_id=256, eos_token_id=256, pad_token_id=None,
    dtype="float32", architectures=["Qwen3_5ForCausalLM"],
    layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention"],
    rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5,
                     "mrope_interleaved": True, "mrope_section": [1, 1, 0]})  # yapf: disable


def compute_in_float64():
    """As make_gemma_tiny's, for linear attention too, which transformers computes in float32."""
    make_gemma_tiny.compute_in_float64()
    cast = torch.Tensor.to
    if not hasattr(modeling_qwen3_5, "casts_to_double"):
        torch.Tensor.to = lambda x, *types, **rest: cast(
            x, *(torch.float64 if each is torch.float32 else each for each in types), **rest)
        modeling_qwen3_5.casts_to_double = True
    modeling_qwen3_5.torch_chunk_gated_delta_rule = modeling_qwen3_5.torch_recurrent_gated_delta_rule


def set_rope(model):
    model.model.rotary_emb.inv_freq = 1.0 / 10000.0**(torch.arange(0, 4, 2, dtype=torch.float64) / 4)


def new_model(_):
    compute_in_float64()
    # With other seeds PyTorch's own float32 gradients of A_log and dt_bias, sums that cancel, are 2e-5 off.
    torch.manual_seed(20261209)
    model = transformers.Qwen3_5ForCausalLM._from_config(CONFIG, attn_implementation="eager").double()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            # With a small embedding, the first norm would magnify the rounding of bf16; with a small
            # head, gradients would not be clipped.
            std = (1.0 if "embed_tokens" in key else 0.4 if "lm_head" in key else 0.3 if any(
                name in key for name in ("q_proj", "k_proj", "conv1d", "in_proj")) else 0.1)
            value = torch.randn(parameter.shape, dtype=torch.float64) * std
            if "norm" in key:  # multiples of 2^-12, so that 1 + weight is exact in float32
                value = torch.round(value * 4096) / 4096 + (1 if "linear_attn" in key else 0)
            if "A_log" in key:  # states that last a few tokens, and some that last for the whole row
                value = torch.linspace(-4, 1, parameter.numel(), dtype=torch.float64)
            if "dt_bias" in key:
                value += 0.5
            parameter.copy_(value.to(torch.float16).double())
    set_rope(model)
    return model.train()


if __name__ == "__main__":
    make_gemma_tiny.new_model = new_model
    make_gemma_tiny.make(pathlib.Path(sys.argv[1]), CONFIG.to_json_string(use_diff=False))
