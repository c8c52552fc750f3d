#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Trains on four hosts of two ranks, and disturbs each run by one fault at a point drawn by a seed.

    bazel build //train //tools/inspect
    tests/faults/hosts.py --train=bazel-bin/train/train --inspect=bazel-bin/tools/inspect/inspect
    tests/faults/hosts.py --sum LOG...   # one table of what several of these have printed

A host is a network namespace with a name of its own. Open MPI starts the ranks on the hosts. They
communicate by TCP: by Open MPI or, with --comm=nccl and a trainer that has been built with
--config=cuda_emulation, by the emulated NCCL, with torchrun's variables, without any use of MPI. So
does the trainer's coordinator. The network between the hosts is a TUN device in each and a thread
here that forwards the packets, late or not at all where a fault says so: kernels may lack netem.

After each fault all ranks must end within --comm_timeout and the time of the watchdog; an
error must name a rank concerned or the reason; the checkpoints that were complete must be intact,
as far as --keep_last keeps them; and the run, started again with --resume=auto, must have the
losses and the model of one process alone, bit for bit. Prints a table of kinds and outcomes, and
exits with 1 if one fault had another outcome. Faults are mostly waited for, so --clusters=4 makes
four at once, each on its own four hosts. Needs root; prints SKIPPED: and why where hosts cannot be
made.
"""

import argparse
import collections
import fcntl
import glob
import hashlib
import heapq
import itertools
import json
import multiprocessing
import os
import random
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

HOSTS = 4
RANKS_PER_HOST = 2
RANKS = HOSTS * RANKS_PER_HOST
STEPS = 6
CHECKPOINT_EVERY = 2
KEEP_LAST = 2
COMM_TIMEOUT = 20
# core/comm/process/process_world.h
WATCHDOG = 60
# Seconds for everything else: the steps that remain, on a machine that is busy.
SLACK = 90
NETWORK = "10.79.0."
STRATEGIES = (
    ["--strategy=full_shard"],
    ["--strategy=full_shard", "--async_checkpoint"],
    ["--strategy=hybrid_shard", "--shard_size=2"],
    ["--strategy=shard_grad_op"],
)
FAKETIME = "/usr/lib/*/faketime/libfaketimeMT.so.1"
# The faults, and whether the run has to finish in spite of one.
KINDS = {
    "kill": ("kill -9 of a rank", False),
    "stop": ("SIGSTOP of a rank until the others have ended", False),
    "blip": ("a host's link is down for 1 to 4 s", False),
    "delay": ("200 ms on a host's link for 1 to 4 s", True),
    "disk_full": ("the disk of `--out` is full", False),
    "clock": ("a host's clock jumps by up to four years", True),
    "pause": ("SIGSTOP of a rank, SIGCONT 1 to 4 s later", True),
    "loss": ("1 % of a host's packets are lost", True),
    "cut": ("a host's link is down until all have ended", False),
}


def run(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more)


def send(pid, number):
    """Sends a signal to a process that may have ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def find_mpirun():
    """Open MPI's mpirun, or None."""
    for name in ("mpirun.openmpi", "mpirun"):
        if shutil.which(name):
            version = subprocess.run([name, "--version"], capture_output=True, text=True, check=False)
            if "Open MPI" in version.stdout:
                return name
    return None


class Link:
    """A host's link: what a fault makes of the packets from and to the host."""

    def __init__(self, device):
        self.device = device
        self.delay = 0
        self.loss = 0


class Network:
    """Namespaces, and the thread that forwards packets between them."""

    def __init__(self, folder, seed):
        self.prefix = "zeroth-%d-" % os.getpid()
        self.links = []
        self.thread = None
        self.random = random.Random(seed)
        self.closing = threading.Event()
        self.agent = os.path.join(folder, "agent")
        hosts_file = os.path.join(folder, "hosts")
        with open(hosts_file, "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines("%s%d host%d\n" % (NETWORK, host + 1, host) for host in range(HOSTS))
        # Open MPI calls it in the place of ssh: agent ADDRESS COMMAND.
        with open(self.agent, "w", encoding="utf-8") as file:
            file.write("""#!/bin/sh
host=$((${1##*.} - 1))
shift
exec ip netns exec %s$host unshare --uts /bin/sh -c 'mount --bind %s /etc/hosts &&
  echo "host$0" >/proc/sys/kernel/hostname && eval "$1"' $host "$*"
""" % (self.prefix, hosts_file))
        os.chmod(self.agent, 0o755)
        try:
            for host in range(HOSTS):
                self._make_host(host)
        except BaseException:
            self.close()
            raise
        self.thread = threading.Thread(target=self._forward, daemon=True)
        self.thread.start()

    def _make_host(self, host):
        run("ip", "netns", "add", self.name(host))
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        self.links.append(Link(device))
        # TUNSETIFF with IFF_TUN | IFF_NO_PI. Namespaces have the same name for different devices.
        name = "z%d-%d" % (os.getpid(), host)
        fcntl.ioctl(device, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x1001))
        run("ip", "link", "set", name, "netns", self.name(host), "name", "eth0")
        for words in ("link set lo up", "addr add %s%d/24 dev eth0" % (NETWORK, host + 1),
                      "link set eth0 mtu 9000 up"):
            run("ip", "-n", self.name(host), *words.split())

    def name(self, host):
        return self.prefix + str(host)

    def set_up(self, host, up):
        run("ip", "-n", self.name(host), "link", "set", "eth0", "up" if up else "down")

    def heal(self):
        for host, link in enumerate(self.links):
            link.delay = link.loss = 0
            self.set_up(host, True)

    def _forward(self):
        poll = select.epoll()
        for link in self.links:
            poll.register(link.device, select.EPOLLIN)
        by_device = {link.device: link for link in self.links}
        waiting = []
        order = itertools.count()
        while not self.closing.is_set():
            until = waiting[0][0] - time.monotonic() if waiting else 0.5
            for device, _ in poll.poll(max(0, min(until, 0.5))):
                source = by_device[device]
                try:
                    packet = os.read(device, 1 << 16)
                except OSError:
                    continue
                # IPv4 to one of the hosts.
                if packet[0] >> 4 != 4 or not 1 <= packet[19] <= HOSTS:
                    continue
                target = self.links[packet[19] - 1]
                loss = source.loss + target.loss
                if loss and self.random.random() < loss:
                    continue
                due = time.monotonic() + source.delay + target.delay
                heapq.heappush(waiting, (due, next(order), target.device, packet))
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, device, packet = heapq.heappop(waiting)
                try:
                    os.write(device, packet)
                except OSError:
                    pass  # its link is down

    def kill_all(self):
        """Ends all processes of the hosts."""
        for host in range(HOSTS):
            pids = subprocess.run(["ip", "netns", "pids", self.name(host)], capture_output=True,
                                  text=True, check=False).stdout.split()
            for pid in pids:
                send(int(pid), signal.SIGKILL)

    def close(self):
        self.closing.set()
        if self.thread:
            self.thread.join()
        self.kill_all()
        for host in range(HOSTS):
            subprocess.run(["ip", "netns", "del", self.name(host)], capture_output=True, check=False)
        for link in self.links:
            os.close(link.device)


def lacks(options, folder):
    """Why hosts cannot be made here, or None."""
    with open(options.train, "rb") as file:
        if re.search(b"__[at]san_init", file.read()):
            return "a sanitizer is linked in"  # its times are others
    if os.geteuid() != 0:
        return "hosts cannot be made here: needs root"
    for program in ("ip", "unshare"):
        if not shutil.which(program):
            return "hosts cannot be made here: there is no %s (Debian: iproute2, util-linux)" % program
    if not find_mpirun():
        return "there is no mpirun of Open MPI"
    if "clock" in options.kinds and not glob.glob(FAKETIME):
        return "hosts cannot be made here: there is no libfaketime (Debian: libfaketime)"
    try:
        network = Network(folder, options.seed)
        try:
            run(network.agent, NETWORK + "1", "true")
            run("unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", folder)
        finally:
            network.close()
    except (subprocess.CalledProcessError, OSError) as error:
        return "hosts cannot be made here: %s" % (getattr(error, "stderr", None) or error)
    return None


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def losses(out):
    """Step -> all values of its loss and norm, of which a resumed run may have two."""
    found = collections.defaultdict(set)
    with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as file:
        for line in file:
            value = json.loads(line)
            if "loss" in value:
                found[value["step"]].add((value["loss"], value["grad_norm"]))
    return found


def steps_done(out):
    try:
        with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as file:
            return sum('"step"' in line for line in file)
    except OSError:
        return 0


def checkpoints(out):
    return sorted(int(os.path.basename(path)[5:]) for path in glob.glob(os.path.join(out, "step-*")))


def digest(out):
    with open(os.path.join(out, "final/model.safetensors"), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def ranks_in(text):
    """The ranks that a message names: "rank 3", "ranks 1, 3", "ranks 0-3, 6"."""
    found = set()
    for part in re.findall(r"\branks? (\d[\d, -]*)", text):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", part):
            found.update(range(int(first), int(last or first) + 1))
    return found


class Job:
    """The trainer on all hosts."""

    def __init__(self, tester, out, flags, clock_host=None):
        self.folder = tempfile.mkdtemp(prefix="job-", dir=tester.folder)
        self.known = {}
        self.clock = os.path.join(self.folder, "clock")
        with open(self.clock, "w", encoding="utf-8") as file:
            file.write("+0\n")
        faketime = ""
        if clock_host is not None:
            faketime = """if [ "$(cat /proc/sys/kernel/hostname)" = host%d ]; then
export LD_PRELOAD=%s FAKETIME_TIMESTAMP_FILE=%s FAKETIME_CACHE_DURATION=1
export FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1
fi""" % (clock_host, glob.glob(FAKETIME)[0], self.clock)
        nccl = ""
        if tester.options.comm == "nccl":
            nccl = """export NCCL_SOCKET_IFNAME=eth0 ZEROTH_JOB_SECRET=%s
export MASTER_ADDR=host0 MASTER_PORT=29500 RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=%d
export LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK LOCAL_WORLD_SIZE=%d""" % (
                os.urandom(32).hex(), RANKS, RANKS_PER_HOST)
        rank = """%s
%s
"$@" & echo $! >%s/pid-$OMPI_COMM_WORLD_RANK
wait $!
echo $? >%s/code-$OMPI_COMM_WORLD_RANK""" % (faketime, nccl, self.folder, self.folder)
        hosts = ",".join("%s%d:%d" % (NETWORK, host + 1, RANKS_PER_HOST) for host in range(HOSTS))
        # Ranks that were not killed continue, as under srun, and report the failure themselves.
        command = [find_mpirun(), "-n", str(RANKS), "--host", hosts, "--map-by", "slot",
                   "--bind-to", "none", "--mca", "plm_rsh_agent", tester.network.agent,
                   "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "btl", "tcp,self",
                   "--mca", "pml", "ob1", "--mca", "orte_enable_recovery", "1",
                   "/bin/sh", "-c", rank, "sh", tester.options.train,
                   "--comm=" + tester.options.comm, *tester.flags(out), *flags]
        self.output = os.path.join(self.folder, "output")
        self.errors = os.path.join(self.folder, "errors")
        environment = {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
                       "HOME": self.folder, "TMPDIR": self.folder,
                       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        with open(self.output, "wb") as output, open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                [tester.network.agent, NETWORK + "1", "exec " + shlex.join(command)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=environment)

    def numbers(self, kind):
        found = {}
        for rank in range(RANKS):
            try:
                with open("%s/%s-%d" % (self.folder, kind, rank), encoding="utf-8") as file:
                    found[rank] = int(file.read())
            except (OSError, ValueError):
                pass
        return found

    def pids(self):
        if len(self.known) < RANKS:
            self.known = self.numbers("pid")
        return self.known

    def alive(self):
        return {rank for rank, pid in self.pids().items() if is_alive(pid)}

    def has_ended(self, without=()):
        if self.process.poll() is not None:
            return True
        return len(self.pids()) == RANKS and not self.alive() - set(without)

    def wait(self, seconds, without=(), out=None):
        """Whether all ranks (but those `without`) have ended within that time; with `out`, within
        that time after a step, because a machine that is busy with other work takes longer."""
        until = time.monotonic() + seconds
        steps = steps_done(out) if out else 0
        while not self.has_ended(without):
            if out and steps_done(out) != steps:
                until, steps = time.monotonic() + seconds, steps_done(out)
            if time.monotonic() > until:
                return False
            time.sleep(0.1)
        return True

    def finish(self, network):
        """Ends the launcher, which may wait for a lost host; whether all ranks succeeded."""
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            pass
        network.kill_all()
        self.process.wait()
        return set(self.numbers("code").values()) == {0} and len(self.numbers("code")) == RANKS

    def text(self):
        texts = []
        for path in (self.output, self.errors):
            with open(path, encoding="utf-8", errors="replace") as file:
                texts.append(file.read())
        return texts

    def tail(self):
        return "\n".join("    | " + line for text in self.text() for line in text.splitlines()[-100:])


class Tester:
    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.network = Network(folder, options.seed)
        # An emulated GPU is slow.
        self.device = {"mpi": ["--seq_len=32"], "nccl": ["--device=cuda", "--seq_len=4"]}[options.comm]
        # llm.c's token file: a header of 256 words, then ids of 16 bits.
        self.data = os.path.join(folder, "tokens.bin")
        ids = [(7 * i * i + i) % 251 for i in range(1 << 14)]
        with open(self.data, "wb") as file:
            file.write(struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253))
            file.write(struct.pack("<%dH" % len(ids), *ids))
        self.disk = os.path.join(folder, "disk")
        try:
            os.mkdir(self.disk)
            run("mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", self.disk)
        except BaseException:
            self.network.close()
            raise

    def close(self):
        self.network.close()
        # Processes that were killed just now may still have files open there.
        subprocess.run(["umount", "--lazy", self.disk], check=False)

    def flags(self, out):
        return ["--data=" + self.data, "--init_from=" + self.options.model,
                "--steps=%d" % STEPS, "--batch_size=1",
                "--deterministic_batch=%d" % RANKS, "--lr=0.002", "--warmup_steps=0",
                "--sample_tokens=0", "--threads_per_rank=1", "--comm_timeout=%ds" % COMM_TIMEOUT,
                "--checkpoint_every=%d" % CHECKPOINT_EVERY, "--keep_last=%d" % KEEP_LAST,
                "--resume=auto", "--out=" + out, *self.device]

    def new_out(self):
        for name in os.listdir(self.disk):
            shutil.rmtree(os.path.join(self.disk, name))
        return os.path.join(self.disk, "out")

    def prepare(self):
        """The result that every run must have, and how long the parts of an undisturbed one take."""
        out = self.new_out()
        run(self.options.train, "--comm=local", "--world_size=1", *self.flags(out))
        self.losses, self.model = losses(out), digest(out)
        out = self.new_out()
        started = time.monotonic()
        job = Job(self, out, STRATEGIES[0])
        while not steps_done(out) and not job.has_ended() and time.monotonic() - started < 300:
            time.sleep(0.01)
        self.startup = time.monotonic() - started
        if not job.wait(300) or not job.finish(self.network):
            sys.exit("the undisturbed run failed:\n" + job.tail())
        self.step = (time.monotonic() - started - self.startup) / STEPS
        if self.wrong_bits(out):
            sys.exit("the undisturbed run: " + self.wrong_bits(out))

    def wrong_bits(self, out):
        found = losses(out)
        for step, values in found.items():
            if values != self.losses[step]:
                return "step %d has %s instead of %s" % (step, values, self.losses[step])
        # A line that a full disk refused comes with a later write.
        if set(found) != set(self.losses):
            return "has metrics of the steps %s alone" % sorted(found)
        return "" if digest(out) == self.model else "the model alone differs"

    def damaged(self, out):
        """The checkpoints in `out` that cannot be read."""
        return [step for step in checkpoints(out) if subprocess.run(
            [self.options.inspect, "--verify", "%s/step-%08d" % (out, step)],
            capture_output=True, check=False).returncode != 0]

    def reach(self, job, out, step, fraction):
        """Waits for a point of the run: a part of the start, or of a step. Whether it came."""
        until = time.monotonic() + 300
        while not job.has_ended() and (steps_done(out) < step or len(job.pids()) < RANKS):
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        # Undisturbed runs may have been slower.
        until = time.monotonic() + fraction * (self.step if step else self.startup)
        while time.monotonic() < until and steps_done(out) <= step and not job.has_ended():
            time.sleep(0.01)
        return True

    def strike(self, kind, rng):
        """One run with a fault. Returns its outcome, and what is wrong with it."""
        out = self.new_out()
        rank = rng.randrange(RANKS)
        host = rank // RANKS_PER_HOST
        step, fraction, seconds = rng.randrange(STEPS + 1), rng.random(), rng.uniform(1, 4)
        flags = rng.choice(STRATEGIES)
        days = rng.choice((-1, 1)) * rng.randrange(1, 1500)
        self.took = 0
        self.told = "rank %d, host %d, step %d + %.2f, %.1f s, %s" % (
            rank, host, step, fraction, seconds, " ".join(flags))
        self.job = job = Job(self, out, flags, host if kind == "clock" else None)
        if not self.reach(job, out, step, fraction):
            job.finish(self.network)
            return "HANG", "the run has not come to step %d within 300 s, without a fault" % step
        self.told += ", after step %d" % steps_done(out)
        before = checkpoints(out)
        pid = job.pids().get(rank)
        ran = rank in job.alive()
        bound = COMM_TIMEOUT + WATCHDOG + SLACK
        struck = time.monotonic()
        stopped = ()
        if kind == "kill" and ran:
            send(pid, signal.SIGKILL)
        elif kind in ("stop", "pause") and ran:
            send(pid, signal.SIGSTOP)
            stopped = (rank,)
        elif kind in ("cut", "blip"):
            self.network.set_up(host, False)
        elif kind == "delay":
            self.network.links[host].delay = 0.2
        elif kind == "loss":
            self.network.links[host].loss = 0.01
        elif kind == "disk_full":
            ballast = os.path.join(self.disk, "ballast")
            with open(ballast, "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(1 << 12))
                except OSError:
                    pass
        elif kind == "clock":
            with open(job.clock, "w", encoding="utf-8") as file:
                file.write("%+dd\n" % days)
        if kind in ("pause", "blip", "delay"):
            job.wait(seconds, without=stopped)
            self.network.heal()
        if kind == "stop" and ran and not job.wait(bound, without=stopped):
            return "HANG", "ranks %s run while rank %d is stopped" % (sorted(job.alive()), rank)
        if stopped:
            send(pid, signal.SIGCONT)
        ended = job.wait(bound, out=out)
        self.took = time.monotonic() - struck
        alive = sorted(job.alive())
        succeeded = job.finish(self.network)
        codes = job.numbers("code")
        if kind == "kill" and all(codes.get(other) == 0 for other in range(RANKS) if other != rank):
            ran = False  # it had told the others of its end
        self.network.heal()
        if kind == "disk_full":
            os.remove(ballast)
        if not ended:
            return "HANG", "ranks %s still run %d s after the last step" % (alive, bound)
        if not ran or succeeded:
            wrong = self.wrong_bits(out)
            return ("DIFFERS", wrong) if wrong else ("finished" if ran else "too late", "")
        return self.judge_failure(kind, rank, out, before, flags)

    def judge_failure(self, kind, rank, out, before, flags):
        host = rank // RANKS_PER_HOST
        if KINDS[kind][1]:
            return "FAILED", "although nothing was lost"
        errors = self.job.text()[1]
        if kind == "disk_full":
            named = "No space left on device" in errors
        elif kind in ("cut", "blip"):
            # A host without its link misses the others, and they miss it, in rank 0's process.
            hosts = {named // RANKS_PER_HOST for named in ranks_in(errors)}
            named = host in hosts or (host == 0 and hosts)
        else:
            named = rank in ranks_in(errors)
        # MPI names no rank before the ranks have met.
        named = named or "MPI has not started, which waits for all ranks" in errors
        if not named:
            return "UNNAMED", "the errors name neither rank %d nor a reason" % rank
        after = checkpoints(out)
        if (before and (not after or after[-1] < before[-1]) or
                len(after) < min(KEEP_LAST, len(before))):
            return "LOST", "checkpoints of the steps %s before, %s after" % (before, after)
        if self.damaged(out):
            return "DAMAGED", "checkpoints of the steps %s" % self.damaged(out)
        # The disk may have had room for the model, but for no checkpoint, from which to resume.
        if kind == "disk_full" and not after and os.path.isdir(os.path.join(out, "final")):
            same = digest(out) == self.model
            return ("finished", "") if same else ("DIFFERS", "the model alone differs")
        self.job = job = Job(self, out, flags)
        if not job.wait(COMM_TIMEOUT + WATCHDOG + SLACK, out=out):
            job.finish(self.network)
            return "HANG", "when resumed"
        if not job.finish(self.network):
            return "NOT RESUMED", ""
        if after and "after step %d" % after[-1] not in job.text()[0]:
            return "NOT RESUMED", "from step %d" % after[-1]
        wrong = self.wrong_bits(out)
        return ("DIFFERS", wrong) if wrong else ("resumed", "")


GOOD = ("finished", "too late", "resumed")
# What disturb() reports: the fault, its outcome, the seconds until all ranks had ended, the step done.
LINE = re.compile(r" *\d+ (\w+) +(\w+(?: \w+)?) +([\d.]+) s  rank \d.* step (\d+)")


def print_table(lines):
    """Prints a Markdown table of the lines that match LINE. Returns the exit code."""
    faults = [match.groups() for match in map(LINE.match, lines) if match]
    outcomes = sorted({fault[1] for fault in faults}, key=lambda one: (one not in GOOD, one))
    columns = ["fault", "before step 1", "in the steps", "after the last", *outcomes, "longest"]
    print("\n| %s |\n%s|" % (" | ".join(columns), "|---" * len(columns)))
    for kind in [*KINDS, "all"]:
        rows = [fault for fault in faults if kind in (fault[0], "all")]
        steps = [int(row[3]) for row in rows]
        cells = [steps.count(0), sum(0 < step < STEPS for step in steps), steps.count(STEPS)]
        cells += [sum(row[1] == outcome for row in rows) for outcome in outcomes]
        longest = max((float(row[2]) for row in rows), default=0)
        cells.insert(0, KINDS[kind][0] if kind in KINDS else kind)
        print("| %s | %.1f s |" % (" | ".join(map(str, cells)), longest))
    return 1 if set(outcomes) - set(GOOD) else 0


def disturb(options, cluster, report):
    """Makes every --clusters-th fault on hosts of its own. Calls `report` with texts, then None."""
    # Short, because Open MPI's sockets have paths in it.
    folder = tempfile.mkdtemp(prefix="zeroth-hosts-", dir="/tmp")
    tester = None
    try:
        tester = Tester(options, folder)
        tester.prepare()
        report("undisturbed: %.1f s to the first step, %.2f s a step" % (tester.startup, tester.step))
        for number in range(cluster, options.faults, options.clusters):
            kind = options.kinds[number % len(options.kinds)]
            rng = random.Random("%d %d %s" % (options.seed, number, kind))
            outcome, text = tester.strike(kind, rng)
            line = "%4d %-10s %-11s %5.1f s  %s, load %.0f" % (
                number, kind, outcome, tester.took, tester.told, os.getloadavg()[0])
            report(line if outcome in GOOD else "%s\n  %s\n%s" % (line, text, tester.job.tail()))
            for job in glob.glob(os.path.join(folder, "job-*")):
                shutil.rmtree(job, ignore_errors=True)
    finally:
        if tester:
            tester.close()
        shutil.rmtree(folder, ignore_errors=True)
        report(None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", help="the trainer's binary")
    parser.add_argument("--inspect", help="the binary of tools/inspect")
    parser.add_argument("--model", default="tests/testdata/gpt2_tiny")
    parser.add_argument("--comm", default="mpi", choices=("mpi", "nccl"), help="the transport")
    parser.add_argument("--faults", type=int, default=len(KINDS), help="kinds in turn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(KINDS), help="only these: a,b,c")
    parser.add_argument("--clusters", type=int, default=1, help="of four hosts, at once")
    parser.add_argument("--sum", nargs="+", metavar="LOG", help="instead: the table of these logs")
    options = parser.parse_args()
    if options.sum:
        return print_table(line for path in options.sum for line in open(path, encoding="utf-8"))
    if not options.train or not options.inspect:
        parser.error("--train and --inspect are needed")
    options.kinds = options.kinds.split(",")
    if set(options.kinds) - set(KINDS):
        parser.error("--kinds: expected some of " + ", ".join(KINDS))
    for name in ("train", "inspect", "model"):
        setattr(options, name, os.path.abspath(getattr(options, name)))
    # sys.exit runs what `finally` cleans up, here and in each cluster.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    with tempfile.TemporaryDirectory(prefix="zeroth-hosts-", dir="/tmp") as folder:
        reason = lacks(options, folder)
    if reason:
        print("SKIPPED: " + reason.strip())
        return 0
    results = multiprocessing.SimpleQueue()
    clusters = [multiprocessing.Process(target=disturb, args=(options, cluster, results.put))
                for cluster in range(options.clusters)]
    lines = []
    try:
        for cluster in clusters:
            cluster.start()
        for _ in clusters:
            for line in iter(results.get, None):
                print(line, flush=True)
                lines.append(line)
    except BaseException:
        for cluster in clusters:
            cluster.terminate()
        raise
    finally:
        for cluster in clusters:
            cluster.join()
        print("\n--comm=%s, seed %d" % (options.comm, options.seed))
        code = print_table(lines)
    return max([code, *(cluster.exitcode for cluster in clusters)])


if __name__ == "__main__":
    sys.exit(main())
