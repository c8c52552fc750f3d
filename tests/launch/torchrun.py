#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Runs examples/launch/torchrun.sh under PyTorch's torchrun, and kills and interrupts it.

    bazel build --config=cuda_emulation //train
    tests/launch/torchrun.py --train=bazel-bin/train/train --torchrun=VENV/bin/torchrun

torchrun starts two ranks, which share the emulated GPU and communicate by the emulated NCCL: by one
agent, and by two agents on this machine, which meet statically, as in torchrun.sh, or by c10d.
Each run must end with the bits of threads of one process. A rank that is killed must end the job
with an error that names it; with --max_restarts=1, torchrun must start the ranks again, which
resume. After SIGTERM to the agent each rank must end with code 75 within torchrun's patience of 30
seconds, with a checkpoint and without a model; the job, started again, must finish.
"""

import argparse
import glob
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time

from small_run import SmallRun, await_that, expect, free_ports

RANKS = 2
STEPS = 8
# For the emulated GPU: little work, and kernels for heads that are 10 wide.
LITTLE = ["--seq_len=16", "--batch_size=1", "--allow_slow_kernels"]
# The ranks' codes are lost in torchrun, so a shell writes them down. torchrun signals both, and the
# shell stays to see how its rank ends.
CODES = """#!/bin/sh
trap : TERM
zeroth-train "$@"
code=$?
echo "$code" >"$CODES-$RANK"
exit "$code"
"""


class Job:
    """The agents of one run."""

    numbers = itertools.count()

    def __init__(self, tester, agents, words_of, restarts=0):
        self.name = "zeroth-%d-%d" % (os.getpid(), next(self.numbers))
        self.codes = os.path.join(tester.folder, self.name)
        self.log = self.codes + ".log"
        port = free_ports(1)[0]
        self.agents = []
        for agent in range(agents):
            environment = dict(os.environ, JOB=self.name, PORT=str(port), NODE=str(agent),
                               NODES=str(agents), GPUS_PER_NODE=str(RANKS // agents),
                               TRAINER=tester.wrapper, CODES=self.codes,
                               ZEROTH_JOB_SECRET="%064d" % 7, PET_MAX_RESTARTS=str(restarts))
            with open(self.log, "ab") as log:
                self.agents.append(subprocess.Popen(
                    words_of(self.name, port), env=environment, stdout=log, stderr=log))

    def words(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def has_ended(self):
        return all(agent.poll() is not None for agent in self.agents)

    def wait(self):
        await_that("the job ends", self.has_ended)
        return [agent.returncode for agent in self.agents]

    def ranks(self):
        """Rank -> process of the trainer."""
        found = {}
        for folder in glob.glob("/proc/[0-9]*"):
            try:
                with open(folder + "/environ", "rb") as file:
                    variables = file.read().split(b"\0")
                with open(folder + "/comm", encoding="utf-8") as file:
                    is_trainer = file.read().startswith("zeroth-train")
            except OSError:
                continue
            if is_trainer and b"TORCHELASTIC_RUN_ID=" + self.name.encode() in variables:
                rank = next(one for one in variables if one.startswith(b"RANK="))
                found[int(rank[5:])] = int(os.path.basename(folder))
        return found

    def exit_codes(self):
        codes = {}
        for path in glob.glob(self.codes + "-*"):
            with open(path, encoding="utf-8") as file:
                codes[int(path.rsplit("-", 1)[1])] = int(file.read())
        return [codes.get(rank) for rank in range(RANKS)]

    def close(self):
        for agent in self.agents:
            if agent.poll() is None:
                agent.kill()
                agent.wait()
        for process in self.ranks().values():
            os.kill(process, signal.SIGKILL)


class Tester(SmallRun):
    def __init__(self, options, folder):
        super().__init__(options.train, folder)
        self.folder = folder
        os.symlink(os.path.abspath(options.torchrun), folder + "/bin/torchrun")
        self.script = os.path.join(folder, "torchrun.sh")
        self.change("torchrun.sh", self.script)
        self.wrapper = os.path.join(folder, "wrapper")
        with open(self.wrapper, "w", encoding="utf-8") as file:
            file.write(CODES)
        os.chmod(self.wrapper, 0o755)
        self.outs = itertools.count()
        self.set_steps(STEPS)
        self.job = None

    def new_run(self):
        self.out = os.path.join(self.shared, "run-%d" % next(self.outs))

    def own_flags(self):
        return ["--out=" + self.out, "--config=" + self.config, "--checkpoint_every=2", *LITTLE]

    def start(self, agents=1, restarts=0):
        """By torchrun.sh, where agents meet at rank 0's."""
        self.job = Job(self, agents, lambda *_: [self.script, *self.own_flags()], restarts)
        return self.job

    def start_c10d(self, restarts=0):
        """Two agents, which choose their ranks themselves."""
        self.job = Job(self, 2, lambda name, port: [
            "torchrun", "--no-python", "--nnodes=2", "--nproc_per_node=1", "--rdzv_backend=c10d",
            "--rdzv_endpoint=127.0.0.1:%d" % port, "--rdzv_id=" + name, self.wrapper,
            "--device=cuda", "--comm=nccl", "--param_dtype=bf16", "--reduce_dtype=bf16",
            "--strategy=full_shard", "--resume=auto", *self.small, *self.own_flags()], restarts)
        return self.job

    def expect_success(self, what, job):
        codes = job.wait()
        expect(set(codes) == {0} and "done after" in job.words(),
               "%s: torchrun has ended with %s" % (what, codes))
        self.compare(what, "--device=cuda", "--param_dtype=bf16", "--reduce_dtype=bf16",
                     "--strategy=full_shard", "--world_size=%d" % RANKS, *LITTLE)

    def await_steps(self, what, job):
        await_that("the job trains: " + what, lambda: self.trains(2) or job.has_ended())
        expect(not job.has_ended(), "%s: the job has ended: %s" % (what, job.words()))

    def test(self):
        self.new_run()
        self.expect_success("one agent", self.start())
        self.new_run()
        self.test_signal()
        self.test_kill()
        self.test_restart("a rank is killed", self.start)
        self.test_restart("a rank of two agents is killed", self.start_c10d)
        self.new_run()
        self.expect_success("two agents, static", self.start(agents=2))
        self.new_run()
        self.expect_success("two agents, c10d", self.start_c10d())

    def kill_rank(self, what, job):
        self.await_steps(what, job)
        os.kill(job.ranks()[1], signal.SIGKILL)

    def test_kill(self):
        what = "a rank is killed, no restart"
        self.new_run()
        job = self.start()
        self.kill_rank(what, job)
        codes = job.wait()
        expect(codes == [1], "%s: torchrun has ended with %s" % (what, codes))
        expect("rank 1 failed: " in job.words(), what + ": no error names it")
        expect(not os.path.exists(self.out + "/final"), what + ": there is a model")
        print("%-40s an error" % what, flush=True)

    def test_restart(self, what, start):
        self.new_run()
        job = start(restarts=1)
        self.kill_rank(what, job)
        job.wait()
        expect("resume    from " in job.words(), what + ": the ranks did not resume")
        self.expect_success(what + ", restart", job)

    def test_signal(self):
        what = "SIGTERM to the agent"
        self.new_run()
        job = self.start()
        self.await_steps(what, job)
        sent = time.monotonic()
        job.agents[0].terminate()
        job.wait()
        took = time.monotonic() - sent
        expect(job.exit_codes() == [75] * RANKS,
               "%s: the ranks' codes are %s" % (what, job.exit_codes()))
        last = self.expect_interrupted(what)
        print("%-40s code 75 after step %d, in %.1f s" % (what, last, took), flush=True)
        self.expect_success(what + ", started again", self.start())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True, help="the trainer, with the emulated GPU")
    parser.add_argument("--torchrun", required=True, help="of a Python that has PyTorch")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zeroth-torchrun-") as folder:
        tester = Tester(options, folder)
        try:
            tester.test()
        except Exception:
            if tester.job:
                sys.stderr.write(tester.job.words())
            raise
        finally:
            if tester.job:
                tester.job.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
