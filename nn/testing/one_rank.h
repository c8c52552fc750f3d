// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/nn/tensor_ranks.h"

namespace zeroth::testing {

// A tensor-parallel group of one rank, whose sums have `pieces` deterministic pieces. Rows are not
// shared there, so nothing is gathered.
class OneRank : public TensorRanks {
 public:
  explicit OneRank(int pieces) : TensorRanks({.size = 1, .deterministic = pieces}, 0) {}

 private:
  absl::Status Run(Exchange exchange, const Tensor&, const Tensor&, absl::string_view label,
                   const OverlappedWork& overlapped) override {
    if (exchange != Exchange::kSum) return absl::UnimplementedError(label);
    return overlapped == nullptr ? absl::OkStatus() : overlapped();
  }
};

}  // namespace zeroth::testing
