// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/attention/attention_choice.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/attention/attention_arguments.h"

namespace zeroth::cuda {

absl::StatusOr<size_t> AttentionChoice::Ask(const CudnnAttentionKey& key) {
  // Before the library is loaded, which takes a while.
  ZEROTH_RETURN_IF_ERROR(CheckCudnnKey(key));
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
  if (!AreAligned(pointers.qkv, pointers.out, pointers.lse, pointers.dout, pointers.dqkv)) {
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

absl::StatusOr<std::string> AttentionChoice::Describe(const AttentionShape& shape, DType dtype,
                                                      bool packed_documents) {
  constexpr char kOwn[] = "Zeroth's kernels";
  if (wanted_ == AttentionBackend::kFlash) return kOwn;
  const CudnnAttentionKey forward_key = {shape, dtype, AttentionPass::kForward, packed_documents};
  const CudnnAttentionKey backward_key = {shape, dtype, AttentionPass::kBackward, packed_documents};
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
  ZEROTH_ASSIGN_OR_RETURN(const CudnnAttention::Part part, cudnn_->PartAtOnce(backward_key));
  if (part.kv_heads < shape.kv_heads) {
    return absl::StrCat(library, ", backward of ", part.kv_heads, " of ", shape.kv_heads,
                        " heads of keys at a time");
  }
  return part.sequences == shape.batch
             ? library
             : absl::StrCat(library, ", backward of ", part.sequences, " sequences at a time");
}

}  // namespace zeroth::cuda
