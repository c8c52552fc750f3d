# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Programs with a time limit, of which nothing is left afterwards."""

import ctypes
import os
import signal
import subprocess
import time

# How long programs get to end after SIGTERM, and the kernel to end them after SIGKILL: one that
# waits inside the driver may not die at all, and must not take this script with it.
TERM_SECONDS = 2
KILL_SECONDS = 10
# How long the others get, after one of several has failed, to notice and to say what they saw.
PEER_SECONDS = 15


PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
LIBC = ctypes.CDLL(None)


def die_with_parent():
    """What runs must not hold the GPU after this script was killed outright."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Outcome:
    """How a run ended: exit code (negative: a signal), None if it was stopped at its limit."""

    def __init__(self, code, seconds, output, undead=False):
        self.code = code
        self.seconds = seconds
        self.output = output
        self.undead = undead


class Group:
    """Processes that run side by side, each leader of a session of its own, and their log."""

    def __init__(self, log):
        self.log = log
        self.processes = []

    def start(self, command, environment, folder):
        self.processes.append(subprocess.Popen(
            command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=die_with_parent))

    def wait(self, limit):
        """True if all ended within so many seconds; of which those beside a failure get fewer."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            codes = [process.poll() for process in self.processes]
            if None not in codes:
                return True
            if any(codes):
                deadline = min(deadline, time.monotonic() + PEER_SECONDS)
                return self._all_ended(deadline - time.monotonic())
            time.sleep(0.02)
        return False

    def _signal(self, number):
        for process in self.processes:
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                pass

    def _all_ended(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if all(process.poll() is not None for process in self.processes):
                return True
            time.sleep(0.02)
        return False

    def stop(self):
        """Ends what still runs, children included; False if something does not die."""
        if any(process.poll() is None for process in self.processes):
            self._signal(signal.SIGTERM)
            self._all_ended(TERM_SECONDS)
        self._signal(signal.SIGKILL)
        return self._all_ended(KILL_SECONDS)

    def code(self):
        """0 if all ended well, else the first failure."""
        codes = [process.poll() for process in self.processes]
        return next((code for code in codes if code not in (0, None)), 0)


def run(commands, environments, folder, log_path, limit):
    """Runs commands side by side, their output into a file, and returns an Outcome."""
    start = time.monotonic()
    os.makedirs(os.path.dirname(log_path), exist_ok=True)
    with open(log_path, "wb") as log:
        group = Group(log)
        try:
            for command, environment in zip(commands, environments):
                group.start(command, environment, folder)
            ended = group.wait(limit)
            code = group.code() if ended or group.code() != 0 else None
        except OSError as error:
            log.write(("cannot start: %s\n" % error).encode())
            code = 127
        finally:
            died = group.stop()
    with open(log_path, encoding="utf-8", errors="replace") as file:
        return Outcome(code, time.monotonic() - start, file.read(), not died)
