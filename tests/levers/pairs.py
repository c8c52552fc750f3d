#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Runs the trainer with every pair of its levers, and checks each run for what they promise.

    bazel build //train && tests/levers/pairs.py --train=bazel-bin/train/train

A lever that changes no result has to give, beside any other, the bits of the other one alone:
losses, norms and the exported model. Two that both round something have to end near the loss of
the plain run. A pair may also be refused, at once and with a message that names a flag or an
option, and before its first step; which ones are is printed, for people to judge. --tuples=3 --sample=200 draws random
triples instead. With --resume, the first of a pair makes half of the steps and a checkpoint, and
the second goes on from there, both beside something that rounds or beside nothing. With --against,
each lever alone has to give the bits that another build of the trainer gives, as a change of the
code that is to change no result has to show. Exits with 1 if one broke its promise.
"""

import argparse
import functools
import hashlib
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

# Do not change results: these give the bits of a run without them.
EXACT = {
    "no_shard": "--strategy=no_shard",
    "shard_optimizer": "--strategy=shard_optimizer",
    "shard_grad_op": "--strategy=shard_grad_op",
    "shard_optimizer_2": "--strategy=shard_optimizer --shard_size=2",
    "shard_grad_op_2": "--strategy=shard_grad_op --shard_size=2",
    "hybrid_1": "--strategy=hybrid_shard --shard_size=1",
    "hybrid_2": "--strategy=hybrid_shard --shard_size=2",
    "hybrid_4": "--strategy=hybrid_shard --shard_size=4",
    "over_world_1": "--strategy=hybrid_shard --shard_size=1 --shard_optimizer_over_world",
    "over_world_2": "--strategy=hybrid_shard --shard_size=2 --shard_optimizer_over_world",
    "offload_parameters": "--offload=parameters",
    "offload_gradients": "--offload=gradients",
    "offload_optimizer": "--offload=optimizer",
    "offload_all": "--offload=all",
    "keep_gathered": "--reshard_after_forward=false",
    "reshard_to_1": "--reshard_after_forward=1",
    "reshard_to_2": "--reshard_after_forward=2",
    "no_prefetch": "--prefetch=false",
    "prefetch_post": "--backward_prefetch=post",
    "prefetch_none": "--backward_prefetch=none",
    "one_gather": "--gather_buffers=1",
    "many_gathers": "--gather_buffers=9",
    "rows": "--layout=rows",
    "divide_factor": "--gradient_divide_factor=4",
    "recompute_block": "--activation_checkpointing=block",
    "recompute_selective": "--activation_checkpointing=selective",
    "recompute_attention": "--activation_checkpointing=attention",
    "recompute_mlp": "--activation_checkpointing=mlp",
    "recompute_elementwise": "--activation_checkpointing=elementwise",
    "one_unit": "--min_wrap_numel=1000000000",
    "small_units": "--min_wrap_numel=1",
    "memory_limit": "--memory_limit=256MiB",
    "static_scale": "--loss_scale=1024",
    "dynamic_scale": "--loss_scale=dynamic --loss_scale_growth_interval=2",
    "zscores": "--skip_loss_zscore=4 --skip_grad_norm_zscore=4",
    "ema": "--ema_decay=0.9",
    "checkpoints": "--checkpoint_every=2",
    "async_checkpoints": "--checkpoint_every=2 --async_checkpoint",
    "evaluations": "--eval_every=2 --eval_batches=2",
    "samples": "--sample_every=2 --sample_tokens=4",
    "skip_nonfinite": "--on_nonfinite=skip",
    "trace": "--trace=2:3",
}
# Rounds something, or trains something else.
ROUNDS = {
    "bf16_parameters": "--param_dtype=bf16",
    "bf16_gradients": "--reduce_dtype=bf16",
    "bf16": "--param_dtype=bf16 --reduce_dtype=bf16",
    "bf16_fp32_sums": "--param_dtype=bf16 --reduce_dtype=bf16 --keep_low_precision_grads=false",
    "bf16_fp32_norms": "--param_dtype=bf16 --reduce_dtype=bf16 --fp32_norms",
    "fp16": "--param_dtype=fp16 --reduce_dtype=fp16",
    "bf16_masters": "--param_dtype=bf16 --master_dtype=bf16",
    "bf16_moments": "--optimizer_state_dtype=bf16",
    "8bit_moments": "--optimizer_state_dtype=float8_block",
    "muon": "--optimizer=muon --muon_split_qkv",
    "tensor": "--tensor_parallel=2 --batch_size=4",
    "sequence": "--tensor_parallel=2 --sequence_parallel --batch_size=4",
    "fixed_pieces": "--deterministic_tensor=4",
    "fixed_pieces_of_2": "--deterministic_tensor=4 --tensor_parallel=2 --batch_size=4",
    "int8_weights": "--quantized_weights",
    "int8_gradients": "--quantized_gradients",
    "accumulate": "--grad_accum=2 --batch_size=1",
    "accumulate_last": "--grad_accum=2 --batch_size=1 --grad_sync=last",
    "deterministic": "--deterministic_batch=8 --batch_size=1",
    "lora": "--lora_rank=4",
    "lora_plus": "--lora_rank=4 --lora_b_lr_scale=4 --lora_targets=attn.c_attn,mlp.c_fc",
}
# Under these, gradients reduced after every micro-batch are summed with those of other ranks
# and other micro-batches in another order.
ADDS_UP_ELSEWHERE = {"no_shard", "shard_optimizer", "shard_optimizer_2", "shard_grad_op_2",
                     "hybrid_1", "hybrid_2", "over_world_1", "over_world_2"}
# Half as many data-parallel ranks, with twice the sequences each: gradients are divided by another
# factor than the one set.
TWO_DATA_RANKS = {"tensor", "sequence", "fixed_pieces_of_2"}
# Compared with the lever alone instead of the plain run, which trains more, or by another rule.
OWN_REFERENCE = ("lora", "lora_plus", "muon")
# Blocks that share a scale begin where shards do, so that sharding affects int8 rounding.
INT8 = {"int8_weights", "int8_gradients"}
CUTS_ELSEWHERE = {"no_shard", "shard_optimizer_2", "shard_grad_op_2", "hybrid_1", "hybrid_2",
                  "over_world_1", "over_world_2", "rows", "one_unit", "small_units"}
# The largest relative difference of the last loss from the plain run's.
TOLERANCE = 0.02
# The keys of a step's results in metrics.jsonl.
FACTS = ("step", "loss", "grad_norm", "lr", "reward_chosen", "reward_rejected", "reward_margin",
         "reward_accuracy")


def parse(flags):
    """Flag -> value, or None if a flag is given two values."""
    values = {}
    for flag in flags.split():
        name, _, value = flag.partition("=")
        if values.setdefault(name, value) != value:
            return None
    return values


def digest(directory):
    """Returns a digest of the directory's safetensors files."""
    sha = hashlib.sha256()
    for name in sorted(os.listdir(directory)):
        if name.endswith(".safetensors"):
            sha.update(open(os.path.join(directory, name), "rb").read())
    return sha.hexdigest()


def run_command(command, out):
    """Runs a trainer that writes to `out`: its command, exit code, error, steps and models."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    except subprocess.TimeoutExpired:
        return {"hang": True, "command": command}
    result = {"code": done.returncode, "error": done.stderr.strip(), "command": command}
    metrics = os.path.join(out, "metrics.jsonl")
    lines = [json.loads(line) for line in open(metrics)] if os.path.exists(metrics) else []
    result["steps"] = [{key: line[key] for key in FACTS if key in line}
                       for line in lines if "loss" in line]
    if done.returncode == 0:
        result["models"] = {name: digest(os.path.join(out, name)) for name in os.listdir(out)
                            if name.startswith("final")}
    return result


class Trainer:
    def __init__(self, options, directory):
        self.options = options
        self.directory = directory
        self.results = {}
        self.checkpoints = {}

    def run(self, names):
        """Returns the result of a run with these levers, cached since references repeat."""
        names = tuple(sorted(names))
        if names not in self.results:
            self.results[names] = self._run(names, "", self._new_directory())
        return self.results[names]

    def checkpoint(self, names):
        """The checkpoint after half the steps of a run with these levers; None if it failed."""
        names = tuple(sorted(names))
        if names not in self.checkpoints:
            out = self._new_directory()
            half = self.options.steps // 2
            result = self._run(names, f"--checkpoint_every={half} --keep_last=0", out, keep=True)
            path = os.path.join(out, f"step-{half:08}")
            self.checkpoints[names] = path if result.get("code") == 0 else None
        return self.checkpoints[names]

    def resume(self, names, checkpoint):
        return self._run(tuple(sorted(names)), f"--resume={checkpoint}", self._new_directory())

    def _new_directory(self):
        return tempfile.mkdtemp(dir=self.directory)

    def _run(self, names, more, out, keep=False):
        levers = {**EXACT, **ROUNDS}
        flags = " ".join([levers[name] for name in names] + [more]).format(out="{out}")
        values = {
            "--data": self.options.data, "--eval_data": "", "--init_from": self.options.init_from,
            "--world_size": str(self.options.world_size), "--steps": str(self.options.steps),
            "--seq_len": "32", "--batch_size": "2", "--lr": "0.002", "--warmup_steps": "0",
            "--sample_tokens": "0", "--comm_timeout": "60s", "--threads_per_rank": "1",
            "--out": out,
        }
        values.update(parse(flags))
        if "--eval_every" in values:
            values["--eval_data"] = self.options.data
        command = [self.options.train]
        for name, value in values.items():
            text = value.replace("{out}", out)
            command.append(f"{name}={text}" if text or "=" in name else name)
        command = [c for c in command if c != "--eval_data"]
        result = run_command(command, out)
        if not keep:
            shutil.rmtree(out)
        return result


def failure(result):
    """How a run ended, unless it ended well."""
    if "hang" in result:
        return "HANG", ""
    if result["code"] < 0 or result["code"] > 1:
        return "CRASH", f"exit {result['code']}: {result['error'][-300:]}"
    if result["code"] == 0:
        return None
    return "FAILED" if result["steps"] else "refused", result["error"][-400:]


def comparable(names):
    """Whether a run with these levers has the bits of one with only those of them that round."""
    rounding = [name for name in names if name in ROUNDS]
    return len(rounding) <= 1 and not (
        # The scale decides what underflows in fp16, and a growing one overflows and skips a step.
        "fp16" in names and {"static_scale", "dynamic_scale"} & set(names) or
        "divide_factor" in names and TWO_DATA_RANKS & set(names) or
        INT8 & set(names) and CUTS_ELSEWHERE & set(names) or
        "accumulate" in names and ADDS_UP_ELSEWHERE & set(names))


def compare(result, reference):
    steps = {step["step"]: step for step in reference["steps"]}
    for mine in result["steps"]:
        if mine != steps[mine["step"]]:
            return "DIFFERS", f"{mine} instead of {steps[mine['step']]}"
    for name, model in reference["models"].items():
        if result["models"].get(name) != model:
            return "DIFFERS", f"in the exported {name}/ alone"
    return "ok", ""


def judge_against(other, trainer, names):
    result, reference = trainer.run(names), other.run(names)
    return failure(result) or failure(reference) or compare(result, reference)


def judge_resumed(trainer, names):
    first, second, *rounding = names
    checkpoint = trainer.checkpoint([first] + rounding)
    if checkpoint is None:
        return "ok", "there is no checkpoint to resume from"
    result = trainer.resume([second] + rounding, checkpoint)
    return failure(result) or compare(result, trainer.run(rounding))


def judge(trainer, names):
    """'ok', 'refused' or what is wrong, and a text."""
    result = trainer.run(names)
    failed = failure(result)
    if failed:
        return failed
    if comparable(names):
        reference = trainer.run([name for name in names if name in ROUNDS])
        return compare(result, reference) if reference.get("code") == 0 else ("ok", "")
    reference = [name for name in names if name in OWN_REFERENCE]
    plain = trainer.run(reference)["steps"][-1]["loss"]
    last = result["steps"][-1]["loss"]
    if last is None or not abs(last - plain) <= TOLERANCE * plain:
        return "FAR", f"last loss {last}, plain {plain}"
    return "ok", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", required=True, help="the trainer's binary")
    parser.add_argument("--data", default="README.md")
    parser.add_argument("--init_from", default="tests/testdata/gpt2_tiny")
    parser.add_argument("--world_size", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--tuples", type=int, default=2, help="levers at a time")
    parser.add_argument("--sample", type=int, default=0, help="so many random tuples; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="tuples with one of these levers only: a,b,c")
    parser.add_argument("--resume", action="store_true",
                        help="the second of a pair goes on from the first one's checkpoint")
    parser.add_argument("--against", default="", help="another build's binary")
    options = parser.parse_args()
    levers = {**EXACT, **ROUNDS}
    only = set(filter(None, options.only.split(","))) or set(levers)
    if only - set(levers):
        parser.error(f"--only: no lever {', '.join(sorted(only - set(levers)))}")
    fits = lambda *names: parse(" ".join(levers[name] for name in names)) is not None
    if options.against:
        tuples = [()] + [(name,) for name in levers]
    elif options.resume:
        exact = [name for name in EXACT if "checkpoints" not in name]
        tuples = [(first, second, *rounding)
                  for first, second in itertools.permutations(exact, 2)
                  for rounding in [()] + [(name,) for name in ROUNDS]
                  if fits(first, *rounding) and fits(second, *rounding) and
                  comparable((first, *rounding)) and comparable((second, *rounding))]
    else:
        tuples = [names for names in itertools.combinations(levers, options.tuples)
                  if fits(*names)]
    # The empty one is the run without levers.
    tuples = [names for names in tuples if only & set(names) or only == set(levers)]
    if options.sample:
        random.Random(options.seed).shuffle(tuples)
        tuples = tuples[:options.sample]
    counts = {}
    refusals = {}
    with tempfile.TemporaryDirectory() as directory:
        # Runs are compared with each other for a while, in which somebody may edit the file.
        options.data = shutil.copy(options.data, directory)
        trainer = Trainer(options, directory)
        judge_tuple = judge_resumed if options.resume else judge
        if options.against:
            theirs = argparse.Namespace(**{**vars(options), "train": options.against})
            other = Trainer(theirs, directory)
            judge_tuple = functools.partial(judge_against, other)
        for name in [] if options.resume or options.against else levers:
            if name not in only:
                continue
            verdict, text = judge(trainer, [name])
            if verdict != "ok":
                print(f"{verdict:8} {name}: {text}", flush=True)
        for names in tuples:
            verdict, text = judge_tuple(trainer, names)
            counts[verdict] = counts.get(verdict, 0) + 1
            if verdict == "refused":
                refusals.setdefault(text, []).append(" + ".join(names))
            elif verdict != "ok":
                print(f"{verdict:8} {' + '.join(names)}: {text}", flush=True)
            if len(names) > 2:
                trainer.results.pop(tuple(sorted(names)), None)
    print("\nrefused:")
    for text, pairs in sorted(refusals.items()):
        print(f"  {text}\n      {'; '.join(pairs)}")
    print("\n" + ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    sys.exit(1 if set(counts) - {"ok", "refused"} else 0)


if __name__ == "__main__":
    main()
