# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Runs //benchmarks:memory on a small model, and checks its table.

    memory_test.py PROGRAM DEVICE
"""

import os
import re
import subprocess
import sys

# Peaks of one rank in MiB, after a lever's name.
COLUMNS = ("params", "gathered", "grads", "moments", "staging", "state", "formula", "off", "activ.", "scratch", "all",
           "reserved")
ROW = re.compile(r"^full_shard +2 (\w+/\w+) +plain +((?:-?[\d.]+%%? *){%d})$" % len(COLUMNS), re.MULTILINE)


def expect(condition, message):
    if not condition:
        sys.exit("FAILED: " + message)


def check_table(program, device):
    done = subprocess.run([program, "--device=" + device, "gpt2_nano", "2", "full_shard", "plain"], text=True,
                          check=False, stdout=subprocess.PIPE)
    print(done.stdout)
    expect(done.returncode == 0, "exit code %d" % done.returncode)
    rows = ROW.findall(done.stdout)
    expect([precision for precision, _ in rows] == ["fp32/fp32", "bf16/bf16"], "read %s" % rows)
    for _, numbers in rows:
        row = dict(zip(COLUMNS, (float(number.rstrip("%")) for number in numbers.split())))
        states = [row[name] for name in ("params", "gathered", "grads", "moments", "staging")]
        expect(abs(sum(states) - row["state"]) < 0.3, "%s do not add up to the state" % states)
        expect(abs(row["off"]) < 2, "off the formula: %s" % row)
        # Reserved memory is at least what is allocated between two steps: parameters and moments.
        expect(row["reserved"] >= row["params"] + row["moments"] - 0.2, "reserved of %s" % row)
        expect(row["all"] >= row["params"] + row["moments"] - 0.2, "peak of %s" % row)


def check_refusals(program):
    for arguments, word in ((["--devise=cpu"], "'devise'"), (["--device=tpu"], "tpu")):
        done = subprocess.run([program] + arguments, text=True, check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        expect(done.returncode == 1 and word in done.stderr, "%s: %s" % (arguments, done.stderr))


if __name__ == "__main__":
    check_table(os.path.abspath(sys.argv[1]), sys.argv[2])
    check_refusals(os.path.abspath(sys.argv[1]))
