#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Measures and draws the figures of the README.

    make_figures.py loss --trainer=bazel-bin/train/train      # needs PyTorch 2.6 or newer, and NumPy
    make_figures.py memory --benchmark=bazel-bin/benchmarks/memory
    make_figures.py draw                                      # from the measured numbers alone

`loss` trains one small GPT-2 twice on the sources of this project, from the same initial weights, on the
same batches, with the same AdamW, over two ranks: under full_shard by the trainer, and under PyTorch's
FSDP2 (`fully_shard`, gloo, CPU). It writes loss.json. `memory` runs //benchmarks:memory for gpt2_124m on
four ranks and writes memory.json. strategies.svg and two_levels.svg show rules, not measurements.
"""

import argparse
import glob
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

LAYERS, HEADS, DIM, SEQ, VOCABULARY = 4, 4, 128, 128, 256
RANKS, BATCH, STEPS, LR = 2, 8, 300, 1e-3


# ------------------------------------------------------------------------------------- loss, measured


def write_rows(path):
    """The bytes of the sources in core, as rows of SEQ + 1 tokens, one for each use."""
    import numpy
    text = b""
    for name in sorted(glob.glob(os.path.join(ROOT, "core", "**", "*.cc"), recursive=True)):
        with open(name, "rb") as file:
            text += file.read()
    rows = RANKS * BATCH * STEPS
    tokens = numpy.frombuffer(text, dtype=numpy.uint8)[:rows * (SEQ + 1)]
    if tokens.size < rows * (SEQ + 1):
        sys.exit("the sources have %d bytes, %d are needed" % (tokens.size, rows * (SEQ + 1)))
    numpy.save(path, tokens.reshape(rows, SEQ + 1).astype(numpy.int32))


def read_safetensors(path):
    import numpy
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: numpy.frombuffer(data[slice(*entry["data_offsets"])], dtype=numpy.float32)
            .reshape(entry["shape"]).copy() for name, entry in header.items()}


def build_torch_model(torch, weights):
    """GPT-2 by its definition; `weights` are named as in Hugging Face's files."""
    nn, functional = torch.nn, torch.nn.functional

    def parameter(name):
        return nn.Parameter(torch.from_numpy(weights["transformer." + name]))

    class Block(nn.Module):
        def __init__(self, index):
            super().__init__()
            for name in ("ln_1", "ln_2", "attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"):
                for kind in ("weight", "bias"):
                    setattr(self, "_".join((name, kind)).replace(".", "_"),
                            parameter("h.%d.%s.%s" % (index, name, kind)))

        def forward(self, x):
            batch, length, _ = x.shape
            h = functional.layer_norm(x, (DIM,), self.ln_1_weight, self.ln_1_bias)
            qkv = h @ self.attn_c_attn_weight + self.attn_c_attn_bias
            q, k, v = (part.view(batch, length, HEADS, DIM // HEADS).transpose(1, 2)
                       for part in qkv.chunk(3, dim=-1))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            y = y.transpose(1, 2).reshape(batch, length, DIM)
            x = x + y @ self.attn_c_proj_weight + self.attn_c_proj_bias
            h = functional.layer_norm(x, (DIM,), self.ln_2_weight, self.ln_2_bias)
            h = functional.gelu(h @ self.mlp_c_fc_weight + self.mlp_c_fc_bias, approximate="tanh")
            return x + h @ self.mlp_c_proj_weight + self.mlp_c_proj_bias

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = parameter("wte.weight"), parameter("wpe.weight")
            self.blocks = nn.ModuleList(Block(index) for index in range(LAYERS))
            self.norm_weight, self.norm_bias = parameter("ln_f.weight"), parameter("ln_f.bias")

        def forward(self, tokens, targets):
            x = functional.embedding(tokens, self.wte) + self.wpe[:tokens.shape[1]]
            for block in self.blocks:
                x = block(x)
            x = functional.layer_norm(x, (DIM,), self.norm_weight, self.norm_bias)
            return functional.cross_entropy((x @ self.wte.T).flatten(0, 1), targets.flatten())

    return Model()


def torch_rank(rank, folder):
    import numpy
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method="file://" + os.path.join(folder, "store"), rank=rank, world_size=RANKS)
    model = build_torch_model(torch, read_safetensors(os.path.join(folder, "start/final/model.safetensors")))
    mesh = init_device_mesh("cpu", (RANKS,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                                   {"params": vectors, "weight_decay": 0.0}],
                                  lr=LR, betas=(0.9, 0.95), eps=1e-8)
    rows = torch.from_numpy(numpy.load(os.path.join(folder, "rows.npy")).astype(numpy.int64))
    losses = []
    for step in range(STEPS):
        batch = rows[(step * RANKS + rank) * BATCH:][:BATCH]
        loss = model(batch[:, :-1], batch[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        torch.distributed.all_reduce(mean)
        losses.append(mean.item() / RANKS)
    if rank == 0:
        with open(os.path.join(folder, "torch.json"), "w", encoding="utf-8") as file:
            json.dump({"version": torch.__version__, "losses": losses}, file)
    torch.distributed.destroy_process_group()


def measure_loss(trainer):
    import torch
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)  # noqa: E731
        write_rows(at("rows.npy"))
        with open(at("gpt2.json"), "w", encoding="utf-8") as file:
            json.dump({"model_type": "gpt2", "vocab_size": VOCABULARY, "n_positions": SEQ,
                       "n_embd": DIM, "n_layer": LAYERS, "n_head": HEADS}, file)
        data = ["--data=" + at("rows.npy"), "--shuffle=false", "--seq_len=%d" % SEQ]
        subprocess.run([trainer, "--model=" + at("gpt2.json"), "--steps=0", "--out=" + at("start")] + data,
                       check=True)
        subprocess.run([trainer, "--init_from=" + at("start/final"), "--out=" + at("run"),
                        "--strategy=full_shard", "--world_size=%d" % RANKS, "--threads_per_rank=1",
                        "--batch_size=%d" % BATCH, "--steps=%d" % STEPS, "--lr=%g" % LR,
                        "--lr_schedule=constant", "--warmup_steps=0", "--weight_decay=0.1",
                        "--clip_grad_norm=1"] + data, check=True)
        with open(at("run/metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        ours = [line["loss"] for line in lines if "step" in line and "loss" in line][:STEPS]
        torch.multiprocessing.spawn(torch_rank, args=(folder,), nprocs=RANKS)
        with open(at("torch.json"), encoding="utf-8") as file:
            theirs = json.load(file)
    if len(ours) != STEPS:
        sys.exit("the trainer reported %d losses, not %d" % (len(ours), STEPS))
    with open(os.path.join(HERE, "loss.json"), "w", encoding="utf-8") as file:
        json.dump({"torch": theirs["version"], "zeroth": [round(x, 6) for x in ours],
                   "fsdp2": [round(x, 6) for x in theirs["losses"]]}, file)
        file.write("\n")


# ----------------------------------------------------------------------------------- memory, measured

# The bars of the chart: strategy, precision and lever as //benchmarks:memory names them, and the label.
BARS = [
    ("no_shard", "fp32/fp32", "plain", "no_shard"),
    ("shard_grad_op", "fp32/fp32", "plain", "shard_grad_op"),
    ("full_shard", "fp32/fp32", "plain", "full_shard"),
    ("full_shard", "bf16/bf16", "plain", "full_shard, bf16"),
    ("full_shard", "bf16/bf16", "checkpoint blocks", "… and activation checkpointing"),
    ("full_shard", "bf16/bf16", "8-bit moments", "full_shard, bf16, 8-bit moments"),
    ("full_shard", "bf16/bf16", "no masters, 8-bit mom.", "… and no fp32 masters"),
    ("full_shard", "bf16/bf16", "offload optimizer", "full_shard, bf16, moments offloaded"),
    ("full_shard", "bf16/bf16", "offload all", "full_shard, bf16, all offloaded"),
]
PARTS = ["params", "gathered", "grads", "moments", "staging", "activ."]
NAMES = ["parameters", "gathered parameters", "gradients", "moments", "staging", "activations"]


def measure_memory(benchmark, output):
    if not output:
        output = subprocess.run([benchmark, "gpt2_124m", "4"], check=True, text=True,
                                stdout=subprocess.PIPE).stdout
    rows = {}
    for line in output.splitlines():
        match = re.match(r"(\w+)\s+(\d+) (\w+/\w+)\s+(.*?)\s{2,}([\d. ]+%[\d. ]+)$", line)
        if match:
            strategy, _, precision, lever, numbers = match.groups()
            values = [float(x.rstrip("%")) for x in numbers.split()]
            rows[strategy, precision, lever] = values[:5] + [values[8]]
    missing = [bar[:3] for bar in BARS if bar[:3] not in rows]
    if missing:
        sys.exit("//benchmarks:memory has no row for %s" % missing)
    with open(os.path.join(HERE, "memory.json"), "w", encoding="utf-8") as file:
        json.dump([{"name": name, "mib": dict(zip(PARTS, rows[strategy, precision, lever]))}
                   for strategy, precision, lever, name in BARS], file, indent=1, ensure_ascii=False)
        file.write("\n")


# ---------------------------------------------------------------------------------------------- drawn

COLOURS = ["#4c72b0", "#a6bddb", "#dd8452", "#55a868", "#8c8c8c", "#ccb974"]


def svg(width, height, parts):
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" '
            'font-family="sans-serif" font-size="13">\n<rect width="100%%" height="100%%" fill="white"/>\n'
            % (width, height, width, height) + "\n".join(parts) + "\n</svg>\n")


def text(x, y, words, anchor="start", extra=""):
    return '<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>' % (x, y, anchor, extra, words)


def draw_loss():
    with open(os.path.join(HERE, "loss.json"), encoding="utf-8") as file:
        data = json.load(file)
    left, top, width, height = 50, 40, 600, 260
    high = max(data["zeroth"] + data["fsdp2"])
    low = min(data["zeroth"] + data["fsdp2"])
    bottom, ceiling = int(low), int(high) + 1

    def x(step):
        return left + width * (step - 1) / (len(data["zeroth"]) - 1)

    def y(loss):
        return top + height * (ceiling - loss) / (ceiling - bottom)

    parts = [text(left, 20, "Training loss: GPT-2 with 0.8 M parameters, 2 ranks, the same batches")]
    for tick in range(bottom, ceiling + 1):
        parts.append('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>'
                     % (left, left + width, y(tick), y(tick)))
        parts.append(text(left - 8, y(tick) + 4, str(tick), "end"))
    for step in [1] + list(range(50, len(data["zeroth"]) + 1, 50)):
        parts.append(text(x(step), top + height + 18, str(step), "middle"))
    parts.append(text(left + width / 2, top + height + 36, "step", "middle"))
    lines = (("fsdp2", "#dd8452", 5, "PyTorch %s, FSDP2" % data["torch"].split("+")[0]),
             ("zeroth", "#1f3d7a", 1.5, "Zeroth, full_shard"))
    for place, (key, colour, stroke, name) in enumerate(lines):
        points = " ".join("%.1f,%.1f" % (x(i), y(loss)) for i, loss in enumerate(data[key], 1))
        parts.append('<polyline fill="none" stroke="%s" stroke-width="%g" points="%s"/>'
                     % (colour, stroke, points))
        row = top + 24 + 22 * place
        parts.append('<line x1="430" x2="460" y1="%d" y2="%d" stroke="%s" stroke-width="%g"/>'
                     % (row - 4, row - 4, colour, stroke))
        parts.append(text(470, row, name))
    return svg(680, 350, parts)


def draw_memory():
    with open(os.path.join(HERE, "memory.json"), encoding="utf-8") as file:
        bars = json.load(file)
    left, top, width, row = 250, 66, 440, 26
    most = max(sum(bar["mib"].values()) for bar in bars)
    parts = [text(10, 20, "Peaks of one rank in MiB, by category: gpt2_124m, 4 ranks, 128 tokens a rank")]
    at = 10
    for name, colour in zip(NAMES, COLOURS):
        parts.append('<rect x="%d" y="36" width="12" height="12" fill="%s"/>' % (at, colour))
        parts.append(text(at + 17, 47, name))
        at += 34 + 7.6 * len(name)
    for index, bar in enumerate(bars):
        y = top + row * index
        parts.append(text(left - 8, y + 15, bar["name"], "end"))
        x = left
        for part, colour in zip(PARTS, COLOURS):
            length = width * bar["mib"][part] / most
            parts.append('<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>'
                         % (x, y, length, row - 6, colour))
            x += length
        parts.append(text(x + 6, y + 15, "%.0f" % sum(bar["mib"].values())))
    return svg(750, top + row * len(bars) + 10, parts)


# For parameters, gradients and optimizer state: the part that each of RANKS_DRAWN ranks keeps, and the part
# that it holds while a step runs. `hybrid_shard` has groups of two ranks.
RANKS_DRAWN = 4
STRATEGIES = [
    ("no_shard", 1, ("all", "all", "all"), "all gradients are all-reduced"),
    ("shard_optimizer", 4, ("all", "buffers", "shard"), "gathers once a step, whatever --grad_accum"),
    ("shard_grad_op", 4, ("all", "buffers", "shard"), "gathers once a step"),
    ("full_shard", 4, ("buffers", "buffers", "shard"), "gathers each block twice a step"),
    ("hybrid_shard", 2, ("buffers", "buffers", "shard"), "shards in groups of 2 ranks, replicated across"),
]


def draw_strategies():
    left, top, cell, row = 140, 64, 26, 44
    group = 3 * cell + 26
    dark = ["#4c72b0", "#dd8452", "#55a868"]
    light = ["#c3d0e6", "#f4d3bf", "#c3e0ca"]
    parts = [text(10, 20, "What each rank has: always (dark), and while a step runs (light; dashed: the root and two blocks)")]
    at = 10
    for name, colour in zip(("parameters", "gradients", "optimizer state"), dark):
        parts.append('<rect x="%d" y="30" width="12" height="12" fill="%s"/>' % (at, colour))
        parts.append(text(at + 17, 41, name))
        at += 34 + 7 * len(name)
    for rank in range(RANKS_DRAWN):
        parts.append(text(left + rank * group + 1.5 * cell, top, "rank %d" % rank, "middle"))
    for index, (name, shards, kinds, note) in enumerate(STRATEGIES):
        y = top + 10 + row * index
        parts.append(text(left - 12, y + 21, name, "end"))
        for rank in range(RANKS_DRAWN):
            for column, kind in enumerate(kinds):
                x = left + rank * group + column * cell
                # Gradients are given back after a step, whoever holds them.
                kept = light[column] if column == 1 else dark[column]
                held = row - 18
                part = held / shards
                if kind == "all" and shards > 1:
                    parts.append('<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>'
                                 % (x, y, cell - 3, held, light[column]))
                if kind == "buffers":
                    parts.append('<rect x="%d" y="%d" width="%d" height="6" fill="%s" stroke="%s" '
                                 'stroke-dasharray="2"/>'
                                 % (x, y + held + 2, cell - 3, light[column], dark[column]))
                parts.append('<rect x="%d" y="%.1f" width="%d" height="%.1f" fill="%s"/>'
                             % (x, y + part * (rank % shards), cell - 3, part, kept))
                parts.append('<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#999"/>'
                             % (x, y, cell - 3, held))
        parts.append(text(left + RANKS_DRAWN * group, y + 21, note))
    return svg(860, top + 10 + row * len(STRATEGIES) + 6, parts)


NODES_DRAWN = 3
LOCAL_DRAWN = 4


def draw_two_levels():
    left, top, cell, gap, rows = 20, 92, 46, 44, 150
    colours = COLOURS[:LOCAL_DRAWN]
    width = LOCAL_DRAWN * cell + gap

    def at(node, local):
        return left + node * width + local * cell + cell / 2

    parts = [text(left, 20, "A reduction over %d machines of %d ranks, in two levels. The colour is a rank's index in its "
                  "machine." % (NODES_DRAWN, LOCAL_DRAWN)),
             '<defs><marker id="end" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" orient="auto">'
             '<path d="M0,0 L6,3 L0,6 z" fill="#444"/></marker></defs>']
    for node in range(NODES_DRAWN):
        x = left + node * width
        parts.append('<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#999" rx="6"/>'
                     % (x - 6, top - 34, LOCAL_DRAWN * cell + 12, 2 * rows + 56))
        parts.append(text(x + LOCAL_DRAWN * cell / 2, top - 40, "machine %d" % node, "middle"))
        for local in range(LOCAL_DRAWN):
            for level in range(3):
                y = top + level * rows
                parts.append('<rect x="%.1f" y="%d" width="%d" height="22" fill="%s"/>'
                             % (at(node, local) - cell / 2 + 4, y - 22, cell - 8, colours[local]))
                parts.append('<text x="%.1f" y="%d" text-anchor="middle" fill="white">%d</text>'
                             % (at(node, local), y - 6, node * LOCAL_DRAWN + local))
            # Inside the machine, every rank sends to each other one.
            for to in range(LOCAL_DRAWN):
                parts.append('<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s" marker-end="url(#end)"/>'
                             % (at(node, local), top, at(node, to), top + rows - 24, colours[to]))
            # Across machines, ranks of one index; drawn for one of them.
            for other in range(NODES_DRAWN):
                if local == 1:
                    parts.append('<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s" stroke-width="2" '
                                 'marker-end="url(#end)"/>' % (at(node, local), top + rows, at(other, local),
                                                               top + 2 * rows - 24, colours[local]))
    right = left + NODES_DRAWN * width
    for level, words in enumerate((
            ("1. Inside each machine:", "a rank receives, from the others", "of its machine, the pieces of the",
             "ranks of its own index, and adds", "them in fp32."),
            ("2. Across machines: a rank", "exchanges these sums with the ranks", "of its index (drawn for index 1),",
             "adds them, and rounds once."))):
        for line, part in enumerate(words):
            parts.append(text(right - 10, top + 30 + level * rows + 18 * line, part))
    return svg(right + 240, top + 2 * rows + 34, parts)


DRAWINGS = {"loss": draw_loss, "memory": draw_memory, "strategies": draw_strategies, "two_levels": draw_two_levels}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["loss", "memory", "draw"])
    parser.add_argument("--trainer", default="bazel-bin/train/train")
    parser.add_argument("--benchmark", default="bazel-bin/benchmarks/memory")
    parser.add_argument("--output", help="what the benchmark has printed already")
    options = parser.parse_args()
    if options.what == "loss":
        measure_loss(os.path.abspath(options.trainer))
    if options.what == "memory":
        printed = open(options.output, encoding="utf-8").read() if options.output else ""
        measure_memory(os.path.abspath(options.benchmark), printed)
    for name, drawing in DRAWINGS.items():
        if name in ("strategies", "two_levels") or os.path.exists(os.path.join(HERE, name + ".json")):
            with open(os.path.join(HERE, name + ".svg"), "w", encoding="utf-8") as file:
                file.write(drawing())


if __name__ == "__main__":
    main()
