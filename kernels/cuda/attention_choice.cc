// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cuda/attention_choice.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth::cuda {
namespace {

bool IsEmpty(const AttentionShape& shape) {
  return shape.batch == 0 || shape.seq == 0 || shape.heads == 0 || shape.head_dim == 0;
}

// As cuDNN takes tensors for granted.
bool IsAligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }
bool AreAligned(const CudnnAttentionPointers& pointers) {
  return IsAligned(pointers.qkv) && IsAligned(pointers.out) && IsAligned(pointers.lse) &&
         IsAligned(pointers.dout) && IsAligned(pointers.dqkv);
}

// Without asking the library, which takes a while to load.
absl::Status MayAsk(const CudnnAttentionKey& key) {
  if (key.dtype != DType::kBFloat16 && key.dtype != DType::kFloat16) {
    return absl::UnimplementedError(absl::StrCat("cuDNN: it has no attention in ",
                                                 DTypeName(key.dtype), ", expected bf16 or fp16"));
  }
  if (key.shape.head_dim % 8 != 0) {
    return absl::UnimplementedError(absl::StrCat("cuDNN: it has no attention with heads ",
                                                 key.shape.head_dim,
                                                 " wide, expected a multiple of 8"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<size_t> AttentionChoice::Ask(const CudnnAttentionKey& key) {
  ZEROTH_RETURN_IF_ERROR(MayAsk(key));
  if (!made_) {
    absl::StatusOr<std::unique_ptr<Cudnn>> made = make_cudnn_();
    made_ = true;
    no_cudnn_ = made.status();
    if (made.ok()) cudnn_ = std::make_unique<CudnnAttention>(*std::move(made));
  }
  ZEROTH_RETURN_IF_ERROR(no_cudnn_);
  return cudnn_->WorkspaceBytes(key);
}

absl::StatusOr<std::optional<size_t>> AttentionChoice::CudnnWorkspace(
    const CudnnAttentionKey& key, const CudnnAttentionPointers& pointers) {
  if (wanted_ == AttentionBackend::kFlash || IsEmpty(key.shape)) return std::nullopt;
  if (!AreAligned(pointers)) {
    if (wanted_ == AttentionBackend::kAuto) return std::nullopt;
    return absl::InvalidArgumentError(
        "cuDNN: attention on memory that is not aligned to 16 bytes, which it needs; expected "
        "other memory, or attention = auto or flash");
  }
  const absl::StatusOr<size_t> workspace = Ask(key);
  if (workspace.ok()) return *workspace;
  if (wanted_ == AttentionBackend::kAuto && absl::IsUnimplemented(workspace.status())) {
    return std::nullopt;
  }
  return workspace.status();
}

absl::Status AttentionChoice::EnqueueCudnn(const CudnnAttentionKey& key,
                                           const CudnnAttentionPointers& pointers,
                                           void* workspace) {
  return cudnn_->Enqueue(key, pointers, workspace);
}

absl::StatusOr<std::string> AttentionChoice::Describe(const AttentionShape& shape, DType dtype) {
  constexpr char kOwn[] = "Zeroth's kernels";
  if (wanted_ == AttentionBackend::kFlash) return kOwn;
  const CudnnAttentionKey forward_key = {shape, dtype, AttentionPass::kForward};
  const CudnnAttentionKey backward_key = {shape, dtype, AttentionPass::kBackward};
  const absl::StatusOr<size_t> forward = Ask(forward_key);
  const absl::StatusOr<size_t> backward = forward.ok() ? Ask(backward_key) : forward;
  for (const absl::Status& status : {forward.status(), backward.status()}) {
    if (!status.ok() && (wanted_ == AttentionBackend::kCudnn || !absl::IsUnimplemented(status))) {
      return status;
    }
  }
  if (!forward.ok()) return absl::StrCat(kOwn, " (", forward.status().message(), ")");
  const std::string library = absl::StrCat("cuDNN ", cudnn_->cudnn().version());
  if (!backward.ok()) {
    return absl::StrCat(library, " forward, ", kOwn, " backward (", backward.status().message(),
                        ")");
  }
  ZEROTH_ASSIGN_OR_RETURN(const int64_t at_once, cudnn_->SequencesAtOnce(backward_key));
  return at_once == shape.batch
             ? library
             : absl::StrCat(library, ", backward of ", at_once, " sequences at a time");
}

}  // namespace zeroth::cuda
