// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy_cpu.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>

#include "zeroth/core/base/ignored_target.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/gemm/gemm_cpu.h"
#include "zeroth/kernels/linear_cross_entropy/loss_products.h"

namespace zeroth::cpu {
namespace {

// Returns the number of rows that count. InvalidArgument for a target that is no token.
absl::StatusOr<int64_t> CountTargets(const LinearCrossEntropyCall& call) {
  int64_t counted = 0;
  for (int64_t row = 0; row < call.rows; ++row) {
    const int32_t target = call.targets[row];
    if (target == kIgnoredTarget) continue;
    if (target < 0 || target >= call.vocab) {
      return InvalidArgument("LinearCrossEntropy: targets[", row, "] is ", target,
                             "; expected a token in [0, ", call.vocab, ") or ", kIgnoredTarget,
                             " to leave the row out");
    }
    ++counted;
  }
  return counted;
}

// Rounds the sum of all chunks to dweight, once.
void StoreWeightSum(const LinearCrossEntropyCall& call, const float* weight_sum) {
  FinishProduct({.m = call.vocab,
                 .n = call.dim,
                 .c_dtype = call.grad_dtype,
                 .c = call.dweight,
                 .ldc = call.dim,
                 .accumulate = call.accumulate_dweight},
                weight_sum, call.dim);
}

// Writes loss 0 and zero gradients, since no row counts. Zero has all bits zero in every type.
void WriteZeros(const LinearCrossEntropyCall& call) {
  *call.loss = 0.0f;
  const size_t hidden = static_cast<size_t>(call.rows * call.dim);
  const size_t weight = static_cast<size_t>(call.vocab * call.dim);
  if (call.dhidden != nullptr) std::memset(call.dhidden, 0, hidden * SizeOf(call.dtype));
  if (call.dweight != nullptr && !call.accumulate_dweight)
    std::memset(call.dweight, 0, weight * SizeOf(call.grad_dtype));
}

// Gradients that are not fp32 and are the sum of several chunks are summed in scratch memory.
int64_t WeightSumFloats(const LinearCrossEntropyCall& call, int64_t chunk_rows) {
  const bool apart =
      call.dweight != nullptr && call.grad_dtype != DType::kFloat32 && chunk_rows < call.rows;
  return apart ? call.vocab * call.dim : 0;
}

}  // namespace

int64_t LinearCrossEntropyChunkRows(int64_t rows, int64_t vocab) {
  if (rows <= 0 || vocab <= 0) return 0;
  const int64_t bytes_per_row = vocab * static_cast<int64_t>(sizeof(float));
  const int64_t most = std::max(kMinChunkRows, kChunkBytes / bytes_per_row);
  const int64_t chunks = (rows + most - 1) / most;
  return (rows + chunks - 1) / chunks;
}

absl::Status LinearCrossEntropy(const LinearCrossEntropyCall& call, CpuKernels& kernels) {
  ZEROTH_ASSIGN_OR_RETURN(const int64_t counted, CountTargets(call));
  if (counted == 0) {
    WriteZeros(call);
    return absl::OkStatus();
  }
  const int64_t chunk_rows = LinearCrossEntropyChunkRows(call.rows, call.vocab);
  const int64_t weight_sum_floats = WeightSumFloats(call, chunk_rows);
  ZEROTH_ASSIGN_OR_RETURN(float* scratch, kernels.workspace().ReserveFloats(
                                              chunk_rows * call.vocab + weight_sum_floats));
  float* const weight_sum = weight_sum_floats > 0 ? scratch : nullptr;
  float* const logits = scratch + weight_sum_floats;
  std::optional<DType> gradients;
  if (call.dhidden != nullptr || call.dweight != nullptr) gradients = call.dtype;
  const double mean = 1.0 / (call.divisor != nullptr ? static_cast<double>(*call.divisor)
                                                     : static_cast<double>(counted));
  const float factor = static_cast<float>(call.grad_scale * mean);
  double loss = 0.0;
  for (int64_t begin = 0; begin < call.rows; begin += chunk_rows) {
    const int64_t rows = std::min(chunk_rows, call.rows - begin);
    const LossChunk chunk{call, call.weight, logits, call.vocab, weight_sum, begin, rows};
    ZEROTH_RETURN_IF_ERROR(Gemm(chunk.Logits(), kernels));
    SoftmaxCrossEntropy(rows, call.vocab, logits, call.targets + begin, gradients, factor, loss);
    if (call.dhidden != nullptr) {
      ZEROTH_RETURN_IF_ERROR(Gemm(chunk.HiddenGradient(), kernels));
    }
    if (call.dweight != nullptr) {
      ZEROTH_RETURN_IF_ERROR(Gemm(chunk.WeightGradient(), kernels));
    }
  }
  if (weight_sum != nullptr) StoreWeightSum(call, weight_sum);
  *call.loss = static_cast<float>(loss * mean);
  return absl::OkStatus();
}

const OnCpu<LinearCrossEntropy> linear_cross_entropy;

}  // namespace zeroth::cpu
