// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/status.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/distillation/distillation.h"

namespace zeroth {

class LogitTransform;

// What logits are computed from: TransformLogits(hidden * weight^T).
struct HeadInputs {
  Tensor hidden;        // [batch, seq, dim], of all rows
  Tensor weight;        // [vocab, dim], or this tensor rank's part of the vocabulary
  float logit_cap = 0;  // LanguageModel::LogitCap
  const LogitTransform* transform = nullptr;  // owned by the model
};

// A teacher's distributions for a micro-batch (Context::UseDistillation): its likeliest tokens
// after each token, or the inputs of its head.
struct Distillation {
  Tensor ids{};          // int32 [batch, seq, k]; undefined: `teacher` is set
  Tensor log_probs{};    // fp32 [batch, seq, k]
  HeadInputs teacher{};  // of a teacher with the student's vocabulary, divided as the student's
  DistillationOptions options{};
};

// InvalidArgument, with both shapes, unless `teacher` fits a student's hidden states [batch, seq,
// dim] and the weight of its head.
absl::Status ExpectTeacher(const Distillation& teacher, const Tensor& hidden,
                           const Parameter& weight);

}  // namespace zeroth
