# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Formats results as a section of docs/gpu_results.md."""

import items

RATES = ("TFLOP/s", "peak_TFLOP/s", "GEMM_peak_TFLOP/s", "GB/s", "copy_GB/s", "tokens/s", "peak_GiB")
WORDS = {"passed": "passed", "failed": "FAILED", "crashed": "CRASHED", "timed_out": "TIMED OUT",
         "skipped": "skipped"}


def cell(value):
    """Returns text that stays inside its table cell."""
    return str(value).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def table(header, rows):
    lines = ["| %s |" % " | ".join(header), "|" + "---|" * len(header)]
    lines += ["| %s |" % " | ".join(cell(value) for value in row) for row in rows]
    return "\n".join(lines)


def number(value):
    if value is None:
        return "-"
    return "%.0f" % value if abs(value) >= 1000 else "%.3g" % value


def ratio(value):
    return "-" if value is None else "%.2f" % value


def state_of(result):
    """Returns a word for a result, with the failure."""
    word = WORDS[result["status"]]
    return word if not result["failure"] else "%s: %s" % (word, result["failure"])


def of_part(results, part):
    return [(name[len(part) + 1:], result) for name, result in results.items()
            if name.startswith(part + " ")]


def tests(results):
    rows = []
    for name, result in results:
        counts = [result.get(key, 0) for key in ("passed", "failed", "skipped")]
        rows.append(["`%s`" % name, WORDS[result["status"]]] + counts +
                    ["%.0f" % result["seconds"], result["failure"]])
    return table(("test", "", "passed", "failed", "skipped", "s", "first failure"), rows)


def sanitizer(results):
    """Makes a table with a row for each test and a column for each tool."""
    by_test = {}
    plain = []
    for name, result in results:
        tool, _, test = name.partition(" ")
        if tool in items.SANITIZER_TOOLS:
            by_test.setdefault(test, {})[tool] = result
        else:
            plain.append("%s: %s" % (name, state_of(result)))

    def word(result):
        if result is None:
            return "not run"
        reports = result.get("reports", 0)
        return "%s, %d reports" % (WORDS[result["status"]], reports) if reports else (
            WORDS[result["status"]])

    rows = []
    for test, found in by_test.items():
        failures = ["%s: %s" % (tool, found[tool]["failure"]) for tool in items.SANITIZER_TOOLS
                    if tool in found and found[tool]["failure"]]
        rows.append(["`%s`" % test] + [word(found.get(tool)) for tool in items.SANITIZER_TOOLS] +
                    ["; ".join(failures)])
    parts = ["\n".join(plain)] if plain else []
    if rows:
        parts.append(table(("test",) + items.SANITIZER_TOOLS + ("first report",), rows))
    return "\n\n".join(parts)


def speed(results):
    rows = []
    for name, result in results:
        for case in result.get("speeds", ()):
            rates = ["%s %s" % (number(case["rates"][key]), key)
                     for key in RATES if key in case["rates"]]
            rows.append(["`%s`" % case["name"], number(case["milliseconds"]), ratio(case["ratio"]),
                         ", ".join(rates + case.get("notes", []))])
    return joined(table(("benchmark", "ms", "ratio to floor", "rates"), rows) if rows else "",
                  troubles(results))


def memory(results):
    rows = []
    for _, result in results:
        by_precision = {}
        for row in result.get("memory", ()):
            by_precision.setdefault((row["strategy"], row["ranks"], row["precision"]), []).append(row)
        for (strategy, ranks, precision), found in by_precision.items():
            plain = next((row for row in found if row["lever"] == "plain"), found[0])
            worst = max(found, key=lambda row: abs(row["off"]))
            rows.append(["`%s`" % strategy, ranks, precision, plain["state"], plain["formula"],
                         plain["all"], plain["reserved"], len(found),
                         "%.2f %% (%s)" % (worst["off"], worst["lever"])])
    header = ("strategy", "ranks", "precision", "state, MiB", "formula", "peak of all",
              "taken from the driver", "levers", "farthest from the formula")
    return joined(table(header, rows) if rows else "", troubles(results))


def torch(results):
    rows = [["`%s`" % row["name"], number(row["zeroth"]), number(row["torch"]), ratio(row["ratio"])]
            for _, result in results for row in result.get("torch", ())]
    header = ("model", "Zeroth, tokens/s", "PyTorch, tokens/s", "ratio")
    attention = [["`%s`" % row["name"]] + [row[key] for key in ("flash", "cudnn", "torch", "ratio")]
                 for _, result in results for row in result.get("attention", ())]
    attention_header = ("attention, ms", "Zeroth's own", "cuDNN in Zeroth", "PyTorch", "ratio")
    return joined(table(header, rows) if rows else "",
                  table(attention_header, attention) if attention else "", troubles(results))


def troubles(results):
    return "\n".join("- `%s`: %s" % (name, cell(state_of(result))) for name, result in results
                     if result["status"] != "passed")


def joined(*parts):
    return "\n\n".join(part for part in parts if part)


SECTIONS = (
    ("suites", "Suites", tests), ("parity", "Parity and mixed precision", tests),
    ("sanitizer", "compute-sanitizer", sanitizer), ("speed", "Speeds, as ratios to their floors", speed),
    ("memory", "Memory against the formula", memory), ("torch", "Beside PyTorch", torch),
)


def environment_table(environment):
    names = (("gpu", "GPU"), ("driver", "driver"), ("cuda_driver", "CUDA of the driver"),
             ("cublaslt", "cuBLASLt"), ("cudnn", "cuDNN"), ("nccl", "NCCL"), ("commit", "commit"),
             ("build", "build"), ("processor", "processor"), ("date", "date"))
    return table(("", ""), [[text, environment[key]] for key, text in names if environment.get(key)])


def summary(results, left):
    counts = {}
    for result in results.values():
        counts[result["status"]] = counts.get(result["status"], 0) + 1
    words = ["%d %s" % (counts[status], WORDS[status]) for status in WORDS if status in counts]
    if left:
        words.append("%d not run yet" % len(left))
    return ", ".join(words) or "nothing was run"


def markdown(environment, results, left):
    """Returns the whole section; `left` has the names of items that have not been run."""
    emulated = environment["emulated"]
    title = "## %s, %s" % ("EMULATION on a processor, no GPU" if emulated else
                           "On " + environment["gpu"], environment["date"])
    parts = [title]
    if emulated:
        parts.append("**This is a report of the CUDA emulation. It says nothing about any GPU, and "
                     "its times say nothing at all.**")
    parts += ["Items: %s." % summary(results, left), environment_table(environment)]
    for part, heading, render in SECTIONS:
        found = of_part(results, part)
        if found:
            parts += ["### " + heading, render(found)]
    if left:
        parts += ["### Not run", "\n".join("- `%s`" % name for name in left)]
    return "\n\n".join(parts) + "\n"
