#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Installs the packages on a Debian 12 and a Debian testing on which nothing is installed, no compiler either, and follows
the README's first training run with each. Trains with the wheel also as on processors with fewer instructions, and compares
the losses. Prints a table of times and sizes, beside `pip install torch`.

    tests/packages/clean_roots.py PACKAGES [RELEASE...]

PACKAGES is the folder of //tools/package:packages, RELEASE is bookworm or testing. If the wheel for NVIDIA GPUs was copied into
the folder, both wheels are installed together, too, with 1 GB of NVIDIA's.
Exits with 3 where there can be no such system (.ci/debian, which says more), with 1 where a package does not work.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
HERE = os.path.dirname(os.path.realpath(__file__))
# The instruction set that kernels use on each of qemu's CPU models. None: the last that `--version` lists, which every
# x86-64 processor has and whose name depends on Highway's version.
EXPECTED = {"Haswell": "AVX2", "Nehalem": None}
STEPS = 3  # of install.sh
# Kernels of other instructions add in another order.
TOLERANCE = 1e-3
ROW = "| %-8s | %-19s | %8s | %9s | %9s | %9s | %6s |"


def installed(folder, release, *arguments):
    """Runs install.sh on a fresh system, and returns what it prints."""
    printed = []
    with subprocess.Popen([os.path.join(ROOT, ".ci/debian"), "--fresh", "--files=" + folder, release, "bash", "install.sh",
                           *arguments], text=True, errors="replace", stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as root:
        for line in root.stdout:
            if not re.match(r"step \d*[1-9]/500 ", line):
                print(line, end="", flush=True)
            printed.append(line)
    if root.returncode == 3 and any(line.startswith("debian: ") for line in printed):
        sys.exit(3)
    return root.returncode, "".join(printed)


def measured(printed):
    return dict(re.findall(r"(\w+)=(\S+)", re.search(r"^MEASURED .*", printed, re.MULTILINE).group()))


def check_processors(printed):
    """Compares the losses on each processor with those on this machine's."""
    losses, used = {}, {}
    for part in printed.split("PROCESSOR ")[1:]:
        name = part.split("\n", 1)[0]
        losses[name] = [float(loss) for loss in re.findall(r"^step \d+/\d+ +loss (\S+)", part, re.MULTILINE)]
        sets, used[name] = re.search(r"^instructions +(.*); this processor runs (\S+)", part, re.MULTILINE).groups()
    for name in ["native", *EXPECTED]:
        print("%-8s runs %-9s losses %s" % (name, used[name], losses[name]))
        expected = EXPECTED.get(name, used[name]) or sets.split(", ")[-1]
        if used[name] != expected:
            sys.exit("FAILED: on %s kernels of %s were expected, not of %s" % (name, expected, used[name]))
        far = [abs(one - other) for one, other in zip(losses[name], losses["native"])]
        if len(far) != STEPS or max(far) > TOLERANCE:
            sys.exit("FAILED: on %s the losses are %s, on this machine %s" % (name, losses[name], losses["native"]))


def main():
    packages, releases = os.path.abspath(sys.argv[1]), sys.argv[2:] or ["bookworm", "testing"]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        sizes = {}
        for name in os.listdir(packages):
            if name.endswith(".oci.tar"):  # //tools/package:package_test runs the image
                continue
            package = "wheels" if name.startswith("zeroth_cuda") else "wheel" if name.endswith(".whl") else "deb"
            sizes[package] = os.path.getsize(os.path.join(packages, name)) / 1e6
            shutil.copy(os.path.join(packages, name), folder)
        shutil.copy(os.path.join(ROOT, "README.md"), folder)
        shutil.copy(os.path.join(HERE, "install.sh"), folder)
        for release in releases:
            for package in ("deb", "wheel", "wheels"):
                # One system is enough for the processors, and for the wheels with NVIDIA's and torch below.
                if package == "wheels" and (package not in sizes or release != releases[0]):
                    continue
                processors = ["processors"] if package == "wheel" and release == releases[0] else []
                code, printed = installed(folder, release, package, *processors)
                if code != 0:
                    sys.exit("FAILED: the %s on a fresh Debian %s" % (package, release))
                if processors:
                    check_processors(printed)
                rows.append((release, package, "%.0f MB" % sizes[package], measured(printed)))
        code, printed = installed(folder, releases[0], "torch")
        if code == 0:
            rows.append((releases[0], "pip install torch", "", dict(measured(printed), done="")))
        else:
            print("pip cannot install torch on a fresh Debian %s; its row is left out" % releases[0])
    print(ROW % ("Debian", "package", "file", "installed", "1st step", "done", "disk"))
    print("|---" * 7 + "|")
    for release, package, size, numbers in rows:
        times = ["%s s" % numbers[key] if numbers[key] else "" for key in ("installed", "first_step", "done")]
        print(ROW % (release, package, size, *times, numbers["megabytes"] + " MB"))


if __name__ == "__main__":
    main()
