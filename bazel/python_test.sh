#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# Runs a test with the machine's Python, since not every Bazel has rules for Python.
#   python_test.sh SCRIPT ARGUMENTS...
set -euo pipefail

if ! python="$(command -v python3)"; then
  echo "this test needs python3" >&2
  exit 1
fi
# -B: the folder of the sources may be read-only.
exec "$python" -B "$@"
