// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// How the CPU divides the gated delta rule among threads, and the scratch memory of each of them.

#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/workspace.h"
#include "zeroth/kernels/delta_net/delta_net.h"
#include "zeroth/kernels/delta_net/delta_net_scratch.h"

namespace zeroth::cpu {

template <typename T>
float ValueOf(T element) {
  if constexpr (std::is_same_v<T, float>) {
    return element;
  } else {
    return ToFloat(element);
  }
}

// A task computes one key head of one sequence, with all value heads that read it.
struct DeltaTask {
  int64_t sequence = 0;
  int64_t key_head = 0;
};

// Hands out the arrays of a task from one block.
class Arrays {
 public:
  explicit Arrays(float* memory) : next_(memory) {}
  float* Take(int64_t count) {
    float* const taken = next_;
    next_ += count;
    return taken;
  }

 private:
  float* next_;
};

// Calls body(task, memory) for every task; `memory` has `floats` elements of the thread's scratch.
template <typename Body>
absl::Status ForTasks(const DeltaNetShape& shape, int64_t floats, CpuKernels& kernels,
                      const Body& body) {
  const int64_t tasks = shape.batch * shape.key_heads;
  const int threads = static_cast<int>(std::min<int64_t>(tasks, omp_get_max_threads()));
  const absl::Span<Workspace> workspaces = kernels.workspace().OfThreads(threads);
  std::vector<float*> memory;
  for (Workspace& workspace : workspaces) {
    ZEROTH_ASSIGN_OR_RETURN(memory.emplace_back(), workspace.ReserveFloats(floats));
  }
#pragma omp parallel for schedule(static) num_threads(std::max(threads, 1))
  for (int64_t task = 0; task < tasks; ++task) {
    body(DeltaTask{task / shape.key_heads, task % shape.key_heads},
         memory[static_cast<size_t>(omp_get_thread_num())]);
  }
  return absl::OkStatus();
}

}  // namespace zeroth::cpu
