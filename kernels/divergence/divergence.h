// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The loss of a student that learns from all logits of a teacher, which is computed beside it
// (kernels/distillation has the loss for a teacher's k likeliest tokens):
//
//   alpha T^2 D + (1 - alpha) cross-entropy(student, target)
//
// D is KL(teacher || student) or KL(student || teacher), of both distributions at temperature T.
//
// As in vocabulary.h, the vocabulary may be divided among ranks: each computes the statistics of
// its parts, the caller exchanges them, and each computes the gradients of its own logits. Gemm
// computes the matmuls. Deterministic.

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/distillation/distillation.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/vocabulary/vocabulary.h"

namespace zeroth {

// Statistics of a row within a part of the vocabulary, by index, for logits x of the student and z
// of the teacher:
//   0  the largest x
//   1  the sum of e^(x - largest x)
//   2  the target's x, or 0 if the target is in another part
//   3  the largest x / T
//   4  the sum of e^(x / T - largest x / T)
//   5  the largest z / T
//   6  the sum of e^(z / T - largest z / T)
//   7  forward: the sum of e^(z / T - largest z / T) (z - x) / T
//      reverse: the sum of e^(x / T - largest x / T) (x - z) / T
inline constexpr int64_t kDivergenceStatistics = 8;

// Rows whose target is -100 do not count; their statistics are 0.
struct DivergenceStatisticsArgs : SoftmaxStatisticsArgs {
  DistillationOptions options;
  Tensor teacher;  // fp32 [rows, columns]: the teacher's logits
};
struct DivergenceGradientArgs : PartGradientArgs {
  DistillationOptions options;
  Tensor teacher;  // fp32 [rows, columns], padded as the student's logits
};

namespace kernels {

absl::Status DivergenceStatistics(Kernels& kernels, const DivergenceStatisticsArgs& args);
// Adds the parts' sums in the order of parts, so that the result does not depend on which rank
// holds which part.
absl::Status DivergenceGradient(Kernels& kernels, const DivergenceGradientArgs& args);

}  // namespace kernels

// The checked arguments.
struct DivergenceStatisticsCall : SoftmaxStatisticsCall {
  DistillationOptions options;
  const float* teacher = nullptr;
};
struct DivergenceGradientCall : PartGradientCall {
  DistillationOptions options;
  const float* teacher = nullptr;
};

}  // namespace zeroth
