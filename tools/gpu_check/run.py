#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Runs everything of Zeroth that is for a GPU, and sums up the results.

    tools/gpu_check/run.py --out DIR                    # in a checkout, on a machine that can build
    zeroth-gpu/run.py --packed zeroth-gpu --out DIR     # with the output of pack.py, on a machine with a driver

The parts are the shared suites (suites), the kernels under compute-sanitizer (sanitizer), benchmarks
against their floors and the trainer over NCCL (speed), memory against the formula (memory), training
against references (parity), and PyTorch on the same GPU (torch). Each part consists of items. If an item fails, crashes
or hangs, this is recorded and the next item runs. --jobs=8 runs eight items at a time of parts that measure nothing.

DIR gets results.json, gpu_results.md (a section for docs/gpu_results.md), and the output of each item, in logs. Another
call with the same DIR continues with the remaining items: --time_limit=540 ends a call within a lease of ten minutes.
results.json alone is enough to continue from.

Exits with 3 if items are left, 2 without a GPU or for wrong arguments, 1 if something failed, and 0 if all is
well.
"""

import argparse
import datetime
import glob
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time

import items
import machine
import report

HERE = os.path.dirname(os.path.abspath(__file__))
EXIT_FAILED, EXIT_UNUSABLE, EXIT_UNFINISHED = 1, 2, 3
# Time that must be left to start an item, and time that is reserved for writing results.
LEAST_SECONDS = 10
MARGIN_SECONDS = 5
# An item is started again once after a call was killed, or crashed the machine, during it.
STARTS = 2
BAD = ("failed", "crashed", "timed_out")


class Unusable(Exception):
    """An error that the caller can fix."""


def write_file(path, text):
    """Writes a file completely or not at all, since this program may be killed at any time."""
    partial = path + ".partial"
    with open(partial, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


class Results:
    """The results of items by id, kept in a file for each item and in one file for all."""

    def __init__(self, out, environment):
        self.out = out
        self.environment = environment
        self.by_id = {}
        self.starts = {}
        self.planned = []
        os.makedirs(os.path.join(out, "items"), exist_ok=True)
        self._load()

    def _load(self):
        whole = os.path.join(self.out, "results.json")
        if os.path.exists(whole):
            self._take(whole, lambda content: content["items"])
            with open(whole, encoding="utf-8") as file:
                self.planned = json.load(file).get("planned", [])
        for path in sorted(glob.glob(os.path.join(self.out, "items", "*.json"))):
            self._take(path, lambda content: {content["id"]: content["result"]})

    def _take(self, path, read):
        try:
            with open(path, encoding="utf-8") as file:
                content = json.load(file)
            found = read(content)
            environment = content["environment"]
        except (ValueError, KeyError, TypeError) as error:
            raise Unusable("%s is not a file of results (%s: %s); remove it, or use another --out" % (
                path, type(error).__name__, error)) from error
        for key in ("commit", "build", "gpu", "driver", "emulated"):
            if environment.get(key) != self.environment[key]:
                raise Unusable("%s has results of %s '%s', and this is '%s': use another --out" % (
                    path, key, environment.get(key), self.environment[key]))
        # The date of a report is that of its first item.
        self.environment["date"] = min(self.environment["date"], environment["date"])
        for name, result in found.items():
            if "status" in result:
                self.by_id[name] = result
            else:
                self.starts[name] = result["starts"]

    def _path(self, name):
        return os.path.join(self.out, "items", items.file_name(name) + ".json")

    def _write(self, item, result):
        write_file(self._path(item.id), json.dumps(
            {"id": item.id, "environment": self.environment, "result": result}, indent=1) + "\n")

    def started(self, item):
        self.starts[item.id] = self.starts.get(item.id, 0) + 1
        self._write(item, {"starts": self.starts[item.id]})

    def finished(self, item, result):
        self.by_id[item.id] = result
        self._write(item, result)

    def forget(self, is_stale):
        """Drops results that are to be made again."""
        for name in [name for name, result in self.by_id.items() if is_stale(name, result)]:
            del self.by_id[name]
            path = self._path(name)
            if os.path.exists(path):
                os.remove(path)

    def plan(self, parts, names):
        """Sets the items of these parts. The items of other parts stay as earlier calls have set them."""
        others = [name for name in self.planned if name.split()[0] not in parts]
        self.planned = sorted(others + names, key=lambda name: items.PARTS.index(name.split()[0]))

    def left(self):
        return [name for name in self.planned if name not in self.by_id]

    def sum_up(self):
        """Writes the report of the results so far."""
        order = {name: i for i, name in enumerate(self.planned)}
        names = sorted(self.by_id, key=lambda name: order.get(name, len(order)))
        results = {name: self.by_id[name] for name in names}
        write_file(os.path.join(self.out, "gpu_results.md"),
                   report.markdown(self.environment, results, self.left()))
        write_file(os.path.join(self.out, "results.json"), json.dumps(
            {"environment": self.environment, "planned": self.planned, "left": self.left(),
             "items": results}, indent=1) + "\n")


class Clock:
    """The time limit of a call."""

    def __init__(self, limit):
        self.deadline = time.monotonic() + limit - MARGIN_SECONDS if limit else None

    def left(self):
        return float("inf") if self.deadline is None else self.deadline - time.monotonic()


def run_item(item, out, seconds):
    scratch = os.path.join(out, "scratch", items.file_name(item.id))
    shutil.rmtree(scratch, ignore_errors=True)
    os.makedirs(scratch)
    log = os.path.join(out, "logs", items.file_name(item.id) + ".log")
    try:
        return item.work(scratch, log, min(item.limit, seconds))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def describe(result):
    counts = ["%d %s" % (result[key], key) for key in ("passed", "failed", "skipped") if key in result]
    text = "%-9s %6.1f s  %s" % (result["status"], result["seconds"], ", ".join(counts))
    return text.rstrip() + ("  %s" % result["failure"] if result["failure"] else "")


class Queue:
    """Runs items until time is up, several at a time if they share the GPU."""

    def __init__(self, todo, results, clock, has_whole_call):
        self.todo = list(todo)
        self.results = results
        self.clock = clock
        self.lock = threading.Lock()
        # True if no item has run in this call yet.
        self.has_whole_call = has_whole_call

    def work(self):
        while True:
            with self.lock:
                if not self.todo or self.clock.left() < LEAST_SECONDS:
                    return
                item = self.todo.pop(0)
                starts = self.results.starts.get(item.id, 0)
                if starts < STARTS:
                    self.results.started(item)
                has_whole_call, self.has_whole_call = self.has_whole_call, False
            if starts >= STARTS:
                result = {"status": "crashed", "seconds": 0,
                          "failure": "%d calls ended during it without a result" % starts}
            else:
                left = self.clock.left()
                result = run_item(item, self.results.out, left)
                if result["status"] == "timed_out" and left < item.limit and not has_whole_call:
                    print("%-70s left for the next call" % item.id, flush=True)
                    return
            with self.lock:
                self.results.finished(item, result)
                self.results.sum_up()
                print("%-70s %s" % (item.id, describe(result)), flush=True)

    def run(self, jobs):
        # Daemon threads: a signal ends this program, its threads, and the programs that they run.
        threads = [threading.Thread(target=self.work, daemon=True) for _ in range(jobs - 1)]
        for thread in threads:
            thread.start()
        self.work()
        for thread in threads:
            thread.join()


def run_items(planned, results, clock, jobs=1):
    """Runs the items that have no result yet, until time is up."""
    todo = [item for item in planned if item.id not in results.by_id]
    # An item that the end of an earlier call has stopped comes first and gets the whole time of this call.
    todo.sort(key=lambda item: item.id not in results.starts)
    results.sum_up()
    is_first = True
    for shares, group in itertools.groupby(todo, lambda item: item.part in items.SHARE_THE_GPU):
        Queue(group, results, clock, is_first).run(jobs if shares else 1)
        is_first = False


def unpack(packed, out):
    """Returns the tree in a folder, which is a tree or has archives of pack.py."""
    if not os.path.isdir(packed):
        raise Unusable("--packed=%s is not a folder" % packed)
    for tree in (packed, os.path.join(packed, "zeroth-gpu"), os.path.join(packed, "tree")):
        if os.path.isdir(os.path.join(tree, "manifests")):
            return os.path.abspath(tree)
    archives = sorted(glob.glob(os.path.join(packed, "zeroth-gpu-*of*.tar.xz")))
    if not archives:
        raise Unusable("--packed=%s holds neither the folder manifests nor zeroth-gpu-*.tar.xz: "
                       "name what pack.py wrote" % packed)
    target = os.path.join(out, "unpacked")
    shutil.rmtree(target, ignore_errors=True)
    safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    for archive in archives:
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(target, **safe)
        except (tarfile.TarError, EOFError, OSError) as error:
            raise Unusable("%s: %s" % (archive, error)) from error
    return os.path.join(target, "zeroth-gpu")


def build(options):
    """Builds this checkout and returns the tree."""
    pack = os.path.join(HERE, "pack.py")
    if not os.path.exists(pack):
        raise Unusable("this folder is not a checkout that can be built: name the output of pack.py by "
                       "--packed=DIR")
    folder = os.path.join(options.out, "packed")
    command = [sys.executable, pack, folder, "--no_archives"]
    if options.allow_emulation:
        command.append("--config=cuda_emulation")
    if options.cuda_archs:
        command.append("--cuda_archs=" + options.cuda_archs)
    if subprocess.run(command, check=False).returncode != 0:
        raise Unusable("the build failed")
    return os.path.join(folder, "tree")


def check_loading(tree, targets, environment):
    """Reports errors of the loader once, which would otherwise appear in every item."""
    program = os.path.join(tree, "runfiles", targets[0]["program"])
    done = subprocess.run([program], env={**environment, "LD_TRACE_LOADED_OBJECTS": "1"}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    problems = [line.strip() for line in done.stdout.splitlines() if "not found" in line]
    if problems:
        raise Unusable("the loader cannot start %s: %s" % (targets[0]["label"], "; ".join(problems)))


def program_environment(tree, needs, options, emulated):
    folders, missing = machine.library_folders(needs, options.library_path)
    if missing:
        raise Unusable("no %s on this machine: say where, --library_path=DIR, or pack with "
                       "--with_nvidia" % ", ".join(missing))
    folders += machine.library_folders(machine.OPTIONAL_LIBRARIES, options.library_path)[0]
    environment = dict(os.environ)
    environment["LD_LIBRARY_PATH"] = os.pathsep.join([os.path.join(tree, "lib")] + folders)
    environment["TEST_SRCDIR"] = environment["RUNFILES_DIR"] = os.path.join(tree, "runfiles")
    if emulated:
        environment["ZEROTH_CUDA_EMULATION"] = "1"
    return environment


def describe_environment(gpus, emulated, build_description, environment):
    names = [gpu["name"] for gpu in gpus]
    described = {
        "emulated": emulated,
        "gpu": "none: CUDA emulation" if emulated else "%s%s, %s MiB" % (
            "%d x " % len(names) if len(names) > 1 else "", names[0], gpus[0]["memory.total"]),
        "driver": "" if emulated else gpus[0]["driver_version"],
        "commit": build_description["commit"],
        "build": "--config=%s --cuda_archs=%s" % (
            build_description["config"], build_description["archs"]),
        "processor": machine.processor(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
    }
    if not emulated:
        described.update(machine.versions(environment))
    return described


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder for results; the same one to go on")
    parser.add_argument("--packed", help="what pack.py wrote; built here if not given")
    parser.add_argument("--parts", default=",".join(items.PARTS),
                        help="some of %s, in this order; all if not given" % ",".join(items.PARTS))
    parser.add_argument("--only", default="", metavar="REGEX", help="items with such an id alone")
    parser.add_argument("--time_limit", type=float, default=0, metavar="SECONDS",
                        help="for this call; none if not given")
    parser.add_argument("--limit", type=float, default=600, metavar="SECONDS", help="for an item")
    parser.add_argument("--jobs", type=int, default=1, metavar="N",
                        help="items at a time, of those that measure nothing (%s)" %
                        ", ".join(items.SHARE_THE_GPU))
    parser.add_argument("--sanitizer_limit", type=float, default=500, metavar="SECONDS",
                        help="for an item under compute-sanitizer")
    parser.add_argument("--library_path", action="append", default=[], metavar="DIR",
                        help="where NVIDIA's libraries lie; may be given again")
    parser.add_argument("--cuda_archs", default="", help="to build for, without --packed")
    parser.add_argument("--retry", action="store_true", help="run again what did not pass")
    parser.add_argument("--list", action="store_true", help="print the items, and run none")
    parser.add_argument("--allow_emulation", action="store_true",
                        help="take programs built with --config=cuda_emulation; the report says so")
    options = parser.parse_args(arguments)
    options.parts = options.parts.split(",")
    for part in options.parts:
        if part not in items.PARTS:
            parser.error("--parts: '%s' is none of %s" % (part, ", ".join(items.PARTS)))
    if options.jobs < 1:
        parser.error("--jobs=%d: expected at least 1" % options.jobs)
    for name in ("limit", "sanitizer_limit"):
        if getattr(options, name) <= 0:
            parser.error("--%s=%g: expected seconds" % (name, getattr(options, name)))
    if options.time_limit and options.time_limit < LEAST_SECONDS + MARGIN_SECONDS:
        parser.error("--time_limit=%g: expected at least %d" % (
            options.time_limit, LEAST_SECONDS + MARGIN_SECONDS))
    try:
        re.compile(options.only)
    except re.error as error:
        parser.error("--only=%s: %s" % (options.only, error))
    for folder in options.library_path:
        if not os.path.isdir(folder):
            parser.error("--library_path=%s is no folder" % folder)
    return options


def prepare(options):
    """Returns the planned items and the existing results."""
    gpus, why_none = machine.gpus()
    if not gpus and not options.allow_emulation:
        raise Unusable("no GPU: " + why_none)
    options.out = os.path.abspath(options.out)
    try:
        os.makedirs(options.out, exist_ok=True)
    except OSError as error:
        raise Unusable("--out=%s: %s" % (options.out, error.strerror)) from error
    tree = unpack(options.packed, options.out) if options.packed else build(options)
    try:
        description, targets, needs = items.load_targets(tree)
    except (ValueError, KeyError) as error:
        raise Unusable(str(error)) from error
    emulated = description["config"] == "cuda_emulation"
    if emulated and not options.allow_emulation:
        raise Unusable("%s was built with --config=cuda_emulation, which shows nothing about a GPU; "
                       "pack with --config=cuda, or say --allow_emulation" % tree)
    if not emulated:
        if not gpus:
            raise Unusable("no GPU: " + why_none)
        problem = machine.architecture_problem(gpus[0], description["archs"])
        if problem:
            raise Unusable(problem)
    environment = program_environment(tree, needs, options, emulated)
    check_loading(tree, targets, environment)
    described = describe_environment(gpus, emulated, description, environment)
    results = Results(options.out, described)
    planner = items.Planner(tree, targets, environment, options, gpus, emulated)
    planned = planner.items(options.parts)
    results.plan(options.parts, [item.id for item in planned])
    planned = [item for item in planned if re.search(options.only, item.id)]
    if not planned:
        raise Unusable("--parts=%s --only='%s' leave nothing of what %s holds" % (
            ",".join(options.parts), options.only, tree))
    return planned, results


def main():
    # The end of a lease comes as a signal, and running programs must end with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_UNFINISHED))
    options = parse(sys.argv[1:])
    clock = Clock(options.time_limit)
    try:
        planned, results = prepare(options)
    except Unusable as error:
        print("run.py: %s" % error, file=sys.stderr)
        return EXIT_UNUSABLE
    # A tool that was missing may be installed now.
    results.forget(lambda name, result: result.get("missing") and name.split()[0] in options.parts)
    if options.retry:
        results.forget(lambda name, result: result["status"] in BAD)
        results.starts.clear()
    if options.list:
        for item in planned:
            known = results.by_id.get(item.id)
            print("%-9s %s" % (known["status"] if known else "-", item.id))
        return 0
    run_items(planned, results, clock, options.jobs)
    results.sum_up()
    print("%s: %s" % (os.path.join(results.out, "gpu_results.md"),
                      report.summary(results.by_id, results.left())))
    if any(item.id not in results.by_id for item in planned):
        return EXIT_UNFINISHED
    return EXIT_FAILED if any(result["status"] in BAD for result in results.by_id.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
