// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy_cuda.h"

#include <algorithm>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/cuda_status.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/gemm/gemm_cuda.h"
#include "zeroth/kernels/linear_cross_entropy/softmax_loss.h"

namespace zeroth::cuda {
namespace {

constexpr int64_t kLogitsBytes = int64_t{256} << 20;
// Products are at full speed from so many rows on, and in steps of so many.
constexpr int64_t kRowStep = 128;

size_t Aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

const char* Advance(const void* data, int64_t elements, DType dtype) {
  return static_cast<const char*>(data) + elements * static_cast<int64_t>(SizeOf(dtype));
}
char* Advance(void* data, int64_t elements, DType dtype) {
  return static_cast<char*>(data) + elements * static_cast<int64_t>(SizeOf(dtype));
}

// One chunk of rows, from products to products.
class Chunk {
 public:
  Chunk(const LinearCrossEntropyCall& call, const LossPlan& plan, char* scratch, int64_t begin,
        int64_t rows)
      : call_(call), plan_(plan), scratch_(scratch), begin_(begin), rows_(rows) {}

  GemmCall Logits() const {
    GemmCall gemm = Product(rows_, call_.vocab, call_.dim);
    gemm.a = hidden();
    gemm.lda = call_.dim;
    gemm.b = call_.weight;
    gemm.ldb = call_.dim;
    gemm.transpose_b = true;
    gemm.c = logits();
    gemm.c_dtype = DType::kFloat32;
    gemm.ldc = plan_.logits_stride;
    return gemm;
  }

  GemmCall HiddenGradient() const {
    GemmCall gemm = Product(rows_, call_.dim, call_.vocab);
    gemm.a = logits();
    gemm.lda = GradientStride();
    gemm.b = call_.weight;
    gemm.ldb = call_.dim;
    gemm.c = Advance(call_.dhidden, begin_ * call_.dim, call_.dtype);
    gemm.c_dtype = call_.dtype;
    gemm.ldc = call_.dim;
    return gemm;
  }

  GemmCall WeightGradient() const {
    GemmCall gemm = Product(call_.vocab, call_.dim, rows_);
    gemm.a = logits();
    gemm.lda = GradientStride();
    gemm.transpose_a = true;
    gemm.b = hidden();
    gemm.ldb = call_.dim;
    gemm.ldc = call_.dim;
    if (plan_.sums_beside) {
      gemm.c = scratch_ + plan_.sums_offset;
      gemm.c_dtype = DType::kFloat32;
      gemm.accumulate = begin_ > 0;
    } else {
      gemm.c = call_.dweight;
      gemm.c_dtype = call_.grad_dtype;
      gemm.accumulate = begin_ > 0 || call_.accumulate_dweight;
    }
    return gemm;
  }

  float* logits() const { return reinterpret_cast<float*>(scratch_ + plan_.logits_offset); }

 private:
  GemmCall Product(int64_t m, int64_t n, int64_t k) const {
    GemmCall gemm;
    gemm.m = m;
    gemm.n = n;
    gemm.k = k;
    gemm.dtype = call_.dtype;
    return gemm;
  }
  const void* hidden() const { return Advance(call_.hidden, begin_ * call_.dim, call_.dtype); }
  // Gradients lie where their row's logits lay.
  int64_t GradientStride() const {
    return plan_.logits_stride *
           static_cast<int64_t>(SizeOf(DType::kFloat32) / SizeOf(call_.dtype));
  }

  const LinearCrossEntropyCall& call_;
  const LossPlan& plan_;
  char* const scratch_;
  const int64_t begin_;
  const int64_t rows_;
};

}  // namespace

LossPlan PlanLoss(const LinearCrossEntropyCall& call) {
  LossPlan plan;
  plan.logits_stride = (call.vocab + 7) / 8 * 8;  // rows start on 16 bytes in 16-bit types too
  const int64_t row_bytes = std::max<int64_t>(plan.logits_stride, 1) * 4;
  const int64_t fitting = std::max(kLogitsBytes / row_bytes / kRowStep * kRowStep, kRowStep);
  plan.chunk_rows = std::min(std::max<int64_t>(call.rows, 1), fitting);
  plan.sums_beside =
      call.dweight != nullptr && call.grad_dtype != DType::kFloat32 && call.rows > plan.chunk_rows;
  plan.losses_offset = Aligned(sizeof(int32_t));
  plan.logits_offset = plan.losses_offset + Aligned(static_cast<size_t>(call.rows) * 4);
  plan.sums_offset = plan.logits_offset + Aligned(static_cast<size_t>(plan.chunk_rows * row_bytes));
  plan.scratch_bytes =
      plan.sums_offset +
      (plan.sums_beside ? static_cast<size_t>(call.vocab * call.dim) * 4 : size_t{0});
  return plan;
}

absl::Status LinearCrossEntropy(const LinearCrossEntropyCall& call, const LossPlan& plan,
                                const LossMemory& memory, CublasLt& blas,
                                const LaunchTarget& target) {
  char* const scratch = static_cast<char*>(memory.scratch);
  auto* const counted = reinterpret_cast<int32_t*>(scratch + plan.count_offset);
  auto* const losses = reinterpret_cast<float*>(scratch + plan.losses_offset);
  ZEROTH_RETURN_IF_ERROR(
      CountTargets(call.rows, call.vocab, call.targets, counted, memory.error, target));
  const bool gradients = call.dhidden != nullptr || call.dweight != nullptr;
  if (call.rows == 0 && call.dweight != nullptr && !call.accumulate_dweight) {
    const size_t bytes = static_cast<size_t>(call.vocab * call.dim) * SizeOf(call.grad_dtype);
    if (bytes > 0) {
      ZEROTH_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(call.dweight, 0, bytes, target.stream));
    }
  }
  for (int64_t begin = 0; begin < call.rows; begin += plan.chunk_rows) {
    const int64_t rows = std::min(plan.chunk_rows, call.rows - begin);
    const Chunk chunk(call, plan, scratch, begin, rows);
    ZEROTH_RETURN_IF_ERROR(Gemm(chunk.Logits(), blas, target));
    ZEROTH_RETURN_IF_ERROR(SoftmaxLoss(
        rows, call.vocab, plan.logits_stride, chunk.logits(), call.targets + begin, counted,
        gradients, call.dtype, call.grad_scale, losses + begin, memory.shared_bytes, target));
    if (call.dhidden != nullptr) {
      ZEROTH_RETURN_IF_ERROR(Gemm(chunk.HiddenGradient(), blas, target));
    }
    if (call.dweight != nullptr) {
      ZEROTH_RETURN_IF_ERROR(Gemm(chunk.WeightGradient(), blas, target));
    }
  }
  if (plan.sums_beside) {
    ZEROTH_RETURN_IF_ERROR(
        RoundSums(call.vocab * call.dim, reinterpret_cast<const float*>(scratch + plan.sums_offset),
                  call.accumulate_dweight, call.grad_dtype, call.dweight, target));
  }
  return MeanLoss(call.rows, losses, counted, call.loss, target);
}

namespace {

absl::Status Run(const LinearCrossEntropyCall& call, CudaKernels& kernels) {
  const LossPlan plan = PlanLoss(call);
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> scratch,
                          kernels.Scratch(plan.scratch_bytes));
  ZEROTH_ASSIGN_OR_RETURN(CublasLt * blas, kernels.Blas());
  const LossMemory memory = {scratch->data(), kernels.properties().shared_bytes_per_block,
                             kernels.data_error()};
  return LinearCrossEntropy(call, plan, memory, *blas, kernels.target());
}
const OnCuda<Run> linear_cross_entropy;

}  // namespace
}  // namespace zeroth::cuda
