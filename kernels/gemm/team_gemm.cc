// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "zeroth/kernels/gemm/gemm_blocks.h"
#include "zeroth/kernels/gemm/gemm_cpu.h"

namespace zeroth::cpu {
namespace {

// Each tile packs its rows of a and columns of b itself, which costs 1/kRows + 1/kColumns of its
// multiplications.
constexpr int64_t kRows = 256;
constexpr int64_t kColumns = 512;

// While this exists, parallel regions of the calling thread have one thread.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace

absl::Status TeamGemm(const GemmCall& call, Workspace& workspace) {
  const int64_t rows = (call.m + kRows - 1) / kRows;
  const int64_t tiles = rows * ((call.n + kColumns - 1) / kColumns);
  // Tiles are computed column by column, so that concurrent threads share columns of b.
  const auto run = [&](int64_t tile, Workspace& own) {
    const int64_t row = tile % rows * kRows;
    const int64_t column = tile / rows * kColumns;
    return OneDnnGemm(BlockOf(call, {row, column, std::min(kRows, call.m - row),
                                     std::min(kColumns, call.n - column)}),
                      own);
  };
  const int threads = static_cast<int>(std::min<int64_t>(tiles, omp_get_max_threads()));
  if (threads <= 1) {
    const OneThread one;
    absl::Status status;
    for (int64_t tile = 0; tile < tiles && status.ok(); ++tile) status = run(tile, workspace);
    return status;
  }
  const absl::Span<Workspace> workspaces = workspace.OfThreads(threads);
  std::vector<absl::Status> statuses(static_cast<size_t>(threads));
#pragma omp parallel num_threads(threads)
  {
    const OneThread one;
    const auto self = static_cast<size_t>(omp_get_thread_num());
#pragma omp for schedule(dynamic)
    for (int64_t tile = 0; tile < tiles; ++tile) {
      if (statuses[self].ok()) statuses[self] = run(tile, workspaces[self]);
    }
  }
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace zeroth::cpu
