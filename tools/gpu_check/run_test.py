# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""run.py and pack.py on a fake machine: programs that pass, fail, crash, hang and measure,
and an nvidia-smi that names what a case wants."""

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import textwrap
import time
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import items  # noqa: E402  the folder has to be known first
import machine  # noqa: E402
import outputs  # noqa: E402
import pack  # noqa: E402
import processes  # noqa: E402
import report  # noqa: E402
import run  # noqa: E402

PASSES = """
echo '[ RUN      ] Suite.One'; echo '[       OK ] Suite.One (3 ms)'
echo '[ RUN      ] Suite.Two'; echo 'a.cc:7: Skipped'; echo 'there is no second GPU'
echo '[  SKIPPED ] Suite.Two (0 ms)'
echo '[  SKIPPED ] Suite.Two'
"""
FAILS = """
echo '[ RUN      ] Suite.One'
echo 'kernels/gemm_suite.cc:41: Failure'
echo 'Expected equality of these values:'
echo '  1 | 2'
echo '[  FAILED  ] Suite.One, where GetParam() = (4, 5) (3 ms)'
echo '[ RUN      ] Suite.Two'; echo '[       OK ] Suite.Two (0 ms)'
echo '[  FAILED  ] Suite.One, where GetParam() = (4, 5)'
exit 1
"""
CRASHES = """
echo '[ RUN      ] Suite.One'; echo '[       OK ] Suite.One (3 ms)'
echo '[ RUN      ] Suite.Two'; echo 'illegal memory access'; kill -SEGV $$
"""
# With a child that ignores SIGTERM, as that of a hung CUDA program may.
HANGS = """
echo '[ RUN      ] Suite.Slow'
sh -c 'trap "" TERM; echo $$ >"$STATE/child"; sleep 1000' &
sleep 1000
"""
SKIPS = """
echo '[ RUN      ] Suite.One'; echo 'a.cc:7: Skipped'; echo 'no driver here'
echo '[  SKIPPED ] Suite.One (0 ms)'
"""
# Leaves a mark at each run, and hangs at the first one alone.
HANGS_ONCE = """
echo run >>"$STATE/runs"
if [ "$(wc -l <"$STATE/runs")" = 1 ]; then echo $$ >"$STATE/hung"; exec sleep 1000; fi
echo '[ RUN      ] Suite.One'; echo '[       OK ] Suite.One (3 ms)'
"""
BENCHMARK = r"""
for word in "$@"; do case "$word" in
  --benchmark_list_tests*) echo 'BM_Gemm/bf16/qkv'; echo 'BM_Gemm/fp32/qkv/iterations:10/manual_time'; echo 'BM_Norm'; exit ;;
  --benchmark_out=*) out="${word#*=}" ;;
  --benchmark_filter=*) filter="${word#*=}" ;;
esac; done
echo "$filter" >>"$STATE/filters"
case "$filter" in
  *Gemm*) cat >"$out" <<'END'
{"benchmarks": [
 {"name": "BM_Gemm/bf16/qkv", "real_time": 2.5, "time_unit": "ms", "ratio_to_floor": 0.87,
  "TFLOP/s": 640.0, "peak_TFLOP/s": 735.6},
 {"name": "BM_Gemm/fp32/qkv", "error_occurred": true, "error_message": "no algorithm"}]}
END
  exit 1 ;;
  *) echo '{"benchmarks": [{"name": "BM_Norm", "real_time": 1500, "time_unit": "us",
     "ratio_to_floor": 0.91, "GB/s": 3900.0, "copy_GB/s": 4285.0}]}' >"$out" ;;
esac
"""
MEMORY = r"""
echo "$@" >>"$STATE/memory"
printf '%-16s %5d %-10s %-23s %8.1f %8.1f %8.1f %8.1f %8.1f %9.1f %9.1f %6.2f%% %8.1f %8.1f %9.1f %9.1f\n' \
  "$4" 4 fp32/fp32 plain 118.7 208.0 59.4 237.3 0 623.4 623.3 0.02 30 2 650.5 702 \
  "$4" 4 fp32/fp32 "accumulate, sync every" 118.7 208.0 59.4 237.3 0 623.4 600 3.9 30 2 650.5 702
"""
TRAINER = r"""
for word in "$@"; do case "$word" in --out=*) out="${word#*=}" ;; esac; done
if [ "$RANK" = 0 ]; then
  mkdir -p "$out"
  for step in 1 2 3 4; do
    echo "{\"step\": $step, \"loss\": 3.5, \"tokens_per_second\": ${step}00000}"
  done >"$out/metrics.jsonl"
  echo "gathers   by copy engines (NCCL 2.28.9)"
  echo 'step 4/4  loss 3.5  norm 1.0  lr 1e-3  400k tok/s  GEMM util 41%  mem 1 GiB/rank'
fi
echo "$RANK of $WORLD_SIZE with $*" >>"$STATE/ranks"
"""
SANITIZER = r"""
tool="$1"; shift; shift
echo "========= COMPUTE-SANITIZER"
[ -n "$ZEROTH_CUDA_EXACT_BLOCKS" ] || exit 5
"$@"
if [ "$tool" = --tool=racecheck ]; then
  echo '========= Error: Race reported between Write access at k.cu:12 and Read access at k.cu:14'
  echo '========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)'
else
  echo '========= ERROR SUMMARY: 0 errors'
fi
"""
GPU = "NVIDIA H200, 580.159.04, 143771, 9.0"


class FakeMachine(unittest.TestCase):
    """A packed tree of scripts, a PATH with its nvidia-smi in front, and a folder for results."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.tree = os.path.join(self.folder, "zeroth-gpu")
        self.out = os.path.join(self.folder, "out")
        self.state = os.path.join(self.folder, "state")
        self.bin = os.path.join(self.folder, "bin")
        for folder in (self.state, self.bin, os.path.join(self.tree, "manifests")):
            os.makedirs(folder)
        self.targets = []
        self.description = {"format": 1, "config": "cuda", "archs": "sm_90a", "commit": "abc123",
                            "built": "today"}
        self.needs = []
        self.set_gpus(GPU)

    def script(self, path, body):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n" + body)
        os.chmod(path, 0o755)

    def set_gpus(self, *lines):
        self.script(os.path.join(self.bin, "nvidia-smi"),
                    "cat <<'END'\n%s\nEND\n" % "\n".join(lines) if lines else "exit 9\n")

    def add(self, label, body, kind="test", tags=(), env=None):
        program = "zeroth/" + label[2:].replace(":", "/")
        self.script(os.path.join(self.tree, "runfiles", program), body)
        self.targets.append({"label": label, "kind": kind, "tags": list(tags), "env": env or {},
                             "program": program, "files": [program]})

    def write_manifest(self, name="all"):
        with open(os.path.join(self.tree, "manifests", name + ".json"), "w", encoding="utf-8") as file:
            json.dump(dict(self.description, targets=self.targets, needs=self.needs), file)

    def command(self, *arguments):
        return [sys.executable, os.path.join(HERE, "run.py"), "--out", self.out, "--packed",
                self.tree] + list(arguments)

    def environment(self):
        path = self.bin + os.pathsep + os.environ.get("PATH", "/usr/bin:/bin")
        return dict(os.environ, PATH=path, STATE=self.state)

    def run_it(self, *arguments, expected=0):
        self.write_manifest()
        done = subprocess.run(self.command(*arguments), env=self.environment(), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def results(self):
        with open(os.path.join(self.out, "results.json"), encoding="utf-8") as file:
            return json.load(file)

    def markdown(self):
        with open(os.path.join(self.out, "gpu_results.md"), encoding="utf-8") as file:
            return file.read()

    def state_lines(self, name):
        with open(os.path.join(self.state, name), encoding="utf-8") as file:
            return file.read().splitlines()


class SuitesTest(FakeMachine):
    def test_goes_on_after_what_fails_crashes_and_hangs(self):
        self.add("//kernels:hangs_test", HANGS)
        self.add("//kernels:crashes_test", CRASHES)
        self.add("//core/device:passes_test", PASSES)
        self.add("//strategies:fails_test", FAILS)
        self.add("//train:skips_test", SKIPS)
        self.add("//train:silent_test", "exit 0\n")
        self.add("//train:blind_test", SKIPS.replace("no driver here", "cudaGetDeviceCount failed: 35"))
        self.run_it("--parts=suites", "--limit=2", expected=1)
        found = self.results()["items"]
        self.assertEqual(list(found), ["suites //core/device:passes_test",
                                       "suites //kernels:crashes_test",
                                       "suites //kernels:hangs_test",
                                       "suites //strategies:fails_test",
                                       "suites //train:blind_test",
                                       "suites //train:silent_test", "suites //train:skips_test"])
        status = {name.split(":")[1]: result["status"] for name, result in found.items()}
        self.assertEqual(status, {
            "passes_test": "passed", "crashes_test": "crashed", "hangs_test": "timed_out",
            "fails_test": "failed", "silent_test": "failed", "blind_test": "failed",
            "skips_test": "skipped"})
        passes = found["suites //core/device:passes_test"]
        self.assertEqual((passes["passed"], passes["failed"], passes["skipped"]), (1, 0, 1))
        fails = found["suites //strategies:fails_test"]
        self.assertEqual((fails["passed"], fails["failed"]), (1, 1))
        self.assertIn("kernels/gemm_suite.cc:41: Failure", fails["failure"])
        crash = found["suites //kernels:crashes_test"]
        self.assertEqual(crash["passed"], 1)
        self.assertIn("in Suite.Two: SIGSEGV", crash["failure"])
        self.assertIn("in Suite.Slow: stopped after 2 s",
                      found["suites //kernels:hangs_test"]["failure"])
        self.assertEqual(found["suites //train:skips_test"]["failure"], "no driver here")
        self.assertEqual(found["suites //train:blind_test"]["failure"],
                         "the test sees no GPU: cudaGetDeviceCount failed: 35")
        child = int(self.state_lines("child")[0])
        self.assertFalse(runs(child), "a child of what hung is left")
        text = self.markdown()
        self.assertIn("## On NVIDIA H200, 143771 MiB, ", text)
        self.assertIn("| driver | 580.159.04 |", text)
        self.assertIn("| commit | abc123 |", text)
        self.assertIn("| `//core/device:passes_test` | passed | 1 | 0 | 1 | ", text)
        self.assertIn("| `//kernels:hangs_test` | TIMED OUT | 0 | 0 | 0 | ", text)
        self.assertIn("Items: 1 passed, 3 FAILED, 1 CRASHED, 1 TIMED OUT, 1 skipped.", text)
        for line in text.splitlines():
            if line.startswith("| `//"):
                self.assertEqual(line.replace("\\|", "").count("|"), 8, line)

    def test_programs_get_their_environment_and_folder(self):
        self.add("//tests/parity:parity_cuda_test", """
[ "$ZEROTH_TEST_DEVICE" = cuda ] && [ -d "$TEST_TMPDIR" ] && [ "$TEST_SRCDIR/zeroth" = "$PWD" ] || exit 3
case ":$LD_LIBRARY_PATH:" in *:"$PWD/../../lib":*) ;; *) [ -n "$LD_LIBRARY_PATH" ] || exit 4 ;; esac
""" + PASSES, env={"ZEROTH_TEST_DEVICE": "cuda"})
        self.run_it("--parts=suites,parity")
        self.assertEqual(list(self.results()["items"]), ["parity //tests/parity:parity_cuda_test"])
        self.assertIn("### Parity and mixed precision", self.markdown())


def runs(process):
    try:
        with open("/proc/%d/stat" % process, encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class ResumeTest(FakeMachine):
    def test_goes_on_where_it_was_killed(self):
        self.add("//core/device:first_test", PASSES + 'echo run >>"$STATE/first"\n')
        self.add("//kernels:second_test", HANGS_ONCE)
        self.write_manifest()
        process = subprocess.Popen(self.command("--parts=suites"), env=self.environment(),
                                   stdout=subprocess.DEVNULL, start_new_session=True)
        hung = self.process_in("hung")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        while runs(hung):  # for ever, if what ran has outlived the script
            time.sleep(0.02)
        self.assertNotIn("suites //kernels:second_test", self.results()["items"])
        self.run_it("--parts=suites")
        self.assertEqual(len(self.state_lines("first")), 1)
        self.assertEqual(len(self.state_lines("runs")), 2)
        self.assertEqual(self.results()["left"], [])
        self.run_it("--parts=suites")
        self.assertEqual(len(self.state_lines("runs")), 2)

    def process_in(self, name):
        """The process that a program has written there, or will."""
        path = os.path.join(self.state, name)
        while not os.path.exists(path) or not self.state_lines(name):
            time.sleep(0.02)
        return int(self.state_lines(name)[0])

    def test_a_signal_ends_what_runs_too(self):
        self.add("//kernels:hangs_test", HANGS)
        self.write_manifest()
        process = subprocess.Popen(self.command("--parts=suites"), env=self.environment(),
                                   stdout=subprocess.DEVNULL)
        child = self.process_in("child")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(), 3)
        while runs(child):  # a killed process needs a moment to end; for ever, if nobody has killed it
            time.sleep(0.02)

    def test_what_ends_two_calls_is_not_tried_again(self):
        self.add("//core/device:first_test", PASSES)
        self.add("//kernels:fatal_test", 'kill -9 "$PPID"; sleep 1\n')
        for _ in range(2):
            self.write_manifest()
            subprocess.run(self.command("--parts=suites"), env=self.environment(), check=False,
                           stdout=subprocess.DEVNULL)
        self.run_it("--parts=suites", expected=1)
        result = self.results()["items"]["suites //kernels:fatal_test"]
        self.assertEqual(result["status"], "crashed")
        self.assertIn("2 calls ended during it", result["failure"])

    def test_results_json_alone_is_enough(self):
        self.add("//core/device:first_test", PASSES + 'echo run >>"$STATE/first"\n')
        self.add("//kernels:second_test", FAILS)
        self.run_it("--parts=suites", expected=1)
        for name in os.listdir(self.out):
            if name != "results.json":
                path = os.path.join(self.out, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        self.run_it("--parts=suites", expected=1)
        self.assertEqual(len(self.state_lines("first")), 1)
        self.script(os.path.join(self.tree, "runfiles/zeroth/kernels/second_test"), PASSES)
        self.run_it("--parts=suites", "--retry")
        self.assertEqual(len(self.state_lines("first")), 1)

    def test_results_of_another_build_are_not_mixed_in(self):
        self.add("//core/device:first_test", PASSES)
        self.run_it("--parts=suites")
        self.description["commit"] = "other"
        said = self.run_it("--parts=suites", expected=2)
        self.assertIn("commit 'abc123', and this is 'other': use another --out", said)
        with open(os.path.join(self.out, "results.json"), "w", encoding="utf-8") as file:
            file.write("{")
        self.assertIn("is not a file of results", self.run_it("--parts=suites", expected=2))


class ClockTest(unittest.TestCase):
    """Calls of a length that is given, and items that take a time that is known, without a clock."""

    class Clock:
        def __init__(self, seconds):
            self.seconds = seconds

        def left(self):
            return self.seconds

    def call(self, folder, seconds, needs):
        """Runs the remaining items with these needs; returns those tried, and those with a result."""
        clock = self.Clock(seconds)
        tried = []

        def item(name):
            def work(_scratch, _log, limit):
                tried.append(name)
                clock.seconds -= min(needs[name], limit)
                fits = needs[name] <= limit
                return {"status": "passed" if fits else "timed_out", "failure": "", "seconds": 1}
            return items.Item("suites", name, 300, work)

        results = run.Results(folder, {
            "commit": "c", "build": "b", "gpu": "g", "driver": "d", "emulated": False, "date": "0"})
        with contextlib.redirect_stdout(io.StringIO()):
            run.run_items([item(name) for name in needs], results, clock)
        return tried, {name[len("suites "):]: result["status"]
                       for name, result in results.by_id.items()}

    def test_what_is_cut_off_is_the_next_calls_first(self):
        with tempfile.TemporaryDirectory() as folder:
            needs = {"a": 100, "b": 250, "c": 20}
            self.assertEqual(self.call(folder, 300, needs), (["a", "b"], {"a": "passed"}))
            self.assertEqual(self.call(folder, 275, needs),
                             (["b", "c"], {"a": "passed", "b": "passed", "c": "passed"}))

    def test_what_fills_a_whole_call_is_not_tried_for_ever(self):
        with tempfile.TemporaryDirectory() as folder:
            needs = {"a": 290, "b": 20}
            self.assertEqual(self.call(folder, 200, needs), (["a"], {"a": "timed_out"}))
            self.assertEqual(self.call(folder, 200, needs),
                             (["b"], {"a": "timed_out", "b": "passed"}))

    def test_an_item_has_its_limit_however_long_the_call(self):
        with tempfile.TemporaryDirectory() as folder:
            needs = {"a": 100, "b": 301, "c": 100}
            self.assertEqual(self.call(folder, 5000, needs), (["a", "b", "c"], {
                "a": "passed", "b": "timed_out", "c": "passed"}))

    def test_nothing_is_begun_in_the_last_seconds(self):
        with tempfile.TemporaryDirectory() as folder:
            needs = {"a": 95, "b": 1}
            self.assertEqual(self.call(folder, 100, needs), (["a"], {"a": "passed"}))


class JobsTest(unittest.TestCase):
    def test_only_what_measures_nothing_runs_side_by_side(self):
        meeting = threading.Barrier(3)
        alone = threading.Lock()

        def meet(_scratch, _log, _limit):
            meeting.wait(60)
            return {"status": "passed", "failure": "", "seconds": 1}

        def measure(_scratch, _log, _limit):
            free = alone.acquire(blocking=False)
            if free:
                time.sleep(0.05)
                alone.release()
            return {"status": "passed" if free else "failed", "failure": "", "seconds": 1}

        planned = [items.Item("suites", "%d" % i, 300, meet) for i in range(6)]
        planned += [items.Item("speed", "%d" % i, 300, measure) for i in range(4)]
        with tempfile.TemporaryDirectory() as folder:
            results = run.Results(folder, {"commit": "c", "build": "b", "gpu": "g", "driver": "d",
                                           "emulated": False, "date": "0"})
            with contextlib.redirect_stdout(io.StringIO()):
                run.run_items(planned, results, run.Clock(0), jobs=3)
            self.assertEqual([result["status"] for result in results.by_id.values()],
                             ["passed"] * 10)


class ProcessesTest(unittest.TestCase):
    def run_two(self, *bodies, limit=60.0):
        with tempfile.TemporaryDirectory() as folder:
            commands = [["/bin/sh", "-c", body] for body in bodies]
            return processes.run(commands, [dict(os.environ)] * len(bodies), folder,
                                 os.path.join(folder, "log"), limit)

    def test_a_rank_beside_one_that_failed_is_not_waited_for_long(self):
        with unittest.mock.patch.object(processes, "PEER_SECONDS", 0.1):
            for bodies in (("exit 3", "sleep 1000"), ("sleep 1000", "exit 3")):
                self.assertEqual(self.run_two(*bodies).code, 3)
        self.assertEqual(self.run_two("sleep 0.2; echo late; exit 0", "exit 3").output, "late\n")

    def test_codes(self):
        self.assertEqual(self.run_two("exit 0", "exit 0").code, 0)
        self.assertEqual(self.run_two("kill -9 $$").code, -9)
        self.assertIsNone(self.run_two("exit 0", "sleep 1000", limit=0.3).code)

    def test_a_program_that_is_not_there_is_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            outcome = processes.run([["/nowhere/program"]], [{}], folder,
                                    os.path.join(folder, "log"), 10)
        self.assertEqual(outcome.code, 127)
        self.assertIn("cannot start: ", outcome.output)


class PartsOneByOneTest(FakeMachine):
    def test_one_report_sums_up_calls_for_several_parts(self):
        self.add("//kernels:first_test", PASSES)
        self.add("//kernels:second_test", FAILS)
        self.add("//tests/parity:third_test", PASSES)
        self.add("//benchmarks:memory", MEMORY, "program")
        self.run_it("--parts=parity")
        self.run_it("--parts=suites", "--only=first")
        self.assertEqual(self.results()["left"], ["suites //kernels:second_test"])
        self.run_it("--parts=memory", "--only=no_shard", expected=1)
        results = self.results()
        self.assertEqual(list(results["items"]), [
            "suites //kernels:first_test", "parity //tests/parity:third_test",
            "memory //benchmarks:memory no_shard"])
        self.assertEqual(len(results["left"]), 1 + 4)
        text = self.markdown()
        self.assertIn("5 not run yet", text)
        self.assertIn("- `suites //kernels:second_test`", text)
        listed = self.run_it("--parts=suites,memory", "--list")
        self.assertIn("passed    suites //kernels:first_test", listed)
        self.assertIn("-         suites //kernels:second_test", listed)

    def test_a_tool_that_was_missing_may_come(self):
        if machine.find_tool("compute-sanitizer"):
            print("SKIPPED: this machine has the tool")
            self.skipTest("this machine has the tool")
        self.add("//kernels:first_test", PASSES)
        self.run_it("--parts=sanitizer")
        self.assertIn("compute-sanitizer: skipped: compute-sanitizer is not installed", self.markdown())
        self.script(os.path.join(self.bin, "compute-sanitizer"), SANITIZER)
        self.run_it("--parts=sanitizer", expected=1)
        self.assertNotIn("is not installed", self.markdown())


class MeasuringTest(FakeMachine):
    def test_benchmarks_run_by_family_or_by_case(self):
        self.add("//benchmarks:cuda_kernels", BENCHMARK, "program")
        self.add("//benchmarks:steps", BENCHMARK, "program", tags=["case_by_case"])
        self.run_it("--parts=speed", expected=1)
        self.assertEqual(self.state_lines("filters"),
                         ["^BM_Gemm(/|$)", "^BM_Norm(/|$)",
                          "^BM_Gemm/bf16/qkv$", "^BM_Gemm/fp32/qkv/iterations:10/manual_time$",
                          "^BM_Norm$"])
        self.assertIn("speed //benchmarks:steps BM_Gemm/fp32/qkv", self.results()["items"])
        found = self.results()["items"]["speed //benchmarks:cuda_kernels BM_Gemm"]
        self.assertEqual(found["failure"], "BM_Gemm/fp32/qkv: no algorithm")
        self.assertEqual(found["speeds"][0]["ratio"], 0.87)
        text = self.markdown()
        self.assertIn("| `BM_Gemm/bf16/qkv` | 2.5 | 0.87 | 640 TFLOP/s, 736 peak_TFLOP/s |", text)
        self.assertIn("| `BM_Norm` | 1.5 | 0.91 | 3900 GB/s, 4285 copy_GB/s |", text)
        self.assertIn("- `//benchmarks:cuda_kernels BM_Gemm`: FAILED: BM_Gemm/fp32/qkv: no alg", text)

    def test_the_trainer_has_a_process_for_each_gpu(self):
        self.set_gpus(GPU, GPU)
        self.add("//train:train", TRAINER, "program")
        self.run_it("--parts=speed", "--only=enqueued|cuda_graphs")
        ranks = self.state_lines("ranks")
        self.assertEqual(sorted(line.split(" with ")[0] for line in ranks),
                         ["0 of 1"] * 2 + ["0 of 2"] * 2 + ["1 of 2"] * 2)
        self.assertEqual(sum("--cuda_graphs" in line for line in ranks), 3)
        found = self.results()["items"]["speed //train:train gpt2_124m_on_2_enqueued"]
        self.assertEqual(found["speeds"][0]["rates"], {"tokens/s": 400000})
        self.assertEqual(found["speeds"][0]["ratio"], 0.41)
        self.assertIn("| 400000 tokens/s, gathers by copy engines (NCCL 2.28.9) |", self.markdown())
        self.assertIn("## On 2 x NVIDIA H200", self.markdown())

    def test_memory_is_held_against_the_formula(self):
        self.add("//benchmarks:memory", MEMORY, "program")
        self.run_it("--parts=memory", "--only=full_shard", expected=1)
        self.assertEqual(self.state_lines("memory"), ["--device=cuda gpt2_124m 4 full_shard all"])
        result = self.results()["items"]["memory //benchmarks:memory full_shard"]
        self.assertEqual(result["memory"][0]["reserved"], 702)
        self.assertIn("3.90 % off the formula", result["failure"])
        self.assertIn("| `full_shard` | 4 | fp32/fp32 | 623.4 | 623.3 | 650.5 | 702.0 | 2 | "
                      "3.90 % (accumulate, sync every) |", self.markdown())

    def test_compute_sanitizer_is_used_where_it_is(self):
        self.add("//kernels/cuda:norm_suite_test", PASSES)
        self.add("//train:other_test", PASSES)
        self.script(os.path.join(self.bin, "compute-sanitizer"), SANITIZER)
        self.run_it("--parts=sanitizer", expected=1)
        found = self.results()["items"]
        self.assertEqual(len(found), 4)
        race = found["sanitizer racecheck //kernels/cuda:norm_suite_test"]
        self.assertEqual((race["status"], race["reports"], race["passed"]), ("failed", 1, 1))
        self.assertIn("Race reported between", race["failure"])
        self.assertIn("| `//kernels/cuda:norm_suite_test` | passed | FAILED, 1 reports | passed | passed |",
                      self.markdown())

    def test_torch_is_compared_with_where_it_is(self):
        self.add("//benchmarks:train_step_cuda", BENCHMARK, "program")
        self.add("//benchmarks:cuda_kernels", BENCHMARK, "program")
        shutil.copy(os.path.join(HERE, "../../benchmarks/compare_with_torch.py"), self.tree)
        site = os.path.join(self.folder, "site")
        os.makedirs(site)
        os.environ["PYTHONPATH"] = site
        self.addCleanup(os.environ.pop, "PYTHONPATH")
        with open(os.path.join(site, "torch.py"), "w", encoding="utf-8") as file:
            file.write("class cuda:\n    is_available = staticmethod(lambda: False)\n")
        self.run_it("--parts=torch")
        self.assertIn("skipped: PyTorch sees no GPU", self.markdown())
        with open(os.path.join(site, "torch.py"), "w", encoding="utf-8") as file:
            file.write("class cuda:\n    is_available = staticmethod(lambda: True)\n")
        # This PyTorch lacks everything: the comparison fails, with a reason for each case.
        self.run_it("--parts=torch", expected=1)
        found = self.results()["items"]
        self.assertEqual({result["status"] for result in found.values()}, {"failed"})
        self.assertEqual(list(found), [
            "torch gpt2_124m_full_shard_1", "torch gpt2_1558m_full_shard_1",
            "torch llama_1b_full_shard_1", "torch llama3_8b_of_4_layers_full_shard_1",
            "torch attention"])

    def test_what_the_comparison_with_torch_prints_is_read(self):
        # By its own format strings.
        rows = ["%-26s %16.0f %16.0f %8.3f" % ("llama_1b_full_shard_1", 91234.4, 81234.4, 1.123),
                "%-26s %s %10.3f %8.3f" % (
                    "llama_1b forward", " ".join(["%10.3f" % 1.5, "%10s" % "-"]), 1.25, 0.833)]

        class Outcome:
            code, seconds, output = 0, 1.0, "\n".join(rows)
        found = outputs.torch(Outcome)
        self.assertEqual(found["torch"][0]["ratio"], 1.123)
        self.assertEqual(found["attention"], [{"name": "llama_1b forward", "flash": "1.500",
                                               "cudnn": "-", "torch": "1.250", "ratio": "0.833"}])
        text = report.torch([("attention", found)])
        self.assertIn("| `llama_1b forward` | 1.500 | - | 1.250 | 0.833 |", text)

    def test_cudnn_may_be_missing(self):
        message = "rank 0 failed: cuDNN: not found: libcudnn.so.9: cannot open shared object file"
        self.add("//benchmarks:cuda_kernels", BENCHMARK.replace("no algorithm", message), "program")
        self.add("//train:train", "echo '%s' >&2; exit 1" % message, "program")
        self.run_it("--parts=speed", "--only=Gemm|cudnn")
        found = self.results()["items"]
        self.assertEqual(found["speed //benchmarks:cuda_kernels BM_Gemm"]["skipped"], 1)
        self.assertEqual(found["speed //train:train gpt2_124m_on_1_cudnn_attention"]["status"], "skipped")


class RefusalTest(FakeMachine):
    def refused(self, *arguments):
        said = self.run_it(*arguments, expected=2)
        self.assertNotIn("Traceback", said)
        return said

    def test_no_gpu_is_one_line(self):
        self.add("//core/device:first_test", PASSES)
        self.set_gpus()
        said = self.refused()
        self.assertEqual(len(said.splitlines()), 1)
        self.assertIn("run.py: no GPU: ", said)

    def test_an_emulation_is_marked(self):
        self.add("//core/device:first_test", PASSES + '[ "$ZEROTH_CUDA_EMULATION" = 1 ]\n')
        self.description["config"] = "cuda_emulation"
        self.assertIn("--allow_emulation", self.refused("--parts=suites"))
        self.set_gpus()
        self.assertIn("no GPU", self.refused("--parts=suites"))
        self.run_it("--parts=suites", "--allow_emulation")
        text = self.markdown()
        self.assertIn("## EMULATION on a processor, no GPU", text)
        self.assertIn("says nothing about any GPU", text)
        self.assertNotIn("H200", text)

    def test_an_emulation_beside_a_gpu_is_an_emulation(self):
        self.add("//core/device:first_test", PASSES)
        self.description["config"] = "cuda_emulation"
        self.run_it("--parts=suites", "--allow_emulation")
        self.assertNotIn("H200", self.markdown())

    def test_programs_for_a_gpu_are_not_run_without_one(self):
        self.add("//core/device:first_test", PASSES)
        self.set_gpus()
        self.assertIn("no GPU", self.refused("--allow_emulation"))

    def test_wrong_arguments(self):
        self.add("//core/device:first_test", PASSES)
        self.assertIn("'speeds' is none of suites, parity", self.refused("--parts=speeds"))
        self.assertIn("--limit=0", self.refused("--limit=0"))
        self.assertIn("--time_limit=3", self.refused("--time_limit=3"))
        self.assertIn("--only=(", self.refused("--only=("))
        self.assertIn("leave nothing", self.refused("--parts=suites", "--only=nothing"))
        self.assertIn("is no folder", self.refused("--library_path=/nowhere"))

    def test_wrong_folders(self):
        self.add("//core/device:first_test", PASSES)
        self.tree, tree = os.path.join(self.folder, "empty"), self.tree
        os.makedirs(os.path.join(self.tree, "manifests"))
        os.rmdir(os.path.join(self.tree, "manifests"))
        done = subprocess.run(self.command(), env=self.environment(), text=True, check=False,
                              stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 2)
        self.assertIn("holds neither the folder manifests nor", done.stderr)
        self.tree = tree
        self.write_manifest("first")
        self.description["commit"] = "other"
        self.assertIn("are of different builds", self.refused())

    def test_missing_libraries_and_other_architectures(self):
        self.add("//core/device:first_test", PASSES)
        self.needs = ["libzeroth_nowhere.so.13"]
        self.assertIn("no libzeroth_nowhere.so.13 on this machine", self.refused())
        with open(os.path.join(self.bin, "libzeroth_nowhere.so.13"), "w", encoding="utf-8"):
            pass
        self.run_it("--parts=suites", "--library_path=" + self.bin)
        self.set_gpus("NVIDIA A100, 580.1, 81920, 8.0")
        self.assertIn("is sm_80: pack with --cuda_archs=sm_80", self.refused())


class PartsTest(unittest.TestCase):
    def test_architectures(self):
        for capability, archs, runs_there in (
                ("9.0", "sm_90a", True), ("9.0", "sm_80,sm_100", False), ("8.6", "sm_80", True),
                ("10.0", "sm_90", True), ("8.0", "sm_86", False), ("9.0", "default", True),
                ("10.3", "sm_90a,sm_100", True)):
            problem = machine.architecture_problem({"name": "X", "compute_cap": capability}, archs)
            self.assertEqual(problem == "", runs_there, (capability, archs, problem))

    def test_versions(self):
        self.assertEqual(machine.readable_version("cuda_driver", 13000), "13.0")
        self.assertEqual(machine.readable_version("nccl", 22809), "2.28.9")
        self.assertEqual(machine.readable_version("cudnn", 91002), "9.10.2")

    def test_cells_stay_cells(self):
        self.assertEqual(report.cell("a | b\n<c>"), "a \\| b &lt;c>")

    def test_a_sanitizer_that_refuses_the_device_has_not_passed(self):
        class Outcome:
            code, seconds = 0, 1.0
            output = ("========= COMPUTE-SANITIZER\n========= Error: Device not supported\n"
                      "[ RUN      ] A.B\n[       OK ] A.B (1 ms)\n")
        found = outputs.sanitizer(Outcome)
        self.assertEqual(found["status"], "failed")
        self.assertIn("Device not supported", found["failure"])

    def test_a_sanitizer_has_nothing_to_check_in_a_test_without_a_gpu(self):
        class Outcome:
            code, seconds = 0, 1.0
            output = ("========= COMPUTE-SANITIZER\n[ RUN      ] A.B\n[       OK ] A.B (1 ms)\n"
                      "========= Error: Target application terminated before first instrumented "
                      "API call\n")
        self.assertEqual(outputs.sanitizer(Outcome)["status"], "skipped")
        Outcome.code = 1
        self.assertEqual(outputs.sanitizer(Outcome)["status"], "failed")

    def test_words_to_train_on_are_the_same_every_time(self):
        with tempfile.TemporaryDirectory() as folder:
            texts = []
            for name in "ab":
                items.write_words(os.path.join(folder, name))
                texts.append(items.read_text(os.path.join(folder, name)))
        self.assertEqual(texts[0], texts[1])
        self.assertGreater(len(texts[0]), 2_000_000)


class PackTest(unittest.TestCase):
    ANSWER = textwrap.dedent("""\
        <?xml version="1.1" encoding="UTF-8" standalone="no"?>
        <query version="2">
            <rule class="cc_binary" location="x" name="//train:train">
                <string name="name" value="train"/>
                <list name="tags"><string value="gpu"/></list>
            </rule>
            <rule class="cc_test" location="x" name="//tests/parity:parity_cuda_test">
                <list name="tags"><string value="slow"/><string value="gpu"/></list>
                <dict name="env"><pair><string value="ZEROTH_TEST_DEVICE"/><string value="cuda"/></pair></dict>
            </rule>
        </query>
        """)

    def test_reads_what_bazel_answers(self):
        self.assertEqual(pack.read_targets(self.ANSWER), [
            {"label": "//tests/parity:parity_cuda_test", "kind": "test", "tags": ["gpu", "slow"],
             "env": {"ZEROTH_TEST_DEVICE": "cuda"}},
            {"label": "//train:train", "kind": "program", "tags": ["gpu"], "env": {}}])

    def test_splits_until_each_archive_fits_and_names_what_does_not(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = pack.Tree(os.path.join(folder, "tree"), with_nvidia=False)
            targets = []
            for name, size in (("a", 40_000), ("b", 40_000), ("c", 300_000), ("d", 40_000)):
                path = os.path.join(tree.folder, "runfiles/zeroth", name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(os.urandom(size))
                targets.append({"label": "//:" + name, "kind": "test", "tags": [], "env": {},
                                "program": "zeroth/" + name, "files": ["zeroth/" + name]})
            description = {"format": 1, "config": "cuda", "archs": "sm_90a", "commit": "c",
                           "built": "b"}
            archives = pack.Archives(tree, description, folder, 100_000)
            written = archives.write(targets)
            self.assertEqual([[target["label"] for target in group] for _, group in written],
                             [["//:a", "//:b"], ["//:d"]])
            self.assertEqual([label for label, _ in archives.too_large], ["//:c"])
            for path, _ in written:
                self.assertLessEqual(os.path.getsize(path), 100_000)
                subprocess.run(["tar", "xf", path, "-C", folder], check=True)
            unpacked = os.path.join(folder, "zeroth-gpu")
            _, found, _ = items.load_targets(unpacked)
            self.assertEqual([target["label"] for target in found], ["//:a", "//:b", "//:d"])
            self.assertTrue(os.path.exists(os.path.join(unpacked, "runfiles/zeroth/d")))
            with self.assertRaisesRegex(SystemExit, "scripts and libraries alone make"):
                pack.Archives(tree, description, folder, 100).write(targets)


if __name__ == "__main__":
    unittest.main()
