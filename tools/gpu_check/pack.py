#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Builds everything that runs on a GPU, and packs it for a machine that has a GPU and cannot build.

    tools/gpu_check/pack.py OUT --cuda_archs=sm_90a --max_mib=60

BUILD files mark these targets with the tag `gpu` (bazel/cuda.bzl does so for its tests): tests, benchmarks and the
trainer. Programs are stripped and copied with their runfiles into one tree, OUT/tree, which has every file once, beside
run.py and shared libraries. The tree is then packed into archives OUT/zeroth-gpu-<n>of<m>.tar.xz, none larger than
--max_mib. Each archive can be unpacked and run alone, or together with the others in one folder.

The C library is not packed. Neither are NVIDIA's libraries, which are larger than the rest together (--with_nvidia packs
them, too). Exits with 1 if something does not fit, and says what.
"""

import argparse
import datetime
import glob
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# Scripts that are copied unchanged.
SCRIPTS = ["tools/gpu_check/" + name for name in
           ("run.py", "items.py", "machine.py", "outputs.py", "processes.py", "report.py")]
SCRIPTS.append("benchmarks/compare_with_torch.py")
# The C library must be the one that the target's kernel and loader expect.
C_LIBRARY = re.compile(r"^(ld-linux.*|linux-vdso|lib(c|m|dl|rt|pthread|resolv|util))\.so")
NVIDIA = re.compile(r"^lib(cuda|cudart|cublas|cublasLt|nccl|cudnn\w*|nvrtc\w*|nvJitLink)\.so")
MIB = 1 << 20
# Consecutive programs share most of their code; the window must hold a few of them.
XZ_WINDOW = 64 * MIB


def fail(message):
    sys.exit("pack.py: " + message)


def run(command, **options):
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, check=False, **options)
    if done.returncode != 0:
        fail("'%s' failed with exit code %d" % (" ".join(command), done.returncode))
    return done.stdout


class Bazel:
    """Bazel with the same flags in every call, so that it analyses once."""

    def __init__(self, options):
        self.startup = [options.bazel] + options.startup
        self.flags = ["--config=" + options.config, "-c", "opt"]
        if options.cuda_archs and options.config == "cuda":
            self.flags.append("--cuda_archs=" + options.cuda_archs)
        self.flags += options.flag

    def query(self, expression):
        return run(self.startup + ["query", "--noshow_progress", "--output=xml", expression])

    def build(self, labels):
        run(self.startup + ["build"] + self.flags + ["--"] + labels)

    def bin_folder(self):
        # The folder depends only on the mode, and Bazel 4 warns about other flags here.
        return run(self.startup + ["info", "-c", "opt", "bazel-bin"]).strip()


def read_targets(query_xml):
    """Returns the targets of a query's answer: label, kind, tags and environment."""
    targets = []
    # Python's parser knows only XML 1.0, which is the same for such answers.
    text = query_xml.replace('version="1.1"', 'version="1.0"', 1)
    for rule in xml.etree.ElementTree.fromstring(text).iter("rule"):
        values = {element.get("name"): element for element in rule if element.get("name")}
        strings = lambda name: [string.get("value") for string in values.get(name, ())]
        pairs = [[string.get("value") for string in pair] for pair in values.get("env", ())]
        targets.append({
            "label": rule.get("name"),
            "kind": "test" if rule.get("class").endswith("_test") else "program",
            "tags": sorted(strings("tags")),
            "env": dict(pairs),
        })
    return sorted(targets, key=lambda target: target["label"])


def runfiles(program):
    """Maps paths under the tree to files, for a program and what it reads at run time."""
    manifest = program + ".runfiles_manifest"
    if not os.path.exists(manifest):
        manifest = program + ".runfiles/MANIFEST"
    files = {}
    try:
        with open(manifest, encoding="utf-8") as lines:
            for line in lines:
                path, _, source = line.rstrip("\n").partition(" ")
                if source:
                    files[path] = source
    except OSError as error:
        fail("the build made no list of runfiles: %s" % error)
    return files


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def copy_file(source, target):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.exists(target):
        os.remove(target)
    shutil.copy(source, target)
    os.chmod(target, os.stat(target).st_mode | 0o200)


def shared_libraries(program):
    """Maps the names of a program's shared libraries to the paths that the loader finds here."""
    libraries = {}
    for line in run(["ldd", program]).splitlines():
        found = re.match(r"\s*(\S+) => (/\S+)", line)
        if found:
            libraries[found.group(1)] = found.group(2)
        elif "not found" in line:
            fail("%s needs %s, which is not on this machine" % (program, line.split()[0]))
    return libraries


class Tree:
    """The folder from which archives are made."""

    def __init__(self, folder, with_nvidia):
        self.folder = folder
        self.with_nvidia = with_nvidia
        self.libraries = {}
        self.needs = {}

    def add_script(self, path):
        copy_file(os.path.join(ROOT, path), os.path.join(self.folder, os.path.basename(path)))

    def add_target(self, target, program):
        """Copies a target's files, and stores their paths in `target`."""
        files = runfiles(program)
        own = [path for path, source in files.items()
               if os.path.realpath(source) == os.path.realpath(program)]
        if not own:
            fail("%s is not among its runfiles" % program)
        target["program"] = own[0]
        target["files"] = sorted(files)
        for path, source in files.items():
            copied = os.path.join(self.folder, "runfiles", path)
            if os.path.exists(copied):
                continue
            copy_file(source, copied)
            if is_elf(copied) and os.access(source, os.X_OK):
                run(["strip", copied])
                self.add_libraries(source)

    def add_libraries(self, program):
        for name, path in shared_libraries(program).items():
            if C_LIBRARY.match(name):
                continue
            if NVIDIA.match(name) and not self.with_nvidia:
                self.needs[name] = os.path.getsize(path)
            elif name not in self.libraries:
                copy_file(path, os.path.join(self.folder, "lib", name))
                self.libraries[name] = path

    def write_manifest(self, name, description, targets):
        path = os.path.join(self.folder, "manifests", name + ".json")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        content = dict(description, needs=sorted(self.needs), targets=targets)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
        return path

    def common_files(self):
        scripts = sorted(name for name in os.listdir(self.folder) if name.endswith(".py"))
        return scripts + sorted("lib/" + name for name in self.libraries)


class Archives:
    """Archives of a tree's targets: as few as possible below a size."""

    def __init__(self, tree, description, out, limit):
        self.tree = tree
        self.description = description
        self.out = out
        self.limit = limit
        self.too_large = []

    def write(self, targets):
        least = self._compress([])
        size = os.path.getsize(least)
        os.remove(least)
        if size > self.limit:
            fail("scripts and libraries alone make an archive of %.1f MiB, and --max_mib=%g%s" % (
                size / MIB, self.limit / MIB,
                ": NVIDIA's do not fit" if self.tree.with_nvidia else ""))
        groups = self._split(targets)
        paths = []
        for number, (path, group) in enumerate(groups, start=1):
            final = os.path.join(self.out, "zeroth-gpu-%dof%d.tar.xz" % (number, len(groups)))
            os.rename(path, final)
            paths.append((final, group))
        return paths

    def _split(self, targets):
        path = self._compress(targets)
        if os.path.getsize(path) <= self.limit:
            return [(path, targets)]
        size = os.path.getsize(path)
        os.remove(path)
        if len(targets) == 1:
            self.too_large.append((targets[0]["label"], size))
            return []
        middle = len(targets) // 2
        return self._split(targets[:middle]) + self._split(targets[middle:])

    def _compress(self, targets):
        first = targets[0]["label"] if targets else "none"
        name = re.sub(r"\W+", "-", first).strip("-") + "-%d" % len(targets)
        manifest = self.tree.write_manifest(name, self.description, targets)
        files = self.tree.common_files()
        files += sorted({"runfiles/" + file for target in targets for file in target["files"]})
        path = os.path.join(self.out, name + ".partial")
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": XZ_WINDOW}]
        with lzma.open(path, "wb", filters=filters) as stream:
            with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
                tar.add(manifest, "zeroth-gpu/manifests/%s.json" % name)
                for file in files:
                    tar.add(os.path.join(self.tree.folder, file), "zeroth-gpu/" + file)
        os.remove(manifest)
        return path


def commit():
    done = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout.strip() or "unknown"


def query_expression(patterns):
    return 'attr(tags, "[\\[ ]gpu[,\\]]", %s)' % " + ".join(patterns)


def stage(options):
    """Builds and fills OUT/tree; returns the tree, what describes the build, and the targets."""
    bazel = Bazel(options)
    targets = read_targets(bazel.query(query_expression(options.targets)))
    if not targets:
        fail("no target of %s has the tag 'gpu'" % " ".join(options.targets))
    print("building %d targets with --config=%s" % (len(targets), options.config), flush=True)
    bazel.build([target["label"] for target in targets])
    folder = os.path.join(options.out, "tree")
    shutil.rmtree(folder, ignore_errors=True)
    tree = Tree(folder, options.with_nvidia)
    for script in SCRIPTS:
        tree.add_script(script)
    bin_folder = bazel.bin_folder()
    for target in targets:
        tree.add_target(target, os.path.join(bin_folder, target["label"][2:].replace(":", "/")))
    description = {
        "format": 1,
        "config": options.config,
        "archs": options.cuda_archs or "default",
        "commit": commit(),
        "built": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }
    return tree, description, targets


def folder_bytes(folder):
    return sum(os.path.getsize(os.path.join(path, name))
               for path, _, names in os.walk(folder) for name in names)


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="folder for the tree and the archives")
    parser.add_argument("--config", default="cuda", choices=["cuda", "cuda_emulation"])
    parser.add_argument("--cuda_archs", default="", help="as in docs/build.md")
    parser.add_argument("--max_mib", type=float, default=60, help="size of an archive at most")
    parser.add_argument("--targets", nargs="+", default=["//..."], help="patterns to look for tags in")
    parser.add_argument("--no_archives", action="store_true", help="the tree alone")
    parser.add_argument("--with_nvidia", action="store_true", help="NVIDIA's libraries too")
    parser.add_argument("--bazel", default=os.path.join(ROOT, "bazelw"), help="the Bazel program")
    parser.add_argument("--startup", action="append", default=[], metavar="OPTION",
                        help="a startup option for Bazel; may be given again")
    parser.add_argument("--flag", action="append", default=[], metavar="FLAG",
                        help="a further flag for Bazel's builds; may be given again")
    options = parser.parse_args(arguments)
    options.out = os.path.abspath(options.out)
    if options.max_mib <= 0:
        parser.error("--max_mib=%g: an archive needs some room" % options.max_mib)
    return options


def main():
    options = parse(sys.argv[1:])
    tree, description, targets = stage(options)
    print("%s: %d targets, %.1f MiB" % (tree.folder, len(targets), folder_bytes(tree.folder) / MIB))
    for name, size in sorted(tree.needs.items()):
        print("not packed, looked for where it runs: %s (%.0f MiB)" % (name, size / MIB))
    if options.no_archives:
        tree.write_manifest("all", description, targets)
        return
    for old in glob.glob(os.path.join(options.out, "zeroth-gpu-*of*.tar.xz")):
        os.remove(old)
    archives = Archives(tree, description, options.out, options.max_mib * MIB)
    for path, group in archives.write(targets):
        print("%s: %.1f MiB, %d targets" % (path, os.path.getsize(path) / MIB, len(group)))
    tree.write_manifest("all", description, targets)
    for label, size in archives.too_large:
        print("DOES NOT FIT: %s alone makes an archive of %.1f MiB" % (label, size / MIB))
    sys.exit(1 if archives.too_large else 0)


if __name__ == "__main__":
    main()
