// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tensor parallelism (Shoeybi et al., "Megatron-LM", 2019) as operations see it: ranks that compute
// a layer together, on the same data, each with a part of its weights.

#ifndef ZEROTH_NN_TENSOR_RANKS_H_
#define ZEROTH_NN_TENSOR_RANKS_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

// The axis of the mesh over which parameters are divided.
inline constexpr char kTensorAxis[] = "tensor";

struct TensorParallelOptions {
  int size = 1;  // ranks
  // Above 0: the depth of products that is divided among ranks is of so many equal pieces, whose
  // products are summed in fp32 in one binary tree, so that every `size` that divides it gives the
  // same bits. A power of two.
  int deterministic = 0;
  // Norms and sums between layers are computed on each rank's share of the rows, and activations
  // there are a `size`-th (Korthikanti et al., "Reducing activation recomputation in large
  // transformer models", 2022).
  bool sequence = false;

  // Whether parameters are divided, be it into one part.
  bool enabled() const { return size > 1 || deterministic > 0; }
  // That each rank computes of the products.
  int pieces() const { return deterministic > 0 ? deterministic / size : 1; }
};

// InvalidArgument names the numbers that do not fit each other.
absl::Status ValidateTensorParallel(const TensorParallelOptions& options);

// What these ranks tell each other, after what the compute stream has been told so far and before
// what it is told next. All of them make the same calls in the same order. One rank's thread only.
class TensorRanks {
 public:
  // What the compute stream does while the ranks talk. It reads no result of theirs and writes
  // nothing that they read. nullptr: nothing.
  using Beside = std::function<absl::Status()>;

  TensorRanks(const TensorParallelOptions& options, int index) : options_(options), index_(index) {}
  virtual ~TensorRanks() = default;

  const TensorParallelOptions& options() const { return options_; }
  int size() const { return options_.size; }
  int index() const { return index_; }
  bool sequence() const { return options_.sequence && options_.size > 1; }

  // In place, to the sum over ranks.
  absl::Status Sum(const Tensor& tensor, absl::string_view label, const Beside& beside = nullptr) {
    return SumBeside(tensor, label, beside);
  }
  // `all` becomes every rank's `mine`, one after the other.
  absl::Status Gather(const Tensor& mine, const Tensor& all, absl::string_view label,
                      const Beside& beside = nullptr) {
    return GatherBeside(mine, all, label, beside);
  }
  // `mine` becomes this rank's share of the sum of `all` over ranks.
  absl::Status SumShare(const Tensor& all, const Tensor& mine, absl::string_view label,
                        const Beside& beside = nullptr) {
    return SumShareBeside(all, mine, label, beside);
  }

 private:
  virtual absl::Status SumBeside(const Tensor& tensor, absl::string_view label,
                                 const Beside& beside) = 0;
  virtual absl::Status GatherBeside(const Tensor& mine, const Tensor& all, absl::string_view label,
                                    const Beside& beside) = 0;
  virtual absl::Status SumShareBeside(const Tensor& all, const Tensor& mine,
                                      absl::string_view label, const Beside& beside) = 0;

  const TensorParallelOptions options_;
  const int index_;
};

// Whether it is divided over kTensorAxis.
inline bool IsDivided(const Parameter& parameter) {
  return parameter.part().has_value() && parameter.part()->axis == kTensorAxis;
}

}  // namespace zeroth

#endif  // ZEROTH_NN_TENSOR_RANKS_H_
