#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Trains tiny models in cells of objective, adapter, base, strategy and more, and compares bits.

    bazel build //train //tools/evaluate //tools/convert
    tests/matrix/matrix.py --train=bazel-bin/train/train

A cell takes one value of each axis. Cells are drawn so that every two values that are allowed
together meet in one. Each trains three steps, and has to give the losses, gradient norms and
exported models of no_shard on one rank, to the last bit, or to be refused with the reason that
REFUSALS has for it. Two values that are refused together have a cell of their own. --strength=3
draws cells in which every three values meet. --cells=24 runs the first 24; --only=7 runs one, and
prints its commands. --markdown prints docs/matrix.md instead; --page compares that file with it.
Exits with 1 if a cell broke its promise.
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "levers"))
import pairs  # noqa: E402
from mxfp4 import write_mxfp4  # noqa: E402

# The values of an axis and their flags. The first value is the reference's on the axes that change
# no result.
RESULTS = {
    "model": {name: "--init_from={files}/base/final" for name in ("llama", "qwen3_moe", "gpt_oss")},
    "objective": {
        "next_token": "",
        "distill top-k": "--objective=distill --teacher_topk={files}/topk",
        "distill forward KL": "--objective=distill --teacher={files}/other/final",
        "distill reverse KL": "--objective=distill --teacher={files}/other/final "
                              "--distill_divergence=reverse",
        "dpo": "--objective=dpo",
        "ipo": "--objective=ipo --reference=cached",
        "simpo": "--objective=simpo",
        "orpo": "--objective=orpo",
        "kto": "--objective=kto",
        "reward": "--objective=reward",
    },
    "adapter": {
        "none": "",
        "lora": "--lora_rank=24 --lora_export=both",
        "rslora with dropout": "--lora_rank=24 --lora_export=both --lora_rslora --lora_dropout=0.2 "
                               "--lora_targets=all_but_experts",
        "dora": "--lora_rank=24 --lora_export=both --lora_dora --lora_targets=all_but_experts",
    },
    "base": {
        "fp32": "",
        "bf16": "--param_dtype=bf16 --reduce_dtype=bf16",
        "int8": "--base_dtype=int8",
        "nf4": "--base_dtype=nf4",
        "gguf": "--base_dtype=gguf --init_from={files}/base.gguf --tokenizer=byte",
        "mxfp4": "--base_dtype=mxfp4 --init_from={files}/mxfp4",
    },
    "optimizer": {
        "adamw": "",
        "bf16 adamw": "--optimizer_state_dtype=bf16",
        "8-bit adamw": "--optimizer_state_dtype=float8_block",
        "muon": "--optimizer=muon",
    },
    "attention within": {
        "auto": "",
        "sequence": "--attend_within=sequence",
    },
    "average": {
        "none": "",
        "ema": "--ema_decay=0.5",
    },
}
PLACES = {
    "strategy": {
        "no_shard": "--strategy=no_shard",
        "shard_optimizer": "--strategy=shard_optimizer",
        "shard_grad_op": "--strategy=shard_grad_op",
        "full_shard": "--strategy=full_shard",
        "hybrid_shard": "--strategy=hybrid_shard",
        "hybrid_shard over world": "--strategy=hybrid_shard --shard_optimizer_over_world",
    },
    "ranks": {n: f"--world_size={n}" for n in ("1", "2", "4")},
    "tensor": {n: f"--tensor_parallel={n}" for n in ("1", "2")},
    "layout": {name: f"--layout={name}" for name in ("flat", "rows")},
    "recomputation": {name: f"--activation_checkpointing={name}"
                      for name in ("none", "block", "selective")},
    "offload": {name: f"--offload={name}" for name in ("none", "all")},
    # Whether the cell resumes from the reference's checkpoint after two steps, or the reference
    # from the cell's.
    "resume": {"no": "", "onto": "", "from": ""},
}
AXES = {**RESULTS, **PLACES}
MEANINGS = {
    "model": "qwen3_moe and gpt_oss: four experts in each layer, two for a token",
    "objective": "next_token and distill on prompts and completions; distill from a teacher of "
                 "other weights: its top-k tokens (`--teacher_topk`), or its whole vocabulary "
                 "(`--teacher`) by `--distill_divergence`; the others on preference pairs, ipo "
                 "with `--reference=cached`, dpo and kto with the reference that auto chooses",
    "adapter": "of rank 24, so that with 8-bit adamw some adapters have codes and others, of fewer "
               "than 4096 elements, fp32 moments; dropout of 0.2; only lora has adapters on experts",
    "base": "`--param_dtype` and `--reduce_dtype`, or `--base_dtype` under fp32; gguf: a file in "
            "Q8_0; mxfp4: a directory of gpt_oss as published",
    "optimizer": "bf16 and 8-bit: the type of the moments",
    "attention within": "`--attend_within`; auto: examples that share a sequence are documents "
                        "apart",
    "strategy": "`--strategy`; over world: with `--shard_optimizer_over_world`",
    "ranks": "`--world_size`; hybrid_shard in groups of two ranks where there are two for data, over "
             "world in two groups",
    "tensor": "`--tensor_parallel`; at 2, the cell and its reference have "
              "`--deterministic_tensor=2`",
    "resume": "onto: the cell goes on from the reference's checkpoint after two steps; from: the "
              "reference goes on from the cell's",
}
PAIRS = ("dpo", "ipo", "simpo", "orpo", "kto", "reward")
PACKED = ("int8", "nf4", "gguf", "mxfp4")
# The refused combinations: the values, a part of the message, and the reason. At most ten.
REFUSALS = [
    ({"base": PACKED, "adapter": ("none",)}, "weights in few bits are not trained",
     "weights in few bits are not trained, only adapters beside them"),
    ({"base": PACKED, "adapter": ("dora",)}, "DoRA's norms are those of weights in full",
     "DoRA's norms are those of weights in full"),
    ({"base": ("mxfp4",), "model": ("llama", "qwen3_moe")}, "experts have no quantised weights",
     "MXFP4 is read from gpt-oss's files alone"),
    ({"optimizer": ("muon",), "offload": ("all",)}, "Muon works on state in memory",
     "Muon works on state in memory"),
    ({"optimizer": ("8-bit adamw",), "layout": ("rows",)},
     "8-bit moments share scales in blocks, which rows would divide",
     "8-bit moments share scales in blocks, which rows would divide"),
    ({"objective": PAIRS, "attention within": ("sequence",)}, "must not attend to each other",
     "the answers of a pair lie in one sequence, and must not attend to each other"),
    ({"objective": ("distill top-k",), "attention within": ("sequence",)},
     "was written for other tokens or documents", "the teacher read examples as documents apart"),
    ({"tensor": ("2",), "ranks": ("1",)}, "does not divide the 1 ranks", "one rank is not two"),
]


def matches(values, cell):
    return all(cell.get(axis) in allowed for axis, allowed in values.items())


def refusals(cell):
    """Those that the values of a cell meet; some axes may be missing."""
    return [refusal for refusal in REFUSALS if matches(refusal[0], cell)]


def completes(cell):
    """Whether some values of the axes that the cell lacks are not refused beside its own."""
    if refusals(cell):
        return False
    axis = next((axis for values, _, _ in REFUSALS for axis in values if axis not in cell), None)
    return axis is None or any(completes({**cell, axis: value}) for value in AXES[axis])


def draw(strength):
    """Cells in which all `strength` values of different axes meet, unless they are refused."""
    missing = {}
    for axes in itertools.combinations(AXES, strength):
        for values in itertools.product(*(AXES[axis] for axis in axes)):
            if completes(dict(zip(axes, values))):
                missing[tuple(zip(axes, values))] = True
    cells = []
    while missing:
        # Begins with what is missing longest, and adds the values that most others miss.
        cell = dict(next(iter(missing)))
        for axis in AXES:
            if axis in cell:
                continue
            best = None
            for value in AXES[axis]:
                longer = {**cell, axis: value}
                if not completes(longer):
                    continue
                gain = sum(1 for others in itertools.combinations(cell, strength - 1)
                           if tuple((name, longer[name]) for name in AXES
                                    if name == axis or name in others) in missing)
                # Among equals, take the value that is rarest in the cells.
                rank = (gain, -sum(1 for other in cells if other[axis] == value))
                if best is None or rank > best[0]:
                    best = (rank, value)
            cell[axis] = best[1]
        cell = {axis: cell[axis] for axis in AXES}
        for met in itertools.combinations(cell.items(), strength):
            missing.pop(met, None)
        cells.append(cell)
    return most_first(cells, strength)


def most_first(cells, strength):
    """The cells, each the one in which most values meet that did not meet in those before."""
    rest = [(cell, set(itertools.combinations(cell.items(), strength))) for cell in cells]
    ordered = []
    while rest:
        best = max(rest, key=lambda each: len(each[1]))
        rest.remove(best)
        ordered.append(best[0])
        for _, meeting in rest:
            meeting -= best[1]
    return ordered


def refused_cells():
    """Each refusal by itself, in every one of its ways."""
    cells = []
    for refusal in REFUSALS:
        for values in itertools.product(*refusal[0].values()):
            cell = {"ranks": "2", **dict(zip(refusal[0], values))}
            for axis in AXES:
                # The first value that meets no other refusal.
                choices = [cell[axis]] if axis in cell else AXES[axis]
                chosen = next((value for value in choices
                               if refusals({**cell, axis: value}) == [refusal]), None)
                if chosen is None:
                    met = [text for _, text, _ in refusals({**cell, axis: choices[0]})]
                    sys.exit(f"{describe(cell)}: with any {axis} meets not only '{refusal[1]}': {met}")
                cell[axis] = chosen
            cells.append({axis: cell[axis] for axis in AXES})
    return cells


def describe(cell):
    return ", ".join(f"{axis} {value}" for axis, value in cell.items())


class Runs:
    def __init__(self, train, directory):
        self.train = train
        self.directory = directory
        self.references = {}
        self.lock = threading.Lock()
        self.commands = []
        self._write_data()

    def _path(self, *names):
        return os.path.join(self.directory, *names)

    def _write_data(self):
        with open(self._path("pairs.jsonl"), "w") as answers, \
                open(self._path("sums.jsonl"), "w") as sums:
            for i in range(48):
                prompt, total = f"{i} and {i * 7 % 13}? ", i + i * 7 % 13
                sums.write(json.dumps({"prompt": prompt, "completion": str(total)}) + "\n")
                answers.write(json.dumps({"prompt": prompt, "chosen": str(total),
                                          "rejected": f"no {i}"}) + "\n")
        # Two tensor ranks have equal numbers of the blocks of 64 values that share an nf4 scale,
        # and of the 128 that share one of 8-bit moments.
        shape = {"vocab_size": 257, "hidden_size": 128, "intermediate_size": 256,
                 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
                 "head_dim": 64, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
                 "rope_theta": 10000.0, "tie_word_embeddings": False}
        self._write_models({"model_type": "llama", **shape})
        self._write_models({"model_type": "qwen3_moe", **shape, "moe_intermediate_size": 256,
                            "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": True})
        self._write_models({"model_type": "gpt_oss", **shape, "num_local_experts": 4,
                            "num_experts_per_tok": 2, "sliding_window": 16})

    def _write_models(self, config):
        """Writes a base model, its forms in GGUF and MXFP4, and a teacher with its top-k tokens."""
        files = lambda *names: self._path(config["model_type"], *names)
        os.mkdir(files())
        with open(files("config.json"), "w") as file:
            json.dump(config, file)
        for name, seed in (("base", 42), ("other", 43)):
            done = self._run([f"--data={self._path('sums.jsonl')}", "--steps=0", "--world_size=1",
                              f"--model={files('config.json')}", f"--seed={seed}"], files(name))
            if done.get("code") != 0:
                sys.exit(f"the model was not written: {done}")
        self._tool("evaluate", f"--model={files('other', 'final')}", "--seq_len=64",
                   f"--data={self._path('sums.jsonl')}", "--cache_dir=none", "--topk=16",
                   f"--write_topk={files('topk')}")
        self._tool("convert", f"--in={files('base', 'final')}", "--dtype=q8_0",
                   "--vocabulary=none", f"--out={files('base.gguf')}")
        if config["model_type"] == "gpt_oss":
            write_mxfp4(files("base", "final"), files("mxfp4"))
        else:
            # A dense directory: MXFP4 is read from gpt-oss's files alone.
            os.symlink(files("base", "final"), files("mxfp4"))

    def _tool(self, name, *flags):
        """Runs another program of the build that has the trainer."""
        root = os.path.dirname(os.path.dirname(os.path.abspath(self.train)))
        subprocess.run([os.path.join(root, "tools", name, name), *flags], check=True,
                       stdout=subprocess.DEVNULL)

    def _run(self, flags, out):
        command = [self.train, *flags, "--sample_tokens=0", "--threads_per_rank=1",
                   "--tensorboard=false", "--comm_timeout=60s", f"--out={out}",
                   "--cache_dir=none"]  # each layout computes the reference itself
        self.commands.append(command)
        return pairs.run_command(command, out)

    def _train(self, cell, flags=()):
        """The result of a run, and its directory."""
        name = "pairs" if cell["objective"] in PAIRS else "sums"
        all_flags = [f"--data={self._path(name + '.jsonl')}", "--seq_len=64", "--steps=3",
                     "--batch_size=1", "--deterministic_batch=4", "--lr=0.01", "--warmup_steps=0"]
        for axis, value in cell.items():
            all_flags += AXES[axis][value].format(files=self._path(cell["model"])).split()
        if cell["model"] == "gpt_oss" and cell["adapter"] == "lora":
            all_flags.append("--lora_export=merged")  # PEFT has no layer for these experts
        data_ranks = int(cell["ranks"]) // int(cell["tensor"])
        if cell["strategy"] == "hybrid_shard":
            all_flags.append(f"--shard_size={min(2, data_ranks)}")
        if cell["strategy"] == "hybrid_shard over world":
            all_flags.append(f"--shard_size={max(1, data_ranks // 2)}")
        out = tempfile.mkdtemp(dir=self.directory)
        return self._run([*all_flags, *flags], out), out

    def _reference(self, cell):
        """The run of no_shard on one rank, which writes a checkpoint after two steps."""
        fixed = cell["tensor"] == "2"
        name = (*(cell[axis] for axis in RESULTS), fixed)
        with self.lock:
            made = self.references.setdefault(name, {"lock": threading.Lock()})
        with made["lock"]:
            if "run" in made:
                return made["run"]
            alone = {**cell, **{axis: next(iter(PLACES[axis])) for axis in PLACES}}
            flags = ["--deterministic_tensor=2"] if fixed else []
            result, out = self._train(alone, [*flags, "--checkpoint_every=2", "--keep_last=0"])
            made["run"] = result, os.path.join(out, "step-00000002"), alone, flags
            return made["run"]

    def judge(self, cell):
        """'ok', 'refused' or what is wrong, and a text."""
        expected = refusals(cell)
        more = ["--deterministic_tensor=2"] if cell["tensor"] == "2" else []
        if expected:
            result, _ = self._train(cell, more)
            failed = pairs.failure(result)
            if failed is None:
                return "NOT REFUSED", f"expected '{expected[0][1]}'"
            if failed[0] != "refused" or not any(text in failed[1] for _, text, _ in expected):
                return failed[0].upper(), failed[1]
            return "refused", failed[1]
        reference, checkpoint, alone, flags = self._reference(cell)
        failed = pairs.failure(reference)
        if failed is not None:
            return failed[0].upper(), f"the reference: {failed[1]}"
        if cell["resume"] == "onto":
            more.append(f"--resume={checkpoint}")
        if cell["resume"] == "from":
            more += ["--checkpoint_every=2", "--keep_last=0"]
        result, out = self._train(cell, more)
        verdict = pairs.failure(result) or pairs.compare(result, reference)
        if verdict[0] == "ok" and len(result["steps"]) != (1 if cell["resume"] == "onto" else 3):
            verdict = "FAILED", f"{len(result['steps'])} steps"
        if verdict[0] == "ok" and cell["resume"] == "from":
            written = os.path.join(out, "step-00000002")
            result, after = self._train(alone, [*flags, f"--resume={written}"])
            verdict = pairs.failure(result) or pairs.compare(result, reference)
            if verdict[0] != "ok":
                verdict = verdict[0], f"going on from its checkpoint: {verdict[1]}"
            shutil.rmtree(after)
        shutil.rmtree(out)
        return ("REFUSED" if verdict[0] == "refused" else verdict[0]), verdict[1]


def table(rows):
    return ["| " + " | ".join(row) + " |" for row in rows]


def markdown():
    """docs/matrix.md."""
    code = lambda text: " ".join(f"`{flag}`" for flag in text.split())
    said = lambda axis, values: (f"any {axis}" if len(values) > 1 and
                                 set(values) == set(AXES[axis]) - {"none"} else
                                 f"{axis} " + " or ".join(values))
    cells = draw(2)
    lines = [
        "# Which options work together",
        "",
        "Find here which models, objectives, adapters, frozen bases, optimizers, strategies and savings of "
        "memory work together.",
        "All that this page does not list as refused do, and how a run is divided among ranks "
        "changes no bit of it.",
        "`tests/matrix/matrix.py` wrote this page and tests it: it draws cells such that every two "
        "values that are not refused",
        "together meet in one. Each trains a tiny model for three steps with "
        "`--deterministic_batch=4`, and must have the bits (losses,",
        "gradient norms, rewards, exported models and adapters) of a run of the same first columns "
        "with `no_shard` on one rank,",
        "without recomputation and offloading. The first 24 cells, in which most values meet, are "
        "tested with every change, and all",
        "of them at night.",
        "",
        "## What is combined",
        "",
        *table([["axis", "values", "meaning"], ["---", "---", "---"]]),
        *table([axis, ", ".join(AXES[axis]), MEANINGS.get(axis) or
                ", ".join(dict.fromkeys(code(flags.split("=")[0]) for flags in AXES[axis].values()
                                        if flags))]
               for axis in AXES),
        "",
        "## What is refused",
        "",
        "A run with such values ends before its first step, and its message has the words of the "
        "last column.",
        "",
        *table([["values", "why", "message"], ["---", "---", "---"]]),
        *table([" with ".join(said(*each) for each in values.items()), why, f"… {text} …"]
               for values, text, why in REFUSALS),
        "",
        "In general, 8-bit moments need each tensor rank's part of a parameter of 4096 elements or "
        "more to begin at a multiple of 128,",
        "and nf4 needs blocks of 64 in each rank's rows; [parallelism.md](parallelism.md) and "
        "[fine_tuning.md](fine_tuning.md) say so.",
        "DoRA and dropout leave [experts](fine_tuning.md#experts) out. LoRA on gpt-oss's experts is "
        "exported merged only, since PEFT",
        "has no layer for them: `--lora_export=adapter` and `both` are refused, and its cells run "
        "with `merged`.",
        "",
        "## Cells",
        "",
        *table([["", *AXES], ["---"] * (len(AXES) + 1)]),
        *table([str(number), *cell.values()] for number, cell in enumerate(cells, 1)),
    ]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", help="the trainer's binary")
    parser.add_argument("--strength", type=int, default=2, help="values that meet")
    parser.add_argument("--cells", type=int, default=0, help="run the first of them; 0: all")
    parser.add_argument("--only", type=int, default=0, help="run this cell, counted from 1")
    parser.add_argument("--markdown", action="store_true", help="print the page")
    parser.add_argument("--page", help="docs/matrix.md, to be compared with it")
    options = parser.parse_args()
    if len(REFUSALS) > 10:
        sys.exit("more than ten refusals: make something work instead")
    if options.markdown:
        print(markdown(), end="")
        return
    if options.page and open(options.page).read() != markdown():
        sys.exit(f"{options.page} is of other cells; write it again: tests/matrix/matrix.py "
                 f"--markdown > docs/matrix.md")
    if os.environ.get("TESTBRIDGE_TEST_ONLY") == "*":
        options.cells = 0
    cells = list(enumerate(draw(options.strength), 1))
    if options.only:
        cells = cells[options.only - 1:options.only]
    else:
        cells = cells[:options.cells or None]
        cells += [("that is refused", cell) for cell in refused_cells()]
    counts = {}
    with tempfile.TemporaryDirectory() as directory:
        runs = Runs(options.train, directory)
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            verdicts = pool.map(lambda cell: runs.judge(cell[1]), cells)
        for (number, cell), (verdict, text) in zip(cells, verdicts):
            counts[verdict] = counts.get(verdict, 0) + 1
            if verdict not in ("ok", "refused"):
                print(f"{verdict:8} cell {number}: {describe(cell)}\n    {text}", flush=True)
        if options.only:
            for command in runs.commands:
                print(" ".join(command))
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    sys.exit(1 if set(counts) - {"ok", "refused"} else 0)


if __name__ == "__main__":
    main()
