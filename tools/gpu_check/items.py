# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""The items of a check. Each runs alone and has a stable id."""

import importlib.util
import json
import os
import random
import re
import sys

import machine
import outputs
import processes

# In the order of running: parts that take long and say little about training come last.
PARTS = ("suites", "parity", "speed", "memory", "torch", "sanitizer")
# These measure no times, so several items may run side by side.
SHARE_THE_GPU = ("suites", "parity", "sanitizer")
# As .bazelrc has it for `bazel test`.
NO_NIGHTLY = "--gtest_filter=-Nightly*:*.Nightly*"
SANITIZER_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
# From the bottom up: a failure in a lower layer makes higher layers fail.
LAYERS = ("//core/device", "//core/comm", "//kernels", "//strategies", "//train", "//tests")
PARITY = ("//tests/parity", "//tests/fp8")
# Tests of our own kernels.
SANITIZED = ("//kernels", "//core/comm/local")
STRATEGIES = ("no_shard", "shard_optimizer", "shard_grad_op", "full_shard", "hybrid_shard")
# Programs with their own output formats; the others use Google Benchmark.
MEMORY = "//benchmarks:memory"
TRAINER = "//train:train"
TRAIN_STEP = "//benchmarks:train_step_cuda"
KERNELS = "//benchmarks:cuda_kernels"
# Each case of these takes most of a GPU's memory and keeps it, so each runs in its own process.
CASE_BY_CASE = "case_by_case"

# Runs that take minutes on a machine of the given kind. Each GPU's batch is 16 sequences.
GPU_RUN = {"model": "gpt2_124m", "batch_size": 16, "seq_len": 1024, "steps": 30,
           "memory_model": "gpt2_124m", "memory_ranks": 4, "memory_lever": "all"}
EMULATED_RUN = {"model": "gpt2_nano", "batch_size": 2, "seq_len": 16, "steps": 3,
                "memory_model": "gpt2_nano", "memory_ranks": 2, "memory_lever": "plain"}
TRAINER_VARIANTS = {
    "enqueued": ["--nccl_copy_engine=off"],
    "cuda_graphs": ["--nccl_copy_engine=off", "--cuda_graphs"],
    "nccl_copy_engine": ["--nccl_copy_engine=on"],
    "nccl_copy_engine_and_graphs": ["--nccl_copy_engine=on", "--cuda_graphs"],
    "flash_attention": ["--nccl_copy_engine=off", "--attention_backend=flash"],
    "cudnn_attention": ["--nccl_copy_engine=off", "--attention_backend=cudnn"],
}
# The emulation has no cuDNN.
GPU_VARIANTS = ("cudnn_attention",)


class Item:
    """One entry of the report; `work(scratch, log, limit)` returns its result."""

    def __init__(self, part, name, limit, work):
        self.part = part
        self.name = name
        self.limit = limit
        self.work = work

    @property
    def id(self):
        return "%s %s" % (self.part, self.name)


def file_name(item_id):
    return re.sub(r"[^A-Za-z0-9.=-]+", "_", item_id)


class Planner:
    """Makes the items for the targets in a packed tree."""

    def __init__(self, tree, targets, environment, options, gpus, emulated):
        self.tree = tree
        self.targets = sorted(targets, key=self._layer)
        self.environment = environment
        self.options = options
        self.gpus = gpus
        self.emulated = emulated
        self.run = EMULATED_RUN if emulated else GPU_RUN

    @staticmethod
    def _layer(target):
        label = target["label"]
        layer = [i for i, prefix in enumerate(LAYERS) if label.startswith(prefix)]
        return (layer[0] if layer else len(LAYERS), label)

    def items(self, parts):
        """In the order of `parts`."""
        return [item for part in parts for item in getattr(self, part)()]

    def suites(self):
        return [self._test("suites", target) for target in self._tests()
                if not target["label"].startswith(PARITY)]

    def parity(self):
        return [self._test("parity", target) for target in self._tests()
                if target["label"].startswith(PARITY)]

    def sanitizer(self):
        tool = machine.find_tool("compute-sanitizer")
        kernels = [target for target in self._tests() if target["label"].startswith(SANITIZED)]
        if tool is None or self.emulated:
            why = "it does not work in the emulation" if self.emulated else "compute-sanitizer is not installed"
            return [missing("sanitizer", "compute-sanitizer", why)] if kernels else []
        return [self._sanitized(tool, check, target)
                for check in SANITIZER_TOOLS for target in kernels]

    def speed(self):
        items = []
        for target in self.targets:
            if target["label"] == TRAINER:
                items += self._trainer(target)
            elif target["kind"] == "program" and target["label"] != MEMORY:
                items += self._benchmarks(target)
        return items

    def memory(self):
        return [self._memory(target, strategy) for target in self.targets
                if target["label"] == MEMORY for strategy in STRATEGIES]

    def torch(self):
        script = os.path.join(self.tree, "compare_with_torch.py")
        programs = {target["label"]: target for target in self.targets
                    if target["label"] in (TRAIN_STEP, KERNELS)}
        if TRAIN_STEP not in programs:
            return []
        why = "that is for a GPU" if self.emulated else machine.torch_problem(dict(os.environ))
        if why:
            return [missing("torch", "compare_with_torch.py", why)]
        planned = [self._torch(script, programs, case, ["--cases", case])
                   for case in torch_cases(script)]
        if KERNELS in programs:
            planned.append(self._torch(script, programs, "attention", ["--cases"]))
        return planned

    def _tests(self):
        return [target for target in self.targets if target["kind"] == "test"]

    def _program(self, target):
        return os.path.join(self.tree, "runfiles", target["program"])

    def _folder(self, target):
        return os.path.join(self.tree, "runfiles", target["program"].split("/")[0])

    def _environment(self, target, scratch, more=None):
        return {**self.environment, **target["env"], "TEST_TMPDIR": scratch, **(more or {})}

    def _one(self, target, command, scratch, log, limit, more=None):
        """Runs one command in the environment of the target's program."""
        environment = self._environment(target, scratch, more)
        return processes.run([command], [environment], self._folder(target), log, limit)

    def _test(self, part, target):
        def work(scratch, log, limit):
            command = [self._program(target), "--gtest_color=no", NO_NIGHTLY]
            return finish(outputs.gtest, self._one(target, command, scratch, log, limit))
        return Item(part, target["label"], self.options.limit, work)

    def _sanitized(self, tool, check, target):
        def work(scratch, log, limit):
            command = [tool, "--tool=" + check, "--print-limit=20", self._program(target),
                       "--gtest_color=no", NO_NIGHTLY]
            # Blocks inside larger allocations would hide accesses beyond their ends.
            more = {"ZEROTH_CUDA_EXACT_BLOCKS": "1"}
            return finish(outputs.sanitizer, self._one(target, command, scratch, log, limit, more))
        return Item("sanitizer", "%s %s" % (check, target["label"]), self.options.sanitizer_limit,
                    work)

    def _benchmarks(self, target):
        """Makes an item for each family of cases, or for each case if a case takes a whole GPU."""
        listed = machine.output_of([self._program(target), "--benchmark_list_tests=true"],
                                   {**self.environment, **target["env"]})
        names = [line for line in (listed or "").split("\n") if re.match(r"\w[\w/:.<>-]*$", line)]
        if CASE_BY_CASE in target["tags"]:
            # The number of iterations and the clock are not part of a case's identity.
            groups = {re.sub(r"/(iterations:\d+|manual_time|real_time)", "", name):
                      "^%s$" % re.escape(name).replace("\\-", "-") for name in names}
        else:
            groups = {name.split("/")[0]: "^%s(/|$)" % name.split("/")[0] for name in names}
        # A program that cannot list its cases is run once, to show why.
        return [self._benchmark(target, group, pattern)
                for group, pattern in (groups or {"all of it": "."}).items()]

    def _benchmark(self, target, group, pattern):
        def work(scratch, log, limit):
            report = os.path.join(scratch, "benchmark.json")
            command = [self._program(target), "--benchmark_filter=" + pattern,
                       "--benchmark_out=" + report, "--benchmark_out_format=json"]
            outcome = self._one(target, command, scratch, log, limit)
            return finish(outputs.benchmark, outcome, report)
        return Item("speed", "%s %s" % (target["label"], group), self.options.limit, work)

    def _memory(self, target, strategy):
        def work(scratch, log, limit):
            command = [self._program(target), "--device=cuda", self.run["memory_model"],
                       str(self.run["memory_ranks"]), strategy, self.run["memory_lever"]]
            return finish(outputs.memory, self._one(target, command, scratch, log, limit))
        return Item("memory", "%s %s" % (target["label"], strategy), self.options.limit, work)

    def _trainer(self, target):
        sizes = [1] + ([len(self.gpus)] if len(self.gpus) > 1 else [])
        return [self._training(target, size, variant) for size in sizes
                for variant in TRAINER_VARIANTS
                if not (self.emulated and variant in GPU_VARIANTS)]

    def _training(self, target, size, variant):
        name = "%s_on_%d_%s" % (self.run["model"], size, variant)

        def work(scratch, log, limit):
            out = os.path.join(scratch, "out")
            data = os.path.join(scratch, "words.txt")
            write_words(data)
            # The tokens themselves do not change the speed.
            command = [self._program(target), "--device=cuda", "--comm=nccl", "--data=" + data,
                       "--tokenizer=byte",
                       "--out=" + out, "--param_dtype=bf16", "--sample_tokens=0", "--log_every=1",
                       "--comm_timeout=60s"]
            command += ["--%s=%s" % (flag, self.run[flag])
                        for flag in ("model", "seq_len", "steps")]
            command += ["--batch_size=%d" % self.run["batch_size"]] + TRAINER_VARIANTS[variant]
            environments = [self._environment(target, scratch, {
                "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size),
                "LOCAL_WORLD_SIZE": str(size),
                "ZEROTH_RENDEZVOUS_FILE": os.path.join(scratch, "rendezvous")})
                            for rank in range(size)]
            outcome = processes.run([command] * size, environments, self._folder(target), log, limit)
            return finish(outputs.trainer, outcome, os.path.join(out, "metrics.jsonl"), name)
        return Item("speed", "%s %s" % (target["label"], name), self.options.limit, work)

    def _torch(self, script, programs, name, arguments):
        def work(scratch, log, limit):
            command = [sys.executable, script, self._wrapped(programs[TRAIN_STEP], scratch)]
            command += arguments
            if name == "attention":
                command.append("--kernels=" + self._wrapped(programs[KERNELS], scratch))
            outcome = processes.run([command], [dict(os.environ)], scratch, log, limit)
            return finish(outputs.torch, outcome)
        return Item("torch", name, self.options.limit, work)

    def _wrapped(self, target, scratch):
        """Writes a script that runs it, so that PyTorch does not load the libraries packed for it."""
        wrapper = os.path.join(scratch, os.path.basename(target["program"]))
        with open(wrapper, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexport LD_LIBRARY_PATH='%s'\nexec '%s' \"$@\"\n" % (
                self.environment["LD_LIBRARY_PATH"], self._program(target)))
        os.chmod(wrapper, 0o755)
        return wrapper


def torch_cases(script):
    """Returns the models of compare_with_torch.py."""
    spec = importlib.util.spec_from_file_location("compare_with_torch", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.CASES)


def finish(read, outcome, *more):
    """Returns the result of an item whose program has ended."""
    result = read(outcome, *more)
    result["seconds"] = round(outcome.seconds, 1)
    if outcome.undead:
        result["failure"] += " (it could not be killed, and may still hold the GPU)"
    return result


def missing(part, name, why):
    """Makes an item that says why a part has no items."""
    return Item(part, name, 0, lambda scratch, log, limit: {
        "status": "skipped", "failure": why, "seconds": 0, "missing": True})


def read_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write_words(path):
    """Writes a text to train on, the same every time. Its content does not change the speed."""
    pick = random.Random(1)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    words = ["".join(pick.choices(syllables, k=pick.randint(1, 4))) for _ in range(5000)]
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(50000):
            file.write(" ".join(pick.choices(words, k=12)) + ".\n")


def load_targets(tree):
    """Returns the description, targets and needs of a tree's manifests, which must be of one build."""
    folder = os.path.join(tree, "manifests")
    names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    manifests = [json.loads(read_text(os.path.join(folder, name))) for name in names]
    if not manifests:
        raise ValueError("%s holds no manifest: unpack an archive of pack.py there" % folder)
    first = {key: value for key, value in manifests[0].items() if key not in ("targets", "needs")}
    for name, other in zip(names, manifests):
        if any(other.get(key) != first[key] for key in first):
            raise ValueError("%s and %s in %s are of different builds: unpack them apart" % (
                names[0], name, folder))
    if first.get("format") != 1:
        raise ValueError("%s is of format %s, and this script reads 1: take the run.py beside it" % (
            folder, first.get("format")))
    targets = {target["label"]: target for one in manifests for target in one["targets"]}
    needs = sorted({name for one in manifests for name in one["needs"]})
    return first, list(targets.values()), needs
