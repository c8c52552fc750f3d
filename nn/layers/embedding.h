// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "zeroth/nn/module.h"

namespace zeroth {

// tokens int32 [batch, seq] → [batch, seq, dim]. Parameter weight [vocab, dim].
class Embedding : public Module {
 public:
  Embedding(std::string name, int64_t vocab, int64_t dim, float init_std = 0.02f);

  // With `positions` [max_seq, dim] of another module, row s is added at position s.
  absl::StatusOr<Value> Forward(Context& context, const Tensor& tokens,
                                Parameter* positions = nullptr);

  Parameter* weight() { return weight_; }

 private:
  Parameter* weight_;
};

}  // namespace zeroth
