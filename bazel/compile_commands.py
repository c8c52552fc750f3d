#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Writes compile_commands.json for clangd, from the actions Bazel would run.

  ./bazelw build //... && ./bazelw run //bazel:compile_commands [-- PATTERN [BAZEL OPTIONS...]]

The build comes first because headers are found through the links it lays out.
"""

import json
import os
import subprocess
import sys

# GCC's own options, which clang refuses.
_GCC_ONLY = {"-fno-canonical-system-headers", "-Wunused-but-set-parameter"}


def bazel(workspace, *arguments):
  """Returns what Bazel prints for `arguments`, started the way the project starts it."""
  command = [os.path.join(workspace, "bazelw"), *arguments]
  return subprocess.run(command, cwd=workspace, check=True, stdout=subprocess.PIPE, text=True).stdout


def source_of(arguments):
  """Returns the file that a compiler command line compiles, or None."""
  if "-c" not in arguments[:-1]:
    return None
  return arguments[arguments.index("-c") + 1]


def entries(workspace, execution_root, actions):
  """Yields one entry per source file of this project; external sources are not edited here."""
  seen = set()
  for action in actions:
    arguments = action.get("arguments", [])
    source = source_of(arguments)
    if source is None or source.startswith(("external/", "bazel-out/")) or source in seen:
      continue
    seen.add(source)
    yield {
        "directory": execution_root,
        "file": os.path.join(workspace, source),
        "arguments": [argument for argument in arguments if argument not in _GCC_ONLY],
    }


def main(argv):
  workspace = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
  if not workspace:
    sys.exit("Start this as: ./bazelw run //bazel:compile_commands")
  pattern, options = (argv[0], argv[1:]) if argv else ("//...", [])
  execution_root = bazel(workspace, "info", "execution_root").strip()
  query = f'mnemonic("CppCompile", {pattern})'
  actions = json.loads(bazel(workspace, "aquery", query, "--output=jsonproto", *options))["actions"]
  commands = sorted(entries(workspace, execution_root, actions), key=lambda entry: entry["file"])
  target = os.path.join(workspace, "compile_commands.json")
  with open(target, "w", encoding="utf-8") as file:
    json.dump(commands, file, indent=1)
    file.write("\n")
  print(f"{target}: {len(commands)} files")


if __name__ == "__main__":
  main(sys.argv[1:])
