#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Reports about runs of the trainer itself, read back by a parser, and by a browser where there is one.

    report_test.py REPORT TRAINER PLANNER TEXT
"""

import html.parser
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

REPORT, TRAINER, PLANNER, TEXT = (os.path.abspath(path) for path in sys.argv[1:5])
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(html.parser.HTMLParser):
    """The elements of a page; fails where they do not nest, or where something would be fetched."""

    def __init__(self, text):
        super().__init__()
        self.open, self.count, self.text = [], {}, ""
        self.feed(text)
        assert not self.open, "never closed: %s" % self.open

    def handle_starttag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1
        for name, value in attrs:
            assert name not in ("src", "href", "onload") and "url(" not in (value or ""), (tag, name, value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, "</%s> in %s" % (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        self.text += data + " "


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        for name, lr in (("slow", "1e-4"), ("fast", "3e-3")):
            out = os.path.join(cls.folder, name)
            subprocess.run([TRAINER, "--data=" + TEXT, "--steps=12", "--lr=" + lr, "--out=" + out, "--batch_size=2",
                            "--seq_len=32", "--eval_every=6", "--eval_data=" + TEXT, "--trace=4:5"],
                           check=True, stdout=subprocess.DEVNULL)

        cls.plan = os.path.join(cls.folder, "plan")
        subprocess.run([PLANNER, "--model=gpt2_124m", "--world_size=8", "--machine=H100", "--param_dtype=bf16",
                        "--batch_size=4", "--seq_len=512", "--save=" + cls.plan],
                       check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def report(self, *runs):
        output = os.path.join(self.folder, "report.html")
        result = subprocess.run([sys.executable, "-B", REPORT, "--output=" + output] + list(runs),
                                capture_output=True, text=True, check=False, cwd=self.folder)
        if result.returncode != 0:
            return None, result.stderr
        with open(output, encoding="utf-8") as file:
            return file.read(), result.stdout

    def write_run(self, name, lines):
        run = os.path.join(self.folder, name)
        os.makedirs(run, exist_ok=True)
        with open(os.path.join(run, "metrics.jsonl"), "w", encoding="utf-8") as file:
            file.write("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
        return run

    def write_bytes(self, name, file_name):
        """A file that is not UTF-8, next to a copy of the run `name` if there is one."""
        folder = os.path.join(self.folder, name + "_bytes")
        if os.path.isdir(os.path.join(self.folder, name)):
            shutil.copytree(os.path.join(self.folder, name), folder)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, file_name), "wb") as file:
            file.write(b'{"data": "\xff"}\n{"step": 1}\n')
        return folder

    def write_plan(self, name, text):
        folder = os.path.join(self.folder, name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "plan.json"), "w", encoding="utf-8") as file:
            file.write(text)
        return folder

    def test_two_runs(self):
        text, said = self.report("slow", "fast")
        self.assertIn("2 runs", said)
        page = Page(text)
        # Losses, norms, speeds, learning rates and memory, each a line for each run.
        self.assertGreaterEqual(page.count["path"], 10)
        self.assertGreaterEqual(page.count["figure"], 5)
        self.assertEqual(text.count("<h2>Timeline"), 2)
        self.assertGreaterEqual(page.count["circle"], 4)  # two evaluations of each
        self.assertGreater(page.count["rect"], 20)
        self.assertIn("slow", page.text)
        self.assertIn("finished", page.text)
        self.assertNotIn("script", page.count)
        # The first table of options has only those that differ.
        differing = text[text.index("How they differ"):text.index("<details")]
        self.assertIn("<code>lr</code>", differing)
        self.assertIn("0.003", differing)
        self.assertNotIn("seq_len", differing)
        self.assertIn("seq_len", text)

    def test_a_plan(self):
        text, said = self.report("plan")
        self.assertIn(": 1 plan\n", said)
        page = Page(text)
        self.assertIn("8 ranks of H100", page.text)
        self.assertIn("wait for gather", text)
        self.assertIn("activations", page.text[page.text.index("Memory of a rank over time"):])
        self.assertIn("seq_len", page.text)
        self.assertNotIn("<h2>Course", text)

    def test_a_plan_beside_a_run(self):
        text, said = self.report("slow", "plan")
        self.assertIn("1 run, 1 plan", said)
        self.assertEqual(text.count("<h2>Timeline"), 2)
        differing = text[text.index("How they differ"):text.index("<details")]
        self.assertIn("world_size", differing)
        Page(text)

    def test_the_memory_of_a_plan_has_its_peak(self):
        with open(os.path.join(self.plan, "plan.json"), encoding="utf-8") as file:
            plan = json.load(file)
        with open(os.path.join(self.plan, "trace.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        counters = [event for event in events if event["ph"] == "C"]
        peak = max(counters, key=lambda event: sum(event["args"].values()))
        self.assertEqual(peak["args"], plan["memory"])
        last = max(event["ts"] + event.get("dur", 0) for event in events if event["ph"] == "X")
        self.assertAlmostEqual(last / 1e6, plan["step_seconds"], delta=0.01 * plan["step_seconds"])
        self.assertTrue(all(0 <= event["ts"] <= 1.000001e6 * plan["step_seconds"] for event in counters))

    def test_numbers_of_the_summary(self):
        text, _ = self.report("fast")
        with open(os.path.join(self.folder, "fast", "metrics.jsonl"), encoding="utf-8") as file:
            steps = [json.loads(line) for line in file if '"step"' in line]
        self.assertIn("%.4f" % float([step for step in steps if "loss" in step][-1]["loss"]), text)
        self.assertIn("%.4f" % float(steps[-1]["eval_loss"]), text)

    def test_what_is_not_finite_is_marked(self):
        run = self.write_run("nan", [{"step": i, "loss": "nan" if i == 3 else 2.0 / i, "lr": 1e-3,
                                      "grad_norm": "inf", "tokens_per_second": 10, "memory_peak_bytes": 1 << 20}
                                     for i in range(1, 6)])
        text, _ = self.report(run)
        page = Page(text)
        self.assertIn("running, or ended early", page.text)
        self.assertIn("nan at 3", text)
        for key in ("interrupted", "failed"):
            run = self.write_run("ended", [{"step": 1, "loss": 1.0, "tokens_per_second": 10},
                                         {"summary": {"interrupted": key == "interrupted", "failed": key == "failed"}}])
            self.assertIn(key, Page(self.report(run)[0]).text)
        self.assertNotIn("NaN", text)

    def test_long_runs_are_averaged(self):
        run = self.write_run("long", [{"step": i, "loss": 3.0, "lr": 1e-3} for i in range(1, 100001)])
        text, _ = self.report(run)
        self.assertLess(len(text), 100000)

    def test_a_line_that_is_being_written(self):
        run = self.write_run("live", [{"step": 1, "loss": 3.0}])
        with open(os.path.join(run, "metrics.jsonl"), "a", encoding="utf-8") as file:
            file.write('{"step": 2, "lo')
        self.assertIsNotNone(self.report(run)[0])

    def test_names_are_no_markup(self):
        self.assertIn("caf\\udce9", self.report(self.write_run(os.fsdecode(b"caf\xe9"), [{"step": 1, "loss": 3.0}]))[0])
        run = self.write_run("<script>&", [{"step": 1, "loss": 3.0}])
        self.assertNotIn("<script>", self.report(run)[0])

    def test_wrong_input(self):
        for wrong, message in (("nothing", "there is no such folder"),
                               (self.write_run("empty", []), "no steps yet"),
                               (self.write_run("broken", ["{", '{"step": 1}']), "metrics.jsonl:1: expected a JSON"),
                               (self.write_plan("wrong_plan", "[]"), "plan.json: expected a plan"),
                               (self.write_bytes("latin", "metrics.jsonl"), "metrics.jsonl:1: expected a JSON"),
                               (self.write_bytes("fast", "config.toml"), "config.toml: ")):
            text, said = self.report(wrong)
            self.assertIsNone(text)
            self.assertIn(message, said)
            self.assertNotIn("Traceback", said)

    def test_only_a_report_is_replaced(self):
        output = os.path.join(self.folder, "out.html")
        run = self.write_run("again", [{"step": 1, "loss": 3.0}])
        command = [sys.executable, REPORT, run, "--output=" + output]
        for _ in range(2):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with open(output, "w", encoding="utf-8") as file:
            file.write("mine")
        result = subprocess.run(command, capture_output=True, text=True)
        self.assertIn("out.html exists and is not a report; name another file by --output", result.stderr)
        with open(output, encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")

    def test_in_a_browser(self):
        browser = shutil.which("chromium") or shutil.which("google-chrome")
        if browser is None:
            print("SKIPPED: there is no Chromium")
            self.skipTest("there is no Chromium")
        self.report("slow", "fast", "plan")
        picture = os.path.join(os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR", self.folder), "report.png")
        result = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + self.folder + "/profile",
             "--window-size=1400,3400", "--screenshot=" + picture, "--dump-dom",
             "file://" + os.path.join(self.folder, "report.html")],
            capture_output=True, text=True, check=False, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(os.path.getsize(picture), 20000)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
