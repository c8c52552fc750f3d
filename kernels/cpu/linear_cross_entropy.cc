// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/linear_cross_entropy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/gemm.h"

namespace zeroth::cpu {
namespace {

// The number of rows that count; InvalidArgument for a target that is no token.
absl::StatusOr<int64_t> CountTargets(const LinearCrossEntropyCall& call) {
  int64_t counted = 0;
  for (int64_t row = 0; row < call.rows; ++row) {
    const int32_t target = call.targets[row];
    if (target == kIgnoredTarget) continue;
    if (target < 0 || target >= call.vocab) {
      return absl::InvalidArgumentError(absl::StrCat(
          "LinearCrossEntropy: targets[", row, "] is ", target, "; expected a token in [0, ",
          call.vocab, ") or ", kIgnoredTarget, " to leave the row out"));
    }
    ++counted;
  }
  return counted;
}

GemmCall Logits(const LinearCrossEntropyCall& call, int64_t begin, int64_t rows, float* logits) {
  return {.m = rows,
          .n = call.vocab,
          .k = call.dim,
          .a = call.hidden + begin * call.dim,
          .lda = call.dim,
          .b = call.weight,
          .ldb = call.dim,
          .transpose_b = true,
          .c = logits,
          .ldc = call.vocab};
}

GemmCall HiddenGradient(const LinearCrossEntropyCall& call, int64_t begin, int64_t rows,
                        const float* dlogits) {
  return {.m = rows,
          .n = call.dim,
          .k = call.vocab,
          .a = dlogits,
          .lda = call.vocab,
          .b = call.weight,
          .ldb = call.dim,
          .c = call.dhidden + begin * call.dim,
          .ldc = call.dim};
}

GemmCall WeightGradient(const LinearCrossEntropyCall& call, int64_t begin, int64_t rows,
                        const float* dlogits) {
  return {.m = call.vocab,
          .n = call.dim,
          .k = rows,
          .a = dlogits,
          .lda = call.vocab,
          .transpose_a = true,
          .b = call.hidden + begin * call.dim,
          .ldb = call.dim,
          .c = call.dweight,
          .ldc = call.dim,
          .accumulate = call.accumulate_dweight || begin > 0};
}

// Loss 0 and gradients of zero: no row counts, so nothing is to be computed.
void WriteZeros(const LinearCrossEntropyCall& call) {
  *call.loss = 0.0f;
  if (call.dhidden != nullptr) std::fill_n(call.dhidden, call.rows * call.dim, 0.0f);
  if (call.dweight != nullptr && !call.accumulate_dweight)
    std::fill_n(call.dweight, call.vocab * call.dim, 0.0f);
}

}  // namespace

int64_t LinearCrossEntropyChunkRows(int64_t rows, int64_t vocab) {
  if (rows <= 0 || vocab <= 0) return 0;
  const int64_t bytes_per_row = vocab * static_cast<int64_t>(sizeof(float));
  const int64_t most = std::max(kMinChunkRows, kChunkBytes / bytes_per_row);
  const int64_t chunks = (rows + most - 1) / most;
  return (rows + chunks - 1) / chunks;
}

absl::Status LinearCrossEntropy(const LinearCrossEntropyCall& call, Workspace& workspace) {
  ZEROTH_ASSIGN_OR_RETURN(const int64_t counted, CountTargets(call));
  if (counted == 0) {
    WriteZeros(call);
    return absl::OkStatus();
  }
  const int64_t chunk_rows = LinearCrossEntropyChunkRows(call.rows, call.vocab);
  ZEROTH_ASSIGN_OR_RETURN(float* logits, workspace.ReserveFloats(chunk_rows * call.vocab));
  const bool gradients = call.dhidden != nullptr || call.dweight != nullptr;
  const double mean = 1.0 / static_cast<double>(counted);
  const float factor = static_cast<float>(call.grad_scale * mean);
  double loss = 0.0;
  for (int64_t begin = 0; begin < call.rows; begin += chunk_rows) {
    const int64_t rows = std::min(chunk_rows, call.rows - begin);
    ZEROTH_RETURN_IF_ERROR(Gemm(Logits(call, begin, rows, logits)));
    SoftmaxCrossEntropy(rows, call.vocab, logits, call.targets + begin, gradients, factor, loss);
    if (call.dhidden != nullptr)
      ZEROTH_RETURN_IF_ERROR(Gemm(HiddenGradient(call, begin, rows, logits)));
    if (call.dweight != nullptr)
      ZEROTH_RETURN_IF_ERROR(Gemm(WeightGradient(call, begin, rows, logits)));
  }
  *call.loss = static_cast<float>(loss * mean);
  return absl::OkStatus();
}

}  // namespace zeroth::cpu
