// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_ATTENTION_ATTENTION_CPU_H_
#define ZEROTH_KERNELS_ATTENTION_ATTENTION_CPU_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/cpu/workspace.h"

namespace zeroth::cpu {

// InvalidArgument, naming the place, for starts that are none: they are read where nobody checks
// them any more.
absl::Status CheckStarts(const AttentionShape& shape, const int32_t* starts);

// Both fail only when the workspace is refused, or for starts that are none. The result does not
// depend on the number of threads.
absl::Status AttentionForward(const AttentionCall& call, Workspace& workspace);
absl::Status AttentionBackward(const AttentionBackwardCall& call, Workspace& workspace);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_ATTENTION_ATTENTION_CPU_H_
