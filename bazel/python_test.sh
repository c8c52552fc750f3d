#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# Runs a test in Python, with the machine's own: Bazel's rules for it are not part of every Bazel.
#   python_test.sh SCRIPT ARGUMENTS...
set -euo pipefail

if ! python="$(command -v python3)"; then
  echo "this test needs python3" >&2
  exit 1
fi
# The folder of the sources may be read-only.
exec "$python" -B "$@"
