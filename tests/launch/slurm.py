#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Runs examples/launch/slurm.sh under a Slurm cluster of this machine alone, and interrupts it.

    bazel build //train
    tests/launch/slurm.py --train=bazel-bin/train/train

munged, slurmctld and slurmd run in a scratch directory, on loopback, as one node of four CPUs.
sbatch starts the script with its lines changed as its comments say: a small model, CPUs, and two
ranks that Debian's Open MPI connects by PMIx. The job is then interrupted in three ways: by Slurm
before the time limit, by scancel, and by a job of a partition that preempts it. After each of them
the step must have ended with code 75, with a checkpoint and without a model, and the job must be in
the queue again. After the last restart it finishes, with the model of one undisturbed process, bit
for bit. A job that fails must not be queued again. MPICH's ranks train a step, too.

Needs root, and of Debian the packages slurm-wlm, munge, libpmix-dev (Slurm loads libpmix.so),
openmpi-bin and mpich. Exits with 3, and says why, where it cannot run.
"""

import argparse
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from small_run import SmallRun, await_that, expect, free_ports, run

RANKS = 2
# States of a job that does not run again.
ENDED = "COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel", "squeue",
            "mpirun.openmpi", "mpirun.mpich")
CONFIGURATION = """
ClusterName=zeroth
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmdPort={slurmd_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=120
SlurmdTimeout=600
MpiDefault=none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES State=UP PriorityTier=1 GraceTime=120
PartitionName=urgent Nodes={host} State=UP PriorityTier=2 PreemptMode=OFF
"""


class Cluster:
    """Slurm's daemons, which end with this object."""

    def __init__(self, folder):
        self.folder = folder
        self.daemons = []
        ctld_port, slurmd_port = free_ports(2)
        self.host = socket.gethostname().split(".")[0]
        for name in ("state", "spool"):
            os.makedirs(os.path.join(folder, name))
        configuration = os.path.join(folder, "slurm.conf")
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(host=self.host, folder=folder, ctld_port=ctld_port,
                                            slurmd_port=slurmd_port))
        os.environ["SLURM_CONF"] = configuration
        key = os.path.join(folder, "munge.key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(os.urandom(128))
        try:
            self._start("munged", "--foreground", "--key-file=" + key, "--num-threads=2",
                        *("--%s=%s/munge.%s" % (option, folder, suffix) for option, suffix in (
                            ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"),
                            ("seed-file", "seed"))))
            await_that("munged listens",
                       lambda: self._lives() and os.path.exists(folder + "/munge.socket"))
            self._start("slurmctld", "-D", "-f", configuration)
            self._start("slurmd", "-D", "-f", configuration)
            await_that("the node is idle", lambda: self._lives() and self._node_is_idle())
        except BaseException:
            self.close()
            raise

    def _start(self, *words):
        log = open(os.path.join(self.folder, words[0] + ".out"), "wb")
        self.daemons.append(subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True))

    def _lives(self):
        for daemon in self.daemons:
            if daemon.poll() is not None:
                raise RuntimeError("%s has ended: %s" % (daemon.args[0], self.logs()))
        return True

    def _node_is_idle(self):
        shown = subprocess.run(["scontrol", "show", "node", self.host], capture_output=True,
                               text=True, check=False)
        return "State=IDLE " in shown.stdout

    def logs(self):
        """The ends of what the daemons and the job have written."""
        text = ""
        for name in sorted(glob.glob(self.folder + "/*.out") + glob.glob(self.folder + "/*.log")):
            with open(name, encoding="utf-8", errors="replace") as file:
                text += "--- %s\n%s" % (os.path.basename(name), file.read()[-4000:])
        return text

    def close(self):
        self._end_jobs()
        for daemon in reversed(self.daemons):
            if daemon.poll() is None:
                daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(60)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


    def _end_jobs(self):
        """Slurm's daemons leave the processes of jobs behind."""
        user = "--user=root"
        for words in (["scancel", "--full", "--signal=KILL", user], ["scancel", user]):
            subprocess.run(words, capture_output=True, check=False)
        last = time.monotonic() + 60
        while time.monotonic() < last and subprocess.run(
                ["squeue", "--noheader", user], capture_output=True, check=False).stdout:
            time.sleep(0.2)


class Job:
    """What sbatch has queued."""

    def __init__(self, *words):
        self.number = run("sbatch", "--parsable", *words).strip()

    def shows(self, name):
        shown = run("scontrol", "show", "job", self.number)
        return re.search(r"\b%s=(\S*)" % name, shown).group(1)

    def await_state(self, state):
        """Waits until the job has one of several states."""
        await_that("job %s has state %s; scontrol shows %s" % (
            self.number, state, run("scontrol", "show", "job", self.number)),
                   lambda: re.fullmatch(state, self.shows("JobState")))


class Tester(SmallRun):
    def __init__(self, options, folder):
        super().__init__(options.train, folder)
        self.log = os.path.join(folder, "job.log")
        self.script = os.path.join(folder, "slurm.sh")
        self.change(
            "slurm.sh", self.script,
            ("--nodes=2", "--nodes=1"),
            ("--ntasks-per-node=8", "--ntasks-per-node=%d" % RANKS),
            ("#SBATCH --gpus-per-node=8\n", ""),
            ("--cpus-per-task=8", "--cpus-per-task=1"),
            # Slurm may signal up to a minute early, so here after one minute to two.
            ("--time=04:00:00", "--time=3"),
            ("--signal=USR1@120", "--signal=USR1@60"),
            ("--device=cuda --comm=nccl", "--device=cpu --comm=mpi"),
            ("srun ", "srun --mpi=pmix "),
            ("--shard_size=8", "--shard_size=%d" % RANKS),
            ("--param_dtype=bf16 --reduce_dtype=bf16", ""))

    def words(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def interrupt(self, what, job, restarts, interrupts):
        """Lets the job train, interrupts it, and checks what it leaves. Returns its last step."""
        before = 0
        if restarts > 0:
            before = self.steps()[-1]
            self.restart(job)
        await_that("the job trains: " + what, lambda: self.trains(before + 2) or self.failed(job))
        known = len(self.words())
        interrupts()
        await_that("the job is queued again: " + what,
                   lambda: int(job.shows("Restarts")) > restarts or self.failed(job))
        job.await_state("PENDING")
        new = self.words()[known:]
        expect("interrupted after " in new and "Exited with exit code 75" in new,
                    what + ": the ranks did not end with code 75")
        step = self.expect_interrupted(what)
        print("%-40s step %6d, then the job is queued again" % (what, step), flush=True)
        return step

    def restart(self, job):
        """Slurm would wait for two minutes; in the second of the last end it refuses to start."""
        run("scontrol", "update", "jobid=" + job.number, "starttime=now+5")

    def failed(self, job):
        """False; raises an error if the job has ended for good."""
        state = job.shows("JobState")
        expect(not re.fullmatch(ENDED, state), "the job has state " + state)
        return False

    def test(self):
        self.set_steps(1000000)
        job = Job("--output=" + self.log, self.script, "--config=" + self.config)
        self.interrupt("Slurm's signal before the time limit", job, 0, lambda: None)
        self.interrupt("scancel --signal=TERM", job, 1,
                       lambda: run("scancel", "--signal=TERM", job.number))
        urgent = []
        last = self.interrupt(
            "preempted by another partition", job, 2,
            lambda: urgent.append(Job("--partition=urgent", "--ntasks=4", "--output=/dev/null",
                                      "--wrap=true")))
        urgent[0].await_state("COMPLETED")
        self.set_steps(last + 3)
        self.restart(job)
        job.await_state(ENDED)
        expect(job.shows("JobState") == "COMPLETED", "the job failed")
        expect("done after %d steps" % (last + 3) in self.words(), "the run did not finish")
        # Slurm overwrites the output at each start unless it is told to append.
        expect(self.words().count("resume    from ") == 3, "the output lacks earlier starts")
        self.compare("final/", "--world_size=%d" % RANKS, "--strategy=hybrid_shard",
                     "--shard_size=%d" % RANKS)
        failing = Job("--output=" + self.log + "2", self.script, "--config=" + self.config,
                      "--lr=-2")
        failing.await_state("FAILED")
        if failing.shows("Restarts") != "0":
            raise RuntimeError("a job that failed was queued again")
        self.start_mpich()

    def start_mpich(self):
        """MPICH's ranks are connected by PMI, whose variables name the library to load."""
        text = run("srun", "--mpi=pmi2", "--ntasks=%d" % RANKS, "zeroth-train", "--comm=mpi",
                   "--steps=1", "--out=" + self.shared + "/mpich", *self.small)
        if "full_shard over %d ranks" % RANKS not in text or "done after 1 steps" not in text:
            raise RuntimeError("ranks of MPICH do not train: " + text)
        print("%-40s trains" % "srun --mpi=pmi2, MPICH", flush=True)


def lacks():
    """Why this machine cannot have a cluster, or an empty text."""
    if os.geteuid() != 0:
        return "only root can start Slurm's daemons"
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        return "there is no %s (Debian: slurm-wlm, munge, openmpi-bin, mpich)" % missing[0]
    if not glob.glob("/usr/lib/*/pmix2/lib/libpmix.so"):
        return "srun --mpi=pmix finds no libpmix.so (Debian: libpmix-dev)"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True, help="the trainer")
    options = parser.parse_args()
    reason = lacks()
    if reason:
        print("no cluster of Slurm here: " + reason)
        return 3
    with tempfile.TemporaryDirectory(prefix="zeroth-slurm-") as folder:
        os.chmod(folder, 0o755)  # munged wants a folder that all users can enter
        cluster = Cluster(folder)
        try:
            Tester(options, folder).test()
        except Exception:
            sys.stderr.write(cluster.logs())
            raise
        finally:
            cluster.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
