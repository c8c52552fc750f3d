// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Selective activation checkpointing: a forward that will be recomputed keeps the outputs of
// attention and of matmuls, and the second forward computes only the rest.

#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/matrix.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// What backward recomputes in a module that uses HookedOne. "Every second matmul" begins with the
// module's first; "read" means that backward reads the result.
enum class Recomputes : uint8_t {
  kNothing,
  kAll,             // everything: forward keeps only the input
  kSelected,        // everything except for attention and every second matmul that is read
  kBetweenMatmuls,  // everything except for attention and matmuls that are read
};

// The outputs that one module's forward has kept. Both forwards make the same calls in the same
// order.
class KeptOutputs {
 public:
  // `recomputes` is kSelected or kBetweenMatmuls.
  explicit KeptOutputs(Recomputes recomputes) : recomputes_(recomputes) {}

  // Called once for each matmul, in order. `is_read` is false for a Context::unread_result, and
  // `is_sum` true for a matmul that is summed over ranks.
  bool KeepsNextMatmul(bool is_read, bool is_sum) {
    const bool is_odd = matmuls_++ % 2 == 0;
    if (!is_read) return false;
    return recomputes_ == Recomputes::kBetweenMatmuls || is_odd || is_sum;
  }

  void Keep(Tensor output) { kept_.push_back(std::move(output)); }
  // Begins the second forward, which takes the kept outputs in the order of the first.
  void BeginRecompute() {
    is_second_ = true;
    matmuls_ = 0;
  }
  bool is_second() const { return is_second_; }
  // FailedPrecondition if the second forward read fewer outputs than the first kept.
  absl::Status ExpectAllTaken() const;
  // FailedPrecondition if the second forward reads more outputs than the first kept.
  absl::StatusOr<Tensor> Take();

 private:
  const Recomputes recomputes_;
  std::deque<Tensor> kept_;
  int64_t matmuls_ = 0;
  bool is_second_ = false;
};

// Runs `compute`, which writes a matmul with weights to `outputs`. If the context's kept outputs
// include this matmul, the first forward keeps copies of `outputs`, since a later operation may
// change one in place, and the second forward reads the copies instead. A second forward does
// neither if `is_read` is false (Context::unread_result). Skips undefined outputs.
absl::Status ComputeOrReuseMatmul(Context& context, absl::Span<const Matrix> outputs, bool is_read,
                                  absl::FunctionRef<absl::Status()> compute);

// Like ComputeOrReuseMatmul, for a matmul with weights whose result is summed over ranks; `shape`
// and `dtype` are those of the result. It is kept even if only every second matmul is kept, since
// recomputing it would repeat the collective, but it counts as one of them.
absl::StatusOr<Tensor> ComputeOrReuseSum(Context& context, const Shape& shape, DType dtype,
                                         bool is_read,
                                         absl::FunctionRef<absl::StatusOr<Tensor>()> compute);

}  // namespace zeroth
