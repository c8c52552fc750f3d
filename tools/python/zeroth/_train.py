# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""A training run as a process of its own, and what it records."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import weakref
from types import TracebackType
from typing import IO, Any, Dict, Iterator, List, Optional, Type

from zeroth._program import Config, Error, command_of, error_of

INTERRUPTED = 75  # the trainer's exit code after a signal: it has saved a checkpoint
STOPS = (-signal.SIGTERM, -signal.SIGINT)  # the same before it has begun, when nothing is lost
OUT = re.compile(rb"^out {7}(.+)\n", re.MULTILINE)  # printed once metrics.jsonl is there
EVERY = 0.05  # seconds between looks at files
NOT_FINITE = ("nan", "inf", "-inf")  # JSON has no such numbers


def _read(file: IO[bytes], offset: int = 0) -> bytes:
    """Reads to the end. The offset of the file itself may be that at which the program writes."""
    parts: List[bytes] = []
    while True:
        part = os.pread(file.fileno(), 1 << 20, offset)
        if not part:
            return b"".join(parts)
        parts.append(part)
        offset += len(part)


def _record(line: bytes) -> Dict[str, Any]:
    return {key: float(value) if isinstance(value, str) and value in NOT_FINITE else value
            for key, value in json.loads(line).items()}


class Run:
    """A run that train() has started.

    Iterate over it for its metrics while it trains. As a context manager it is stopped when the block ends, also by an
    exception, so wait() inside the block for a run that is to finish. Otherwise a run that is neither stopped nor
    waited for goes on when Python ends.

    Ctrl-C reaches the run as any program of the terminal. A `with` block, a method or an iteration that it interrupts
    stops the run, however the signal came, and raises KeyboardInterrupt when the run has saved its checkpoint. A second
    Ctrl-C ends the run at once.

    All methods may be called from any thread, and several threads may iterate at once.
    """

    directory: Optional[pathlib.Path]
    """What the run writes: metrics, checkpoints and models. None if it writes none of them, as with dry_run=True."""

    def __init__(self, words: List[str]) -> None:
        """Use train()."""
        self.directory = None
        self._lock = threading.Lock()
        self._told = False  # to stop
        self._metrics: Optional[IO[bytes]] = None
        here = os.getcwd()
        # Files instead of pipes: a pipe that nobody reads would block the run.
        self._output, self._errors = self._own(tempfile.TemporaryFile()), self._own(tempfile.TemporaryFile())
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._errors)
        try:
            self._begin(here)
        except BaseException:  # the caller gets no Run to stop it by
            self._end()
            raise

    def _own(self, file: IO[bytes]) -> IO[bytes]:
        """Closes the file when nobody can use the run any more."""
        weakref.finalize(self, file.close)
        return file

    def _begin(self, here: str) -> None:
        """Waits until the run has its directory, or has ended."""
        while True:
            ended = self._process.poll() is not None
            found = OUT.search(_read(self._output))
            if found:
                self.directory = pathlib.Path(here, os.fsdecode(found.group(1)))
                # Kept open, whatever replaces the file later.
                self._metrics = self._own(open(self.directory / "metrics.jsonl", "rb"))
                return
            if ended:
                self._check()
                return
            self._sleep()

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        """Yields the lines of metrics.jsonl as they are written, from the first step on, and ends with the run.

        A record of a step has "step", "loss" and so on, and one of an evaluation "step" and "eval_loss"
        (docs/watching.md). A resumed run begins with the steps before its checkpoint. Numbers that are not finite are
        floats. Each iteration begins anew, also after the run has ended.

        Raises Error at the end of a run that fails, after all that it recorded.
        """
        try:
            for line in self._lines():
                record = _record(line)
                if "summary" not in record:
                    yield record
            self._check()
        except KeyboardInterrupt:
            self._end()
            raise

    def wait(self) -> Dict[str, Any]:
        """Waits for the end of the run, and returns its summary, the last line of metrics.jsonl.

        The summary has "steps", "loss", "interrupted", "failed", "seconds", "tokens_per_second", "memory_peak_bytes" and so on.
        A resumed run without a step of its own returns the earlier run's summary; "loss" is None if there is none.
        Raises Error if the run failed.
        """
        try:
            self._process.wait()
            self._check()
        except KeyboardInterrupt:
            self._end()
            raise
        summary: Dict[str, Any] = {}
        for line in self._lines():
            summary = json.loads(line).get("summary", summary)
        return summary

    def stop(self) -> None:
        """Ends the run after the step that it is in, and returns when it has saved a checkpoint.

        train() continues it with the same options and resume="auto". Does nothing after the end of the run. Raises
        Error if the run failed.
        """
        self._tell()
        self.wait()

    def result(self) -> pathlib.Path:
        """Waits for the end of the run, and returns its model: final/, or the adapters in final_adapter/.

        Raises Error if the run failed, or was stopped and so has no model.
        """
        self.wait()
        if self.interrupted:
            raise Error("the run was stopped and has no model; train with resume=\"auto\" to finish it")
        for name in ("final", "final_adapter"):
            if self.directory is not None and (self.directory / name).is_dir():
                return self.directory / name
        raise Error("the run made no model; only a run of training steps does")

    @property
    def running(self) -> bool:
        """Whether the run goes on."""
        return self._process.poll() is None

    @property
    def interrupted(self) -> bool:
        """Whether the run has ended because it was stopped, by stop(), a signal or max_seconds."""
        code = self._process.poll()
        return code == INTERRUPTED or self._told and code in STOPS

    @property
    def output(self) -> str:
        """What the program has printed so far: notes, warnings, samples of text, and some of the steps."""
        return _read(self._output).decode(errors="replace")

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if error is None:
            self.stop()
        else:
            self._end()

    def __repr__(self) -> str:
        state = "running" if self.running else "interrupted" if self.interrupted else "ended"
        return "<zeroth.Run %s in %s>" % (state, self.directory)

    def _lines(self) -> Iterator[bytes]:
        """Yields the complete lines of metrics.jsonl, and ends with the run."""
        offset, rest = 0, b""
        while self._metrics is not None:
            ended = not self.running
            data = _read(self._metrics, offset)
            offset += len(data)
            *lines, rest = (rest + data).split(b"\n")
            yield from lines
            if ended:
                return
            if not data:
                self._sleep()
        self._process.wait()

    def _sleep(self) -> None:
        try:
            self._process.wait(EVERY)
        except subprocess.TimeoutExpired:
            pass

    def _tell(self) -> None:
        """A second SIGTERM would end the run at once."""
        with self._lock:
            if not self._told:
                self._process.terminate()
                self._told = True

    def _end(self) -> None:
        """While an exception is raised, ends the run. Ctrl-C during that does not wait for the step."""
        self._tell()
        try:
            self._process.wait()
        except KeyboardInterrupt:
            self._process.terminate()
            self._process.wait()
            raise

    def _check(self) -> None:
        code = self._process.wait()
        if code != 0 and not self.interrupted:
            raise error_of("train", code, _read(self._errors))


def train(config: Optional[Config] = None, **options: Any) -> Run:
    """Starts a training run, as `zeroth train`, on ranks that are threads of one process.

    `config` is a mapping of options, or the path of a TOML file such as the config.toml of a run. Options replace its
    values. They are the flags of `zeroth help train`:

        run = zeroth.train(data="README.md", steps=100, lr=1e-3, lora_rank=8)

    Returns when the run is about to make its first step: the options are checked, the data read, and run.directory is
    known. Raises Error, with the message of the program, for all that is refused until then.
    """
    return Run(command_of("train", config, options))
