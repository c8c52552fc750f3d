# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Zeroth from Python: runs the installed program `zeroth`, so a training that crashes never ends the interpreter.

Options have the names and values of the program's flags (`zeroth help train`): True and False, numbers, text, paths,
and lists for flags that take words with commas between them. Relative paths are taken from the current directory.
Whatever the program refuses is raised as zeroth.Error, with the program's own message. A value of another type, such
as None, is a TypeError.

Every function may be called from any thread. None holds the GIL while a program runs. Ctrl-C ends the programs as in a
shell, and raises KeyboardInterrupt.
"""

from zeroth._program import Error, evaluate, generate, plan
from zeroth._train import Run, train
from zeroth._version import __version__
from zeroth._weights import weights

__all__ = ["Error", "Run", "__version__", "evaluate", "generate", "plan", "train", "weights"]
