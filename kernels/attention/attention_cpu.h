// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_ATTENTION_ATTENTION_CPU_H_
#define ZEROTH_KERNELS_ATTENTION_ATTENTION_CPU_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/cpu/workspace.h"

namespace zeroth::cpu {

// Checks the values of `starts`, since the inner loops do not. InvalidArgument names the first
// invalid token.
absl::Status CheckStarts(const AttentionShape& shape, const int32_t* starts);

// Both fail only if the workspace cannot be allocated, or if `starts` are invalid. The result does
// not depend on the number of threads.
absl::Status AttentionForward(const AttentionCall& call, Workspace& workspace);
absl::Status AttentionBackward(const AttentionBackwardCall& call, Workspace& workspace);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_ATTENTION_ATTENTION_CPU_H_
