#!/bin/sh
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# What `--version` calls the commit. Bazel asks at every build, and compiles the answer in where it
# links a program anew for another reason: no build is made because of it.
commit="$(git rev-parse HEAD 2>/dev/null)" || exit 0
changes=''
[ -z "$(git status --porcelain --untracked-files=no 2>/dev/null)" ] || changes='-modified'
echo "BUILD_SCM_REVISION $commit$changes"
