# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""run.py on a fake machine, with programs that pass, fail, crash, hang and measure, and what pack.py reads."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import pack  # noqa: E402  the folder has to be known first

PASSES = "echo '[       OK ] Suite.One (3 ms)'\n"
FAILS = PASSES + """
echo 'kernels/gemm_suite.cc:41: Failure'; echo '1 | 2'
echo '[  FAILED  ] Suite.Two, where GetParam() = (4, 5) (3 ms)'
echo '[  FAILED  ] Suite.Two, where GetParam() = (4, 5)'
exit 1
"""
SKIPS = "echo 'a.cc:7: Skipped'; echo 'no driver here'; echo '[  SKIPPED ] Suite.One (0 ms)'\n"
HANGS = """sh -c 'trap "" TERM; echo $$ >"$STATE/child"; sleep 1000' &
sleep 1000
"""
BENCHMARK = """
for word in "$@"; do case "$word" in
  --benchmark_list_tests*) echo BM_Gemm/bf16/qkv; echo BM_Gemm/fp32/qkv/iterations:10; echo BM_Cudnn; exit ;;
  --benchmark_out=*) out="${word#*=}" ;;
  --benchmark_filter=*) echo "${word#*=}" >>"$STATE/filters" ;;
esac; done
case "$*" in
  *Gemm*) echo '{"benchmarks": [
 {"name": "BM_Gemm/bf16/qkv", "real_time": 2500, "time_unit": "us", "ratio_to_floor": 0.87, "TFLOP/s": 640.0},
 {"name": "BM_Gemm/fp32/qkv", "error_occurred": true, "error_message": "no algorithm"}]}' >"$out" ;;
  *) echo '{"benchmarks": [{"name": "BM_Cudnn", "error_occurred": true,
 "error_message": "cuDNN: not found: libcudnn.so.9"}]}' >"$out" ;;
esac
exit 1
"""
TRAINER = r"""
for word in "$@"; do case "$word" in --out=*) out="${word#*=}" ;; esac; done
if [ "$RANK" = 0 ]; then
  mkdir -p "$out"
  for step in 1 2 3 4; do echo "{\"tokens_per_second\": ${step}00000}"; done >"$out/metrics.jsonl"
  echo "gathers   by copy engines"; echo "step 4/4  400k tok/s  GEMM util 41%"
fi
echo "$RANK of $WORLD_SIZE with $*" >>"$STATE/ranks"
"""
SANITIZER = """
tool="$1"; shift; shift
echo "========= COMPUTE-SANITIZER"
[ -n "$ZEROTH_CUDA_EXACT_BLOCKS" ] || exit 5
"$@"
case "$tool" in
  *race*) echo '========= Error: Race reported at k.cu:12'; echo '========= RACECHECK SUMMARY: 1 hazard displayed' ;;
  *init*) echo '========= Error: Device not supported' ;;
  *sync*) echo '========= Error: Target application terminated before first instrumented API call' ;;
  *) echo '========= ERROR SUMMARY: 0 errors' ;;
esac
"""


class RunTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.tree, self.out, self.state = (os.path.join(self.folder, name) for name in ("tree", "out", "state"))
        self.bin = os.path.join(self.folder, "bin")
        os.makedirs(self.state)
        os.makedirs(self.tree)
        for script in ("run.py", "../../benchmarks/compare_with_torch.py"):
            shutil.copy(os.path.join(HERE, script), self.tree)
        self.manifest = {"build": "--config=cuda", "commit": "abc123", "targets": []}
        self.set_gpus(1)

    @staticmethod
    def script(path, body):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n" + body)
        os.chmod(path, 0o755)

    def set_gpus(self, count):
        self.script(self.bin + "/nvidia-smi", "echo NVIDIA H200, 580.159.04, 143771 MiB\n" * count or "exit 9\n")

    def add(self, label, body, kind="test", tags=()):
        program = "zeroth/" + label[2:].replace(":", "/")
        self.script(os.path.join(self.tree, "runfiles", program), body)
        self.manifest["targets"].append({"label": label, "kind": kind, "tags": tags, "program": program,
                                         "env": {"ZEROTH_TEST_DEVICE": "cuda"}})

    def start(self, *arguments):
        with open(os.path.join(self.tree, "manifest.json"), "w", encoding="utf-8") as file:
            json.dump(self.manifest, file)
        return subprocess.Popen(
            [sys.executable, "-B", os.path.join(self.tree, "run.py"), "--out", self.out] + list(arguments), text=True,
            env=dict(os.environ, PATH=self.bin + ":" + os.environ.get("PATH", "/usr/bin:/bin"), STATE=self.state,
                     PYTHONPATH=os.path.join(self.folder, "site")),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run_it(self, *arguments, expected=0):
        process = self.start(*arguments)
        said = process.communicate()[0]
        self.assertEqual(process.returncode, expected, said)
        return said

    def results(self):
        return json.loads(self.read("out/results.json"))["items"]

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def wait_for_the_child_to_end(self):
        """For ever, if it has outlived the script."""
        process = int(self.read("state/child"))
        while os.path.exists("/proc/%d" % process) and ") Z " not in self.read("/proc/%d/stat" % process):
            time.sleep(0.02)

    def test_goes_on_after_what_fails_crashes_and_hangs(self):
        self.add("//a:hangs", HANGS)
        self.add("//a:crashes", PASSES + "kill -SEGV $$\n")
        self.add("//a:fails", FAILS)
        self.add("//a:skips", SKIPS)
        self.add("//a:silent", "exit 0\n")
        self.add("//a:blind", SKIPS.replace("no driver here", "cudaGetDeviceCount failed: 35"))
        self.add("//a:good", '[ "$ZEROTH_TEST_DEVICE" = cuda ] && [ -d "$TEST_TMPDIR" ] && [ -x a/good ] &&' + PASSES)
        self.run_it("--parts", "tests", "--limit=4", expected=1)
        found = {name: (result["status"], result["failure"]) for name, result in self.results().items()}
        self.assertEqual(found, {
            "tests //a:hangs": ("failed", "stopped at its limit: it printed nothing"),
            "tests //a:crashes": ("failed", "exit code -11: [ OK ] Suite.One (3 ms)"),
            "tests //a:fails": ("failed", "kernels/gemm_suite.cc:41: Failure 1 | 2; exit code 1: "
                                "[ FAILED ] Suite.Two, where GetParam() = (4, 5)"),
            "tests //a:skips": ("skipped", "a.cc:7: Skipped no driver here"),
            "tests //a:silent": ("failed", "no test case ran"),
            "tests //a:blind": ("failed", "the test sees no GPU: cudaGetDeviceCount failed: 35"),
            "tests //a:good": ("passed", "")})
        self.wait_for_the_child_to_end()
        text = self.read("out/gpu_results.md")
        self.assertIn("## On 1 x NVIDIA H200, 580.159.04, 143771 MiB, ", text)
        self.assertRegex(text, r"\| `tests //a:fails` \| failed \| 1 \| 1 \| 0 \| \d+ \| kernels/.* Failure 1 \\\| 2; ")

    def test_goes_on_where_a_call_has_ended(self):
        self.add("//a:first", 'echo run >>"$STATE/first"\n' + PASSES)
        self.add("//a:second", '[ -e "$STATE/child" ] || { %s }\n%s' % (HANGS, PASSES))
        process = self.start("--parts", "tests")
        while not os.path.exists(os.path.join(self.state, "child")) or not self.read("state/child"):
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        process.communicate()
        self.assertEqual(process.returncode, 3)
        self.wait_for_the_child_to_end()
        self.assertIn("Not run:\n\n- `tests //a:second`\n", self.read("out/gpu_results.md"))
        self.run_it("--parts", "tests")
        self.assertEqual((len(self.results()), self.read("state/first")), (2, "run\n"))
        self.manifest["commit"] = "other"
        self.assertIn("'other', 'build': '--config=cuda'}: use another --out", self.run_it(expected=2))

    def test_a_call_ends_in_time(self):
        self.add("//a:first", "sleep 1.5\n" + PASSES)
        self.add("//a:second", PASSES)
        self.run_it("--parts", "tests", "--time_limit=11", expected=3)
        self.run_it("--parts", "tests", "--time_limit=11")

    def test_benchmarks_run_by_family_or_by_case(self):
        self.add("//benchmarks:cuda_kernels", BENCHMARK, "program")
        self.add("//benchmarks:steps", BENCHMARK, "program", tags=["case_by_case"])
        self.run_it("--parts", "speed", expected=1)
        self.assertEqual(self.read("state/filters").split(), [
            "^BM_Gemm(/|$)", "^BM_Cudnn(/|$)", "^BM_Gemm/bf16/qkv(/|$)", "^BM_Gemm/fp32/qkv(/|$)", "^BM_Cudnn(/|$)"])
        found = self.results()
        self.assertEqual(found["speed //benchmarks:cuda_kernels BM_Gemm"]["failure"], "BM_Gemm/fp32/qkv: no algorithm")
        self.assertEqual(found["speed //benchmarks:cuda_kernels BM_Cudnn"]["status"], "skipped")
        self.assertIn("| `BM_Gemm/bf16/qkv` | 2.5 | 0.87 | 640 TFLOP/s |", self.read("out/gpu_results.md"))

    def test_a_program_that_cannot_list_its_benchmarks_has_failed(self):
        self.add("//benchmarks:broken", "echo libcudnn.so.9 is missing; exit 1\n", "program")
        self.run_it("--parts", "speed", expected=1)
        self.assertEqual(self.results()["speed //benchmarks:broken .*"]["status"], "failed")

    def test_the_trainer_has_a_process_for_each_gpu(self):
        self.set_gpus(2)
        self.add("//train:train", TRAINER, "program")
        self.run_it("--parts", "speed", "--only=off$|off --cuda_graphs")
        ranks = sorted(line.split(" with ")[0] for line in self.read("state/ranks").splitlines())
        self.assertEqual(ranks, ["0 of 1"] * 2 + ["0 of 2"] * 2 + ["1 of 2"] * 2)
        self.assertIn("| `gpt2_124m on 2: --nccl_copy_engine=off` | - | 0.41 | 400000 tokens/s, gathers by copy",
                      self.read("out/gpu_results.md"))

    def test_tables_of_programs_are_copied(self):
        self.add("//benchmarks:memory", 'echo "a table of $*"\n', "program")
        self.run_it("--parts", "memory", "--only=full_shard")
        self.assertIn("```\na table of --device=cuda gpt2_124m 4 full_shard all\n```", self.read("out/gpu_results.md"))

    def test_compute_sanitizer_is_used_where_it_is(self):
        self.add("//kernels:a", PASSES)
        self.add("//train:b", PASSES)
        self.script(os.path.join(self.bin, "compute-sanitizer"), SANITIZER)
        self.run_it("--parts", "sanitizer", expected=1)
        self.assertEqual({name.split()[1]: result["failure"] for name, result in self.results().items()}, {
            "memcheck": "", "racecheck": "========= Error: Race reported at k.cu:12",
            "initcheck": "========= Error: Device not supported", "synccheck": "it makes no call of CUDA"})

    def test_a_trainer_may_lack_cudnn_alone(self):
        # The trainer also says at its start why it does not use cuDNN.
        self.add("//train:train", "echo cuDNN: not found; case $* in *off) exit 0 ;; esac; exit 1\n", "program")
        self.run_it("--only=(on|off|cudnn)$", expected=1)
        self.assertEqual([result["status"] for result in self.results().values()], ["failed", "failed", "skipped"])
        self.assertIn("its output cannot be read: ", self.read("out/gpu_results.md"))

    def test_torch_may_be_missing(self):
        self.script(os.path.join(self.folder, "site/torch.py"), "raise ImportError\n")
        self.add("//benchmarks:train_step_cuda", BENCHMARK, "program")
        self.add("//benchmarks:cuda_kernels", BENCHMARK, "program")
        self.run_it("--parts", "torch", "--only=llama_1b|attention")
        self.assertEqual({name: result["failure"] for name, result in self.results().items()}, dict.fromkeys(
            ("torch llama_1b_full_shard_1", "torch attention"), "PyTorch is not installed here: pip install torch"))

    def test_refusals(self):
        self.add("//a:first", PASSES)
        self.assertIn("invalid choice: 'speeds'", self.run_it("--parts", "speeds", expected=2))
        self.assertIn("leave nothing", self.run_it("--only=nothing", expected=2))
        self.script(self.bin + "/ldd", "echo 'libnccl.so.2 => not found'\n")
        self.assertIn("libnccl.so.2 => not found; set LD_LIBRARY_PATH", self.run_it(expected=2))
        self.set_gpus(0)
        self.assertIn("no GPU", self.run_it(expected=2))


class PackTest(unittest.TestCase):
    def test_reads_what_bazel_answers(self):
        answer = """<?xml version="1.1" encoding="UTF-8" standalone="no"?>
            <query version="2">
              <rule class="cc_binary" name="//train:train">
                <string name="name" value="train"/><list name="tags"><string value="gpu"/></list></rule>
              <rule class="cc_test" name="//tests:a_test">
                <list name="tags"><string value="slow"/><string value="gpu"/></list>
                <dict name="env"><pair><string value="A"/><string value="cuda"/></pair></dict></rule>
            </query>"""
        self.assertEqual(pack.read_targets(answer), [
            {"label": "//tests:a_test", "kind": "test", "tags": ["gpu", "slow"], "env": {"A": "cuda"}},
            {"label": "//train:train", "kind": "program", "tags": ["gpu"], "env": {}}])

    def test_copies_a_shared_binary_once(self):
        with tempfile.TemporaryDirectory() as folder:
            built, out = os.path.join(folder, "built"), os.path.join(folder, "out")
            os.mkdir(built)
            for name in ("a_tests", "a_data", "b_data"):
                with open(os.path.join(built, name), "w", encoding="utf-8") as file:
                    file.write(name)
            targets, programs = [{}, {}], {}
            for target, name in zip(targets, ("a", "b")):
                program = os.path.join(built, name + "_test")
                os.symlink("a_tests", program)
                with open(program + ".runfiles_manifest", "w", encoding="utf-8") as manifest:
                    for file in (name + "_test", name + "_data", "a_tests"):
                        manifest.write("zeroth/%s %s\n" % (file, os.path.join(built, file)))
                pack.copy_target(target, program, out, False, set(), programs)
            self.assertEqual(targets[0], targets[1])
            copied = os.path.join(out, "runfiles")
            with open(os.path.join(copied, targets[0]["program"]), encoding="utf-8") as file:
                self.assertEqual(file.read(), "a_tests")
            self.assertEqual(len(os.listdir(os.path.join(copied, "zeroth"))), 3)  # a program, two data files


if __name__ == "__main__":
    unittest.main()
