# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
"""python -m zeroth COMMAND is the same as zeroth COMMAND."""

from zeroth._program import main

main()
