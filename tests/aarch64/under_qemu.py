#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Trains with the trainer for aarch64 under qemu-aarch64 and with this machine's, and compares the losses. Each resumes a
checkpoint of the other.

    tests/aarch64/under_qemu.py AARCH64_TRAIN TRAIN SYSROOT

The programs are bazel-bin/train/train of a build with and one without --config=aarch64; SYSROOT is the folder that
third_party/aarch64/fetch_sysroot.sh prints. The run is the first example of README.md, on its two ranks, with a smaller
batch and few steps. A program gives the same bits on one architecture only: here losses may differ by TOLERANCE.
Exits with 3 where there is no qemu-aarch64.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
STEPS = 4
# Kernels of other instructions add in another order.
TOLERANCE = 1e-3
SECONDS = 3600  # at most, for a program


def run(program, *arguments):
    """Returns what the program prints."""
    done = subprocess.run([*program, *arguments], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=SECONDS)
    if done.returncode != 0:
        sys.exit("FAILED: %s exited with %d:\n%s" % (" ".join([*program, *arguments]), done.returncode, done.stdout))
    return done.stdout


def losses_of(program, out, *arguments):
    """Trains, and returns the loss of each step by its number."""
    printed = run(program, "--data=" + os.path.join(ROOT, "README.md"), "--world_size=2", "--steps=%d" % STEPS, "--log_every=1",
                  "--seq_len=16", "--batch_size=2", "--sample_tokens=0", "--checkpoint_every=%d" % (STEPS // 2), "--out=" + out,
                  *arguments)
    return {int(step): float(loss) for step, loss in re.findall(r"^step (\d+)/\d+ +loss (\S+)", printed, re.MULTILINE)}


def check_close(what, losses, expected):
    print("%-34s %s" % (what, " ".join("%.4f" % losses[step] for step in sorted(losses))), flush=True)
    if losses.keys() != expected.keys() or any(abs(losses[step] - expected[step]) > TOLERANCE for step in losses):
        sys.exit("FAILED: %s: losses by step %s, expected %s, at most %g apart" % (what, losses, expected, TOLERANCE))


def main():
    cross, native, sysroot = (os.path.abspath(argument) for argument in sys.argv[1:])
    emulator = shutil.which("qemu-aarch64")
    if emulator is None:
        print("under_qemu: there is no qemu-aarch64, which Debian's package qemu-user has")
        sys.exit(3)
    programs = {"this machine": [native], "aarch64": [emulator, "-L", sysroot, cross]}
    for processor, instructions in (("max,sve=off", "NEON"), ("max", "SVE")):
        version = run([emulator, "-cpu", processor, "-L", sysroot, cross], "--version")
        print(version, end="")
        if not re.search(r"^instructions .*; this processor runs %s$" % instructions, version, re.MULTILINE):
            sys.exit("FAILED: --version does not say that the processor %s runs %s" % (processor, instructions))
    with tempfile.TemporaryDirectory() as folder:
        outs = {name: os.path.join(folder, name.replace(" ", "_")) for name in programs}
        losses = {name: losses_of(program, outs[name]) for name, program in programs.items()}
        expected = losses["this machine"]
        if sorted(expected) != list(range(1, STEPS + 1)):
            sys.exit("FAILED: on this machine the losses by step are %s, expected %d steps" % (expected, STEPS))
        for name in programs:
            check_close("on %s" % name, losses[name], expected)
        last = {step: expected[step] for step in range(STEPS // 2 + 1, STEPS + 1)}
        for name, other in (("this machine", "aarch64"), ("aarch64", "this machine")):
            checkpoint = os.path.join(outs[other], "step-%08d" % (STEPS // 2))
            resumed = losses_of(programs[name], os.path.join(folder, "resumed_on_" + name.replace(" ", "_")), "--resume=" + checkpoint)
            check_close("from %s on %s" % (other, name), resumed, last)


if __name__ == "__main__":
    main()
