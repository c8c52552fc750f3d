// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tensor parallelism (Shoeybi et al., "Megatron-LM", 2019) as operations see it: ranks that compute
// each layer together, on the same data, each rank with a part of the weights.

#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

// The axis of the mesh over which parameters are divided.
inline constexpr char kTensorAxis[] = "tensor";

struct TensorParallelOptions {
  int size = 1;  // tensor ranks
  // Above 0, a power of two: the depth of matmuls, if divided among ranks, is cut into this many
  // equal pieces, whose results are summed in fp32 along one binary tree, so every `size` that
  // divides the number gives the same bits.
  int deterministic = 0;
  // Sequence parallelism: each rank computes norms and sums between layers on its share of the
  // rows, so activations there take 1 / size of the memory (Korthikanti et al., "Reducing
  // activation recomputation in large transformer models", 2022).
  bool sequence = false;

  // True if parameters are divided, even if into one part only.
  bool enabled() const { return size > 1 || deterministic > 0; }
  // Number of deterministic pieces that each rank computes.
  int pieces() const { return deterministic > 0 ? deterministic / size : 1; }
};

// InvalidArgument names the numbers that do not fit.
absl::Status ValidateTensorParallel(const TensorParallelOptions& options);

// The collectives of tensor ranks. Each runs after the work enqueued on the compute stream so far,
// and before the work enqueued next. All ranks make the same calls in the same order. Used by one
// rank's thread only.
class TensorRanks {
 public:
  // Enqueues work on the compute stream that overlaps the collective. It must not read the
  // collective's result, nor write its input. nullptr: there is no such work.
  using OverlappedWork = std::function<absl::Status()>;

  TensorRanks(const TensorParallelOptions& options, int index) : options_(options), index_(index) {}
  virtual ~TensorRanks() = default;

  const TensorParallelOptions& options() const { return options_; }
  int size() const { return options_.size; }
  int index() const { return index_; }
  bool sequence() const { return options_.sequence && options_.size > 1; }

  // All-reduces `tensor` in place, to the sum over ranks.
  absl::Status Sum(const Tensor& tensor, absl::string_view label,
                   const OverlappedWork& overlapped = nullptr) {
    return Run(Exchange::kSum, tensor, tensor, label, overlapped);
  }
  // All-gathers: `all` becomes the ranks' `mine`, one after the other.
  absl::Status Gather(const Tensor& mine, const Tensor& all, absl::string_view label,
                      const OverlappedWork& overlapped = nullptr) {
    return Run(Exchange::kGather, mine, all, label, overlapped);
  }
  // Reduce-scatters: `mine` becomes this rank's share of the sum of `all` over ranks.
  absl::Status SumShare(const Tensor& all, const Tensor& mine, absl::string_view label,
                        const OverlappedWork& overlapped = nullptr) {
    return Run(Exchange::kSumShare, all, mine, label, overlapped);
  }

 protected:
  enum class Exchange : uint8_t { kSum, kGather, kSumShare };

 private:
  // One of the calls above, from `send` to `recv`, with the work that overlaps it.
  virtual absl::Status Run(Exchange exchange, const Tensor& send, const Tensor& recv,
                           absl::string_view label, const OverlappedWork& overlapped) = 0;

  const TensorParallelOptions options_;
  const int index_;
};

// True if the parameter is divided over kTensorAxis.
inline bool IsDivided(const Parameter& parameter) {
  return parameter.part().has_value() && parameter.part()->axis == kTensorAxis;
}

}  // namespace zeroth
