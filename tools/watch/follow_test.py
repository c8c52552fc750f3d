#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Follows runs, real and written by hand, and reads back what the trackers have.

    follow_test.py FOLLOW TRAINER TEXT INTERPRETER_FILE

INTERPRETER_FILE names a Python with the packages of the trackers. Without it, only what needs none is tested.
"""

import fcntl
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

FOLLOW, TRAINER, TEXT, INTERPRETER_FILE = (os.path.abspath(path) for path in sys.argv[1:5])
with open(INTERPRETER_FILE, encoding="utf-8") as interpreter_file:
    PYTHON = interpreter_file.read().strip() or sys.executable

# Prints what W&B's file of an offline run has: steps with their numbers, and the exit code.
READ_WANDB = """
import json, struct, sys
from wandb.proto import wandb_internal_pb2

def records(path):
    # LevelDB's log: blocks of 32 KiB, after a header of 7 bytes; a fragment is CRC, length, type and data.
    with open(path, "rb") as file:
        data = file.read()
    at, record = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        record += data[at + 7:at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # full, last
            yield wandb_internal_pb2.Record.FromString(record)
            record = b""

rows, code = [], None
for path in sys.argv[1:]:
    for record in records(path):
        if record.HasField("history"):
            items = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
            rows.append([record.history.step.num, items])
        if record.HasField("exit"):
            code = record.exit.exit_code
print(json.dumps([rows, code]))
"""

READ_MLFLOW = """
import json, mlflow
client = mlflow.MlflowClient()
experiment = client.get_experiment_by_name("mine")
print(json.dumps([[run.info.run_name, run.info.status, run.data.params,
                   {key: [[metric.step, metric.value] for metric in client.get_metric_history(run.info.run_id, key)]
                    for key in run.data.metrics}]
                  for run in client.search_runs([experiment.experiment_id])]))
"""

READ_PROMETHEUS = """
import json, sys
from prometheus_client.parser import text_string_to_metric_families
print(json.dumps([[sample.name, sample.labels, str(sample.value)]
                  for family in text_string_to_metric_families(sys.stdin.read()) for sample in family.samples]))
"""


# Fake tracker packages. They append each call to the file CALLS, and fail once for each time that FAILURES lists the
# call.
FAKE_TRACKER = """
import json, os
from types import SimpleNamespace

failures = os.environ.get("FAILURES", "").split()

def call(name, *details):
    with open(os.environ["CALLS"], "a") as file:
        file.write(json.dumps([name, *details]) + "\\n")
    if name in failures:
        failures.remove(name)
        raise RuntimeError("no " + name + ":\\nsorry")

class Run:
    id = "one"
    config = SimpleNamespace(update=lambda *_, **__: None)
    summary = SimpleNamespace(update=lambda numbers: None)
    def log(self, numbers, step): call("log", step)
    def mark_preempting(self): call("mark_preempting")
    def finish(self, exit_code): call("finish", exit_code)

def init(**_):
    call("init")
    return Run()

class MlflowClient:
    def __init__(self): call("client")
    def get_experiment_by_name(self, name): return SimpleNamespace(experiment_id="0")
    def create_run(self, *_, **__):
        call("create_run")
        return SimpleNamespace(info=SimpleNamespace(run_id="one"))
    def update_run(self, *_, **__): call("update_run")
    def get_metric_history(self, *_): return []
    def log_batch(self, run_id, metrics=(), params=()):
        call("log_batch", [metric for metric in metrics])
    def set_terminated(self, run_id, state): call("set_terminated", state)

entities = SimpleNamespace(Metric=lambda key, value, milliseconds, step: [key, value, milliseconds, step], Param=None)
"""

# Starts the follower with other seconds for attempts.
START = "import sys, follow; follow.RETRY_SECONDS = float(sys.argv.pop(1)); sys.exit(follow.main())"


def line(step, loss=1.0, **more):
    return json.dumps(dict(step=step, loss=loss, **more)) + "\n"


def summary(steps, interrupted=False, failed=False):
    return json.dumps({"summary": {"steps": steps, "interrupted": interrupted, "failed": failed, "loss": 0.5}}) + "\n"


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


class FollowTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.out = os.path.join(self.folder, "run")
        self.port = free_port()
        self.environment = dict(
            os.environ, HOME=self.folder, WANDB_MODE="offline", WANDB_SILENT="true", MLFLOW_ALLOW_FILE_STORE="true",
            MLFLOW_TRACKING_URI="file://" + os.path.join(self.folder, "mlruns"))
        self.followers = []

    def tearDown(self):
        for follower in self.followers:
            if follower.poll() is None:
                follower.kill()
                follower.wait()
        shutil.rmtree(self.folder)

    def start(self, tracker, *arguments, python=sys.executable):
        follower = subprocess.Popen(
            [python, "-B", FOLLOW, self.out, "--to=" + tracker, "--project=mine", "--every=0.05",
             "--port=%d" % self.port, *arguments], stderr=subprocess.PIPE, text=True, env=self.environment)
        self.followers.append(follower)
        return follower

    def start_fake(self, tracker, failures="", retry_seconds=3600):
        """Starts a follower whose tracker fails at these calls."""
        self.calls_file = os.path.join(self.folder, "calls")
        for name in ("wandb", "mlflow"):
            with open(os.path.join(self.folder, name + ".py"), "w", encoding="utf-8") as file:
                file.write(FAKE_TRACKER)
        path = os.pathsep.join((self.folder, os.path.dirname(FOLLOW)))
        follower = subprocess.Popen(
            [sys.executable, "-B", "-c", START, str(retry_seconds), self.out, "--to=" + tracker, "--every=0.05"],
            stderr=subprocess.PIPE, text=True,
            env=dict(self.environment, PYTHONPATH=path, FAILURES=failures, CALLS=self.calls_file))
        self.followers.append(follower)
        return follower

    def calls(self, name):
        try:
            with open(self.calls_file, encoding="utf-8") as file:
                calls = [json.loads(text) for text in file if text.endswith("\n")]
        except FileNotFoundError:
            return []
        return [details for called, *details in calls if called == name]

    def wait_for_call(self, name):
        while not self.calls(name):
            self.assertIsNone(self.followers[-1].poll(), "the follower ended")
            time.sleep(0.02)

    def end(self, follower):
        """Returns the exit code and what was said."""
        said = follower.communicate()[1]
        return follower.returncode, said

    def append(self, text, mode="a"):
        os.makedirs(self.out, exist_ok=True)
        with open(os.path.join(self.out, "metrics.jsonl"), mode, encoding="utf-8") as file:
            file.write(text)

    def scrape(self, path="/metrics"):
        with urllib.request.urlopen("http://localhost:%d%s" % (self.port, path)) as answer:
            return answer.read().decode()

    def wait_for(self, text):
        while True:
            try:
                got = self.scrape()
                if text in got:
                    return got
            except urllib.error.URLError:
                pass
            self.assertIsNone(self.followers[-1].poll(), "the follower ended")
            time.sleep(0.02)

    def needs(self, module):
        if subprocess.run([PYTHON, "-c", "import " + module], capture_output=True, check=False).returncode != 0:
            reason = "%s lacks the packages that this test compares with: %s" % (PYTHON, module)
            print("SKIPPED: " + reason)
            self.skipTest(reason)

    def read_back(self, script, *arguments, text=None):
        return json.loads(subprocess.run([PYTHON, "-c", script, *arguments], input=text, check=True, text=True,
                                         stdout=subprocess.PIPE, env=self.environment, cwd=self.folder).stdout)

    def offline_files(self):
        return sorted(os.path.join(base, name) for base, _, names in os.walk(self.out) for name in names
                      if name.endswith(".wandb"))

    def test_waits_for_the_file_and_for_the_rest_of_a_line(self):
        follower = self.start("prometheus")
        self.wait_for('state="running"} 1')
        self.append(line(1, 2.5))
        self.wait_for('zeroth_loss{run="run"} 2.5\n')
        self.append('{"step": 2, "loss": 1.')
        time.sleep(0.3)
        self.assertIn('zeroth_loss{run="run"} 2.5\n', self.scrape())
        self.append('25}\n{"step": 3, "lo\n123\n')
        self.wait_for('zeroth_loss{run="run"} 1.25\n')
        with self.assertRaises(urllib.error.HTTPError):
            self.scrape("/")
        self.append(summary(2))
        self.wait_for('state="finished"} 1')
        code, said = self.end(follower)
        self.assertEqual(code, 0, said)
        self.assertIn(os.path.realpath(self.out) + " has no metrics.jsonl yet; waiting for the run", said)
        for number in (3, 4):
            self.assertIn("metrics.jsonl:%d: skips a line that is not a JSON object" % number, said)
        self.assertIn("finished after step 2", said)

    def test_an_interrupted_run(self):
        self.append(line(1) + summary(1, True))
        follower = self.start("prometheus")
        self.wait_for('state="interrupted"} 1')
        self.assertEqual(self.end(follower)[0], 75)

    def test_a_run_that_ends_with_an_error(self):
        self.append(line(1) + summary(1, failed=True))
        follower = self.start("prometheus")
        self.wait_for('state="failed"} 1')
        self.assertEqual(self.end(follower)[0], 1)

    def test_a_run_that_dies(self):
        self.append(line(1))
        folder = os.open(self.out, os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_EX)
        follower = self.start("prometheus")
        self.wait_for('zeroth_step{run="run"} 1.0')
        os.close(folder)
        self.wait_for('state="failed"} 1')
        self.assertEqual(self.end(follower)[0], 1)

    def test_a_run_that_dies_before_its_first_line(self):
        os.makedirs(self.out)
        for tracker in ("prometheus", "wandb", "mlflow"):
            follower = self.start(tracker) if tracker == "prometheus" else self.start_fake(tracker)
            scraped = ""
            # Once the follower looks, it sees a run begin and end.
            while follower.poll() is None:
                folder = os.open(self.out, os.O_RDONLY)
                fcntl.flock(folder, fcntl.LOCK_EX)
                time.sleep(0.3)
                os.close(folder)
                time.sleep(0.3)
                if tracker == "prometheus":
                    try:
                        scraped = self.scrape()
                    except urllib.error.URLError:
                        pass
            code, said = self.end(follower)
            self.assertEqual(code, 1, said)
            if tracker == "prometheus":
                self.assertIn('state="failed"} 1', scraped)
        self.assertEqual(self.calls("finish"), [[1]])
        self.assertEqual(self.calls("set_terminated"), [["FAILED"]])

    def test_a_tracker_that_fails(self):
        self.append(line(1) + summary(1))
        for tracker, failures in (("wandb", ("init", "log", "finish")),
                                  ("mlflow", ("client", "create_run", "log_batch", "set_terminated"))):
            for failure in failures:
                code, said = self.end(self.start_fake(tracker, failure, retry_seconds=0))
                self.assertEqual(code, 2, said)
                self.assertEqual(said.count("\n"), 1, said)
                self.assertIn("failed: RuntimeError: no %s: sorry; fix the cause" % failure, said)
                if failure == "log":  # the run goes on
                    self.assertEqual((self.calls("mark_preempting"), self.calls("finish")), ([[]], [[130]]))
                shutil.rmtree(self.out)
                self.append(line(1) + summary(1))

    # A server may have stored what it failed to confirm: it drops what is equal, times included.
    def test_what_failed_is_sent_again_with_the_same_time(self):
        self.append(line(1) + summary(1))
        code, said = self.end(self.start_fake("mlflow", "log_batch set_terminated"))
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count("will be tried again"), 2, said)
        first, again, end, end_again = (batch for batch, in self.calls("log_batch"))
        self.assertEqual(first, again)
        self.assertEqual(end, end_again)
        self.assertEqual([[key, value, step] for key, value, _, step in first], [["loss", 1.0, 1]])
        self.assertEqual(self.calls("set_terminated"), [["FINISHED"]] * 2)

    def test_a_follower_that_is_stopped_does_not_finish_the_run(self):
        self.append(line(1))
        for tracker, last in (("wandb", "log"), ("mlflow", "log_batch")):
            follower = self.start_fake(tracker)
            self.wait_for_call(last)
            follower.send_signal(signal.SIGTERM)  # as Ctrl-C, which a shell may have turned off
            code, said = self.end(follower)
            self.assertEqual(code, 130, said)
        self.assertEqual(self.calls("mark_preempting"), [[]])
        self.assertEqual(self.calls("finish"), [[130]])
        self.assertEqual(self.calls("set_terminated"), [])

    def test_host(self):
        def accepts():
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.2", self.port)) == 0

        for arguments, expected in ((), False), (("--host=0.0.0.0",), True):
            follower = self.start("prometheus", *arguments)
            self.wait_for("running")
            self.assertEqual(accepts(), expected)
            follower.terminate()
            self.assertEqual(self.end(follower)[0], 130)
        code, said = self.end(self.start("prometheus", "--host=192.0.2.1"))
        self.assertEqual(code, 2)
        self.assertIn("an address of this machine", said)

    # A summary from before a resumption does not end what follows.
    def test_a_run_that_still_holds_its_folder_has_not_ended(self):
        self.append(line(1) + summary(1, True))
        folder = os.open(self.out, os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_EX)
        follower = self.start("prometheus")
        self.wait_for('zeroth_step{run="run"} 1.0')
        time.sleep(0.3)
        self.append(line(2) + summary(2))
        self.wait_for('zeroth_step{run="run"} 2.0')
        os.close(folder)
        self.wait_for('state="finished"} 1')
        self.assertEqual(self.end(follower)[0], 0)

    def test_another_run_in_the_same_folder(self):
        self.append(line(1, 3.0))
        follower = self.start("prometheus")
        self.wait_for('zeroth_loss{run="run"} 3.0')
        os.remove(os.path.join(self.out, "metrics.jsonl"))
        self.append(line(1, 4.0))
        self.wait_for('state="failed"} 1')
        code, said = self.end(follower)
        self.assertEqual(code, 2)
        self.assertIn("another run has replaced the one that was followed", said)

    def test_errors(self):
        self.append(line(1))
        with socket.socket() as taken:
            taken.bind(("", self.port))
            taken.listen()
            code, said = self.end(self.start("prometheus"))
        self.assertEqual(code, 2)
        self.assertIn("choose another --port", said)
        # -S and -I: a Python without any package.
        for tracker in ("wandb", "mlflow"):
            result = subprocess.run([sys.executable, "-I", "-S", "-B", FOLLOW, self.out, "--to=" + tracker],
                                    capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 2)
            self.assertIn("pip install " + tracker, result.stderr)

    def test_prometheus_text(self):
        self.needs("prometheus_client")
        self.append(line(7, "nan", grad_norm="inf", lr=3e-4, late={"rank": 1, "seconds": 0.5}) +
                    json.dumps({"step": 7, "eval_loss": 2.0}) + "\n")
        follower = self.start("prometheus", '--name=a "b" \\')
        samples = self.read_back(READ_PROMETHEUS, text=self.wait_for("zeroth_eval_loss"))
        values = {name: value for name, labels, value in samples if "state" not in labels}
        self.assertEqual(values, {"zeroth_step": "7.0", "zeroth_loss": "nan", "zeroth_grad_norm": "inf",
                                  "zeroth_lr": "0.0003", "zeroth_eval_loss": "2.0", "zeroth_late_rank": "1.0",
                                  "zeroth_late_seconds": "0.5"})
        self.assertEqual({labels["run"] for _, labels, _ in samples}, {'a "b" \\'})
        follower.send_signal(signal.SIGTERM)
        self.assertEqual(self.end(follower)[0], 130)

    def train(self, *arguments):
        subprocess.run([TRAINER, "--data=" + TEXT, "--eval_data=" + TEXT, "--eval_every=2", "--batch_size=1",
                        "--seq_len=16", "--checkpoint_every=2", "--out=" + self.out, *arguments], check=True,
                       stdout=subprocess.DEVNULL)
        with open(os.path.join(self.out, "metrics.jsonl"), encoding="utf-8") as file:
            entries = [json.loads(text) for text in file]
        return {key: [[entry["step"], entry[key]] for entry in entries if key in entry] for key in ("loss", "eval_loss")}

    # The follower is killed, started again on a finished run, and the run is resumed for more steps.
    def test_mlflow(self):
        self.needs("mlflow")
        follower = self.start("mlflow", python=PYTHON)
        self.train("--steps=4")
        self.assertEqual(self.end(follower)[0], 0)
        self.assertEqual(self.end(self.start("mlflow", python=PYTHON))[0], 0)
        # The state file of a follower that was killed after it sent points and before it recorded that.
        state_file = os.path.join(self.out, "follow.mlflow.json")
        with open(state_file, encoding="utf-8") as file:
            state = json.load(file)
        with open(state_file, "w", encoding="utf-8") as file:
            json.dump(dict(state, step=1, eval_step=0, end=None), file)
        expected = self.train("--steps=8", "--resume=auto")
        self.assertEqual(self.end(self.start("mlflow", python=PYTHON))[0], 0)
        (name, status, params, metrics), = self.read_back(READ_MLFLOW)
        self.assertEqual((name, status), ("run", "FINISHED"))
        self.assertEqual(params["seq_len"], "16")
        self.assertEqual(metrics["loss"], expected["loss"])
        self.assertEqual(metrics["eval_loss"], expected["eval_loss"])
        self.assertEqual([step for step, _ in metrics["grad_norm"]], list(range(1, 9)))
        self.assertEqual(metrics["summary/steps"][-1], [8, 8])

    def test_mlflow_of_a_run_that_dies(self):
        self.needs("mlflow")
        self.append(line(1, "inf"))
        folder = os.open(self.out, os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_EX)
        follower = self.start("mlflow", python=PYTHON)
        while not os.path.exists(os.path.join(self.out, "follow.mlflow.json")):
            time.sleep(0.05)
            self.assertIsNone(follower.poll())
        os.close(folder)
        self.assertEqual(self.end(follower)[0], 1)
        (_, status, _, metrics), = self.read_back(READ_MLFLOW)
        self.assertEqual(status, "FAILED")
        self.assertTrue(math.isinf(metrics["loss"][0][1]))

    def test_wandb(self):
        self.needs("wandb")
        follower = self.start("wandb", python=PYTHON)
        self.train("--steps=4")
        self.assertEqual(self.end(follower)[0], 0)
        expected = self.train("--steps=8", "--resume=auto")
        self.assertEqual(self.end(self.start("wandb", python=PYTHON))[0], 0)
        files = self.offline_files()
        self.assertEqual(len({os.path.basename(path) for path in files}), 1, files)  # one run of W&B
        rows, code = self.read_back(READ_WANDB, *files)
        self.assertEqual(code, 0)
        for key in ("loss", "eval_loss"):
            self.assertEqual([[step, numbers[key]] for step, numbers in rows if key in numbers], expected[key])

    def test_wandb_of_a_follower_that_is_stopped(self):
        self.needs("wandb")
        self.append(line(1, 2.0))
        follower = self.start("wandb", python=PYTHON)
        while not os.path.exists(os.path.join(self.out, "follow.wandb.json")):
            time.sleep(0.05)
            self.assertIsNone(follower.poll())
        time.sleep(0.5)
        follower.send_signal(signal.SIGTERM)  # as Ctrl-C, which a shell may have turned off
        code, said = self.end(follower)
        self.assertEqual(code, 130, said)
        rows, code = self.read_back(READ_WANDB, *self.offline_files())
        self.assertEqual(([[step, numbers["loss"]] for step, numbers in rows if "loss" in numbers], code), ([[1, 2.0]], 130))

    def test_wandb_of_an_interrupted_run(self):
        self.needs("wandb")
        self.append(line(1, 2.0) + summary(1, True))
        self.assertEqual(self.end(self.start("wandb", python=PYTHON))[0], 75)
        _, code = self.read_back(READ_WANDB, *self.offline_files())
        self.assertEqual(code, 75)
        # The resumed run: a follower that knows of the interruption waits for what follows.
        follower = self.start("wandb", python=PYTHON)
        time.sleep(0.5)
        self.append(line(1, 2.0) + line(2, 1.0) + summary(2), "w")
        self.assertEqual(self.end(follower)[0], 0)
        rows, code = self.read_back(READ_WANDB, *self.offline_files())
        self.assertEqual(([[step, numbers["loss"]] for step, numbers in rows if "loss" in numbers], code),
                         ([[1, 2.0], [2, 1.0]], 0))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
