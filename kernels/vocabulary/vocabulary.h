// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What of an embedding and of a loss remains to be computed where the vocabulary is divided: which
// tokens are here, and softmax cross-entropy from the statistics of every part. Products are left
// to Gemm, and the exchange of statistics to the caller.

#ifndef ZEROTH_KERNELS_VOCABULARY_VOCABULARY_H_
#define ZEROTH_KERNELS_VOCABULARY_VOCABULARY_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// Of a row of logits and a part of the vocabulary: the largest logit, the sum of e^(logit - it),
// and the target's logit, or 0 where the target is elsewhere.
inline constexpr int64_t kSoftmaxStatistics = 3;

struct LocalIdsArgs {
  Tensor ids;         // int32: tokens in [0, vocab); InvalidArgument for others
  int64_t first = 0;  // of the part, which is [first, first + count)
  int64_t count = 0;
  int64_t vocab = 0;
  Tensor local;    // int32, as many: id - first, or `count` for one elsewhere
  Tensor counted;  // fp32 [1], or undefined: how many are not -100, which is allowed then, for
                   // a target that is left out, and stays
};

struct SoftmaxStatisticsArgs {
  Tensor logits;      // fp32 [rows, columns]
  int64_t begin = 0;  // the part of the vocabulary: columns [begin, begin + count)
  int64_t count = 0;
  Tensor targets;     // int32 [rows], local: columns of `logits`
  Tensor statistics;  // fp32 [rows, kSoftmaxStatistics], overwritten
};

struct SoftmaxGradientArgs {
  Tensor logits;      // fp32 [rows, columns]
  Tensor targets;     // int32 [rows], local; -100: left out
  Tensor statistics;  // fp32 [parts, rows, kSoftmaxStatistics], of all parts of the vocabulary
  Tensor divisor;     // fp32 [1]: of the sum of losses; `counted` of LocalIds, for the mean
  float grad_scale = 1.0f;
  Tensor losses;  // fp32 [rows], overwritten: -log softmax(logits)[target], 0 if left out
  // Overwritten with the gradients of grad_scale * that sum: fp32 or 16 bits [rows, columns],
  // fp32 may be `logits`. Undefined for losses alone.
  Tensor dlogits;
};

struct MeanLossArgs {
  Tensor losses;   // fp32 [rows]
  Tensor divisor;  // fp32 [1]
  Tensor loss;     // fp32 [1]: sum of losses / divisor; 0 if that is 0
};

namespace kernels {

absl::Status LocalIds(Kernels& kernels, const LocalIdsArgs& args);
absl::Status SoftmaxStatistics(Kernels& kernels, const SoftmaxStatisticsArgs& args);
// Sums of parts are added in their order, so that the result does not depend on who has which part.
absl::Status SoftmaxGradient(Kernels& kernels, const SoftmaxGradientArgs& args);
absl::Status MeanLoss(Kernels& kernels, const MeanLossArgs& args);
// Unimplemented names a device that has none of these.
absl::Status SupportsDividedVocabulary(Kernels& kernels);

}  // namespace kernels

// What devices compute.
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
struct SoftmaxGradientCall {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t parts = 0;
  const float* logits = nullptr;
  const int32_t* targets = nullptr;
  const float* statistics = nullptr;
  const float* divisor = nullptr;
  float grad_scale = 1.0f;
  float* losses = nullptr;
  DType dtype = DType::kFloat32;
  void* dlogits = nullptr;  // or null
};
struct MeanLossCall {
  int64_t rows = 0;
  const float* losses = nullptr;
  const float* divisor = nullptr;
  float* loss = nullptr;
};
struct SupportsDividedVocabularyCall {};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_VOCABULARY_VOCABULARY_H_
