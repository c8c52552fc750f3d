# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Runs the commands that pages show, with two steps each, and compares what the README says that they print.

    commands_test.py TRAINER CONVERT GENERATE README LICENSE PAGE...

Left out are commands of other programs, and those that need more time than a test should take.
"""

import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

FENCE = re.compile(r"^```\n(.*?)^```$", re.M | re.S)
RUN = re.compile(r"\./bazelw run //(train|tools/convert|tools/generate) -- ")
LEFT_OUT = re.compile(r"gpt2_124m|…")


def commands(page):
    """Each command line of the page's plain code blocks, with what the page shows that it prints: the rest of the block
    after "$ ", or the block that follows one of a single command."""
    with open(page, encoding="utf-8") as file:
        blocks = [block.replace("\\\n", " ").splitlines() for block in FENCE.findall(file.read())]
    for lines, following in zip(blocks, blocks[1:] + [[]]):
        if lines[0].startswith("$ "):
            yield lines[0][2:], lines[1:]
            continue
        alone = len(lines) == 1 and following and not following[0].startswith(("./", "$ "))
        for line in lines:
            if line.startswith("./"):
                yield line, following if alone else []


def shape(line):
    """A line without its numbers, its hashes and the widths of its columns."""
    line = re.sub(r"\b[0-9a-f]{16}\b", "HASH", line)
    return " ".join(re.sub(r"\b\d[\d.:]*(e[-+]?\d+)?[kM]?\b", "N", line).split())


def not_printed(shown, printed):
    """The first of the lines which a page shows that was not printed, or not after those before it; None if all were."""
    rest = iter([shape(row) for row in printed])
    for row in shown:
        if row != "…" and shape(row) not in rest:
            return row
    return None


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
            # Each page begins without the GGUF files that another page's commands wrote.
            for made in glob.glob(os.path.join(folder, "*.gguf")):
                os.remove(made)
            for line, shown in commands(page):
                if not RUN.match(line) or LEFT_OUT.search(line):
                    continue
                printed = session.run(line)
                count += 1
                missing = not_printed(shown, printed) if page.endswith("README.md") else None
                if missing:
                    sys.exit("FAILED: %s shows a line that is not printed: %s" % (page, missing))
        if count < 8:
            sys.exit("FAILED: only %d commands were found" % count)


if __name__ == "__main__":
    main()
