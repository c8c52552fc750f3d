#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Runs the training steps of //benchmarks:train_step_cuda under PyTorch's torch.compile as well, on the
same GPU in the same session, and prints the ratio of the two rates and the attention that PyTorch chose.
With --kernels also attention alone: ours and cuDNN's, as //benchmarks:cuda_kernels times them, beside
PyTorch's flash attention and cuDNN's under PyTorch.

    bazel build --config=cuda //benchmarks:train_step_cuda //benchmarks:cuda_kernels
    python3 benchmarks/compare_with_torch.py bazel-bin/benchmarks/train_step_cuda \\
        --kernels=bazel-bin/benchmarks/cuda_kernels

PyTorch gets what its users would give it: parameters in float32, bf16 autocast, its own choice of attention,
fused AdamW, cross-entropy over the whole batch's logits in float32, and a compiler that sees the
model and the loss together. Needs PyTorch with CUDA.

With --cpu, the steps of //benchmarks:train_step instead: full_shard beside FSDP2 and no_shard beside DDP, in
float32, on two ranks of one thread each, which PyTorch connects by gloo. Both run in turn, --rounds times.
PyTorch runs each strategy eagerly and with every block compiled, as torchtitan compiles them.

    bazel build //benchmarks:train_step
    python3 benchmarks/compare_with_torch.py --cpu bazel-bin/benchmarks/train_step
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

# The names of //benchmarks:train_step_cuda: family, layers, dim, heads, key and value heads, hidden,
# vocabulary, sequences, tokens each.
CASES = {
    "gpt2_124m_full_shard_1": ("gpt2", 12, 768, 12, 12, 3072, 50304, 64, 1024),
    "gpt2_1558m_full_shard_1": ("gpt2", 48, 1600, 25, 25, 6400, 50304, 16, 1024),
    "llama_1b_full_shard_1": ("llama", 22, 2048, 32, 4, 5632, 32000, 16, 2048),
    "llama3_8b_of_4_layers_full_shard_1": ("llama", 4, 4096, 32, 8, 14336, 128256, 1, 8192),
}

# The step of //benchmarks:train_step, with this batch on each rank, and PyTorch's names of its strategies.
CPU_CASE = ("gpt2", 12, 768, 12, 12, 3072, 50304, 4, 256)
CPU_RANKS = 2
CPU_STRATEGIES = {"full_shard": "FSDP2", "no_shard": "DDP"}

# The attention of //benchmarks:cuda_kernels: batch, tokens, heads, key and value heads, head_dim.
ATTENTION = {
    "gpt2_124m": (64, 1024, 12, 12, 64),
    "gpt2_1558m": (16, 1024, 25, 25, 64),
    "llama_1b": (16, 2048, 32, 4, 64),
    "llama3_8b": (1, 8192, 32, 8, 128),
}


def build_model(torch, case):
    """A GPT-2 or Llama of the given sizes; returns logits."""
    nn = torch.nn
    functional = nn.functional
    family, layers, dim, heads, kv_heads, hidden, vocab, _, seq = case
    head_dim = dim // heads
    is_llama = family == "llama"

    def norm():
        return nn.RMSNorm(dim) if is_llama else nn.LayerNorm(dim)

    def rotate(x, angles):
        low, high = x.chunk(2, dim=-1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = norm(), norm()
            self.qkv = nn.Linear(dim, (heads + 2 * kv_heads) * head_dim, bias=not is_llama)
            self.out = nn.Linear(dim, dim, bias=not is_llama)
            self.up = nn.Linear(dim, (2 if is_llama else 1) * hidden, bias=not is_llama)
            self.down = nn.Linear(hidden, dim, bias=not is_llama)

        def forward(self, x, angles):
            batch, length, _ = x.shape
            packed = self.qkv(self.norm_1(x)).view(batch, length, heads + 2 * kv_heads, head_dim)
            q, k, v = packed.transpose(1, 2).split([heads, kv_heads, kv_heads], dim=1)
            if is_llama:
                q, k = rotate(q, angles), rotate(k, angles)
            y = functional.scaled_dot_product_attention(
                q, k, v, is_causal=True, enable_gqa=heads != kv_heads)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, dim))
            h = self.up(self.norm_2(x))
            if is_llama:
                gate, up = h.chunk(2, dim=-1)
                h = functional.silu(gate) * up
            else:
                h = functional.gelu(h, approximate="tanh")
            return x + self.down(h)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(vocab, dim)
            self.positions = None if is_llama else nn.Embedding(seq, dim)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm = norm()
            self.head = nn.Linear(dim, vocab, bias=False)
            if not is_llama:
                self.head.weight = self.tokens.weight
            frequencies = 10000.0 ** (-torch.arange(0, head_dim, 2) / head_dim)
            self.register_buffer("angles", torch.outer(torch.arange(seq), frequencies))

        def forward(self, tokens):
            x = self.tokens(tokens)
            if self.positions is not None:
                x = x + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
            for block in self.blocks:
                x = block(x, self.angles)
            return self.head(self.norm(x))

    return Model()


def attention_of(torch, step):
    """Names the attention that a step takes: "flash", "cudnn", "efficient" or "math"."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        step()
    operations = (re.match("aten::_scaled_dot_product_(?:attention_)?(flash|cudnn|efficient|math)", event.key)
                  for event in profile.key_averages())
    return "+".join(sorted({operation[1] for operation in operations if operation})) or "unknown"


def training_step(torch, model, case, device, autocast, compiler):
    """Returns a function that runs a step of the model on random tokens."""
    vocab, batch, seq = case[6], case[7], case[8]

    def loss_of(inputs, targets):
        return torch.nn.functional.cross_entropy(model(inputs).float().view(-1, vocab), targets)

    compiled = compiler(loss_of)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    tokens = torch.randint(vocab, (batch, seq + 1), device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=autocast):
            loss = compiled(tokens[:, :-1], tokens[:, 1:].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def median_seconds(step, steps):
    for _ in range(3):  # compilation, and the allocator's first touch
        step()
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def time_torch_step(torch, case, steps):
    """Returns the median step's tokens per second on the GPU, and its attention."""
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = build_model(torch, case).cuda()
    step = training_step(torch, model, case, "cuda", True, torch.compile)
    return case[7] * case[8] / median_seconds(step, steps), attention_of(torch, step)


def run_cpu_rank(torch, strategy, compiles, steps):
    """Runs one rank of PyTorch's CPU step; rank 0 prints the seconds of the median step."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method="file://" + os.environ["MEETING"], rank=int(os.environ["RANK"]), world_size=CPU_RANKS)
    torch.manual_seed(1)
    model = build_model(torch, CPU_CASE)
    if compiles:
        for block in model.blocks:
            block.compile()
    if strategy == "full_shard":
        from torch.distributed.fsdp import fully_shard
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    else:
        model = torch.nn.parallel.DistributedDataParallel(model)
    step = training_step(torch, model, CPU_CASE, "cpu", False, lambda function: function)
    seconds = median_seconds(step, steps)
    if torch.distributed.get_rank() == 0:
        print(seconds)
    torch.distributed.destroy_process_group()


def torch_cpu_tokens_per_second(strategy, compiles, steps):
    """Starts the ranks of PyTorch's CPU step as processes."""
    with tempfile.TemporaryDirectory() as meeting:
        command = [sys.executable, os.path.abspath(__file__), "--cpu", "--rank_of=" + strategy,
                   "--steps=%d" % steps] + ["--compiled"] * compiles
        ranks = []
        for rank in range(CPU_RANKS):
            environment = dict(os.environ, RANK=str(rank), MEETING=os.path.join(meeting, "store"))
            ranks.append(subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE))
        answers = [rank.communicate() for rank in ranks]
    for rank, (_, errors) in zip(ranks, answers):
        if rank.returncode != 0:
            sys.exit("%s under PyTorch failed:\n%s" % (CPU_STRATEGIES[strategy], errors))
    return CPU_RANKS * CPU_CASE[7] * CPU_CASE[8] / float(answers[0][0])


def compare_on_cpu(binary, rounds, steps):
    """Prints medians of the rounds, in each of which all run in turn."""
    row = "%-12s %16s %-24s %16s %8s"
    print(row % ("strategy", "Zeroth tokens/s", "PyTorch", "torch tokens/s", "ratio"))
    for strategy, name in CPU_STRATEGIES.items():
        ours, theirs = [], {False: [], True: []}
        for _ in range(rounds):
            report = benchmarks_of(binary, "^BM_TrainStep/%s_fp32/" % strategy)[0]
            ours.append(report["tokens/s"])
            for compiles, rates in theirs.items():
                rates.append(torch_cpu_tokens_per_second(strategy, compiles, steps))
            print("round: %s %.0f, %s eager %.0f, compiled %.0f" %
                  (strategy, ours[-1], name, theirs[False][-1], theirs[True][-1]), file=sys.stderr, flush=True)
        for compiles, rates in theirs.items():
            ratio = statistics.median(a / b for a, b in zip(ours, rates))
            print(row % (strategy, "%.0f" % statistics.median(ours),
                         name + (", blocks compiled" if compiles else ", eager"),
                         "%.0f" % statistics.median(rates), "%.2f" % ratio), flush=True)


def torch_attention_milliseconds(torch, backend, shape, runs):
    """Of forward and of backward, in bf16, by one of its implementations; none where it has no such kernel."""
    batch, seq, heads, kv_heads, head_dim = shape

    def random_heads(count):
        # The layout that a projection writes: tokens outermost.
        values = torch.randn(batch, seq, count, head_dim, device="cuda", dtype=torch.bfloat16)
        return values.transpose(1, 2).requires_grad_()

    def time_of(function):
        for _ in range(3):
            function()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(runs):
            function()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / runs

    inputs = [random_heads(heads), random_heads(kv_heads), random_heads(kv_heads)]

    def forward():
        return torch.nn.functional.scaled_dot_product_attention(
            *inputs, is_causal=True, enable_gqa=heads != kv_heads)

    with torch.nn.attention.sdpa_kernel(backend):
        try:
            with torch.no_grad():
                forward_time = time_of(forward)
            out = forward()
            dout = torch.randn_like(out)
            backward_time = time_of(
                lambda: torch.autograd.grad(out, inputs, dout, retain_graph=True))
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            print("PyTorch's %s: %s" % (backend.name, str(error).splitlines()[0]), file=sys.stderr)
            return None, None
    return forward_time, backward_time


def benchmarks_of(binary, pattern):
    """Returns a benchmark binary's report for the cases whose names match."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [binary, "--benchmark_filter=" + pattern, "--benchmark_out=" + report.name,
                   "--benchmark_out_format=json"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit("%s failed:\n%s%s" % (" ".join(command), run.stdout, run.stderr))
        return json.load(report)["benchmarks"]


def zeroth_tokens_per_second(binary, name):
    """Returns the benchmark binary's report for one case."""
    return benchmarks_of(binary, "/%s/" % name)[0]["tokens/s"]


def compare_attention(torch, binary, runs):
    """Prints times in milliseconds, and how many times PyTorch's faster one the faster of ours is."""
    backends = torch.nn.attention.SDPBackend
    print("\n%-26s %10s %10s %12s %12s %8s" % (
        "attention, ms", "flash", "cuDNN", "torch flash", "torch cuDNN", "ratio"))
    for name, shape in ATTENTION.items():
        theirs = [torch_attention_milliseconds(torch, backend, shape, runs)
                  for backend in (backends.FLASH_ATTENTION, backends.CUDNN_ATTENTION)]
        for family, their_times in zip(("BM_Attention", "BM_AttentionBackward"), zip(*theirs)):
            ours = {}
            for case in benchmarks_of(binary, "^%s/(flash|cudnn)/%s/" % (family, name)):
                # cuDNN is skipped, with its reason, where there is none.
                if not case.get("error_occurred"):
                    ours[case["name"].split("/")[1]] = case["real_time"]
            known = [time for time in their_times if time is not None]
            if not ours or not known:
                sys.exit("%s reports no time for %s/*/%s" % (binary if known else "PyTorch", family, name))
            times = ["-" if time is None else "%.3f" % time
                     for time in (ours.get("flash"), ours.get("cudnn"), *their_times)]
            what = name + (" backward" if family.endswith("Backward") else " forward")
            print("%-26s %10s %10s %12s %12s %8.3f" % (what, *times, min(known) / min(ours.values())))
        torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", nargs="?", help="the built //benchmarks:train_step_cuda, or train_step with --cpu")
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--kernels", help="the built //benchmarks:cuda_kernels: attention as well")
    parser.add_argument("--cpu", action="store_true", help="on two ranks of one core each, beside FSDP2 and DDP")
    parser.add_argument("--rounds", type=int, default=5, help="with --cpu")
    parser.add_argument("--rank_of", choices=CPU_STRATEGIES, help=argparse.SUPPRESS)  # a rank that --cpu starts
    parser.add_argument("--compiled", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.binary and not arguments.rank_of:
        parser.error("name the built benchmark")
    try:
        import torch
    except ImportError:
        sys.exit("PyTorch is not installed here: pip install torch")
    if arguments.rank_of:
        return run_cpu_rank(torch, arguments.rank_of, arguments.compiled, arguments.steps)
    if arguments.cpu:
        print("PyTorch %s" % torch.__version__)
        return compare_on_cpu(arguments.binary, arguments.rounds, arguments.steps)
    if not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU here")
    row = "%-34s %16s %16s %8s  %s"
    print(row % ("case", "Zeroth tokens/s", "torch tokens/s", "ratio", "attention of torch"))
    for name in arguments.cases:
        ours = zeroth_tokens_per_second(arguments.binary, name)
        theirs, attention = time_torch_step(torch, CASES[name], arguments.steps)
        torch.cuda.empty_cache()
        print(row % (name, "%.0f" % ours, "%.0f" % theirs, "%.3f" % (ours / theirs), attention))
    if arguments.kernels:
        compare_attention(torch, arguments.kernels, 20)


if __name__ == "__main__":
    main()
