#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Installs the wheel into a new environment, and uses its Python package there: real runs, and the code of a page.

    python_test.py PACKAGES PAGE TEXT INTERPRETER_FILE

INTERPRETER_FILE names a Python with NumPy and safetensors. Without it, only what needs none is tested.
"""

import glob
import itertools
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

try:
    import zeroth
except ImportError:
    zeroth = None  # outside of the new environment
try:
    import numpy
    import safetensors
except ImportError:
    numpy = safetensors = None

TINY = {"seq_len": 16, "batch_size": 1, "world_size": 1, "threads_per_rank": 1, "sample_tokens": 0}
ENDLESS = {"steps": 10**7, "lr_schedule": "constant", "warmup_steps": 0}

# Trains until somebody interrupts, and then says how the run ended.
INTERRUPTED = """
import zeroth
try:
    with zeroth.train(%r) as run:
        for record in run:
            if record["step"] == 2:
                print("trains", flush=True)
except KeyboardInterrupt:
    print("interrupted", run.running, run.interrupted, run.wait()["steps"], flush=True)
    raise
"""


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def program(*words):
    """Runs the program as a user does, and returns its exit code, its output and its errors."""
    words = (os.path.join(sys.prefix, "bin", "zeroth"),) + words
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


class PythonTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        with open("text.md", "w", encoding="utf-8") as file:
            file.write(TEXT[:3000])

    def refused(self, call, *arguments, **options):
        with self.assertRaises(zeroth.Error) as caught:
            call(*arguments, **options)
        return str(caught.exception)

    def small_model(self, **options):
        return zeroth.train(TINY, data="text.md", steps=1, out="model", **options).result()


class TrainTest(PythonTest):
    def test_yields_the_records_and_returns_the_summary_and_the_model(self):
        run = zeroth.train(TINY, world_size=2, data="text.md", eval_data="text.md", eval_every=2, steps=4, out="run")
        records = list(run)
        recorded = lines_of("run/metrics.jsonl")
        self.assertEqual(records, recorded[:-1])
        self.assertEqual([record["step"] for record in records], [1, 2, 2, 3, 4, 4])
        self.assertEqual(run.wait(), recorded[-1]["summary"])
        self.assertEqual((run.running, run.interrupted), (False, False))
        self.assertEqual(str(run.directory), os.path.abspath("run"))
        self.assertEqual(run.result(), run.directory / "final")
        self.assertTrue((run.result() / "config.json").is_file())
        self.assertIn("done after 4 steps", run.output)
        self.assertEqual(list(run), records, "each iteration begins anew")
        self.assertIn(os.path.abspath("run"), repr(run))

    def test_a_run_without_out_is_found_wherever_python_goes(self):
        here = os.getcwd()
        run = zeroth.train(TINY, data="text.md", steps=2)
        os.chdir("/")
        self.assertEqual([record["step"] for record in run], [1, 2])
        self.assertEqual(str(run.result()), os.path.join(here, "zeroth_out/run-1/final"))
        os.chdir(here)
        second = zeroth.train(TINY, data="text.md", steps=1)
        self.assertEqual(second.directory.name, "run-2")
        second.wait()  # or it would write into the folder that the test removes

    def test_a_mapping_a_file_and_keywords_are_options(self):
        zeroth.train({**TINY, "steps": 5}, steps=2, data=["text.md", "text.md"], seed=3, out="one").wait()
        run = zeroth.train("one/config.toml", out="two", deterministic_batch=0)
        self.assertEqual(run.wait()["steps"], 2)
        self.assertEqual([record["loss"] for record in lines_of("one/metrics.jsonl")[:-1]],
                         [record["loss"] for record in run])

    def test_runs_that_train_nothing_end_at_once(self):
        planned = zeroth.train(TINY, data="text.md", steps=2, dry_run=True)
        self.assertEqual((list(planned), planned.wait(), planned.directory), ([], {}, None))
        self.assertIn("memory ", planned.output)
        evaluated = zeroth.train(TINY, init_from=self.small_model(), data="text.md", eval_data="text.md", steps=0)
        self.assertEqual(list(evaluated), [])
        self.assertIn("evaluation loss", evaluated.output)
        self.assertIn("made no model", self.refused(evaluated.result))

    def test_adapters_are_a_result(self):
        run = zeroth.train(TINY, init_from=self.small_model(), data="text.md", steps=1, out="adapters", lora_rank=2,
                           lora_export="adapter")
        self.assertEqual(run.result(), run.directory / "final_adapter")

    def test_stops_and_resumes_with_the_same_bits(self):
        options = {**TINY, **ENDLESS, "data": "text.md", "out": "run"}
        with zeroth.train(options) as run:
            before = list(itertools.islice(run, 3))
            self.assertTrue(run.running)
            self.assertFalse(run.interrupted)
        self.assertFalse(run.running)
        self.assertTrue(run.interrupted)
        self.assertIn("interrupted after", run.output)
        summary = run.wait()
        self.assertTrue(summary["interrupted"])
        self.assertEqual(len(glob.glob("run/step-*")), 1)
        self.assertIn("has no model", self.refused(run.result))
        run.stop()  # nothing is left to do
        stopped = list(run)
        self.assertEqual(stopped[:3], before)
        self.assertEqual(len(stopped), summary["steps"])

        options["steps"] = options["checkpoint_every"] = summary["steps"] + 3
        resumed = zeroth.train(options, resume="auto")
        records = list(resumed)
        self.assertEqual(records[:len(stopped)], stopped)
        self.assertEqual(resumed.wait()["steps"], options["steps"])
        whole = zeroth.train(options, out="whole")
        self.assertEqual([record["loss"] for record in whole], [record["loss"] for record in records])
        finished = zeroth.train(options, resume="auto")
        self.assertEqual((list(finished), finished.wait()), (records, resumed.wait()), "a finished run ends at once")
        self.assertEqual(finished.result(), resumed.result())

    def test_several_threads_follow_one_run_and_another_stops_it(self):
        run = zeroth.train(TINY, **ENDLESS, data="text.md", out="run")
        found = [[], []]
        enough = threading.Event()

        def follow(records):
            for record in run:
                records.append(record)
                if record["step"] == 5:
                    enough.set()

        threads = [threading.Thread(target=follow, args=(records,)) for records in found]
        threads += [threading.Thread(target=run.wait), threading.Thread(target=lambda: (enough.wait(), run.stop()))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(run.interrupted)
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], list(run))

    def interrupt(self, send):
        """Returns what a script prints that is interrupted while its run trains."""
        script = INTERRUPTED % {**TINY, **ENDLESS, "data": "text.md", "out": "run"}
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              start_new_session=True) as python:
            self.assertEqual(python.stdout.readline(), "trains\n")
            send(python.pid, signal.SIGINT)
            output, errors = python.communicate()
        self.assertEqual(python.returncode, -signal.SIGINT, errors)
        self.assertTrue(errors.rstrip().endswith("KeyboardInterrupt"), errors)
        return output

    def test_ctrl_c_saves_a_checkpoint(self):
        # A terminal sends the signal to both; others, as a debugger, to Python alone.
        for send in (os.killpg, os.kill):
            output = self.interrupt(send)
            steps = len(lines_of("run/metrics.jsonl")) - 1
            self.assertEqual(output, "interrupted False True %d\n" % steps)
            self.assertTrue(os.path.isdir("run/step-%08d" % steps))
            self.assertFalse(os.path.exists("run/final"))
            shutil.rmtree("run")

    def test_refused_options_have_the_words_of_the_program(self):
        for options in ({"stepz": 5}, {"data": "text.md", "lr": "fast"}, {"data": "missing.md", "out": "new"}):
            code, _, errors = program("train", *("--%s=%s" % option for option in options.items()))
            self.assertEqual((code, errors), (1, "error: %s\n" % self.refused(zeroth.train, options)))
        with self.assertRaisesRegex(TypeError, "steps=None: expected True, False, a number"):
            zeroth.train(data="text.md", steps=None)
        self.assertFalse(os.path.exists("zeroth_out"))

    def test_a_folder_in_use_is_refused(self):
        self.small_model()
        self.assertIn("holds what an earlier run made", self.refused(self.small_model))

    def test_a_run_that_fails_later_yields_what_it_recorded(self):
        run = zeroth.train(TINY, **ENDLESS, data="text.md", out="run", lr=1e30)
        records = []
        with self.assertRaisesRegex(zeroth.Error, "not finite") as caught:
            for record in run:
                records.append(record)
        self.assertEqual(len(records), len(lines_of("run/metrics.jsonl")) - 1)
        self.assertFalse(math.isfinite(records[-1]["grad_norm"]))
        for call in (run.wait, run.stop, run.result):
            self.assertEqual(self.refused(call), str(caught.exception))

    def test_a_run_that_is_killed_is_an_error(self):
        run = zeroth.train(TINY, **ENDLESS, data="text.md", out="run")
        with self.assertRaisesRegex(zeroth.Error, "was ended by SIGKILL"):
            with run:
                for record in run:
                    if record["step"] == 2:
                        os.kill(run._process.pid, signal.SIGKILL)  # pylint: disable=protected-access


class ToolsTest(PythonTest):
    def test_plans(self):
        options = {"model": "gpt2_124m", "machine": "H100", "world_size": 8, "seq_len": 512, "batch_size": 4}
        words = ["--%s=%s" % (name, value) for name, value in options.items()]
        plan = zeroth.plan(options)
        self.assertEqual(plan, json.loads(program("plan", "--json", *words)[1]))
        self.assertTrue(plan["fits"])
        runs = zeroth.plan(options, search=True)["runs"]
        self.assertEqual(runs, json.loads(program("plan", "--json", "--search", *words)[1]))
        self.assertEqual("error: %s\n" % self.refused(zeroth.plan, options, world_size=0.5),
                         program("plan", *words[:2], *words[3:], "--world_size=0.5")[2])
        self.assertIn("prints no plan", self.refused(zeroth.plan, options, show_machine=True))

    def test_generates_and_evaluates(self):
        model = self.small_model()
        text = zeroth.generate(model, "The é", max_tokens=8, seed=3)
        self.assertTrue(text.startswith("The é"), text)
        self.assertEqual(text + "\n", program("generate", "--model=model/final", "--prompt=The é", "--max_tokens=8",
                                              "--seed=3")[1])
        self.assertEqual(text, zeroth.generate("model/final", "The é", max_tokens=8, seed=3))
        code, _, errors = program("generate", "--model=nowhere")
        self.assertEqual((code, errors), (1, "error: %s\n" % self.refused(zeroth.generate, "nowhere")))
        self.assertIn("top_p", self.refused(zeroth.generate, model, top_p="much"))

        found = zeroth.evaluate(model, "text.md", seq_len=16)
        said = program("evaluate", "--model=model/final", "--data=text.md", "--seq_len=16")[1]
        self.assertTrue(said.startswith("perplexity %.6g: -log p is %.6f on average of %d tokens" % (
            found["perplexity"], found["mean_loss"], found["tokens"])), (said, found))
        self.assertAlmostEqual(math.log(found["perplexity"]), found["mean_loss"])
        self.assertIn("nothing to measure", self.refused(zeroth.evaluate, model))


class WeightsTest(PythonTest):
    def setUp(self):
        if numpy is None:
            print("SKIPPED: Python lacks the packages that this test compares with", flush=True)
            self.skipTest("there is no NumPy")
        super().setUp()

    def test_equal_those_of_another_reader(self):
        self.small_model(max_shard_size="1MiB")
        zeroth.train(TINY, init_from="model/final", data="text.md", steps=1, out="bf16", export_dtype="bf16").wait()
        for folder, files, kind, dtype in (("model/final", 4, "F32", "float32"), ("bf16/final", 1, "BF16", "uint16")):
            paths = glob.glob(folder + "/*.safetensors")
            self.assertGreaterEqual(len(paths), files)
            expected = {}
            for path in paths:
                with open(path, "rb") as file:
                    expected.update(safetensors.deserialize(file.read()))
            found = zeroth.weights(folder)
            self.assertEqual(sorted(found), sorted(expected))
            for name, array in found.items():
                self.assertEqual((list(array.shape), str(array.dtype)), (expected[name]["shape"], dtype))
                self.assertEqual(expected[name]["dtype"], kind)
                self.assertEqual(array.tobytes(), bytes(expected[name]["data"]))

    def test_are_views_that_consumers_of_dlpack_share(self):
        path = self.small_model() / "model.safetensors"
        before = path.read_bytes()
        array = max(zeroth.weights(path).values(), key=lambda each: each.size)
        self.assertFalse(array.flags.owndata)
        shared = numpy.from_dlpack(array)
        self.assertTrue(numpy.shares_memory(shared, array))
        shared[...] = 7
        self.assertTrue((array == 7).all())
        self.assertEqual(path.read_bytes(), before, "the file stays as it is")
        self.assertEqual(path.parent.parent.name, "model")

    def test_files_that_are_no_weights_are_refused(self):
        folder = self.small_model()
        path = folder / "model.safetensors"
        data = path.read_bytes()
        for kept, words in ((4, "is cut short"), (40, "is cut short"), (len(data) - 1, "is the file cut short?")):
            path.write_bytes(data[:kept])
            self.assertIn(words, self.refused(zeroth.weights, folder))
        for header, words in ((b"[]", "expected the header"), (b"{\"a\": {}}", "expected the header"),
                              (b'{"a": {"dtype": "F3", "shape": [], "data_offsets": [0, 4]}}', "has the type F3")):
            path.write_bytes(len(header).to_bytes(8, "little") + header)
            self.assertIn(words, self.refused(zeroth.weights, path))
        empty = b'{"a": {"dtype": "F32", "shape": [0, 3], "data_offsets": [0, 0]}}'
        path.write_bytes(len(empty).to_bytes(8, "little") + empty)
        self.assertEqual(zeroth.weights(path)["a"].shape, (0, 3))
        self.assertIn("expected a model directory", self.refused(zeroth.weights, "."))
        self.assertIn("No such file", self.refused(zeroth.weights, "nowhere"))


class PackageTest(PythonTest):
    def test_the_page_is_true(self):
        with open(PAGE, encoding="utf-8") as file:
            blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)
        self.assertGreater(len(blocks), 5)
        if numpy is None:
            blocks = [block for block in blocks if "zeroth.weights" not in block]
        with open("README.md", "w", encoding="utf-8") as file:
            file.write(TEXT)
        words = [sys.executable, "-W", "always::ResourceWarning", "-c", "".join(blocks)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        print(done.stdout)
        for comment in re.findall(r"print\(error\)  # (.*)", "".join(blocks)):
            self.assertIn(comment + "\n", done.stdout)

    def test_has_types_and_a_version(self):
        self.assertTrue(os.path.isfile(os.path.join(os.path.dirname(zeroth.__file__), "py.typed")))
        self.assertTrue(program("--version")[1].startswith("Zeroth %s, " % zeroth.__version__))
        for name in zeroth.__all__:
            self.assertTrue(getattr(zeroth, name).__doc__, name)


def main():
    packages, page, text, interpreter_file = (os.path.abspath(path) for path in sys.argv[1:5])
    with open(interpreter_file, encoding="utf-8") as file:
        has_numpy = file.read().strip()
    python = has_numpy or sys.executable
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        inside = os.path.join(folder, "bin", "python")
        subprocess.run([inside, "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check",
                        *glob.glob(packages + "/*.whl")], check=True)
        if has_numpy:
            where = "import sysconfig; print(sysconfig.get_path('purelib'), end='')"
            there = subprocess.run([python, "-c", where], check=True, stdout=subprocess.PIPE, text=True).stdout
            here = subprocess.run([inside, "-c", where], check=True, stdout=subprocess.PIPE, text=True).stdout
            with open(os.path.join(here, "others.pth"), "w", encoding="utf-8") as file:
                file.write(there + "\n")
        # From elsewhere than the sources, which have a folder of the package's name.
        return subprocess.run([inside, "-I", "-B", os.path.abspath(__file__), "--inside", page, text], cwd=folder,
                              check=False).returncode


if __name__ == "__main__":
    if sys.argv[1] != "--inside":
        sys.exit(main())
    PAGE = sys.argv[2]
    with open(sys.argv[3], encoding="utf-8") as text_file:
        TEXT = text_file.read()
    unittest.main(argv=sys.argv[:1])
