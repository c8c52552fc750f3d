// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/distillation/distillation.h"

namespace zeroth {

// What a teacher says about a micro-batch (Context::UseDistillation): the tokens that it finds
// likeliest after each token.
struct Distillation {
  Tensor ids;        // int32 [batch, seq, k]
  Tensor log_probs;  // fp32 [batch, seq, k]
  DistillationOptions options;
};

}  // namespace zeroth
