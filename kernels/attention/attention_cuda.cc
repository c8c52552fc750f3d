// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/attention/attention_choice.h"
#include "zeroth/kernels/attention/attention_kernels.h"
#include "zeroth/kernels/attention/attention_plan.h"
#include "zeroth/kernels/attention/cudnn.h"
#include "zeroth/kernels/attention/flash_attention.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"

namespace zeroth::cuda {
namespace {

HeadLayout LayoutOf(const AttentionShape& shape, const int32_t* starts) {
  HeadLayout at;
  at.seq = static_cast<int>(shape.seq);
  at.heads = static_cast<int>(shape.heads);
  at.kv_heads = static_cast<int>(shape.kv_heads);
  at.head_dim = static_cast<int>(shape.head_dim);
  at.packed = shape.packed_dim();
  at.out_token = shape.heads * shape.head_dim;
  at.scale = shape.score_scale();
  at.cap = shape.cap;
  at.window = static_cast<int>(shape.window);
  at.starts = starts;
  return at;
}

}  // namespace

absl::Status Attention(const AttentionCall& call, const LaunchTarget& target) {
  if (IsEmpty(call.shape)) return absl::OkStatus();
  const bool aligned = ArePacked(call.qkv, call.out);
  ZEROTH_ASSIGN_OR_RETURN(const AttentionPlan plan, PlanAttention(call.shape, call.dtype, aligned));
  const AttentionForwardParams params = {LayoutOf(call.shape, call.starts), call.qkv, call.out,
                                         call.lse};
  return plan.path == AttentionPath::kMma
             ? LaunchMmaForward(plan, call.dtype, params, target.stream)
             : LaunchPlainForward(plan, call.dtype, params, target.stream);
}

int64_t AttentionBackwardScratch(const AttentionShape& shape) {
  return shape.batch * shape.heads * shape.seq;
}

absl::Status AttentionBackward(const AttentionBackwardCall& call, float* scratch,
                               const LaunchTarget& target) {
  if (IsEmpty(call.shape)) return absl::OkStatus();
  const bool aligned = ArePacked(call.dout, call.qkv, call.out, call.dqkv);
  ZEROTH_ASSIGN_OR_RETURN(const AttentionPlan plan, PlanAttention(call.shape, call.dtype, aligned));
  const HeadLayout at = LayoutOf(call.shape, call.starts);
  ZEROTH_RETURN_IF_ERROR(LaunchAttentionDelta(at, call.shape.batch, call.dtype, aligned, call.dout,
                                              call.out, scratch, target.stream));
  const AttentionBackwardParams params = {at, call.dout, call.qkv, call.lse, scratch, call.dqkv};
  return plan.path == AttentionPath::kMma
             ? LaunchMmaBackward(plan, call.dtype, params, target.stream)
             : LaunchPlainBackward(plan, call.dtype, params, target.stream);
}

namespace {

// Alignment of the arrays in a scratch buffer.
constexpr size_t kScratchAlignment = 256;

AttentionChoice& ChoiceOf(CudaKernels& kernels) {
  return kernels.Kept<AttentionChoice>(kernels.options(), [&kernels] {
    return Cudnn::Create(kernels.target().stream, kernels.properties().compute_capability);
  });
}

// Enqueues attention by cuDNN and returns true, or returns false if our own kernels must compute
// it.
absl::StatusOr<bool> AttendByCudnn(const CudnnAttentionKey& key, CudnnAttentionPointers pointers,
                                   CudaKernels& kernels) {
  AttentionChoice& choice = ChoiceOf(kernels);
  ZEROTH_ASSIGN_OR_RETURN(const std::optional<size_t> workspace,
                          choice.CudnnWorkspace(key, pointers));
  if (!workspace.has_value()) return false;
  // cuDNN's forward always writes lse, so it needs memory for it even if the caller wants none.
  const AttentionShape& shape = key.shape;
  const size_t lse_bytes =
      pointers.lse != nullptr
          ? 0
          : static_cast<size_t>(shape.batch * shape.heads * shape.seq) * sizeof(float);
  const size_t lse_offset =
      (*workspace + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> scratch,
                          kernels.Scratch(lse_offset + lse_bytes));
  char* const memory = static_cast<char*>(scratch->data());
  if (lse_bytes > 0) pointers.lse = reinterpret_cast<float*>(memory + lse_offset);
  ZEROTH_RETURN_IF_ERROR(choice.EnqueueCudnn(key, pointers, memory));
  return true;
}

absl::Status Run(const AttentionCall& call, CudaKernels& kernels) {
  const CudnnAttentionPointers pointers = {.qkv = call.qkv, .out = call.out, .lse = call.lse};
  ZEROTH_ASSIGN_OR_RETURN(const bool by_cudnn,
                          AttendByCudnn({call.shape, call.dtype, AttentionPass::kForward,
                                         /*packed_documents=*/call.starts != nullptr},
                                        pointers, kernels));
  return by_cudnn ? absl::OkStatus() : Attention(call, kernels.target());
}
const OnCuda<Run> attention;

absl::Status RunBackward(const AttentionBackwardCall& call, CudaKernels& kernels) {
  const CudnnAttentionPointers pointers = {.qkv = call.qkv,
                                           .out = const_cast<void*>(call.out),
                                           .lse = const_cast<float*>(call.lse),
                                           .dout = call.dout,
                                           .dqkv = call.dqkv};
  ZEROTH_ASSIGN_OR_RETURN(const bool by_cudnn,
                          AttendByCudnn({call.shape, call.dtype, AttentionPass::kBackward,
                                         /*packed_documents=*/call.starts != nullptr},
                                        pointers, kernels));
  if (by_cudnn) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(
      const std::shared_ptr<Buffer> scratch,
      kernels.Scratch(static_cast<size_t>(AttentionBackwardScratch(call.shape)) * sizeof(float)));
  return AttentionBackward(call, static_cast<float*>(scratch->data()), kernels.target());
}
const OnCuda<RunBackward> attention_backward;

const KernelTable<DescribeAttentionCall>::Registration describe(
    "cuda", [](Kernels& kernels, const DescribeAttentionCall& call, CallTensors) -> absl::Status {
      ZEROTH_ASSIGN_OR_RETURN(*call.words,
                              ChoiceOf(static_cast<CudaKernels&>(kernels))
                                  .Describe(call.shape, call.dtype, call.packed_documents));
      return absl::OkStatus();
    });

}  // namespace
}  // namespace zeroth::cuda
