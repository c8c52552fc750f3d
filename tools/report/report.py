#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Makes one page about one or several runs: losses, speed, memory, a timeline, and the differences of their options.

    tools/report/report.py OUT... [--output=report.html]

OUT is the --out of a run, with metrics.jsonl and config.toml; or a folder of runs, of which the latest is taken; or
the folder of a plan, as //tools/plan writes it with --save. The page is one HTML file that fetches nothing and needs
no JavaScript. The trace of --trace in a run's folder becomes a timeline, and so does the step of a plan.
"""

import argparse
import html
import json
import math
import os
import sys
import tomllib

COLORS = ["#2563a8", "#c2571a", "#2e7d4f", "#8a3f8f", "#a8881f", "#4d6570", "#c97b9f", "#3aa3b8"]
WIDTH, HEIGHT = 620, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 20, 12, 34
MOST_POINTS = 600  # of a line; more are averaged
MOST_SLICES = 4000  # of a timeline
TIMELINE_WIDTH, LANES = 1280, 160  # the latter left of its lanes
PLAN_FILE = "plan.json"
WAIT_COLOR = "#c0271d"

HEAD = ('<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        'content="width=device-width"><title>Training report</title>')
STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#1c2430;background:#fff;max-width:1320px;margin:2em auto;padding:0 1.5em}
h1{font-size:1.5em}h2{font-size:1.15em;margin:2em 0 .4em}
.charts{display:flex;flex-wrap:wrap;gap:1.2em 1.6em}figure{margin:0}figcaption{font-weight:600;margin-bottom:.2em}
svg{max-width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:#4a5565}
table{border-collapse:collapse}th,td{text-align:left;padding:.2em .9em .2em 0;border-bottom:1px solid #dde3ea;
vertical-align:top}td.number{text-align:right;font-variant-numeric:tabular-nums}
.key{display:inline-block;width:.9em;height:.9em;border-radius:2px;margin-right:.4em;vertical-align:-.1em}
details{margin:.5em 0}.note{color:#4a5565}
"""


class ReportError(Exception):
    """An error for the user: what was wrong, where, and what to do."""


# --------------------------------------------------------------------------------------------- runs


def run_folder(path):
    """Returns the folder of a run: this one, or the latest run in it."""
    if os.path.isfile(os.path.join(path, "metrics.jsonl")):
        return path
    if not os.path.isdir(path):
        raise ReportError("%s: there is no such folder; expected what --out was for a run" % path)
    latest = os.path.join(path, "latest")
    if os.path.isfile(os.path.join(latest, "metrics.jsonl")):
        return os.path.realpath(latest)
    runs = [os.path.join(path, name) for name in os.listdir(path)
            if os.path.isfile(os.path.join(path, name, "metrics.jsonl"))]
    if not runs:
        raise ReportError("%s: neither it nor a folder in it has a metrics.jsonl; expected what --out was for a run" %
                          path)
    return max(runs, key=os.path.getmtime)


def number(value):
    """Returns a number of metrics.jsonl, in which "nan", "inf" and "-inf" are strings; None if it is not a number."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def flatten(table, prefix=""):
    values = {}
    for key, value in table.items():
        if isinstance(value, dict):
            values.update(flatten(value, prefix + key + "."))
        else:
            values[prefix + key] = value
    return values


def read_config(folder):
    """Returns the options of a run or a plan by name; empty without a config.toml."""
    config = os.path.join(folder, "config.toml")
    if not os.path.isfile(config):
        return {}
    try:
        with open(config, "rb") as file:
            return flatten(tomllib.load(file))
    except ValueError as error:
        raise ReportError("%s: %s; it should be as the trainer wrote it" % (config, error)) from error


class Folder:
    """The common part of runs and plans."""

    def __init__(self, folder):
        self.folder = folder
        # A path that is not UTF-8 has characters that cannot be encoded.
        self.name = os.path.relpath(folder).encode("utf-8", "backslashreplace").decode()
        self.config = read_config(folder)

    def trace(self):
        return os.path.join(self.folder, "trace.json")


class Plan(Folder):
    def __init__(self, folder):
        super().__init__(folder)
        path = os.path.join(folder, PLAN_FILE)
        try:
            with open(path, encoding="utf-8") as file:
                self.text = json.load(file)["text"]
        except (ValueError, KeyError, TypeError) as error:
            raise ReportError("%s: expected a plan as //tools/plan writes it with --save: %s" %
                              (path, error)) from error


class Run(Folder):
    def __init__(self, path):
        super().__init__(run_folder(path))
        self.steps = []
        self.summary = {}
        metrics = os.path.join(self.folder, "metrics.jsonl")
        with open(metrics, "rb") as file:
            lines = file.read().split(b"\n")
        for index, line in enumerate(lines):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
            except ValueError as error:
                if index == len(lines) - 1:
                    continue  # the line that a running trainer is writing
                raise ReportError("%s:%d: expected a JSON object: %s" % (metrics, index + 1, error)) from error
            if isinstance(entry, dict) and isinstance(entry.get("summary"), dict):
                self.summary = entry["summary"]
            elif isinstance(entry, dict) and isinstance(entry.get("step"), int):
                # An evaluation follows its step on a separate line.
                if self.steps and self.steps[-1]["step"] == entry["step"]:
                    self.steps[-1].update(entry)
                else:
                    self.steps.append(entry)
        if not self.steps:
            raise ReportError("%s: it has no steps yet; make the report after the first steps of the run" % metrics)

    def series(self, key, x):
        """Returns [(x, value)] of the steps that have this key."""
        points = ((number(entry.get(x)), number(entry.get(key))) for entry in self.steps)
        return [(at, value) for at, value in points if at is not None and value is not None]

    def last(self, key):
        values = self.series(key, "step")
        return values[-1][1] if values else None


# ------------------------------------------------------------------------------------------- charts


def nice_step(span, most):
    """Returns the smallest of 1, 2, 5 times a power of ten that divides `span` into at most `most` parts."""
    if span <= 0:
        return 1.0
    step = 10.0 ** math.floor(math.log10(span / most))
    for factor in (1, 2, 5, 10):
        if span / (step * factor) <= most:
            return step * factor
    return step * 10


def short(value):
    for limit, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scaled = value / (limit if suffix != "k" else 1e3)
            return "%.4g%s" % (scaled, suffix)
    return "%.4g" % value


def averaged(points):
    """Returns at most MOST_POINTS points, each the mean of neighbours. A value that is not finite ends a group."""
    if len(points) <= MOST_POINTS:
        return points
    size = math.ceil(len(points) / MOST_POINTS)
    result = []
    for begin in range(0, len(points), size):
        group = points[begin:begin + size]
        finite = [point for point in group if math.isfinite(point[1])]
        if finite:
            result.append(tuple(sum(column) / len(finite) for column in zip(*finite)))
        if len(finite) < len(group):
            result.append((group[-1][0], math.nan))
    return result


def escape(text):
    return html.escape(str(text), quote=True)


def chart(title, lines, x_title, dots=(), format_value=short, from_zero=False, stacked=False,
          left=LEFT, width=WIDTH):
    """Draws a figure; `lines` and `dots` are [(name, color, [(x, y)])]. Empty without finite points. The areas under
    stacked lines are filled, and a value holds until the next one."""
    finite = [point for _, _, points in list(lines) + list(dots) for point in points if math.isfinite(point[1])]
    if not finite:
        return ""
    low_x, high_x = min(p[0] for p in finite), max(p[0] for p in finite)
    low, high = min(p[1] for p in finite), max(p[1] for p in finite)
    if from_zero:
        low = min(low, 0.0)
    step = nice_step(high - low if high > low else abs(high) or 1.0, 5)
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    if high == low:
        high = low + step

    def place(x, y):
        across = 0.5 if high_x == low_x else (x - low_x) / (high_x - low_x)
        return (left + across * (width - left - RIGHT), TOP + (high - y) / (high - low) * (HEIGHT - TOP - BOTTOM))

    out = ['<figure><figcaption>%s</figcaption><svg viewBox="0 0 %d %d" width="%d" height="%d" role="img" '
           'aria-label="%s">' % (escape(title), width, HEIGHT, width, HEIGHT, escape(title))]
    for i in range(int(round((high - low) / step)) + 1):
        value = low + i * step
        _, y = place(low_x, value)
        out.append('<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#e3e8ee"/><text x="%d" y="%.1f" '
                   'text-anchor="end">%s</text>' % (left, y, width - RIGHT, y, left - 6, y + 4, format_value(value)))
    step_x = nice_step(high_x - low_x, 6)
    tick = math.ceil(low_x / step_x) * step_x
    while tick <= high_x:
        x, _ = place(tick, low)
        out.append('<text x="%.1f" y="%d" text-anchor="middle">%s</text>' % (x, HEIGHT - BOTTOM + 16, short(tick)))
        tick += step_x
    out.append('<text x="%d" y="%d" text-anchor="end">%s</text>' % (width - RIGHT, HEIGHT - 2, escape(x_title)))
    for name, color, points in reversed(lines) if stacked else ():
        path = ["M%.1f %.1f" % place(points[0][0], low)]
        for (x, y), (until, _) in zip(points, points[1:] + points[-1:]):
            path.append("L%.1f %.1fL%.1f %.1f" % (*place(x, y), *place(until, y)))
        path.append("L%.1f %.1fZ" % place(points[-1][0], low))
        out.append('<path d="%s" fill="%s" stroke="#fff" stroke-width=".4"><title>%s</title></path>' %
                   ("".join(path), color, escape(name)))
    for name, color, points in () if stacked else lines:
        path, pen_down = [], False
        for x, y in averaged(points):
            if not math.isfinite(y):
                pen_down = False
                across, _ = place(x, low)
                out.append('<text x="%.1f" y="%d" text-anchor="middle" style="fill:#c0271d">&#215;<title>%s: %s at %s'
                           '</title></text>' % (across, TOP + 8, escape(name), y, short(x)))
                continue
            path.append("%s%.1f %.1f" % ("L" if pen_down else "M", *place(x, y)))
            pen_down = True
        out.append('<path d="%s" fill="none" stroke="%s" stroke-width="1.6"><title>%s</title></path>' %
                   ("".join(path), color, escape(name)))
    for name, color, points in dots:
        for x, y in averaged(points):
            if math.isfinite(y):
                out.append('<circle cx="%.1f" cy="%.1f" r="3.2" fill="#fff" stroke="%s" stroke-width="1.6"><title>%s: '
                           '%s at %s</title></circle>' % (*place(x, y), color, escape(name), short(y), short(x)))
    out.append("</svg></figure>")
    return "".join(out)


def gibibytes(value):
    return "%.4g GiB" % (value / 2**30) if value >= 2**30 else "%.4g MiB" % (value / 2**20)


def memory_chart(title, lines, x_title, **how):
    """Draws a chart of bytes, in the unit that gives round numbers at its marks."""
    most = max((y for _, _, points in lines for _, y in points if math.isfinite(y)), default=0)
    unit, name = (2**30, "GiB") if most >= 2**30 else (2**20, "MiB")
    return chart("%s, %s" % (title, name), [(label, color, [(x, y / unit) for x, y in points])
                                            for label, color, points in lines],
                 x_title, from_zero=True, **how)


def charts(runs):
    x = "tokens" if all(run.series("loss", "tokens") for run in runs) else "step"
    colored = [(run, COLORS[i % len(COLORS)]) for i, run in enumerate(runs)]

    def lines(key):
        return [(run.name, color, run.series(key, x)) for run, color in colored]

    evaluations = lines("eval_loss") + lines("ema_eval_loss")
    return "".join([
        chart("Loss" + (" (circles: evaluation)" if any(points for _, _, points in evaluations) else ""),
              lines("loss"), x, dots=evaluations),
        chart("Norm of the gradients, before clipping", lines("grad_norm"), x, from_zero=True),
        chart("Load of the most used expert, over the mean of its layer", lines("expert_load_max"), x, from_zero=True),
        chart("Fraction of experts without a token", lines("experts_unused"), x, from_zero=True),
        chart("Tokens a second", lines("tokens_per_second"), x, from_zero=True),
        chart("Learning rate", lines("lr"), x, from_zero=True, format_value=lambda value: "%.3g" % value),
        chart("Seconds waited for communication", lines("communication_seconds"), x, from_zero=True),
        chart("Seconds waited for data", lines("data_seconds"), x, from_zero=True),
        memory_chart("Peak memory of a rank", lines("memory_peak_bytes"), x),
    ])


# ----------------------------------------------------------------------------------------- timeline


def trace_events(path):
    try:
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)
    except ValueError as error:
        raise ReportError("%s: expected a trace in JSON as --trace writes it: %s" % (path, error)) from error
    events = trace.get("traceEvents", []) if isinstance(trace, dict) else trace
    return [event for event in events if isinstance(event, dict)]


def lane_color(name):
    """Returns the color of a kind of stream, the same for every rank."""
    for words, color in ((("compute",), "#2563a8"), (("gather",), "#c2571a"), (("reduce",), "#2e7d4f"),
                         (("across", "replicate"), "#8a3f8f"), (("offload", "loader", "copy"), "#a8881f")):
        if any(word in name for word in words):
            return color
    return "#4d6570"


def slice_color(lane, label):
    """Returns the color of the stream, or red for times in which the compute stream waits."""
    return WAIT_COLOR if label.startswith("wait for ") else lane_color(lane)


def timeline(path):
    events = trace_events(path)
    processes, threads = {}, {}
    for event in events:
        if event.get("ph") == "M" and event.get("name") == "process_name":
            processes[event.get("pid")] = event.get("args", {}).get("name", "")
        if event.get("ph") == "M" and event.get("name") == "thread_name":
            threads[event.get("pid"), event.get("tid")] = event.get("args", {}).get("name", "")
    slices = sorted((event for event in events if event.get("ph") == "X"), key=lambda event: event["ts"])
    note = ""
    if len(slices) > MOST_SLICES:
        note = "<p class=note>The first %d of %d slices are drawn.</p>" % (MOST_SLICES, len(slices))
        slices = slices[:MOST_SLICES]
    if not slices:
        return ""
    begin = slices[0]["ts"]
    span = max(event["ts"] + event.get("dur", 0) for event in slices) - begin or 1
    lanes = sorted({(event.get("pid"), event.get("tid")) for event in slices}, key=str)
    width, row = TIMELINE_WIDTH, 26
    out = ['<svg viewBox="0 0 %d %d" width="%d" role="img" aria-label="timeline">' %
           (width, row * len(lanes) + 24, width)]
    for index, lane in enumerate(lanes):
        name = threads.get(lane, str(lane[1]))
        full = "%s %s" % (processes.get(lane[0], lane[0]), name)
        out.append('<text x="0" y="%d">%s</text>' % (index * row + 17, escape(full[-24:])))
        depth_ends = []
        for event in slices:
            if (event.get("pid"), event.get("tid")) != lane:
                continue
            end = event["ts"] + event.get("dur", 0)
            depth_ends = [other for other in depth_ends if other > event["ts"]] + [end]
            inset = 3 * min(len(depth_ends) - 1, 3)
            left = LANES + (event["ts"] - begin) / span * (width - LANES - RIGHT)
            out.append('<rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s" fill-opacity="%.2f" stroke="#fff" '
                       'stroke-width=".4"><title>%s: %.3f ms</title></rect>' %
                       (left, index * row + 3 + inset, max(event.get("dur", 0) / span * (width - LANES - RIGHT), 0.6),
                        row - 6 - inset, slice_color(name, event.get("name", "")),
                        0.55 if len(depth_ends) == 1 else 0.85,
                        escape(event.get("name", "")), event.get("dur", 0) / 1e3))
    out.append('<text x="%d" y="%d">0</text><text x="%d" y="%d" text-anchor="end">%.4g ms</text></svg>' %
               (LANES, row * len(lanes) + 18, width - RIGHT, row * len(lanes) + 18, span / 1e3))
    kinds = [("compute", lane_color("compute")), ("compute waits", WAIT_COLOR)]
    kinds += [(name, lane_color(name)) for name in sorted(set(threads.values())) if name != "compute"]
    keys = " ".join('<span class=key style="background:%s"></span>%s' % (color, escape(name)) for name, color in kinds)
    return "".join(out) + "<p>%s</p>" % keys + note + memory_of(events, begin, span)


def memory_of(events, begin, span):
    """Draws the memory counters of the trace's first rank below the timeline, with stacked categories."""
    counters = [event for event in events if event.get("ph") == "C"]
    rank = min((event.get("pid") for event in counters), key=str, default=None)
    samples = []
    for event in counters:
        values = {name: number(value) for name, value in event.get("args", {}).items() if number(value) is not None}
        if event.get("pid") == rank:
            samples.append((min(max(event["ts"] - begin, 0), span) / 1e3, values))
    if not samples:
        return ""
    samples = highest(sorted(samples, key=lambda sample: sample[0]))
    samples = [(0, samples[0][1])] + samples + [(span / 1e3, samples[-1][1])]
    names = sorted({name for _, values in samples for name in values if any(v.get(name) for _, v in samples)},
                   key=lambda name: min(v.get(name, 0) for _, v in samples), reverse=True)
    if not names:
        return ""
    # Memory that is always in use lies at the bottom.
    lines, below = [], [0.0] * len(samples)
    for i, name in enumerate(names):
        below = [b + values.get(name, 0) for b, (_, values) in zip(below, samples)]
        lines.append((name.replace("_", " "), COLORS[i % len(COLORS)], [(at, b) for (at, _), b in zip(samples, below)]))
    keys = " ".join('<span class=key style="background:%s"></span>%s' % (color, escape(name))
                    for name, color, _ in reversed(lines))
    drawing = memory_chart("Memory of a rank over time", lines, "ms", stacked=True, left=LANES, width=TIMELINE_WIDTH)
    return drawing + "<p>%s</p>" % keys


def highest(samples):
    """Returns at most MOST_POINTS of [(time, values)], each the highest of its neighbours."""
    size = max(1, math.ceil(len(samples) / MOST_POINTS))
    return [max(samples[begin:begin + size], key=lambda sample: sum(sample[1].values()))
            for begin in range(0, len(samples), size)]


# --------------------------------------------------------------------------------------------- page


def table(head, rows, numbers=()):
    out = ["<table><tr>%s</tr>" % "".join("<th>%s</th>" % escape(cell) for cell in head)]
    for row in rows:
        out.append("<tr>%s</tr>" % "".join(
            "<td%s>%s</td>" % (" class=number" if i in numbers else "", cell) for i, cell in enumerate(row)))
    return "".join(out) + "</table>"


def shown(value, form="%.4f"):
    return "" if value is None else form % value


def state(summary):
    if not summary:
        return "running, or ended early"
    return "failed" if summary.get("failed") else "interrupted" if summary.get("interrupted") else "finished"


def overview(runs):
    rows = []
    for i, run in enumerate(runs):
        speeds = [value for _, value in run.series("tokens_per_second", "step") if math.isfinite(value)]
        memory = run.last("memory_peak_bytes")
        skipped = run.last("skipped_steps")
        rows.append(['<span class=key style="background:%s"></span>%s' % (COLORS[i % len(COLORS)], escape(run.name)),
                     "%d" % run.steps[-1]["step"], shown(run.last("loss")), shown(run.last("eval_loss")),
                     short(sorted(speeds)[len(speeds) // 2]) if speeds else "",
                     gibibytes(memory) if memory is not None else "", "%d" % (skipped or 0),
                     state(run.summary)])
    return table(["run", "steps", "last loss", "last evaluation", "median tokens/s", "peak memory of a rank",
                  "skipped steps", "state"], rows, numbers=range(1, 7))


def memory_by_category(runs):
    """Makes a table of the peak of each memory category in finished runs."""
    peaks = [run.summary.get("memory_peak_bytes_by_category", {}) for run in runs]
    categories = sorted({name for peak in peaks for name, value in peak.items() if value},
                        key=lambda name: -max(peak.get(name, 0) for peak in peaks))
    if not categories:
        return ""
    rows = [[escape(name.replace("_", " "))] + [gibibytes(peak.get(name, 0)) for peak in peaks] for name in categories]
    return "<h2>Peak memory of a rank by category</h2>" + table(["category"] + [run.name for run in runs], rows,
                                                               numbers=range(1, len(runs) + 1))


def configurations(runs):
    keys = sorted({key for run in runs for key in run.config})
    if not keys:
        return "<p class=note>There is no config.toml.</p>"

    def row(key):
        return ["<code>%s</code>" % escape(key)] + [escape(json.dumps(run.config[key], ensure_ascii=False, default=str))
                                                   if key in run.config else "" for run in runs]

    differing = [key for key in keys if len({json.dumps(run.config.get(key), default=str) for run in runs}) > 1]
    head = ["option"] + [run.name for run in runs]
    out = []
    if len(runs) > 1:
        out.append(table(head, [row(key) for key in differing]) if differing
                   else "<p>All options are the same.</p>")
    out.append("<details%s><summary>All options</summary>%s</details>" %
               (" open" if len(runs) == 1 else "", table(head, [row(key) for key in keys])))
    return "".join(out)


def page(folders):
    runs = [folder for folder in folders if isinstance(folder, Run)]
    out = [HEAD + '<style>%s</style></head><body>' % STYLE,
           "<h1>Training report</h1>"]
    if runs:
        out += [overview(runs), "<h2>Course</h2><div class=charts>%s</div>" % charts(runs)]
    for folder in folders:
        if isinstance(folder, Plan):
            out.append("<h2>Plan: %s</h2><pre>%s</pre>" % (escape(folder.name), escape(folder.text)))
        drawing = timeline(folder.trace()) if os.path.isfile(folder.trace()) else ""
        if drawing:
            out.append("<h2>Timeline: %s</h2>%s" % (escape(folder.name), drawing))
    out += [memory_by_category(runs), "<h2>%s</h2>" % ("How they differ" if len(folders) > 1 else "Configuration"),
            configurations(folders), "</body></html>\n"]
    return "".join(out)


def check_output(path):
    """Raises ReportError if a report would replace a file of another kind."""
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        if file.read(len(HEAD)) != HEAD.encode():
            raise ReportError("%s exists and is not a report; name another file by --output" % path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="OUT")
    parser.add_argument("--output", default="report.html", help="the file that is written (default: report.html)")
    arguments = parser.parse_args()
    try:
        folders = [Plan(path) if os.path.isfile(os.path.join(path, PLAN_FILE)) else Run(path)
                   for path in arguments.runs]
        check_output(arguments.output)
        text = page(folders)
        with open(arguments.output, "w", encoding="utf-8") as file:
            file.write(text)
    except (ReportError, OSError) as error:
        sys.exit("report: %s" % error)
    plans = sum(isinstance(folder, Plan) for folder in folders)
    counts = [(len(folders) - plans, "run"), (plans, "plan")]
    print("%s: %s" % (arguments.output, ", ".join("%d %s%s" % (count, what, "" if count == 1 else "s")
                                                  for count, what in counts if count)))


if __name__ == "__main__":
    main()
