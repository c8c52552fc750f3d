# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""What the scripts of this folder share: a small run by a file of examples/launch."""

import json
import os
import shutil
import socket
import struct
import subprocess
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
VOCABULARY = 901


def run(*words):
    """Returns the output of a command, and raises an error with it if the command fails."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError("%s: %s%s" % (" ".join(words), done.stdout, done.stderr))
    return done.stdout


def await_that(what, holds):
    """Waits for what always comes about in the end, unless something is broken."""
    last = time.monotonic() + 900
    while not holds():
        if time.monotonic() > last:
            raise RuntimeError("not after 15 minutes: " + what)
        time.sleep(0.2)


def expect(holds, what):
    if not holds:
        raise RuntimeError(what)


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class SmallRun:
    """A model, data and options, in a folder for them; $PATH finds the trainer as zeroth-train."""

    def __init__(self, train, folder):
        self.train = os.path.realpath(train)
        self.shared = os.path.join(folder, "shared")
        self.out = os.path.join(self.shared, "run")
        self.config = os.path.join(folder, "run.toml")
        self.model = os.path.join(folder, "config.json")
        data = os.path.join(ROOT, "tests/testdata")
        os.makedirs(self.shared + "/tokenizer")
        os.makedirs(self.shared + "/tokens")
        shutil.copy(data + "/tokenizers/gpt2_json/tokenizer.json", self.shared + "/tokenizer")
        with open(data + "/llama_tiny/config.json", encoding="utf-8") as file:
            config = json.load(file)
        config["vocab_size"] = VOCABULARY
        with open(self.model, "w", encoding="utf-8") as file:
            json.dump(config, file)
        # llm.c's token file: a header of 256 words, then ids of 16 bits.
        ids = [(7 * i * i + i) % VOCABULARY for i in range(1 << 16)]
        with open(self.shared + "/tokens/one.bin", "wb") as file:
            file.write(struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253))
            file.write(struct.pack("<%dH" % len(ids), *ids))
        os.makedirs(folder + "/bin")
        os.symlink(self.train, folder + "/bin/zeroth-train")
        os.environ["PATH"] = folder + "/bin:" + os.environ["PATH"]
        os.environ["SHARED"] = self.shared
        # The options that change() writes for a file of examples/launch, for runs without it.
        self.small = ["--config=" + self.config, "--model=" + self.model, "--seq_len=64",
                      "--batch_size=4", "--tokenizer=" + self.shared + "/tokenizer",
                      "--data=" + self.shared + "/tokens/*.bin"]

    def change(self, name, path, *changes):
        """Copies a file of examples/launch to `path`, with a small model and these changes."""
        with open(os.path.join(ROOT, "examples/launch", name), encoding="utf-8") as file:
            text = file.read()
        for old, new in (("llama_1b", self.model),
                         ("--seq_len=2048 --batch_size=4 --steps=10000",
                          "--seq_len=64 --batch_size=4"), *changes):
            expect(old in text, "examples/launch/%s has no line with %s" % (name, old))
            text = text.replace(old, new)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def set_steps(self, steps):
        """The job reads this file when it starts, so a restart may have other steps."""
        with open(self.config, "w", encoding="utf-8") as file:
            file.write('steps = %d\nlr_schedule = "constant"\nsample_tokens = 0\n'
                       'threads_per_rank = 1\n' % steps)

    def steps(self):
        """The numbers of the steps that the run has reported."""
        try:
            with open(self.out + "/metrics.jsonl", encoding="utf-8") as file:
                lines = [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []
        return [line["step"] for line in lines if "loss" in line]

    def trains(self, before):
        """True once the run has reported a step after `before`."""
        steps = self.steps()
        return len(steps) > 0 and steps[-1] > before

    def expect_interrupted(self, what):
        """Checks what a run leaves that a signal has ended. Returns its last step."""
        step = self.steps()[-1]
        expect(os.path.exists(self.out + "/step-%08d" % step), what + ": no checkpoint")
        expect(not os.path.exists(self.out + "/final"), what + ": there is a model")
        return step

    def compare(self, what, *flags):
        """Compares the run's model with that of one undisturbed process, which runs once."""
        whole = os.path.join(self.shared, "whole")
        if not os.path.exists(whole):
            run(self.train, "--comm=local", "--out=" + whole, *self.small, *flags)
        names = sorted(os.listdir(whole + "/final"))
        expect("model.safetensors" in names, "the undisturbed run has no model")
        for name in names:
            with open(os.path.join(whole, "final", name), "rb") as file:
                expected = file.read()
            with open(os.path.join(self.out, "final", name), "rb") as file:
                expect(file.read() == expected, "%s: final/%s has other bits" % (what, name))
        print("%-40s the bits of an undisturbed run: %s" % (what, ", ".join(names)), flush=True)
