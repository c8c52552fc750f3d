# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Runs //benchmarks:memory on a small model, and reads its table as the GPU check does.

    memory_table_test.py PROGRAM DEVICE
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import outputs  # noqa: E402  the folder has to be known first
import processes  # noqa: E402


def expect(condition, message):
    if not condition:
        sys.exit("FAILED: " + message)


def check_table(program, device):
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
        command = [program, "--device=" + device, "gpt2_nano", "2", "full_shard", "plain"]
        outcome = processes.run([command], [dict(os.environ)], folder,
                                os.path.join(folder, "log"), limit=float("inf"))
    print(outcome.output)
    result = outputs.memory(outcome)
    expect(result["status"] == "passed", result["failure"])
    expect([row["precision"] for row in result["memory"]] == ["fp32/fp32", "bf16/bf16"],
           "read %s" % result["memory"])
    for row in result["memory"]:
        expect(row["strategy"] == "full_shard" and row["ranks"] == 2 and row["lever"] == "plain",
               "read %s" % row)
        states = [row[name] for name in ("params", "gathered", "grads", "moments", "staging")]
        expect(abs(sum(states) - row["state"]) < 0.3, "%s do not add up to the state" % states)
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
