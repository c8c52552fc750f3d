# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Runs programs with a time limit, and leaves no process behind."""

import ctypes
import os
import signal
import subprocess
import time

# Time for programs to end after SIGTERM, and for the kernel to end them after SIGKILL. A program that
# waits inside the driver may not die at all, and must not block this script.
TERM_SECONDS = 2
KILL_SECONDS = 10
# Time for the other programs to notice and report a failure of one of them.
PEER_SECONDS = 15


PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
LIBC = ctypes.CDLL(None)


def die_with_parent():
    """A program must not hold the GPU after this script was killed."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Outcome:
    """How a run ended. `code` is negative for a signal, and None if the run was stopped at its limit."""

    def __init__(self, code, seconds, output, undead=False):
        self.code = code
        self.seconds = seconds
        self.output = output
        self.undead = undead


class Group:
    """Processes that run side by side, each in its own session, and their log."""

    def __init__(self, log):
        self.log = log
        self.processes = []

    def start(self, command, environment, folder):
        self.processes.append(subprocess.Popen(
            command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=die_with_parent))

    def wait(self, limit):
        """Returns True if all ended within `limit` seconds. After a failure the others get less time."""
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
        """Ends all running processes and their children; returns False if one does not die."""
        if any(process.poll() is None for process in self.processes):
            self._signal(signal.SIGTERM)
            self._all_ended(TERM_SECONDS)
        self._signal(signal.SIGKILL)
        return self._all_ended(KILL_SECONDS)

    def code(self):
        """Returns 0 if all ended well, else the first failure."""
        codes = [process.poll() for process in self.processes]
        return next((code for code in codes if code not in (0, None)), 0)


def run(commands, environments, folder, log_path, limit):
    """Runs commands side by side, writes their output into a file, and returns an Outcome."""
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
