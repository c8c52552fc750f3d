// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compiled by Bazel whenever it links a program, with the output of bazel/workspace_status.sh.

#ifndef BUILD_SCM_REVISION
#define BUILD_SCM_REVISION "unknown"
#endif

extern const char zeroth_commit[];
const char zeroth_commit[] = BUILD_SCM_REVISION;
