#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Follows a run's metrics.jsonl, and sends it to a tracker, or serves it to Prometheus.

    tools/watch/follow.py OUT --to=wandb|mlflow|prometheus [FLAGS]

OUT is the --out of a run, which need not exist yet. The trackers are told where to send by their own variables, such
as WANDB_MODE and MLFLOW_TRACKING_URI. What was sent is kept in OUT/follow.TRACKER.json, so a follower that is started
again, or a run that is resumed, continues the same run of the tracker, and no step is sent twice. The follower ends
with the run: exit code 0 after a run that finished, 75 after one that was interrupted, and 1 after one that died. It
ends before the run with 130 after Ctrl-C, and with 2 after an error, which it says in one line.
"""

import argparse
import hashlib
import http.server
import json
import math
import os
import re
import signal
import sys
import threading
import time
import tomllib

METRICS = "metrics.jsonl"
EXIT_CODES = {"finished": 0, "interrupted": 75, "failed": 1}
STOPPED = 130  # the exit code after Ctrl-C or SIGTERM, while the run may go on
LAST_SCRAPE_SECONDS = 300  # that the final values stay available to Prometheus
RETRY_SECONDS = 3600  # that a step, or the end of the run, is sent again while the tracker refuses it


class FollowError(Exception):
    """An error for the user: what was wrong, where, and what to do."""


def say(text):
    print("follow: " + text, file=sys.stderr, flush=True)


def attempt(what, call, *arguments, seconds=0):
    """Calls a tracker, and after errors again for `seconds`. Trackers' packages may raise anything."""
    end, delay = time.monotonic() + seconds, 1
    while True:
        try:
            return call(*arguments)
        except FollowError:
            raise
        except Exception as error:  # pylint: disable=broad-exception-caught
            failure = "%s failed: %s: %s" % (what, type(error).__name__, " ".join(str(error).split()))
            if time.monotonic() + delay > end:
                raise FollowError(failure + "; fix the cause, and restart the follower; it continues where it stopped") from error
            say(failure + "; it will be tried again")
        time.sleep(delay)
        delay = min(60, 2 * delay)


def numbers_of(entry, prefix=""):
    """Returns the numbers of an object by name. In metrics.jsonl "nan", "inf" and "-inf" are strings."""
    numbers = {}
    for key, value in entry.items():
        if isinstance(value, dict):
            numbers.update(numbers_of(value, prefix + key + "/"))
        elif isinstance(value, (int, float)) and not isinstance(value, bool) or value in ("nan", "inf", "-inf"):
            numbers[prefix + key] = float(value)
    return numbers


def read_options(folder):
    try:
        with open(os.path.join(folder, "config.toml"), "rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError):
        return {}  # the run has not written it yet


class Lines:
    """The complete lines of a file that grows, and that a resumed run replaces by a shorter one."""

    def __init__(self, path):
        self.path, self.inode, self.offset, self.rest = path, None, 0, b""
        self.head = b""  # what was read of the first bytes: another run's first line differs in its times

    def read(self):
        """Returns (began, lines): the lines since the last call; `began` if they are the file's first ones."""
        try:
            with open(self.path, "rb") as file:
                facts = os.fstat(file.fileno())
                same = file.read(len(self.head)) == self.head
                if facts.st_ino != self.inode or facts.st_size < self.offset or not same:
                    self.inode, self.offset, self.rest, self.head = facts.st_ino, 0, b"", b""
                began = self.offset == len(self.rest)
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return False, []
        if self.offset == len(self.head):
            self.head = (self.head + data)[:1000]
        self.offset += len(data)
        *lines, self.rest = (self.rest + data).split(b"\n")
        return began, lines


def is_locked(folder):
    """Whether a run holds the lock of its folder. Trying to take that lock could turn a starting run away."""
    try:
        inode = os.stat(folder).st_ino
        with open("/proc/locks", encoding="ascii") as file:
            # Devices are not compared: on overlays, stat names another one than the kernel's list.
            return any(re.search(r"FLOCK .*:%d 0 EOF" % inode, line) for line in file)
    except OSError:
        return False


# ------------------------------------------------------------------------------------------- trackers
#
# open(id) starts a run, or continues the one with this id, and returns its id. send(step, numbers, time) is called in
# the order of steps. close(state, step, summary, time) tells how the run ended; state is None if only the follower ends.
# After an exception, the last two are called again with the same time, in seconds since 1970.


class Wandb:
    def __init__(self, folder, arguments):
        try:
            import wandb  # pylint: disable=import-outside-toplevel
        except ImportError as error:
            raise FollowError("--to=wandb needs the package wandb: pip install wandb") from error
        self.wandb, self.folder, self.arguments, self.run = wandb, folder, arguments, None

    def open(self, run_id):
        self.run = self.wandb.init(project=self.arguments.project, name=self.arguments.name, id=run_id, resume="allow",
                                   dir=self.folder)
        self.run.config.update(read_options(self.folder), allow_val_change=True)
        return self.run.id

    def last_sent(self, _):
        return 0

    def send(self, step, numbers, _):
        # The numbers of an evaluation join those of its step.
        self.run.log(numbers, step=step)

    def close(self, state, _, summary, __):
        if state is None:
            self.run.mark_preempting()  # a run ends with the process that logs; this says that more may come
        self.run.summary.update(summary)
        self.run.finish(exit_code=EXIT_CODES.get(state, STOPPED))


class Mlflow:
    STATES = {"finished": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}

    def __init__(self, folder, arguments):
        try:
            import mlflow  # pylint: disable=import-outside-toplevel
        except ImportError as error:
            raise FollowError("--to=mlflow needs the package mlflow or mlflow-skinny: pip install mlflow-skinny") from error
        self.mlflow, self.folder, self.arguments, self.run_id = mlflow, folder, arguments, None
        self.client = mlflow.MlflowClient()

    def open(self, run_id):
        self.run_id = run_id
        if run_id is not None:
            self.client.update_run(run_id, status="RUNNING")
            return run_id
        found = self.client.get_experiment_by_name(self.arguments.project)
        experiment = found.experiment_id if found else self.client.create_experiment(self.arguments.project)
        self.run_id = self.client.create_run(experiment, run_name=self.arguments.name).info.run_id
        parameters = [self.mlflow.entities.Param(key, str(value)) for key, value in read_options(self.folder).items()]
        for begin in range(0, len(parameters), 100):  # the most of a request
            self.client.log_batch(self.run_id, params=parameters[begin:begin + 100])
        return self.run_id

    def last_sent(self, key):
        """Returns the last step on the server, which may be ahead of the state of a follower that was killed."""
        return max((metric.step for metric in self.client.get_metric_history(self.run_id, key)), default=0)

    def send(self, step, numbers, seconds):
        # A server stores equal values of one step and time once, so a batch may be sent again.
        metric, now = self.mlflow.entities.Metric, int(seconds * 1000)
        self.client.log_batch(self.run_id, metrics=[metric(key, value, now, step) for key, value in numbers.items()])

    def close(self, state, step, summary, seconds):
        if summary:
            self.send(step, {"summary/" + key: value for key, value in summary.items()}, seconds)
        if state is not None:
            self.client.set_terminated(self.run_id, self.STATES[state])


class Prometheus:
    """Serves the newest numbers at /metrics, in the text format 0.0.4."""

    def __init__(self, folder, arguments):
        self.labels = 'run="%s"' % arguments.name.translate({ord("\\"): "\\\\", ord('"'): '\\"', ord("\n"): "\\n"})
        self.numbers, self.state, self.lock, self.read_end = {}, "running", threading.Lock(), threading.Event()
        tracker = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                if self.path.partition("?")[0] != "/metrics":
                    self.send_error(404, "the metrics are at /metrics")
                    return
                text, ended = tracker.text()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)
                if ended:
                    tracker.read_end.set()

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        try:
            self.server = http.server.ThreadingHTTPServer((arguments.host, arguments.port), Handler)
        except (OSError, OverflowError) as error:
            address = "--host=%s --port=%d" % (arguments.host, arguments.port)
            raise FollowError("%s: %s; choose another --port, or an address of this machine" % (address, error)) from error
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        say("serves %s at http://%s:%d/metrics" % (folder, arguments.host, self.server.server_port))

    @staticmethod
    def spell(value):
        return "NaN" if math.isnan(value) else "%sInf" % "-+"[value > 0] if math.isinf(value) else repr(value)

    def text(self):
        with self.lock:
            lines = []
            for key, value in sorted(self.numbers.items()):
                name = "zeroth_" + re.sub("[^a-zA-Z0-9_]", "_", key)
                lines += ["# TYPE %s gauge" % name, "%s{%s} %s" % (name, self.labels, self.spell(value))]
            lines.append("# TYPE zeroth_run_state gauge")
            for state in ("running", *EXIT_CODES):
                lines.append('zeroth_run_state{%s,state="%s"} %d' % (self.labels, state, state == self.state))
            return ("\n".join(lines) + "\n").encode(), self.state != "running"

    def open(self, run_id):
        return run_id

    def last_sent(self, _):
        return 0

    def send(self, step, numbers, _):
        with self.lock:
            self.numbers.update(numbers, step=float(step))

    def close(self, state, *_):
        if state is not None:
            with self.lock:
                self.state = state
            self.read_end.wait(LAST_SCRAPE_SECONDS)
        self.server.shutdown()
        self.server.server_close()


TRACKERS = {"wandb": Wandb, "mlflow": Mlflow, "prometheus": Prometheus}


class Follower:
    def __init__(self, folder, tracker, state_file):
        self.folder, self.tracker, self.state_file = folder, tracker, state_file
        self.lines = Lines(os.path.join(folder, METRICS))
        # first: of the file's first line, which a resumed run keeps; step, eval_step: sent last; end: sent last.
        self.state = {"first": None, "id": None, "step": 0, "eval_step": 0, "end": None}
        self.is_open, self.was_locked = False, False
        self.line_number, self.summary, self.end = 0, {}, None

    def save(self):
        if self.state_file is None:
            return
        with open(self.state_file + ".tmp", "w", encoding="utf-8") as file:
            json.dump(self.state, file)
        os.replace(self.state_file + ".tmp", self.state_file)

    def load(self):
        if self.state_file is None or not os.path.exists(self.state_file):
            return
        try:
            with open(self.state_file, encoding="utf-8") as file:
                self.state.update(json.load(file))
        except ValueError as error:
            raise FollowError("%s: expected what a follower wrote: %s; delete the file to begin a new run of the tracker"
                              % (self.state_file, error)) from error

    def begin(self, first_line):
        """Called with the file's first line; empty if a run died without one. Another first line means another run."""
        first = hashlib.sha256(first_line).hexdigest()
        if self.is_open and first != self.state["first"]:
            self.close("failed", {})
            raise FollowError("%s: another run has replaced the one that was followed; start the follower again" % self.lines.path)
        if self.is_open:
            return
        self.load()
        if first != self.state["first"]:
            self.state = {"first": first, "id": None, "step": 0, "eval_step": 0, "end": None}
        self.state["id"] = attempt("opening the tracker's run", self.tracker.open, self.state["id"])
        self.is_open = True
        for kind, key in (("step", "loss"), ("eval_step", "eval_loss")):
            self.state[kind] = max(self.state[kind], attempt("reading the last step", self.tracker.last_sent, key))
        self.save()

    def close(self, state, summary, seconds=0):
        step, now = self.state["step"], time.time()
        attempt("closing the tracker's run", self.tracker.close, state, step, summary, now, seconds=seconds)
        self.state["end"], self.is_open = state or self.state["end"], False
        self.save()

    def send(self, line):
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            say("%s:%d: skips a line that is not a JSON object: %.80r" % (self.lines.path, self.line_number, line))
            return
        self.end = None  # a summary before the last line is that of a run that was resumed
        if isinstance(entry.get("summary"), dict):
            self.summary = numbers_of(entry["summary"])
            failed = entry["summary"].get("failed")
            self.end = "failed" if failed else "interrupted" if entry["summary"].get("interrupted") else "finished"
            return
        step = entry.pop("step", None)
        kind = "eval_step" if "eval_loss" in entry else "step"
        if not isinstance(step, int) or step <= self.state[kind]:
            return
        attempt("sending step %d" % step, self.tracker.send, step, numbers_of(entry), time.time(), seconds=RETRY_SECONDS)
        self.state[kind] = step
        self.state["end"] = None

    def poll(self):
        """Sends what is new. Returns how the run ended, or None while it goes on."""
        locked = is_locked(self.folder)
        began, lines = self.lines.read()
        if lines and began:
            self.begin(lines[0])
            self.line_number = 0
        try:
            for line in lines:
                self.line_number += 1
                if line.strip():
                    self.send(line)
        finally:
            if lines:
                self.save()
        if self.end == "interrupted" and self.state["end"] == "interrupted":
            return None  # sent before: this follower was started to wait for the resumed run
        if self.end is not None and not locked:
            return self.end
        if self.was_locked and not locked and not lines:
            return "failed"
        self.was_locked = self.was_locked or locked
        return None

    def follow(self, every):
        ended = self.poll()
        while ended is None:
            time.sleep(every)
            ended = self.poll()
        if not self.is_open:
            self.begin(b"")
        self.close(ended, self.summary if self.state["end"] != ended else {}, RETRY_SECONDS)
        say("the run in %s %s after step %d" % (self.folder, "was interrupted" if ended == "interrupted" else ended,
                                               self.state["step"]))
        return EXIT_CODES[ended]


def main():
    parser = argparse.ArgumentParser(prog="follow", description="Sends a run's metrics to a tracker while it trains.")
    parser.add_argument("out", metavar="OUT", help="the --out of a run")
    parser.add_argument("--to", required=True, choices=list(TRACKERS))
    parser.add_argument("--project", default="zeroth", help="project of W&B, or experiment of MLflow (%(default)s)")
    parser.add_argument("--name", help="of the run (OUT's last folder)")
    parser.add_argument("--host", default="127.0.0.1", help="for Prometheus; 0.0.0.0 serves other machines (%(default)s)")
    parser.add_argument("--port", type=int, default=9464, help="for Prometheus (%(default)s)")
    parser.add_argument("--every", type=float, default=2, help="seconds between looks at the file (%(default)s)")
    arguments = parser.parse_args()
    # A link such as zeroth_out/latest points elsewhere once the next run starts.
    folder = os.path.realpath(arguments.out)
    arguments.name = arguments.name or os.path.basename(folder)

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # raises KeyboardInterrupt
    try:
        tracker = attempt("starting --to=" + arguments.to, TRACKERS[arguments.to], folder, arguments)
        state_file = None if arguments.to == "prometheus" else os.path.join(folder, "follow.%s.json" % arguments.to)
        follower = Follower(folder, tracker, state_file)
        if not os.path.exists(os.path.join(folder, METRICS)):
            say("%s has no %s yet; waiting for the run (OUT is the run's --out)" % (folder, METRICS))
        try:
            return follower.follow(arguments.every)
        finally:
            if follower.is_open:  # the run goes on, and so may another follower
                follower.close(None, {})
    except KeyboardInterrupt:
        return STOPPED
    except (FollowError, OSError) as error:
        say(str(error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
