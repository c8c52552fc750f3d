#!/bin/sh
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# Prints the commit for `--version`. Bazel runs this at every build, and compiles the output into programs
# that it links for another reason. A new commit alone does not cause linking.
commit="$(git rev-parse HEAD 2>/dev/null)" || exit 0
changes=''
[ -z "$(git status --porcelain --untracked-files=no 2>/dev/null)" ] || changes='-modified'
echo "BUILD_SCM_REVISION $commit$changes"
