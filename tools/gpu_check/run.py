#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Runs what pack.py has packed, on a machine with a GPU, and writes a section for docs/gpu_results.md.

    zeroth-gpu/run.py --out DIR

Each part consists of items. If one fails, crashes or hangs, this is recorded and the next one runs. DIR gets
gpu_results.md, results.json and logs. Another call with the same DIR runs the items that have no result yet. Exits
with 3 if items are left, 2 without a GPU or for wrong arguments, 1 if something failed, and 0 if all is well.
"""

import argparse
import ctypes
import datetime
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RUNFILES = os.path.join(HERE, "runfiles")
EXIT_FAILED, EXIT_UNUSABLE, EXIT_UNFINISHED = 1, 2, 3
LEAST_SECONDS = 10  # to begin an item with
PARTS = ("tests", "sanitizer", "speed", "memory", "torch")
SANITIZER_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
OWN_KERNELS = ("//kernels", "//core/comm/local")
STRATEGIES = ("no_shard", "shard_optimizer", "shard_grad_op", "full_shard", "hybrid_shard")
TRAINER, MEMORY = "//train:train", "//benchmarks:memory"
TRAIN_STEP, KERNELS = "//benchmarks:train_step_cuda", "//benchmarks:cuda_kernels"
TRAINING = ["--device=cuda", "--comm=nccl", "--model=gpt2_124m", "--seq_len=1024", "--batch_size=16", "--steps=30",
            "--param_dtype=bf16", "--tokenizer=byte", "--sample_tokens=0", "--log_every=1", "--comm_timeout=60s"]
TRAINER_VARIANTS = ["--nccl_copy_engine=" + flags for flags in (
    "off", "off --cuda_graphs", "on", "on --cuda_graphs", "off --attention_backend=flash",
    "off --attention_backend=cudnn")]
# The same as .bazelrc sets for `bazel test`.
GTEST = ["--gtest_color=no", "--gtest_filter=-Nightly*:*.Nightly*"]
GTEST_CASE = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] .*\(\d+ ms\)$", re.MULTILINE)
GTEST_FAILURE = re.compile(r"^\S+:\d+: (?:Failure|Skipped)\n.*", re.MULTILINE)
# If nvidia-smi lists a GPU, no test may be skipped because it sees none.
BLIND = re.compile(r"^.*(?:cudaGetDeviceCount failed|of which there are 0|there is no device of type cuda).*$",
                   re.MULTILINE)
NO_CUDNN = re.compile(r"cuDNN: (not found|this program was built without it)")
SANITIZER_SUMMARY = re.compile(r"^========= (?:ERROR|RACECHECK) SUMMARY: (\d+)", re.MULTILINE)
# Tests of plans and shapes make no call of CUDA.
NO_CUDA_CALL = "Target application terminated before first instrumented API call"
LIBC = ctypes.CDLL(None)


def refuse(message):
    print("run.py: " + message, file=sys.stderr)
    sys.exit(EXIT_UNUSABLE)


def run(commands, environments, folder, log, limit):
    """Runs commands side by side; returns the first failing exit code, None after `limit` seconds, and the output."""
    deadline = time.monotonic() + limit
    processes = []
    with open(log, "wb") as file:
        try:
            for command, environment in zip(commands, environments):
                processes.append(subprocess.Popen(
                    command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=file,
                    stderr=subprocess.STDOUT, start_new_session=True,
                    # PR_SET_PDEATHSIG: a program must not hold the GPU after this script was killed.
                    preexec_fn=lambda: LIBC.prctl(1, signal.SIGKILL)))
            codes = [process.wait(max(0, deadline - time.monotonic())) for process in processes]
            code = next((code for code in codes if code), 0)
        except subprocess.TimeoutExpired:
            code = None
        except OSError as error:
            file.write(("cannot start: %s\n" % error).encode())
            code = 127
        finally:
            for process in processes:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait(LEAST_SECONDS)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    pass
    with open(log, encoding="utf-8", errors="replace") as file:
        return code, file.read()


def one_line(text):
    return " ".join(text.split())[:300]


def conclude(code, output):
    """Returns a result from an exit code; the caller adds what it measured."""
    lines = output.strip().splitlines() or ["it printed nothing"]
    if code == 0:
        return {"status": "passed", "failure": ""}
    how = "stopped at its limit" if code is None else "exit code %d" % code
    return {"status": "failed", "failure": one_line("%s: %s" % (how, lines[-1]))}


def read_test(code, output, _):
    found = conclude(code, output)
    cases = GTEST_CASE.findall(output)
    for word, key in (("OK", "passed"), ("FAILED", "failed"), ("SKIPPED", "skipped")):
        found[key] = cases.count(word)
    said = GTEST_FAILURE.search(output)
    if found["status"] == "failed" and said:
        found["failure"] = one_line("%s; %s" % (said.group(), found["failure"]))
    elif code == 0 and BLIND.search(output):
        found.update(status="failed", failure=one_line("the test sees no GPU: " + BLIND.search(output).group()))
    elif code == 0 and not found["passed"]:
        found.update(status="skipped" if found["skipped"] else "failed",
                     failure=one_line(said.group()) if said else "no test case ran")
    return found


def read_sanitizer(code, output, _):
    """A report is a failure even if the test itself passes, and so is the lack of a summary."""
    found = read_test(code, output, _)
    summary = SANITIZER_SUMMARY.findall(output)
    if found["status"] == "passed" and not summary and NO_CUDA_CALL in output:
        found.update(status="skipped", failure="it makes no call of CUDA")
    elif found["status"] == "passed" and (not summary or any(int(count) for count in summary)):
        reports = re.findall(r"^========= (?!COMPUTE-SANITIZER|.*SUMMARY).*\S", output, re.MULTILINE)
        found.update(status="failed", failure=one_line(reports[0]) if reports else "no summary of the tool")
    return found


def read_benchmark(code, output, scratch):
    """Reads a report of Google Benchmark. Cases that lack cuDNN, which is optional, are left out."""
    found = dict(conclude(code, output), rows=[])
    try:
        with open(scratch + "/report", encoding="utf-8") as file:
            cases = json.load(file)["benchmarks"]
    except (OSError, ValueError, KeyError):
        cases = []
    if code == 0 and not cases:
        found.update(status="failed", failure="it measured nothing")
    errors = ["%s: %s" % (case["name"], case["error_message"]) for case in cases if case.get("error_occurred")]
    if errors:
        failures = [error for error in errors if not NO_CUDNN.search(error)] + [found["failure"]] * (code not in (0, 1))
        found.update(status="failed" if failures else "skipped", failure=one_line((failures or errors)[0]))
    for case in cases:
        if not case.get("error_occurred"):
            scale = {"ns": 1e-6, "us": 1e-3, "ms": 1, "s": 1e3}[case["time_unit"]]
            rates = ["%.4g %s" % (value, key) for key, value in case.items() if "/s" in key or key == "peak_GiB"]
            found["rows"].append([case["name"], "%.4g" % (case["real_time"] * scale),
                                  "%.2f" % case["ratio_to_floor"] if "ratio_to_floor" in case else "-",
                                  ", ".join(rates)])
    return found


def read_table(code, output, _):
    return dict(conclude(code, output), text=output)  # which has a table of its own


def read_trainer(code, output, scratch, name):
    """Returns the median rate of the second half of a run's steps."""
    found = conclude(code, output)
    if code == 0:
        with open(scratch + "/out/metrics.jsonl", encoding="utf-8") as lines:
            rates = [step["tokens_per_second"] for step in map(json.loads, lines) if "tokens_per_second" in step]
        later = sorted(rates[len(rates) // 2:])
        shares = re.findall(r"GEMM util (\d+)%", output)
        notes = re.findall(r"^(?:gathers|attention) +.*", output, re.MULTILINE)
        found["rows"] = [[name, "-", "%.2f" % (int(shares[-1]) / 100) if shares else "-",
                          ", ".join(["%.0f tokens/s" % later[len(later) // 2]] + [one_line(note) for note in notes])]]
    elif name.endswith("=cudnn") and NO_CUDNN.search(found["failure"]):
        found["status"] = "skipped"
    return found


class Check:
    """The items: a method for each part makes pairs of a name and a function that returns a result."""

    def __init__(self, targets, environment, gpus):
        self.targets = targets
        self.environment = environment
        self.gpus = gpus

    def _item(self, target, arguments, read, before=(), more=None):
        """Runs a target's program with arguments, in which {scratch} is a folder, and reads what it prints."""
        def work(scratch, log, limit):
            command = list(before) + [target["path"]] + [word.format(scratch=scratch) for word in arguments]
            environment = {**self.environment, **target["env"], "TEST_TMPDIR": scratch, **(more or {})}
            return read(*run([command], [environment], target["folder"], log, limit), scratch)
        return work

    def tests(self):
        return [(target["label"], self._item(target, GTEST, read_test))
                for target in self.targets if target["kind"] == "test"]

    def sanitizer(self):
        tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
        if tool is None:
            return [("on all tests", lambda *_: {"status": "skipped", "failure": "compute-sanitizer is not installed"})]
        # Blocks inside larger allocations would hide accesses beyond their ends.
        return [("%s %s" % (check, target["label"]),
                 self._item(target, GTEST, read_sanitizer, [tool, "--tool=" + check, "--print-limit=20"],
                            {"ZEROTH_CUDA_EXACT_BLOCKS": "1"}))
                for check in SANITIZER_TOOLS for target in self.targets
                if target["kind"] == "test" and target["label"].startswith(OWN_KERNELS)]

    def speed(self):
        for target in self.targets:
            if target["label"] == TRAINER:
                for size in sorted({1, len(self.gpus)}):
                    for flags in TRAINER_VARIANTS:
                        name = "gpt2_124m on %d: %s" % (size, flags)
                        yield "%s %s" % (TRAINER, name), self._training(target, size, flags.split(), name)
            elif target["kind"] == "program" and target["label"] != MEMORY:
                for group in self._groups(target):
                    yield "%s %s" % (target["label"], group), self._item(
                        target, ["--benchmark_filter=^%s(/|$)" % group, "--benchmark_out={scratch}/report"],
                        read_benchmark)

    def _groups(self, target):
        """Families of cases, or cases where each keeps most of the GPU's memory until its program ends."""
        try:
            listed = subprocess.run([target["path"], "--benchmark_list_tests=true"], text=True, check=False, timeout=600,
                                    env={**self.environment, **target["env"]}, stdout=subprocess.PIPE).stdout
        except subprocess.TimeoutExpired:
            listed = ""
        names = [re.sub(r"/(iterations:\d+|manual_time|real_time)", "", name)
                 for name in re.findall(r"^\w[\w/:.<>-]*$", listed, re.MULTILINE)]
        groups = list(dict.fromkeys(name if "case_by_case" in target["tags"] else name.split("/")[0] for name in names))
        # A program that cannot list its cases is run once, to show why.
        return groups or [".*"]

    def _training(self, target, size, flags, name):
        def work(scratch, log, limit):
            # The content does not change the speed.
            with open(scratch + "/text", "w", encoding="utf-8") as file:
                file.write(" ".join(map(str, range(500000))))
            command = [target["path"], "--data=%s/text" % scratch, "--out=%s/out" % scratch] + TRAINING + flags
            environments = [{**self.environment, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size),
                             "LOCAL_WORLD_SIZE": str(size), "ZEROTH_RENDEZVOUS_FILE": scratch + "/rendezvous"}
                            for rank in range(size)]
            return read_trainer(*run([command] * size, environments, target["folder"], log, limit), scratch, name)
        return work

    def memory(self):
        return [(strategy, self._item(target, ["--device=cuda", "gpt2_124m", "4", strategy, "all"], read_table))
                for target in self.targets if target["label"] == MEMORY for strategy in STRATEGIES]

    def torch(self):
        import compare_with_torch  # beside the copy that pack.py makes
        programs = {target["label"]: target for target in self.targets}
        if TRAIN_STEP not in programs or KERNELS not in programs:
            return []
        return [(case, self._torch(compare_with_torch.__file__, programs, case))
                for case in list(compare_with_torch.CASES) + ["attention"]]

    def _torch(self, script, programs, case):
        def work(scratch, log, limit):
            for label, name in ((TRAIN_STEP, "steps"), (KERNELS, "kernels")):
                # PyTorch must not load the libraries that are packed for these.
                with open(os.path.join(scratch, name), "w", encoding="utf-8") as file:
                    file.write("#!/bin/sh\nLD_LIBRARY_PATH='%s' exec '%s' \"$@\"\n" % (
                        self.environment["LD_LIBRARY_PATH"], programs[label]["path"]))
                os.chmod(file.name, 0o755)
            what = ["--cases", "--kernels=%s/kernels" % scratch] if case == "attention" else ["--cases", case]
            code, output = run([[sys.executable, script, scratch + "/steps"] + what], [dict(os.environ)], scratch, log,
                               limit)
            if "PyTorch is not installed" in output:
                return {"status": "skipped", "failure": one_line(output)}
            return read_table(code, output, scratch)
        return work


def table(header, rows):
    cells = [[str(cell).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;") for cell in row]
             for row in rows]
    return "\n".join("| %s |" % " | ".join(row) for row in [header, ["---"] * len(header)] + cells)


def markdown(environment, results, left):
    """Returns a section for docs/gpu_results.md; `left` has the names of items without a result."""
    parts = ["## On %s, %s" % (environment["GPU"], datetime.date.today()), table(["", ""], environment.items())]
    parts.append(table(["item", "", "passed", "failed", "skipped", "s", "first failure"], [
        ["`%s`" % name, result["status"]] + [result.get(key, "") for key in ("passed", "failed", "skipped")] +
        [result["seconds"], result["failure"]] for name, result in results.items()]))
    rows = [["`%s`" % row[0]] + row[1:] for result in results.values() for row in result.get("rows", ())]
    if rows:
        parts.append(table(["benchmark", "ms", "ratio to floor", "rates"], rows))
    parts += ["```\n%s\n```" % result["text"].strip() for result in results.values() if result.get("text")]
    if left:
        parts += ["Not run:", "\n".join("- `%s`" % name for name in left)]
    return "\n\n".join(parts) + "\n"


def list_gpus():
    """Returns a line about each GPU: its name, driver and memory."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        return subprocess.run(command, text=True, check=True, stdout=subprocess.PIPE).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError) as error:
        return refuse("no GPU: %s" % error)


def program_environment(target):
    """Returns the environment of programs, in which the loader finds all libraries of this one."""
    folders = [os.path.join(HERE, "lib"), os.environ.get("LD_LIBRARY_PATH", "")] + glob.glob("/usr/local/cuda*/lib64")
    folders += [folder for path in sys.path for folder in glob.glob(path + "/nvidia/*/lib")]
    environment = dict(os.environ, LD_LIBRARY_PATH=":".join(filter(None, folders)))
    listed = subprocess.run(["ldd", target["path"]], text=True, check=False, env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL).stdout
    problems = [line.strip() for line in listed.splitlines() if "not found" in line]
    if problems:
        refuse("the loader cannot start %s: %s; set LD_LIBRARY_PATH, or pack with --with_nvidia" % (
            target["label"], "; ".join(problems)))
    return environment


def earlier_results(out, environment):
    path = os.path.join(out, "results.json")
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    if content["environment"] != environment:
        refuse("%s has results of %s, and this is %s: use another --out" % (
            path, content["environment"], environment))
    return content["items"]


def save(planned, environment, results, out):
    """Writes each file completely or not at all, since this program may be killed at any time."""
    left = [name for name, _ in planned if name not in results]
    for name, text in (("results.json", json.dumps({"environment": environment, "items": results}, indent=1)),
                       ("gpu_results.md", markdown(environment, results, left))):
        with open(os.path.join(out, name + ".partial"), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(file.name, os.path.join(out, name))


def run_items(planned, environment, results, options):
    """Runs the items that have no result yet, until time is up."""
    end = time.monotonic() + options.time_limit
    for name, work in planned:
        start = time.monotonic()
        left = end - start
        if name in results or left < LEAST_SECONDS:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            log = os.path.join(options.out, "logs", re.sub(r"[^\w.=-]+", "_", name) + ".log")
            try:
                result = work(scratch, log, min(options.limit, left))
            except (OSError, ValueError, LookupError) as error:
                result = {"status": "failed", "failure": "its output cannot be read: %s" % error}
        result["seconds"] = round(time.monotonic() - start)
        if time.monotonic() > end:
            return  # the end of this call has stopped it: another one runs it again
        results[name] = result
        save(planned, environment, results, options.out)
        print("%-80s %s %d s  %s" % (name, result["status"], result["seconds"], result["failure"]), flush=True)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=os.path.abspath, required=True, help="folder for results; the same one to continue")
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS, help="all if not given")
    parser.add_argument("--only", default="", metavar="REGEX", help="items with such a name alone")
    parser.add_argument("--time_limit", type=float, default=float("inf"), metavar="SECONDS", help="for this call")
    parser.add_argument("--limit", type=float, default=600, metavar="SECONDS", help="for an item")
    return parser.parse_args(arguments)


def main():
    # The end of a lease comes as a signal, and running programs must end with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_UNFINISHED))
    options = parse(sys.argv[1:])
    if not os.path.exists(os.path.join(HERE, "manifest.json")):
        refuse("there is no manifest.json in %s: run the copy of this script that pack.py makes" % HERE)
    with open(os.path.join(HERE, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    gpus = list_gpus()
    targets = [dict(target, path=os.path.join(RUNFILES, target["program"]),
                    folder=os.path.join(RUNFILES, target["program"].split("/")[0])) for target in manifest["targets"]]
    environment = program_environment(targets[0])
    described = {"GPU": "%d x %s" % (len(gpus), gpus[0]), "commit": manifest["commit"], "build": manifest["build"]}
    os.makedirs(os.path.join(options.out, "logs"), exist_ok=True)
    results = earlier_results(options.out, described)
    checks = Check(targets, environment, gpus)
    planned = [(part + " " + name, work) for part in options.parts for name, work in getattr(checks, part)()]
    planned = [item for item in planned if re.search(options.only, item[0])]
    if not planned:
        refuse("--parts %s --only='%s' leave nothing to run" % (" ".join(options.parts), options.only))
    run_items(planned, described, results, options)
    if any(name not in results for name, _ in planned):
        return EXIT_UNFINISHED
    return EXIT_FAILED if any(result["status"] == "failed" for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
