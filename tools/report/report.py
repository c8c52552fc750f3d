#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""One page about one run or several: losses, speed, memory, a timeline, and how their options differ.

    tools/report/report.py OUT... [--output=report.html]

OUT is what --out was: a run's folder, with metrics.jsonl and config.toml, or a folder of such runs, of which
the latest is taken. The page is one HTML file that fetches nothing and needs no JavaScript. What --trace has
written into a run's folder becomes a timeline.
"""

import argparse
import html
import json
import math
import os
import sys
import tomllib

COLORS = ["#2563a8", "#c2571a", "#2e7d4f", "#8a3f8f", "#a8881f", "#4d6570"]
WIDTH, HEIGHT = 620, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 20, 12, 34
MOST_POINTS = 600  # of a line; more are averaged
MOST_SLICES = 4000  # of a timeline

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
    """What, where, and what to do, for the person who called."""


# --------------------------------------------------------------------------------------------- runs


def run_folder(path):
    """The folder of a run: this one, or the latest of those in it."""
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
    """A number of metrics.jsonl, in which "nan", "inf" and "-inf" are strings; None for what is none."""
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


class Run:
    def __init__(self, path):
        self.folder = run_folder(path)
        self.name = os.path.relpath(self.folder)
        self.steps = []
        self.summary = {}
        metrics = os.path.join(self.folder, "metrics.jsonl")
        with open(metrics, encoding="utf-8") as file:
            lines = file.read().split("\n")
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
                self.steps.append(entry)
        if not self.steps:
            raise ReportError("%s: it has no steps yet; make the report when the run has taken some" % metrics)
        config = os.path.join(self.folder, "config.toml")
        self.config = {}
        if os.path.isfile(config):
            try:
                with open(config, "rb") as file:
                    self.config = flatten(tomllib.load(file))
            except tomllib.TOMLDecodeError as error:
                raise ReportError("%s: %s; it should be as the trainer wrote it" % (config, error)) from error

    def series(self, key, x):
        """[(x, value)] of the steps that have this key."""
        points = ((number(entry.get(x)), number(entry.get(key))) for entry in self.steps)
        return [(at, value) for at, value in points if at is not None and value is not None]

    def last(self, key):
        values = self.series(key, "step")
        return values[-1][1] if values else None

    def trace(self):
        return os.path.join(self.folder, "trace.json")


# ------------------------------------------------------------------------------------------- charts


def nice_step(span, most):
    """The smallest of 1, 2, 5 times a power of ten that divides `span` into at most so many parts."""
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
    """At most MOST_POINTS of them, each the mean of neighbours; what is not finite ends a group."""
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


def chart(title, lines, x_title, dots=(), format_value=short, from_zero=False):
    """A figure; `lines` and `dots` are [(name, color, [(x, y)])]. Empty if nothing is finite."""
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
        return (LEFT + across * (WIDTH - LEFT - RIGHT), TOP + (high - y) / (high - low) * (HEIGHT - TOP - BOTTOM))

    out = ['<figure><figcaption>%s</figcaption><svg viewBox="0 0 %d %d" width="%d" height="%d" role="img" '
           'aria-label="%s">' % (escape(title), WIDTH, HEIGHT, WIDTH, HEIGHT, escape(title))]
    for i in range(int(round((high - low) / step)) + 1):
        value = low + i * step
        _, y = place(low_x, value)
        out.append('<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#e3e8ee"/><text x="%d" y="%.1f" '
                   'text-anchor="end">%s</text>' % (LEFT, y, WIDTH - RIGHT, y, LEFT - 6, y + 4, format_value(value)))
    step_x = nice_step(high_x - low_x, 6)
    tick = math.ceil(low_x / step_x) * step_x
    while tick <= high_x:
        x, _ = place(tick, low)
        out.append('<text x="%.1f" y="%d" text-anchor="middle">%s</text>' % (x, HEIGHT - BOTTOM + 16, short(tick)))
        tick += step_x
    out.append('<text x="%d" y="%d" text-anchor="end">%s</text>' % (WIDTH - RIGHT, HEIGHT - 2, escape(x_title)))
    for name, color, points in lines:
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


def memory_chart(title, lines, x_title):
    """A chart of bytes, in the unit that gives its marks round numbers."""
    most = max((y for _, _, points in lines for _, y in points if math.isfinite(y)), default=0)
    unit, name = (2**30, "GiB") if most >= 2**30 else (2**20, "MiB")
    return chart("%s, %s" % (title, name), [(label, color, [(x, y / unit) for x, y in points])
                                            for label, color, points in lines], x_title, from_zero=True)


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
    """One color for each kind of stream, whatever the rank."""
    for words, color in ((("compute",), "#2563a8"), (("gather",), "#c2571a"), (("reduce",), "#2e7d4f"),
                         (("across", "replicate"), "#8a3f8f"), (("offload", "loader", "copy"), "#a8881f")):
        if any(word in name for word in words):
            return color
    return "#4d6570"


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
    width, row = 1280, 26
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
            left = 160 + (event["ts"] - begin) / span * (width - 170)
            out.append('<rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s" fill-opacity="%.2f" stroke="#fff" '
                       'stroke-width=".4"><title>%s: %.3f ms</title></rect>' %
                       (left, index * row + 3 + inset, max(event.get("dur", 0) / span * (width - 170), 0.6),
                        row - 6 - inset, lane_color(name), 0.55 if len(depth_ends) == 1 else 0.85,
                        escape(event.get("name", "")), event.get("dur", 0) / 1e3))
    out.append('<text x="160" y="%d">0</text><text x="%d" y="%d" text-anchor="end">%.4g ms</text></svg>' %
               (row * len(lanes) + 18, width - 10, row * len(lanes) + 18, span / 1e3))
    return "".join(out) + note + memory_of(events)


def memory_of(events):
    """The counters of the trace, one line for each category."""
    series = {}
    for event in events:
        if event.get("ph") == "C":
            for name, value in event.get("args", {}).items():
                if number(value) is not None:
                    series.setdefault(name, []).append((event["ts"] / 1e3, number(value)))
    lines = [(name, COLORS[i % len(COLORS)], sorted(points)) for i, (name, points) in enumerate(sorted(series.items()))]
    if not lines:
        return ""
    keys = " ".join('<span class=key style="background:%s"></span>%s' % (color, escape(name))
                    for name, color, _ in lines)
    return memory_chart("Memory over the steps", lines, "ms") + "<p>%s</p>" % keys


# --------------------------------------------------------------------------------------------- page


def table(head, rows, numbers=()):
    out = ["<table><tr>%s</tr>" % "".join("<th>%s</th>" % escape(cell) for cell in head)]
    for row in rows:
        out.append("<tr>%s</tr>" % "".join(
            "<td%s>%s</td>" % (" class=number" if i in numbers else "", cell) for i, cell in enumerate(row)))
    return "".join(out) + "</table>"


def shown(value, form="%.4f"):
    return "" if value is None else form % value


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
                     "finished" if run.summary else "running, or ended early"])
    return table(["run", "steps", "last loss", "last evaluation", "median tokens/s", "peak memory of a rank",
                  "skipped steps", "state"], rows, numbers=range(1, 7))


def memory_by_category(runs):
    """What finished runs say of memory; each category's own peak."""
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
        return "<p class=note>No run has a config.toml.</p>"

    def row(key):
        return ["<code>%s</code>" % escape(key)] + [escape(json.dumps(run.config[key], ensure_ascii=False, default=str))
                                                   if key in run.config else "" for run in runs]

    differing = [key for key in keys if len({json.dumps(run.config.get(key), default=str) for run in runs}) > 1]
    head = ["option"] + [run.name for run in runs]
    out = []
    if len(runs) > 1:
        out.append(table(head, [row(key) for key in differing]) if differing
                   else "<p>All options are the same in these runs.</p>")
    out.append("<details%s><summary>All options</summary>%s</details>" %
               (" open" if len(runs) == 1 else "", table(head, [row(key) for key in keys])))
    return "".join(out)


def page(runs):
    out = ['<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
           'content="width=device-width"><title>Training report</title><style>%s</style></head><body>' % STYLE,
           "<h1>Training report</h1>", overview(runs), '<h2>Course</h2><div class=charts>%s</div>' % charts(runs)]
    for run in runs:
        drawing = timeline(run.trace()) if os.path.isfile(run.trace()) else ""
        if drawing:
            out.append("<h2>Timeline: %s</h2>%s" % (escape(run.name), drawing))
    out += [memory_by_category(runs), "<h2>%s</h2>" % ("How the runs differ" if len(runs) > 1 else "Configuration"), configurations(runs),
            "</body></html>\n"]
    return "".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="OUT")
    parser.add_argument("--output", default="report.html", help="the file that is written (default: report.html)")
    arguments = parser.parse_args()
    try:
        runs = [Run(path) for path in arguments.runs]
        text = page(runs)
        with open(arguments.output, "w", encoding="utf-8") as file:
            file.write(text)
    except (ReportError, OSError) as error:
        sys.exit("report: %s" % error)
    print("%s: %d run%s" % (arguments.output, len(runs), "" if len(runs) == 1 else "s"))


if __name__ == "__main__":
    main()
