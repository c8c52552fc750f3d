// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/attention/attention_choice.h"
#include "zeroth/kernels/attention/cudnn.h"
#include "zeroth/kernels/attention/flash_attention.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"

namespace zeroth::cuda {
namespace {

// Alignment of the arrays in a scratch buffer.
constexpr size_t kScratchAlignment = 256;

AttentionChoice& ChoiceOf(CudaKernels& kernels) {
  return kernels.Kept<AttentionChoice>(kernels.options().attention, [&kernels] {
    return Cudnn::Create(kernels.target().stream, kernels.properties().compute_capability);
  });
}

// Enqueues attention by cuDNN and returns true, or returns false if our own kernels shall compute
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
  CudnnAttentionPointers pointers;
  pointers.qkv = call.qkv;
  pointers.out = call.out;
  pointers.lse = call.lse;
  ZEROTH_ASSIGN_OR_RETURN(const bool by_cudnn,
                          AttendByCudnn({call.shape, call.dtype, AttentionPass::kForward,
                                         /*packed_documents=*/call.starts != nullptr},
                                        pointers, kernels));
  return by_cudnn ? absl::OkStatus() : Attention(call, kernels.target());
}
const OnCuda<Run> attention;

absl::Status RunBackward(const AttentionBackwardCall& call, CudaKernels& kernels) {
  CudnnAttentionPointers pointers;
  pointers.qkv = call.qkv;
  pointers.out = const_cast<void*>(call.out);
  pointers.lse = const_cast<float*>(call.lse);
  pointers.dout = call.dout;
  pointers.dqkv = call.dqkv;
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
