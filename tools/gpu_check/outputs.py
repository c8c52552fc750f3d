# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Parsers for the output of each kind of program. They also parse output that ends half-way.

Every parser returns a dictionary: `status`, one of passed, failed, crashed, timed_out and skipped; `failure`, a line
about the first thing that went wrong; and the measurements of that kind of program.
"""

import json
import re
import signal

GTEST_RESULT = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] ([^ ,]+?)(?:, where .*)? \(\d+ ms\)$",
                          re.MULTILINE)
GTEST_RUN = re.compile(r"^\[ RUN      \] (\S+)", re.MULTILINE)
GTEST_FAILURE = re.compile(r"^(\S+:\d+: Failure)\n(.*)(?:\n(.*))?", re.MULTILINE)
GTEST_SKIP = re.compile(r"^\S+:\d+: Skipped\n(.*)", re.MULTILINE)
# If nvidia-smi lists a GPU, no test may be skipped because it sees none.
BLIND = re.compile(
    r"^.*(cudaGetDeviceCount failed|of which there are 0|there is no device of type cuda).*$",
    re.MULTILINE)
# cuDNN is optional, so tests that need it may be skipped without it.
NO_CUDNN = re.compile(r"cuDNN: (not found|this program was built without it)")
SANITIZER_SUMMARY = re.compile(
    r"^========= (?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)", re.MULTILINE)
# Tests of plans and shapes need no GPU.
NO_CUDA_CALL = "Target application terminated before first instrumented API call"
SANITIZER_BANNER = re.compile(r"COMPUTE-SANITIZER|SUMMARY|^$|Host Frame|Saved host backtrace")
LINE_LIMIT = 300


def one_line(text):
    return " ".join(text.split())[:LINE_LIMIT]


def last_line(output):
    lines = [line for line in output.splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else "it printed nothing"


def how_it_ended(outcome):
    """Returns None for a program that ended by itself, else its status and a text."""
    if outcome.code is None:
        return "timed_out", "stopped after %.0f s" % outcome.seconds
    if outcome.code < 0:
        try:
            name = signal.Signals(-outcome.code).name
        except ValueError:
            name = "signal %d" % -outcome.code
        return "crashed", name
    return None


def conclude(found, outcome, measured):
    """Notes in `found` why a program did not end well, or that it measured nothing."""
    ended = how_it_ended(outcome)
    if ended:
        found["status"] = ended[0]
        found["failure"] = one_line("%s; %s" % (ended[1], last_line(outcome.output)))
    elif outcome.code != 0 or not measured:
        found["status"] = "failed"
        found["failure"] = "exit code %d: %s" % (outcome.code, last_line(outcome.output))


def gtest(outcome):
    """Counts test cases. After a crash or a hang, the cases before it count."""
    results = GTEST_RESULT.findall(outcome.output)
    counts = {word: len({name for result, name in results if result == word})
              for word in ("OK", "FAILED", "SKIPPED")}
    found = {"passed": counts["OK"], "failed": counts["FAILED"], "skipped": counts["SKIPPED"],
             "failure": ""}
    failure = GTEST_FAILURE.search(outcome.output)
    if failure:
        found["failure"] = one_line(" ".join(part for part in failure.groups() if part))
    ended = how_it_ended(outcome)
    if ended:
        begun = GTEST_RUN.findall(outcome.output)
        finished = {name for _, name in results}
        where = [name for name in begun if name not in finished]
        inside = "in %s: " % where[-1] if where else ""
        found["status"] = ended[0]
        said = found["failure"] or last_line(outcome.output)
        found["failure"] = one_line("%s%s; %s" % (inside, ended[1], said))
    elif counts["SKIPPED"] and BLIND.search(outcome.output):
        found["status"] = "failed"
        found["failure"] = one_line("the test sees no GPU: " + BLIND.search(outcome.output).group())
    elif outcome.code != 0 or counts["FAILED"]:
        found["status"] = "failed"
        found["failure"] = found["failure"] or "exit code %d: %s" % (
            outcome.code, last_line(outcome.output))
    elif counts["OK"]:
        found["status"] = "passed"
    elif counts["SKIPPED"]:
        found["status"] = "skipped"
        reason = GTEST_SKIP.search(outcome.output)
        found["failure"] = one_line(reason.group(1)) if reason else "all its cases were skipped"
    else:
        found["status"] = "failed"
        found["failure"] = "no test case ran: " + last_line(outcome.output)
    return found


def sanitizer(outcome):
    """Parses a test under compute-sanitizer. A report is a failure even if the test itself passes."""
    found = gtest(outcome)
    summary = SANITIZER_SUMMARY.findall(outcome.output)
    found["reports"] = sum(int(errors or hazards) for errors, hazards in summary)
    if found["status"] in ("crashed", "timed_out"):
        return found
    lines = re.findall(r"^========= ?(.*)", outcome.output, re.MULTILINE)
    said = [line for line in lines if not SANITIZER_BANNER.search(line)]
    if not summary and found["status"] == "passed" and NO_CUDA_CALL in outcome.output:
        found["status"] = "skipped"
        found["failure"] = "it makes no call of CUDA"
    elif not summary:
        found["status"] = "failed"
        found["failure"] = "no summary of the tool: " + one_line(said[0] if said else
                                                                 last_line(outcome.output))
    elif found["reports"]:
        found["status"] = "failed"
        found["failure"] = one_line(said[0]) if said else "%d reports" % found["reports"]
    return found


def benchmark(outcome, report_path):
    """Parses Google Benchmark: the rate of each case, and its ratio to the floor."""
    found = {"speeds": [], "failure": "", "status": "passed"}
    try:
        with open(report_path, encoding="utf-8") as file:
            cases = json.load(file)["benchmarks"]
    except (OSError, ValueError, KeyError):
        cases = []
    for case in cases:
        if case.get("error_occurred") and NO_CUDNN.search(case.get("error_message", "")):
            found["skipped"] = found.get("skipped", 0) + 1
            continue
        if case.get("error_occurred"):
            found["status"] = "failed"
            found["failure"] = found["failure"] or one_line(
                "%s: %s" % (case["name"], case.get("error_message", "")))
            continue
        known = {"name", "real_time", "time_unit", "ratio_to_floor"}
        scale = {"ns": 1e-6, "us": 1e-3, "ms": 1, "s": 1e3}[case["time_unit"]]
        rates = {key: value for key, value in case.items()
                 if key not in known and ("/s" in key or key == "peak_GiB")}
        found["speeds"].append({"name": case["name"], "milliseconds": case["real_time"] * scale,
                                "ratio": case.get("ratio_to_floor"), "rates": rates})
    # A case that failed, or that lacks cuDNN, has explained the exit code.
    explained = found["failure"] or found.get("skipped")
    if how_it_ended(outcome) or not (cases and explained):
        conclude(found, outcome, cases)
    return found


# Peaks of one rank in MiB, as //benchmarks:memory prints them after a lever's name.
MEMORY_COLUMNS = ("params", "gathered", "grads", "moments", "staging", "state", "formula", "off",
                  "activ.", "scratch", "all", "reserved")
MEMORY_ROW = re.compile(r"^(\w+) +(\d+) (\w+/\w+) +(.+?) +((?:-?[\d.]+%%? *){%d})$" %
                        len(MEMORY_COLUMNS), re.MULTILINE)
# In percent, as in //tests/memory.
MEMORY_TOLERANCE = 2.0


def memory(outcome):
    """Parses the memory of each strategy and lever, and compares it with the formula."""
    found = {"memory": [], "failure": "", "status": "passed"}
    for strategy, ranks, precision, lever, numbers in MEMORY_ROW.findall(outcome.output):
        values = [float(number.rstrip("%")) for number in numbers.split()]
        row = dict(zip(MEMORY_COLUMNS, values), strategy=strategy, ranks=int(ranks),
                   precision=precision, lever=lever)
        found["memory"].append(row)
        if abs(row["off"]) > MEMORY_TOLERANCE:
            found["status"] = "failed"
            found["failure"] = found["failure"] or "%s, %s, %s: %.2f %% off the formula" % (
                strategy, precision, lever, row["off"])
    conclude(found, outcome, found["memory"])
    return found


def trainer(outcome, metrics_path, name):
    """Returns the median rate of the second half of a run's steps."""
    found = {"speeds": [], "failure": "", "status": "passed"}
    rates = []
    losses = []
    try:
        with open(metrics_path, encoding="utf-8") as lines:
            for line in lines:
                step = json.loads(line)
                if "step" in step and "tokens_per_second" in step:
                    rates.append(step["tokens_per_second"])
                    losses.append(step["loss"])
    except (OSError, ValueError):
        pass
    conclude(found, outcome, rates)
    if found["status"] == "failed" and outcome.code != 0 and NO_CUDNN.search(outcome.output):
        found["status"] = "skipped"
        found["failure"] = last_line(outcome.output)
    elif found["status"] == "passed":
        later = sorted(rates[len(rates) // 2:])
        rate = later[len(later) // 2]
        utilisations = re.findall(r"GEMM util (\d+)%", outcome.output)
        notes = re.findall(r"^(gathers|attention) +(.*)", outcome.output, re.MULTILINE)
        found["speeds"].append({
            "name": name, "milliseconds": None,
            "ratio": int(utilisations[-1]) / 100 if utilisations else None,
            "rates": {"tokens/s": rate}, "notes": [one_line(" ".join(note)) for note in notes]})
        found["last_loss"] = losses[-1]
    return found


TORCH_ROW = re.compile(r"^(\w+) +(\d+) +(\d+) +([\d.]+)$", re.MULTILINE)
TORCH_ATTENTION_ROW = re.compile(
    r"^(\w+ (?:forward|backward)) +([\d.]+|-) +([\d.]+|-) +([\d.]+) +([\d.]+)$", re.MULTILINE)


def torch(outcome):
    """Parses the rows of compare_with_torch.py."""
    found = {"torch": [], "failure": "", "status": "passed"}
    for name, ours, theirs, ratio in TORCH_ROW.findall(outcome.output):
        found["torch"].append({"name": name, "zeroth": float(ours), "torch": float(theirs),
                               "ratio": float(ratio)})
    found["attention"] = [dict(zip(("name", "flash", "cudnn", "torch", "ratio"), row))
                          for row in TORCH_ATTENTION_ROW.findall(outcome.output)]
    conclude(found, outcome, found["torch"] or found["attention"])
    return found
