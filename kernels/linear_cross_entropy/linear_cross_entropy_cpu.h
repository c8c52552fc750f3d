// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/ignored_target.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy.h"

namespace zeroth::cpu {

// The logits of a chunk take at most this much memory, unless the chunk has only kMinChunkRows.
// Every chunk reads the weight twice and its gradient once, so that chunks of few rows are slow.
inline constexpr int64_t kChunkBytes = int64_t{64} << 20;
inline constexpr int64_t kMinChunkRows = 64;

// Returns the number of rows in a chunk, whose logits exist at once: there are as few chunks as the
// limits allow, equally long except for the last.
int64_t LinearCrossEntropyChunkRows(int64_t rows, int64_t vocab);

// Computes loss and gradients. InvalidArgument names the row and value of the first target outside
// [0, vocab) that is not kIgnoredTarget; nothing has been written then. Otherwise fails as Gemm()
// and the workspaces do. The loss does not depend on the division into chunks. A dweight that is
// not fp32 is rounded once: if there are several chunks, their sum takes [vocab, dim] fp32 of the
// kernels' workspace().
absl::Status LinearCrossEntropy(const LinearCrossEntropyCall& call, CpuKernels& kernels);

// The parts of LinearCrossEntropy that are not matmuls:

// LinearCrossEntropyCall::row_weights and row_losses of some rows, or null.
struct RowValues {
  const float* weights = nullptr;
  float* losses = nullptr;

  // Returns the values of the rows from `begin` on.
  RowValues From(int64_t begin) const {
    return {weights == nullptr ? nullptr : weights + begin,
            losses == nullptr ? nullptr : losses + begin};
  }
};

// Adds -log softmax(logits)[target] to `loss` for every row whose target is not kIgnoredTarget, in
// the order of rows. If `gradients` names a type, fp32, bf16 or fp16, each row of logits [rows,
// vocab] is overwritten, from its first byte on, with (softmax - one-hot(target)) * factor in that
// type, or with zeros if the row is ignored. Otherwise the contents of `logits` are lost. `cap` is
// LinearCrossEntropyArgs::logit_cap. values.weights scale the added losses and the gradients. The
// result does not depend on the number of threads.
void SoftmaxCrossEntropy(int64_t rows, int64_t vocab, float* logits, const int32_t* targets,
                         std::optional<DType> gradients, float factor, float cap, double& loss,
                         RowValues values = {});

// SoftmaxPart and SoftmaxGradientRow do the same for a row that is divided among ranks. SoftmaxPart
// computes the largest logit of a part and its sum of e^(x - max): -infinity and 0 for an empty
// part.
void SoftmaxPart(const float* x, int64_t n, float& max, float& sum);
// The maximum and the sum of exponentials of a whole row.
struct SoftmaxSum {
  float max = 0;
  double sum = 0;
};
// Combines the results of SoftmaxPart for the parts of a row, in the order of parts: the maximum
// and the sum of part i lie at values[i * stride] and behind it. NaN stays NaN. At least one part.
SoftmaxSum CombineSoftmaxParts(const float* values, int64_t parts, int64_t stride);
// Given `max` and `sum` of the whole row, writes (softmax - one-hot(target)) * factor in type
// `dtype`, or zeros for kIgnoredTarget. A target outside of [0, n) is in another part. `to` may be
// x if it is fp32. If `cap` is above 0, x is capped, and the gradients are those before the cap.
void SoftmaxGradientRow(const float* x, int64_t n, int32_t target, float max, double sum,
                        float factor, float cap, DType dtype, void* to);

}  // namespace zeroth::cpu
