#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Builds everything that runs on a GPU, and copies it into a folder for a machine that has a GPU.

    tools/gpu_check/pack.py /tmp/zeroth-gpu --cuda_archs=sm_90a

BUILD files mark these targets with the tag `gpu` (bazel/cuda.bzl does so for its tests): tests, benchmarks and the
trainer. Programs are stripped and copied with their runfiles, beside run.py, which runs them, and their shared
libraries, but for the C library and NVIDIA's, which are larger than the rest together (--with_nvidia copies them, too).
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SCRIPTS = (os.path.join(HERE, "run.py"), os.path.join(ROOT, "benchmarks/compare_with_torch.py"))
# The C library must be the one that the target's kernel and loader expect.
C_LIBRARY = re.compile(r"^(ld-linux.*|linux-vdso|lib(c|m|dl|rt|pthread|resolv|util))\.so")
NVIDIA = re.compile(r"^lib(cuda|cudart|cublas|cublasLt|nccl|cudnn\w*|nvrtc\w*|nvJitLink)\.so")


def fail(message):
    sys.exit("pack.py: " + message)


def run(command):
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        fail("'%s' failed with exit code %d" % (" ".join(command), done.returncode))
    return done.stdout


def read_targets(query_xml):
    """Returns the targets of a query's answer: label, kind, tags and environment."""
    targets = []
    # Python's parser knows only XML 1.0, which is the same for such answers.
    text = query_xml.replace('version="1.1"', 'version="1.0"', 1)
    for rule in xml.etree.ElementTree.fromstring(text).iter("rule"):
        values = {element.get("name"): element for element in rule if element.get("name")}
        targets.append({
            "label": rule.get("name"),
            "kind": "test" if rule.get("class").endswith("_test") else "program",
            "tags": sorted(tag.get("value") for tag in values.get("tags", ())),
            "env": dict([text.get("value") for text in pair] for pair in values.get("env", ())),
        })
    return sorted(targets, key=lambda target: target["label"])


def runfiles(program):
    """Maps paths under the folder of runfiles to files, for a program and what it reads at run time."""
    manifest = program + ".runfiles_manifest"
    if not os.path.exists(manifest):
        manifest = program + ".runfiles/MANIFEST"
    with open(manifest, encoding="utf-8") as lines:
        pairs = [line.rstrip("\n").partition(" ") for line in lines]
    return {path: source for path, _, source in pairs if source}


def is_program(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF" and os.access(path, os.X_OK)


def copy_file(source, target):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy(source, target)
    os.chmod(target, os.stat(target).st_mode | 0o200)


def copy_libraries(program, folder, with_nvidia, left_out):
    """Copies a program's shared libraries, and adds the names of others to `left_out`."""
    for line in run(["ldd", program]).splitlines():
        found = re.match(r"\s*(\S+) => (/\S+)", line)
        if "not found" in line:
            fail("%s needs %s, which is not on this machine" % (program, line.split()[0]))
        if not found or C_LIBRARY.match(found.group(1)):
            continue
        if NVIDIA.match(found.group(1)) and not with_nvidia:
            left_out.add(found.group(1))
        elif not os.path.exists(os.path.join(folder, "lib", found.group(1))):
            copy_file(found.group(2), os.path.join(folder, "lib", found.group(1)))


def copy_target(target, program, folder, with_nvidia, left_out, programs):
    """Copies a target's files, and stores its program's path. `programs` maps binaries to such paths."""
    binary = os.path.realpath(program)
    for path, source in runfiles(program).items():
        if os.path.realpath(source) == binary:
            # Tests that share a binary are links to it: one copy serves all.
            path = target["program"] = programs.setdefault(binary, path)
        copied = os.path.join(folder, "runfiles", path)
        if os.path.exists(copied):
            continue
        copy_file(source, copied)
        if is_program(copied):
            run(["strip", copied])
            copy_libraries(source, folder, with_nvidia, left_out)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=os.path.abspath, help="the folder, which is made anew")
    parser.add_argument("--cuda_archs", default="", help="as in docs/build.md")
    parser.add_argument("--targets", nargs="+", default=["//..."], help="patterns to look for tags in")
    parser.add_argument("--with_nvidia", action="store_true", help="NVIDIA's libraries, too")
    options = parser.parse_args(arguments)
    if os.path.exists(options.out) and not os.path.exists(os.path.join(options.out, "manifest.json")):
        parser.error("%s exists and was not made by pack.py: name another folder" % options.out)
    return options


def main():
    options = parse(sys.argv[1:])
    bazel = os.path.join(ROOT, "bazelw")
    flags = ["--config=cuda"] + (["--cuda_archs=" + options.cuda_archs] if options.cuda_archs else [])
    targets = read_targets(run([
        bazel, "query", "--noshow_progress", "--output=xml",
        'attr(tags, "[\\[ ]gpu[,\\]]", %s)' % " + ".join(options.targets)]))
    if not targets:
        fail("no target of %s has the tag 'gpu'" % " ".join(options.targets))
    run([bazel, "build"] + flags + ["--"] + [target["label"] for target in targets])
    binaries = run([bazel, "info", "-c", "opt", "bazel-bin"]).strip()
    shutil.rmtree(options.out, ignore_errors=True)
    for script in SCRIPTS:
        copy_file(script, os.path.join(options.out, os.path.basename(script)))
    left_out = set()
    programs = {}
    for target in targets:
        program = os.path.join(binaries, target["label"][2:].replace(":", "/"))
        copy_target(target, program, options.out, options.with_nvidia, left_out, programs)
    manifest = {"build": " ".join(flags), "targets": targets,
                "commit": run(["git", "describe", "--always", "--dirty", "--abbrev=12"]).strip()}
    with open(os.path.join(options.out, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
    print("%s: %d targets; needs %s where it runs" % (
        options.out, len(targets), ", ".join(sorted(left_out)) or "nothing else"))


if __name__ == "__main__":
    main()
