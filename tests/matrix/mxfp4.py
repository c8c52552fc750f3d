# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Writes gpt-oss models with experts in MXFP4, for tests."""

import json
import os
import random
import shutil
import struct

EXPERTS = (".mlp.experts.gate_up_proj", ".mlp.experts.down_proj")
BLOCK = 32  # codes that share a scale; two codes make a byte


def write_mxfp4(dense, out):
    """Copies a directory of gpt-oss to `out`, with random codes and scales for its experts' matrices."""
    shutil.copytree(dense, out)
    path = os.path.join(out, "model.safetensors")
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    values = random.Random(1)
    tensors, offset = {}, 0
    stored = []

    def add(name, dtype, shape, content):
        nonlocal offset
        tensors[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(content)]}
        offset += len(content)
        stored.append(content)

    for name, entry in header.items():
        if name == "__metadata__":
            tensors[name] = entry
        elif name.endswith(EXPERTS):
            experts, inputs, outputs = entry["shape"]
            shape = [experts, outputs, inputs // BLOCK]
            blocks = experts * outputs * (inputs // BLOCK)
            add(name + "_blocks", "U8", [*shape, BLOCK // 2], values.randbytes(blocks * BLOCK // 2))
            # Scales of 2^-9 to 2^-6 and codes up to 6 are weights of the size of trained ones.
            add(name + "_scales", "U8", shape, bytes(values.choices(range(118, 122), k=blocks)))
        else:
            begin, end = entry["data_offsets"]
            add(name, entry["dtype"], entry["shape"], data[begin:end])
    text = json.dumps(tensors).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(stored))
    path = os.path.join(out, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config["quantization_config"] = {"quant_method": "mxfp4"}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
