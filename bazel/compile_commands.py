#!/usr/bin/env python3
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""Writes compile_commands.json for clangd from Bazel's compile actions.

  ./bazelw build //... && ./bazelw run //bazel:compile_commands [-- PATTERN [BAZEL OPTIONS...]]

The build must come first, because it makes the links through which headers are found. Paths are absolute, because
Bazel makes its execution root again for every build.
"""

import json
import os
import subprocess
import sys

# GCC's own options, which clang refuses.
_GCC_ONLY = {"-fno-canonical-system-headers", "-fno-semantic-interposition"}


def bazel(workspace, *arguments):
  """Returns what Bazel prints for `arguments`, started the way the project starts it."""
  command = [os.path.join(workspace, "bazelw"), *arguments]
  return subprocess.run(command, cwd=workspace, check=True, stdout=subprocess.PIPE, text=True).stdout


def source_of(arguments):
  """Returns the file that a compiler command line compiles, or None."""
  if "-c" not in arguments[:-1]:
    return None
  return arguments[arguments.index("-c") + 1]


def absolute(argument, output_base, execution_root):
  """Returns a compiler's argument with the path it holds, if any, made absolute."""
  for prefix in ("-I", "-isystem", "-iquote", ""):
    path = argument[len(prefix):]
    if not argument.startswith(prefix):
      continue
    if path.startswith("external/"):
      return prefix + os.path.join(output_base, path)
    if path.startswith("bazel-out/"):
      return prefix + os.path.join(execution_root, path)
  return argument


def entries(workspace, output_base, execution_root, actions):
  """Yields one entry per source file of this project; external sources are not edited here."""
  seen = set()
  for action in actions:
    arguments = action.get("arguments", [])
    source = source_of(arguments)
    if source is None or source.startswith(("external/", "bazel-out/")) or source in seen:
      continue
    seen.add(source)
    yield {
        "directory": workspace,
        "file": os.path.join(workspace, source),
        "arguments": [
            absolute(argument, output_base, execution_root)
            for argument in arguments
            if argument not in _GCC_ONLY
        ],
    }


def main(argv):
  workspace = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
  if not workspace:
    sys.exit("Start this as: ./bazelw run //bazel:compile_commands")
  pattern, options = (argv[0], argv[1:]) if argv else ("//...", [])
  output_base = bazel(workspace, "info", "output_base").strip()
  execution_root = bazel(workspace, "info", "execution_root").strip()
  query = f'mnemonic("CppCompile", {pattern})'
  answer = json.loads(bazel(workspace, "aquery", query, "--output=jsonproto", *options))
  actions = answer.get("actions", [])
  commands = list(entries(workspace, output_base, execution_root, actions))
  commands.sort(key=lambda entry: entry["file"])
  target = os.path.join(workspace, "compile_commands.json")
  with open(target, "w", encoding="utf-8") as file:
    json.dump(commands, file, indent=1)
    file.write("\n")
  print(f"{target}: {len(commands)} files")


if __name__ == "__main__":
  main(sys.argv[1:])
