# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Runs the commands that pages show, with two steps each, and compares what the README says that they print.

    commands_test.py TRAINER CONVERT GENERATE README LICENSE PAGE...

Left out are commands of other programs, and those that need more time than a test should take.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

FENCE = re.compile(r"^```\n(.*?)^```$", re.M | re.S)
LEFT_OUT = re.compile(r"gpt2_124m|…")


def commands(page):
    """Each command line of the page's plain code blocks, and what follows a block of one command."""
    with open(page, encoding="utf-8") as file:
        blocks = FENCE.findall(file.read())
    for number, block in enumerate(blocks):
        lines = block.replace("\\\n", " ").splitlines()
        for line in lines:
            if re.match(r"\./bazelw run //(train|tools/convert|tools/generate) -- ", line) and not LEFT_OUT.search(line):
                follows = len(lines) == 1 and number + 1 < len(blocks)
                yield line, blocks[number + 1].splitlines() if follows else []


def shape(line):
    """A line without its numbers."""
    return re.sub(r"\b\d[\d.:]*(e[-+]?\d+)?k?\b", "N", line).rstrip()


class Session:
    def __init__(self, programs, folder):
        self.programs, self.folder = programs, folder

    def run(self, line):
        words = shlex.split(line)
        words = [self.programs[words[2]]] + words[4:]
        words = [re.sub(r"^--steps=[1-9]\d*", "--steps=2", word).replace("path/to/gpt2", "model") for word in words]
        if words[0] == self.programs["//train"]:
            if not any(word.startswith("--steps") for word in words):
                words.append("--steps=2")
            words.append("--sample_tokens=8")
        print("$ " + " ".join(words), flush=True)
        done = subprocess.run(words, cwd=self.folder, text=True, check=False, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(done.stdout, flush=True)
        if done.returncode != 0:
            sys.exit("FAILED with %d: %s" % (done.returncode, line))
        return done.stdout.splitlines()


def main():
    trainer, convert, generate, readme, text = (os.path.abspath(path) for path in sys.argv[1:6])
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
        session = Session({"//train": trainer, "//tools/convert": convert, "//tools/generate": generate}, folder)
        for name in ("README.md", "LICENSE", "notes/a.txt", "books/a.txt", "books/b.txt"):
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            shutil.copy(readme if name == "README.md" else text, os.path.join(folder, name))
        session.run("./bazelw run //train -- --data=LICENSE --steps=0 --out=made")
        shutil.move(os.path.join(folder, "made/final"), os.path.join(folder, "model"))
        count = 0
        for page in sys.argv[4:5] + sys.argv[6:]:
            for line, shown in commands(page):
                printed = session.run(line)
                count += 1
                shapes = {shape(row) for row in printed}
                for row in shown if page.endswith("README.md") else []:
                    if row != "…" and shape(row) not in shapes:
                        sys.exit("FAILED: %s shows a line that is not printed: %s\nprinted:\n%s" % (
                            page, shape(row), "\n".join(sorted(shapes))))
        if count < 8:
            sys.exit("FAILED: only %d commands were found" % count)


if __name__ == "__main__":
    main()
