#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Follows the README to the letter on a Debian 12 on which nothing is installed: runs each command that it shows, in order,
and compares what is printed with what the README shows, numbers and hashes aside.

    tests/readme/follow_readme.py

The reader's own model and notes, which the README takes for granted, are made by a run of no steps and copied from the
LICENSE. Left out is the part about other Bazel projects: examples/import_project is that, whole.
Exits with 3 where there can be no such system (.ci/debian, which says more), with 1 where the README is wrong.
"""

import os
import shlex
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "docs"))
import commands_test  # pylint: disable=wrong-import-position

MARK = "=== command "
# The files that a reader brings, made with the program that the earlier commands have built.
BROUGHT = """mkdir -p notes path/to && cp LICENSE notes/
bazel-bin/train/train --data=LICENSE --steps=0 --out=/tmp/made >/dev/null && mv /tmp/made/final path/to/gpt2"""


def script(lines):
    """What a shell does: all commands up to the first that fails, each after a line with its number."""
    parts = ["set -e"]
    brought = False
    for number, line in enumerate(lines):
        if "path/to/gpt2" in line and not brought:
            brought = True
            parts.append(BROUGHT)
        parts += ["echo %s" % shlex.quote(MARK + str(number)), line]
    return "\n".join(parts)


def main():
    wanted = list(commands_test.commands(os.path.join(ROOT, "README.md")))
    if len(wanted) < 5 or not all(shown for _, shown in wanted[:2]):
        sys.exit("FAILED: only %d commands were found in the README, or their output was not" % len(wanted))
    printed = {}
    with subprocess.Popen([os.path.join(ROOT, ".ci/debian"), "--fresh", "bookworm", "bash", "-c",
                           script([line for line, _ in wanted])], text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as shell:
        for row in shell.stdout:
            print(row, end="", flush=True)
            if row.startswith(MARK):
                printed[int(row[len(MARK):])] = []
            elif printed:
                printed[len(printed) - 1].append(row)
    if shell.returncode == 3 and not printed:
        sys.exit(3)
    if shell.returncode != 0:
        sys.exit("FAILED with %d: %s" % (shell.returncode, wanted[max(len(printed) - 1, 0)][0]))
    for number, (line, shown) in enumerate(wanted):
        missing = commands_test.not_printed(shown, printed[number])
        if missing:
            sys.exit("FAILED: after `%s` the README shows a line that was not printed: %s" % (line, missing))
        print("as shown: %s (%d lines)" % (line, len(shown)))


if __name__ == "__main__":
    main()
