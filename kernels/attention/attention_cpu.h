// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_ATTENTION_ATTENTION_CPU_H_
#define ZEROTH_KERNELS_ATTENTION_ATTENTION_CPU_H_

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/cpu/workspace.h"

namespace zeroth::cpu {

// Both fail only when the workspace is refused. The result does not depend on the number of
// threads.
absl::Status AttentionForward(const AttentionCall& call, Workspace& workspace);
absl::Status AttentionBackward(const AttentionBackwardCall& call, Workspace& workspace);

// The threads that share the heads of a batch: an even, contiguous cut, the same in every run.
class AttentionTeam {
 public:
  AttentionTeam(const AttentionShape& shape, int64_t heads)
      : items_(IsEmpty(shape) ? 0 : shape.batch * heads),
        threads_(static_cast<int>(std::min<int64_t>(items_, omp_get_max_threads()))) {}

  int threads() const { return threads_; }

  // body(thread, begin, end) on every thread: items [begin, end) are its own, an item being
  // batch * heads + head.
  template <typename Body>
  void Run(const Body& body) const {
    if (threads_ == 1) return body(0, int64_t{0}, items_);
#pragma omp parallel for num_threads(threads_) schedule(static, 1)
    for (int thread = 0; thread < threads_; ++thread) {
      body(thread, items_ * thread / threads_, items_ * (thread + 1) / threads_);
    }
  }

 private:
  const int64_t items_;
  const int threads_;
};

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_ATTENTION_ATTENTION_CPU_H_
