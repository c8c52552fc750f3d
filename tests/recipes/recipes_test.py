# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Holds recipes to the planner and to the trainer.

    recipes_test.py PAGE TESTDATA TRAINER PLAN GENERATE CONVERT EVALUATE RECIPE...
    recipes_test.py --write PLAN RECIPE...

For each recipe: what its comment says of memory and time is what tools/plan prints, and the run fits. It then trains a few
steps with a tiny model of its family, tiny data, and four ranks for sixteen, and writes what it exports. --write renews the
comments. The commands of PAGE run as they are, with such flags added, and with fakes of what downloads and starts ranks.
"""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "matrix"))
from mxfp4 import write_mxfp4  # noqa: E402

PLAN = re.compile(r"^# Plan:(.*)\n((?:#   .*\n)*)", re.M)
PLANNED = ("memory ", "step ")
# The families of presets, and their tiny models.
FAMILIES = {"gemma3": "gemma3_tiny", "gpt2": "gpt2_tiny", "gpt_oss": "gpt_oss_tiny", "llama3": "llama31_tiny", "olmo2": "olmo2_tiny",
            "qwen25": "qwen2_tiny", "qwen3": "qwen3_tiny", "qwen3_30b_a3b": "qwen3_moe_tiny"}
CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
# Widths that blocks of NF4 and of GGUF files divide.
LARGER = {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
STEPS = 3


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def run(words, folder=None):
    done = subprocess.run(words, cwd=folder, text=True, check=False, errors="replace", stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit("FAILED with %d: %s\n%s" % (done.returncode, " ".join(words), done.stdout))
    return done.stdout


def value(recipe, key):
    """What the recipe sets `key` to, or None."""
    found = re.search(r"^%s = (.*)$" % key, recipe, re.M)
    return found and found.group(1).strip('"')


def planned(plan, path):
    """The lines of tools/plan that the comment of the recipe repeats."""
    flags = PLAN.search(read(path)).group(1).split()
    printed = run([plan, "--config=" + path] + flags)
    lines = [line for line in printed.splitlines() if line.startswith(PLANNED)]
    if len(lines) != len(PLANNED) or not lines[0].endswith(": fits"):
        sys.exit("FAILED: %s does not fit:\n%s" % (path, printed))
    return lines


def renew(plan, path):
    lines = planned(plan, path)
    recipe = PLAN.sub(lambda match: "# Plan:%s\n%s" % (match.group(1), "".join("#   %s\n" % line for line in lines)),
                      read(path))
    write(path, recipe)


def chats(folder):
    """Conversations, which a model with the tests' tokenizer can learn."""
    words = "zero one two three four five six seven eight".split()
    lines = [{"messages": [{"role": "user", "content": "%s and %s" % (words[a], words[b])},
                           {"role": "assistant", "content": words[a + b]}]} for a in range(5) for b in range(5)]
    write(os.path.join(folder, "chats.jsonl"), "".join(json.dumps(line) + "\n" for line in lines * 20))
    texts = "".join(json.dumps({"text": " ".join(words[i % 9:] * 9)}) + "\n" for i in range(200))
    write(os.path.join(folder, "texts.jsonl"), texts)


def pairs(path):
    """Preference pairs of such conversations."""
    lines = [{"prompt": [{"role": "user", "content": "one and %s" % word}],
              "chosen": [{"role": "assistant", "content": "yes"}],
              "rejected": [{"role": "assistant", "content": "no"}]} for word in "one two three four".split()]
    write(path, "".join(json.dumps(line) + "\n" for line in lines * 25))


def judgements(path):
    """The answers of such pairs, judged one by one."""
    lines = [{"prompt": [{"role": "user", "content": "one and %s" % word}],
              "completion": [{"role": "assistant", "content": answer}], "label": answer == "yes"}
             for word in "one two three four".split() for answer in ("yes", "no")]
    write(path, "".join(json.dumps(line) + "\n" for line in lines * 12))


def tokens(path):
    """A token file of llm.c."""
    ids = [i * i % 251 for i in range(40000)]
    write(path, struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253) + struct.pack("<%dH" % len(ids), *ids))


def tiny_model(trainer, testdata, family, path, **sizes):
    """A Hugging Face directory of this family, with a tokenizer and a chat template."""
    config = json.loads(read(os.path.join(testdata, family, "config.json")))
    config.update(vocab_size=904, **sizes)
    made = path + ".made"
    chats(made)
    write(os.path.join(made, "config.json"), json.dumps(config))
    shutil.copy(os.path.join(testdata, "tokenizers/qwen2/tokenizer.json"), made)
    write(os.path.join(made, "tokenizer_config.json"), json.dumps({"eos_token": "<|im_end|>", "chat_template": CHATML}))
    run([trainer, "--model=" + os.path.join(made, "config.json"), "--tokenizer=" + made, "--steps=0",
         "--data=" + os.path.join(made, "chats.jsonl"), "--out=" + made])
    shutil.move(os.path.join(made, "final"), path)
    return path


def smaller(recipe, ranks):
    """The flags that make a run of the recipe tiny."""
    changes = {"device": "cpu", "comm": "local", "world_size": ranks, "threads_per_rank": 1, "seq_len": 64, "steps": STEPS,
               "global_batch_size": ranks * int(value(recipe, "grad_accum") or 1), "eval_every": 2, "eval_batches": 1,
               "checkpoint_every": 2, "sample_tokens": 4, "cache_dir": "none"}
    if value(recipe, "keep_last"):
        changes["keep_last"] = 2  # The first checkpoint is looked for.
    if value(recipe, "shard_size"):
        changes["shard_size"] = ranks // 2
    if value(recipe, "chat_template"):
        changes["chat_template"] = "chatml"  # The tests' tokenizer has the tokens of this one.
    return changes


def as_flags(changes):
    return ["--%s=%s" % change for change in changes.items()]


def train(trainer, testdata, path, work):
    recipe = read(path)
    folder = os.path.join(work, os.path.basename(path))
    chats(folder)
    plan = dict(flag.lstrip("-").split("=", 1) for flag in PLAN.search(recipe).group(1).split())
    changes = smaller(recipe, {"1": 1, "2": 2, "8": 2, "16": 4}[plan.get("world_size", value(recipe, "world_size"))])
    preset = value(recipe, "model") or plan["model"]
    family = FAMILIES.get(preset) or FAMILIES[re.match(r"gemma3|gpt2|gpt_oss|llama3|olmo2|qwen25|qwen3", preset).group()]
    expected = ["step-00000002", "final/model.safetensors"]
    if value(recipe, "lora_export") == "adapter":
        expected.remove("final/model.safetensors")
    if value(recipe, "init_from"):
        sizes = LARGER if value(recipe, "base_dtype") else {}
        model = tiny_model(trainer, testdata, family, os.path.join(folder, "model"), **sizes)
        if value(recipe, "base_dtype") == "mxfp4":
            write_mxfp4(model, model + "_mxfp4")
            model += "_mxfp4"
        changes["init_from"] = model
        data = value(recipe, "data")
        changes["data"] = data if data in ("chats.jsonl", "pairs.jsonl") else "texts.jsonl"
        pairs(os.path.join(folder, "pairs.jsonl"))
        if value(recipe, "lora_export") != "adapter":
            expected.append("final/tokenizer.json")
    else:
        changes.update(model=os.path.join(testdata, family, "config.json"), tokenizer="byte")
        for name in ("data", "eval_data"):
            changes[name] = name + ".bin"
            tokens(os.path.join(folder, changes[name]))
    if value(recipe, "lora_export") in ("adapter", "both"):
        expected.append("final_adapter/adapter_model.safetensors")
    printed = run([trainer, "--config=" + path] + as_flags(changes), folder)
    out = os.path.join(folder, value(recipe, "out"))
    missing = [name for name in expected if not os.path.exists(os.path.join(out, name))]
    if missing or "done after %d steps" % STEPS not in printed or "eval" not in printed:
        sys.exit("FAILED: %s: without %s\n%s\n%s" % (path, ", ".join(missing), printed, sorted(os.listdir(out))))


# A stand-in for each program of the commands, which runs this project's program with tiny flags.
FAKE = """#!/bin/sh
exec python3 -B %s --as %s "$(basename "$0")" "$@"
"""
LAUNCHERS = ("mpirun", "srun", "torchrun")


def act(setup, name, words):
    """Does what the program `name` of the page's reader would do with these words."""
    with open(setup, encoding="utf-8") as file:
        programs = json.load(file)
    if name == "bazelw":
        if words[0] == "build":
            return
        name, words = words[1].rsplit("/", 1)[-1], words[3:]
    if name == "hf":
        shutil.copytree(programs["model"], words[words.index("--local-dir") + 1])
        return
    if name == "llama-cli":
        with open(words[words.index("-m") + 1], "rb") as file:
            assert file.read(4) == b"GGUF"
        return
    if name in LAUNCHERS:
        at = words.index("bazel-bin/train/train")
        name, words = "train", words[at + 1:] + ["--out=by_" + name]
    if name == "evaluate" or (name == "plan" and "--init_from=" not in words):
        words.append("--seq_len=64")  # The tiny model in the place of the reader's has few positions.
    if name == "train":
        config = [word.split("=", 1)[1] for word in words if word.startswith("--config=")]
        recipe = read(config[0]) if config else ""
        changes = smaller(recipe, 4 if value(recipe, "shard_size") else 1)
        if "--steps=0" in words or not config:
            for key in ("eval_every", "checkpoint_every", "global_batch_size"):
                del changes[key]
        if "--steps=0" in words:
            del changes["steps"]
        words = [word for word in words if not word.startswith("--epochs=")] + as_flags(changes)
    print("$", name, " ".join(words), flush=True)
    if name == "plan":
        printed = run([programs[name]] + words)
        if ": fits" not in printed:
            sys.exit("FAILED: the plan does not fit:\n%s" % printed)
        return
    os.execv(programs[name], [programs[name]] + words)


def page(path, programs, recipes, work):
    """Runs the commands of the page's plain blocks in one folder."""
    folder = os.path.join(work, "page")
    chats(folder)
    for name in ("held_out.jsonl", "chat.jsonl"):
        shutil.copy(os.path.join(folder, "chats.jsonl"), os.path.join(folder, name))
    tokens(os.path.join(folder, "corpus.bin"))
    pairs(os.path.join(folder, "pairs.jsonl"))
    judgements(os.path.join(folder, "judgements.jsonl"))
    for name in ("README.md", "docs/some.md", "kernels/some/some.h"):
        write(os.path.join(folder, name), read(path))
    llama = tiny_model(programs["train"], programs["testdata"], "llama_tiny", os.path.join(folder, "path/to/llama"),
                       **LARGER)
    run([programs["convert"], "--in=" + llama, "--out=" + os.path.join(folder, "llama-Q4_K_M.gguf"), "--dtype=q8_0"])
    for name in ("path/to/qwen3", "path/to/teacher", "models/Meta-Llama-3-8B"):
        shutil.copytree(programs["model"], os.path.join(folder, name))
    os.symlink(os.path.dirname(recipes[0]), os.path.join(folder, "recipes"))
    os.makedirs(os.path.join(folder, "tests"))
    os.symlink(programs["testdata"], os.path.join(folder, "tests/testdata"))
    write(os.path.join(folder, "setup.json"), json.dumps(programs))
    bin_folder = os.path.join(folder, "bin")
    fakes = ["bazelw"] + [os.path.join("bin", name) for name in ("hf", "llama-cli") + LAUNCHERS]
    fakes += ["bazel-bin/%s" % name for name in
              ("train/train", "tools/plan/plan", "tools/generate/generate", "tools/convert/convert")]
    for fake in fakes:
        fake = os.path.join(folder, fake)
        write(fake, FAKE % (os.path.abspath(__file__), os.path.join(folder, "setup.json")))
        os.chmod(fake, 0o755)
    blocks = re.findall(r"^```\n(.*?)^```$", read(path), re.M | re.S)
    script = "set -e\n" + "".join(blocks)
    done = subprocess.run(["bash", "-c", script], cwd=folder, text=True, check=False, errors="replace",
                          env=dict(os.environ, PATH=bin_folder + ":" + os.environ["PATH"]),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0 or len(blocks) < 4:
        sys.exit("FAILED with %d: %d blocks of %s\n%s" % (done.returncode, len(blocks), path, done.stdout))
    print("ran: %s" % "\n".join(line for line in done.stdout.splitlines() if line.startswith("$ ")))


def main():
    if sys.argv[1] == "--write":
        for path in sys.argv[3:]:
            renew(sys.argv[2], path)
        return
    if sys.argv[1] == "--as":
        act(sys.argv[2], sys.argv[3], sys.argv[4:])
        return
    names = ("page", "testdata", "train", "plan", "generate", "convert", "evaluate")
    programs = {name: os.path.abspath(path) for name, path in zip(names, sys.argv[1:])}
    trainer, plan, testdata = programs["train"], programs["plan"], programs["testdata"]
    recipes = [os.path.abspath(path) for path in sys.argv[1 + len(names):]]
    if len(recipes) < 10:
        sys.exit("FAILED: only %d recipes were found" % len(recipes))
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as work:
        for path in recipes:
            said = [line[4:] for line in PLAN.search(read(path)).group(2).splitlines()]
            found = planned(plan, path)
            if said != found:
                sys.exit("FAILED: %s says\n%s\nand tools/plan\n%s\n`recipes_test.py --write` renews it" % (
                    path, "\n".join(said), "\n".join(found)))
            train(trainer, testdata, path, work)
            print("as planned, and trained: %s" % os.path.basename(path), flush=True)
        programs["model"] = tiny_model(trainer, testdata, "qwen3_tiny", os.path.join(work, "qwen3"))
        page(programs["page"], programs, recipes, work)


if __name__ == "__main__":
    main()
