// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Embedding and loss with a vocabulary that is divided among ranks: finds the tokens of a rank's
// part, and computes softmax cross-entropy from the statistics of all parts. Gemm computes the
// matmuls, and the caller exchanges the statistics. Deterministic.

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

class Operation;

// Number of statistics of a row of logits within a part of the vocabulary: the largest logit, the
// sum of e^(logit - largest), and the target's logit, or 0 if the target is in another part.
inline constexpr int64_t kSoftmaxStatistics = 3;

struct LocalIdsArgs {
  Tensor ids;         // int32: tokens in [0, vocab); others are InvalidArgument
  int64_t first = 0;  // the part is [first, first + count)
  int64_t count = 0;
  int64_t vocab = 0;
  Tensor local;    // int32, as many as ids: id - first, or `count` for a token of another part
  Tensor counted;  // fp32 [1], or undefined. If defined, ids may hold -100 for targets that do not
                   // count; these stay -100, and the number of the others is written here
};

// kernels/distillation and kernels/divergence derive their arguments from this struct. Their
// statistics begin with the kSoftmaxStatistics ones.
struct SoftmaxStatisticsArgs {
  Tensor logits;      // fp32 [rows, columns]
  int64_t begin = 0;  // the part of the vocabulary: columns [begin, begin + count)
  int64_t count = 0;
  Tensor targets;     // int32 [rows], local: columns of `logits`
  Tensor statistics;  // fp32 [rows, statistics of the loss], overwritten
};

struct PartGradientArgs {
  Tensor logits;        // fp32 [rows, columns]; if logit_cap is above 0, capped (BasicOp::kSoftCap)
  Tensor targets;       // int32 [rows], local; rows with -100 do not count
  Tensor statistics;    // fp32 [parts, rows, statistics of the loss], of all parts
  Tensor divisor;       // fp32 [1]: divides the sum of losses; for the mean, `counted` of LocalIds
  int64_t padding = 0;  // the last `padding` columns are not tokens; their gradients are 0
  float grad_scale = 1.0f;
  float logit_cap = 0.0f;  // above 0: the gradients are those of the logits before this cap
  Tensor losses;           // fp32 [rows], overwritten; 0 for a row that does not count
  // fp32, bf16 or fp16 [rows, columns], overwritten with the gradients of grad_scale * sum of
  // losses / divisor. In fp32 it may be `logits`. Undefined if only losses are wanted.
  Tensor dlogits;
};

// The losses are -log softmax(logits)[target].
struct SoftmaxGradientArgs : PartGradientArgs {
  Tensor row_weights;  // fp32 [rows]: multiply the rows' gradients. Undefined: all 1
};

struct MeanLossArgs {
  Tensor losses;   // fp32 [rows]
  Tensor divisor;  // fp32 [1]
  Tensor loss;     // fp32 [1]: sum of losses / divisor; 0 if that is 0
};

// How a device best computes the loss of a vocabulary that is divided among ranks.
struct DividedLossPlan {
  int64_t chunk_rows = 0;  // rows whose logits exist at a time; does not depend on the ranks
  // A rank's columns should be padded to a multiple of this. Matmuls of other sizes may run on slow
  // kernels.
  int64_t column_step = 1;
};

namespace kernels {

// Returns the plan for hidden [rows, dim] and a weight of all ranks together, [vocab, dim].
// `logit_buffers` fp32 buffers of logits live per chunk: 1, plus 1 for a teacher's, plus 1 for raw
// logits that a transform's backward needs. Unimplemented if the device has no operations for
// divided vocabularies.
absl::StatusOr<DividedLossPlan> PlanDividedLoss(Kernels& kernels, int64_t rows, int64_t dim,
                                                int64_t vocab, int64_t logit_buffers = 1);

absl::Status LocalIds(Kernels& kernels, const LocalIdsArgs& args);
absl::Status SoftmaxStatistics(Kernels& kernels, const SoftmaxStatisticsArgs& args);
// Adds the parts' sums in the order of parts, so that the result does not depend on which rank
// holds which part.
absl::Status SoftmaxGradient(Kernels& kernels, const SoftmaxGradientArgs& args);
absl::Status MeanLoss(Kernels& kernels, const MeanLossArgs& args);
// Returns OK if the device has these operations, and otherwise Unimplemented with its name.
absl::Status SupportsDividedVocabulary(Kernels& kernels);

}  // namespace kernels

// The checked arguments.
struct LocalIdsCall {
  int64_t places = 0;
  const int32_t* ids = nullptr;
  int64_t first = 0;
  int64_t count = 0;
  int64_t vocab = 0;
  int32_t* local = nullptr;
  float* counted = nullptr;  // or null
};
struct SoftmaxStatisticsCall {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t begin = 0;
  int64_t count = 0;
  const float* logits = nullptr;
  const int32_t* targets = nullptr;
  float* statistics = nullptr;
};
struct PartGradientCall {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t padding = 0;
  int64_t parts = 0;
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
struct SoftmaxGradientCall : PartGradientCall {
  const float* row_weights = nullptr;  // or null
};
struct MeanLossCall {
  int64_t rows = 0;
  const float* losses = nullptr;
  const float* divisor = nullptr;
  float* loss = nullptr;
};
struct PlanDividedLossCall {
  int64_t rows = 0;
  int64_t dim = 0;
  int64_t vocab = 0;
  int64_t logit_buffers = 1;
  DividedLossPlan* plan = nullptr;  // overwritten
};

namespace kernels {

// Check the arguments that losses share, for a loss with this number of `statistics`, and set the
// fields of `call`. Return false if an argument is wrong.
bool CheckPart(Operation& op, const SoftmaxStatisticsArgs& args, int64_t statistics,
               SoftmaxStatisticsCall& call);
bool CheckPart(Operation& op, const PartGradientArgs& args, int64_t statistics,
               PartGradientCall& call);

}  // namespace kernels

// The plans of processors and of GPUs.
DividedLossPlan PlanDividedLossOnCpu(const PlanDividedLossCall& call);
DividedLossPlan PlanDividedLossOnGpu(const PlanDividedLossCall& call);

}  // namespace zeroth
