// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The loss of a student that learns from a teacher's distribution (Hinton et al., "Distilling the
// knowledge in a neural network", 2015), of which the teacher's k likeliest tokens are known:
//
//   alpha T^2 KL(teacher || student) + (1 - alpha) cross-entropy(student, target)
//
// Both distributions of the KL are at temperature T. The teacher's is renormalised over its k
// tokens; the student's is over the whole vocabulary. T^2 keeps the size of the gradients.
//
// As in vocabulary.h, the vocabulary may be divided among ranks: each computes the statistics of
// its parts, the caller exchanges them, and each computes the gradients of its own logits. Gemm
// computes the matmuls. Deterministic.

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/vocabulary/vocabulary.h"

namespace zeroth {

// The KL divergence that a student lowers (beta of 0 and of 1 in TRL's GKD).
enum class Divergence : uint8_t {
  kForward,  // KL(teacher || student): the student covers what the teacher finds possible
  kReverse,  // KL(student || teacher): the student avoids what the teacher finds impossible
};

struct DistillationOptions {
  float alpha = 0.5f;        // weight of the KL, 0 to 1; the next token has the rest
  float temperature = 1.0f;  // above 0
  // kReverse needs kernels/divergence: the k likeliest tokens say nothing about the others.
  Divergence divergence = Divergence::kForward;
};

// The most tokens of a teacher at one position.
inline constexpr int64_t kMostTeacherTokens = 1024;

// Statistics of a row of logits x within a part of the vocabulary: the largest x, the sum of
// e^(x - largest), the target's x or 0 if that is in another part, then the first two of x / T, and
// the sum of p x / T over the teacher's tokens of this part, where p is the teacher's probability.
inline constexpr int64_t kDistillStatistics = 6;

// The inputs of both operations.
struct TeacherArgs {
  // int32 [rows, k]: distinct tokens. CUDA needs k of at most kMostTeacherTokens.
  Tensor ids;
  Tensor log_probs;   // fp32 [rows, k]: of these tokens, at temperature 1; a common summand is free
  int64_t first = 0;  // the token of the first column of logits; other columns follow
  DistillationOptions options;
};

// Rows whose target is -100 do not count; their statistics are 0.
struct DistillStatisticsArgs : SoftmaxStatisticsArgs {
  TeacherArgs teacher;
};
struct DistillGradientArgs : PartGradientArgs {
  TeacherArgs teacher;
};

namespace kernels {

// Checks that alpha and the temperature are in their ranges.
void CheckDistillation(Operation& op, const DistillationOptions& options);

absl::Status DistillStatistics(Kernels& kernels, const DistillStatisticsArgs& args);
// Adds the parts' sums in the order of parts, so that the result does not depend on which rank
// holds which part.
absl::Status DistillGradient(Kernels& kernels, const DistillGradientArgs& args);

}  // namespace kernels

// The checked arguments.
struct TeacherCall {
  int64_t k = 0;
  const int32_t* ids = nullptr;
  const float* log_probs = nullptr;
  int64_t first = 0;
  DistillationOptions options;
};
struct DistillStatisticsCall : SoftmaxStatisticsCall {
  TeacherCall teacher;
};
struct DistillGradientCall : PartGradientCall {
  TeacherCall teacher;
};

}  // namespace zeroth
