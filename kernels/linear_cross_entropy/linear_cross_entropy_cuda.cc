// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <memory>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/cuda_status.h"
#include "zeroth/kernels/cuda/cublaslt.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/gemm/gemm_cuda.h"
#include "zeroth/kernels/linear_cross_entropy/loss_chunk.h"
#include "zeroth/kernels/linear_cross_entropy/softmax_loss.h"

namespace zeroth::cuda {
namespace {

// Copies the weight to `padded` and adds rows of zeros, `words` rows in total.
absl::Status PadWeight(const LinearCrossEntropyCall& call, int64_t words, char* padded,
                       cudaStream_t stream) {
  const size_t row = static_cast<size_t>(call.dim) * SizeOf(call.dtype);
  const size_t bytes = static_cast<size_t>(call.vocab) * row;
  if (row == 0) return absl::OkStatus();
  ZEROTH_CUDA_RETURN_IF_ERROR(
      cudaMemcpyAsync(padded, call.weight, bytes, cudaMemcpyDeviceToDevice, stream));
  ZEROTH_CUDA_RETURN_IF_ERROR(
      cudaMemsetAsync(padded + bytes, 0, static_cast<size_t>(words - call.vocab) * row, stream));
  return absl::OkStatus();
}

absl::Status LinearCrossEntropy(const LinearCrossEntropyCall& call, CudaKernels& kernels) {
  const LaunchTarget& target = kernels.target();
  const LossPlan plan = PlanLoss(call);
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> memory,
                          kernels.Scratch(plan.scratch_bytes));
  ZEROTH_ASSIGN_OR_RETURN(CublasLt * blas, kernels.Blas());
  char* const scratch = static_cast<char*>(memory->data());
  auto* const counted = reinterpret_cast<int32_t*>(scratch + plan.count_offset);
  auto* const losses = call.row_losses != nullptr
                           ? call.row_losses
                           : reinterpret_cast<float*>(scratch + plan.losses_offset);
  auto* const logits = reinterpret_cast<float*>(scratch + plan.logits_offset);
  auto* const sums =
      plan.sums_beside ? reinterpret_cast<float*>(scratch + plan.sums_offset) : nullptr;
  ZEROTH_RETURN_IF_ERROR(
      CountTargets(call.rows, call.vocab, call.targets, counted, kernels.data_error(), target));
  const void* weight = call.weight;
  if (plan.pads_weight && call.rows > 0) {
    ZEROTH_RETURN_IF_ERROR(
        PadWeight(call, plan.words, scratch + plan.weight_offset, target.stream));
    weight = scratch + plan.weight_offset;
  }
  const LossDivisor divisor = {counted, call.divisor, call.row_weights != nullptr};
  const bool gradients = call.dhidden != nullptr || call.dweight != nullptr;
  if (call.rows == 0 && call.dweight != nullptr && !call.accumulate_dweight) {
    const size_t bytes = static_cast<size_t>(call.vocab * call.dim) * SizeOf(call.grad_dtype);
    if (bytes > 0) {
      ZEROTH_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(call.dweight, 0, bytes, target.stream));
    }
  }
  for (int64_t begin = 0; begin < call.rows; begin += plan.chunk_rows) {
    const int64_t rows = std::min(plan.chunk_rows, call.rows - begin);
    const LossChunk chunk{call, weight, logits, plan.words, sums, begin, rows};
    ZEROTH_RETURN_IF_ERROR(Gemm(chunk.Logits(), *blas, target));
    const float* const weights = call.row_weights == nullptr ? nullptr : call.row_weights + begin;
    ZEROTH_RETURN_IF_ERROR(SoftmaxLoss(rows, call.vocab, plan.words, logits, call.targets + begin,
                                       divisor, weights, gradients, call.dtype, call.grad_scale,
                                       call.logit_cap, losses + begin,
                                       kernels.properties().shared_bytes_per_block, target));
    if (call.dhidden != nullptr) {
      ZEROTH_RETURN_IF_ERROR(Gemm(chunk.HiddenGradient(), *blas, target));
    }
    if (call.dweight != nullptr) {
      ZEROTH_RETURN_IF_ERROR(Gemm(chunk.WeightGradient(), *blas, target));
    }
  }
  if (sums != nullptr && call.rows > 0) {
    ZEROTH_RETURN_IF_ERROR(RoundSums(call.vocab * call.dim, sums, call.accumulate_dweight,
                                     call.grad_dtype, call.dweight, target));
  }
  return MeanLoss(call.rows, losses, call.row_weights, divisor, call.loss, target);
}

const OnCuda<LinearCrossEntropy> linear_cross_entropy;

}  // namespace
}  // namespace zeroth::cuda
