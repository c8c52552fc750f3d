#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Prints transformers_reference.cc: what transformers' Qwen3.5 computes in float64, and the gradients by autograd.

Needs the packages of third_party/python/transformers.txt.
"""

import torch
from transformers.models.qwen3_5 import modeling_qwen3_5 as qwen

SEQ, DOCUMENTS, KEY_HEADS, VALUE_HEADS, KEY_DIM, VALUE_DIM = 7, ((0, 3), (3, 7)), 2, 4, 3, 2
CHANNELS = 2 * KEY_HEADS * KEY_DIM + VALUE_HEADS * VALUE_DIM
NAMES = ("x", "weight", "dy", "y", "dx", "dweight", "qkv", "gates", "log_decay", "dt_bias", "dout", "out", "dqkv",
         "dgates", "dlog_decay", "ddt_bias")  # yapf: disable


def draw(*shape, scale=1.0):
    return (torch.randn(shape, dtype=torch.float64) * scale).float().double().requires_grad_()


def convolution():
    x, weight, dy = draw(1, SEQ, CHANNELS), draw(CHANNELS, 4, scale=0.5), draw(1, SEQ, CHANNELS)
    y = torch.cat([
        qwen.causal_conv1d_fn(x[:, begin:end].transpose(1, 2), weight, None, activation="silu").transpose(1, 2)
        for begin, end in DOCUMENTS
    ], 1)
    return [x, weight, dy, y, *torch.autograd.grad(y, (x, weight), dy)]


def delta_rule():
    qkv, gates, dout = draw(1, SEQ, CHANNELS), draw(1, SEQ, 2 * VALUE_HEADS), draw(1, SEQ, VALUE_HEADS * VALUE_DIM)
    log_decay, dt_bias = draw(VALUE_HEADS), draw(VALUE_HEADS)
    keys = KEY_HEADS * KEY_DIM
    q, k, v = torch.split(qkv, [keys, keys, VALUE_HEADS * VALUE_DIM], -1)
    b, a = gates.chunk(2, -1)
    decay = -log_decay.exp() * torch.nn.functional.softplus(a + dt_bias)
    parts = []
    for begin, end in DOCUMENTS:
        heads = lambda x, dim: x[:, begin:end].reshape(1, end - begin, -1, dim)
        parts.append(qwen.torch_recurrent_gated_delta_rule(
            heads(q, KEY_DIM), heads(k, KEY_DIM), heads(v, VALUE_DIM), g=decay[:, begin:end],
            beta=b.sigmoid()[:, begin:end], use_qk_l2norm_in_kernel=True)[0])  # yapf: disable
    out = torch.cat(parts, 1).flatten(2)
    inputs = (qkv, gates, log_decay, dt_bias)
    return [*inputs, dout, out, *torch.autograd.grad(out, inputs, dout)]


def main():
    cast = torch.Tensor.to
    torch.Tensor.to = lambda x, *types, **rest: cast(
        x, *(torch.float64 if each is torch.float32 else each for each in types), **rest)
    torch.manual_seed(20261130)
    print("// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0")
    print("//\n// Written by make_transformers_reference.py.\n")
    print('#include "zeroth/kernels/delta_net/testing/transformers_reference.h"\n')
    print("namespace zeroth::reference {\n\nconst TransformersDeltaNet& FromTransformers() {")
    print("  static const auto* const recorded = new TransformersDeltaNet{")
    for name, values in zip(NAMES, convolution() + delta_rule()):
        assert values.dtype == torch.float64
        print(f"      .{name} = {{{', '.join(f'{v:.9g}' for v in values.flatten().tolist())}}},")
    print("  };\n  return *recorded;\n}\n\n}  // namespace zeroth::reference")


if __name__ == "__main__":
    main()
