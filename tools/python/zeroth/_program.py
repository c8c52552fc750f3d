# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Starts the program, and the functions that only wait for what it prints."""

from __future__ import annotations

import json
import numbers
import os
import signal
import subprocess
import sys
from typing import Any, Dict, List, Mapping, NoReturn, Optional, Union

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "zeroth")

Config = Union[Mapping[str, Any], str, "os.PathLike[str]"]


class Error(RuntimeError):
    """An error of the program. Its text is the program's message: what was wrong, where, and what to do."""


def main() -> NoReturn:
    """Replaces this process by the program `zeroth`, with the arguments in sys.argv."""
    os.execv(PROGRAM, [PROGRAM] + sys.argv[1:])


def spell(name: str, value: Any) -> str:
    """Returns a value as a flag has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, numbers.Real):
        return str(value)
    if isinstance(value, (list, tuple)):
        return ",".join(spell(name, each) for each in value)
    raise TypeError("%s=%r: expected True, False, a number, text, a path, or a list of these" % (name, value))


def command_of(command: str, config: Optional[Config], options: Mapping[str, Any]) -> List[str]:
    """Returns the words that start `zeroth COMMAND`. Options replace those of the same name in config."""
    given: Dict[str, Any] = {}
    if isinstance(config, Mapping):
        given.update(config)
    elif config is not None:
        given["config"] = config
    given.update(options)
    return [PROGRAM, command] + ["--%s=%s" % (name, spell(name, value)) for name, value in given.items()]


def error_of(command: str, code: int, errors: bytes) -> Error:
    """Returns the error of a program that ended with this code, as subprocess has it, after printing `errors`."""
    text = errors.decode(errors="replace").strip()
    _, found, message = ("\n" + text).rpartition("\nerror: ")
    if found:
        return Error(message)
    if code < 0:
        try:
            how = signal.Signals(-code).name
        except ValueError:
            how = "signal %d" % -code
        return Error("zeroth %s was ended by %s%s" % (command, how, ":\n" + text if text else ""))
    return Error(text or "zeroth %s ended with exit code %d and no message" % (command, code))


def printed(words: List[str]) -> str:
    """Runs a program to its end, and returns what it has printed. After Ctrl-C it is ended, too."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    except OSError as error:
        raise Error("cannot start zeroth %s: %s" % (words[1], error.strerror)) from error
    if done.returncode != 0:
        raise error_of(words[1], done.returncode, done.stderr)
    return done.stdout.decode(errors="replace")


def plan(config: Optional[Config] = None, **options: Any) -> Dict[str, Any]:
    """Predicts memory, time and traffic of a run, and starts none.

    Takes the options of train(), `data` not among those that it needs, and machine, as "H100", for which it plans.
    Returns the object of `zeroth plan --json`: "fits", "memory_peak_bytes", "memory" (bytes by category),
    "step_seconds", "tokens_per_second_per_rank", "exposed_communication_seconds", "bytes" (sent by a rank in a step, by
    collective) and so on. With search=True, {"runs": [...]}, each {"flags", "plan"}, the fastest that fits first; with
    largest="batch", "sequence" or "layers", the plan of the largest that fits, and its "value".

    Raises Error with the message of the program. Use the program itself to measure a machine, or to show one.
    """
    text = printed(command_of("plan", config, {"json": True, **options}))
    try:
        found = json.loads(text)
    except ValueError:
        raise Error("with these options zeroth plan prints no plan; give them to the program itself") from None
    return found if isinstance(found, dict) else {"runs": found}


def generate(model: Union[str, "os.PathLike[str]"], prompt: str = "", **options: Any) -> str:
    """Continues a text with a model, as `zeroth generate`.

    `model` is a directory, as a run's final/. Options are those of the program, as max_tokens=200 (tokens),
    temperature=0 and seed=1; equal options give equal text. Returns the prompt and what follows it; with chat=True the
    prompt is a question, and only the answer is returned. Control characters other than line breaks and tabs are
    spelled as \\x1b.

    Raises Error with the message of the program.
    """
    return printed(command_of("generate", None, {"model": model, "prompt": prompt, **options}))[:-1]


def evaluate(model: Union[str, "os.PathLike[str]"], data: Any = None, **options: Any) -> Dict[str, Any]:
    """Measures a model, as `zeroth evaluate`.

    For data (a path, pattern, or a list of them) the result has "perplexity", "mean_loss" (natural logarithms, by
    token), "tokens" (predicted), "windows", "seq_len" and "stride" (in tokens). For multiple_choice=FILE it has
    "multiple_choice", and for pairs=FILE "pairs": each with "accuracy", "normalized_accuracy", their standard errors
    ("accuracy_error", "normalized_accuracy_error") and the number of "questions" or "pairs".

    Raises Error with the message of the program.
    """
    given = {"model": model, "json": True, **({} if data is None else {"data": data}), **options}
    found: Dict[str, Any] = json.loads(printed(command_of("evaluate", None, given)))
    return found
