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

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/distillation/distillation.h"
#include "zeroth/kernels/kernels.h"

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

struct DivergenceStatisticsArgs {
  DistillationOptions options;
  Tensor teacher;     // fp32 [rows, columns]: the teacher's logits
  Tensor logits;      // fp32 [rows, columns]: the student's
  int64_t begin = 0;  // the part of the vocabulary: columns [begin, begin + count)
  int64_t count = 0;
  Tensor targets;     // int32 [rows], local: columns of `logits`; rows with -100 do not count
  Tensor statistics;  // fp32 [rows, kDivergenceStatistics], overwritten
};

struct DivergenceGradientArgs {
  DistillationOptions options;
  Tensor teacher;     // fp32 [rows, columns]
  Tensor logits;      // fp32 [rows, columns]; if logit_cap is above 0, capped (BasicOp::kSoftCap)
  Tensor targets;     // int32 [rows], local; rows with -100 do not count
  Tensor statistics;  // fp32 [parts, rows, kDivergenceStatistics], of all parts of the vocabulary
  Tensor divisor;     // fp32 [1]: divides the sum of losses
  float grad_scale = 1.0f;
  float logit_cap = 0.0f;  // above 0: the gradients are those of the logits before this cap
  Tensor losses;           // fp32 [rows], overwritten; 0 for a row that does not count
  // fp32, bf16 or fp16 [rows, columns], overwritten with the gradients of grad_scale * sum of
  // losses / divisor. In fp32 it may be `logits`. Undefined if only losses are wanted.
  Tensor dlogits;
};

namespace kernels {

absl::Status DivergenceStatistics(Kernels& kernels, const DivergenceStatisticsArgs& args);
// Adds the parts' sums in the order of parts, so that the result does not depend on which rank
// holds which part.
absl::Status DivergenceGradient(Kernels& kernels, const DivergenceGradientArgs& args);

}  // namespace kernels

// The checked arguments.
struct DivergenceStatisticsCall {
  DistillationOptions options;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t begin = 0;
  int64_t count = 0;
  const float* teacher = nullptr;
  const float* logits = nullptr;
  const int32_t* targets = nullptr;
  float* statistics = nullptr;
};
struct DivergenceGradientCall {
  DistillationOptions options;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t parts = 0;
  const float* teacher = nullptr;
  const float* logits = nullptr;
  const int32_t* targets = nullptr;
  const float* statistics = nullptr;
  const float* divisor = nullptr;
  float grad_scale = 1.0f;
  float logit_cap = 0.0f;
  float* losses = nullptr;
  DType dtype = DType::kFloat32;
  void* dlogits = nullptr;  // or null
};

}  // namespace zeroth
