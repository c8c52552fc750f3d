// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/attention/attention_choice.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cuda/launch_shapes.h"
#include "zeroth/kernels/matrix.h"

namespace zeroth::cuda {
namespace {

CudnnAttentionKey WithBatch(CudnnAttentionKey key, int64_t batch) {
  key.shape.batch = batch;
  return key;
}

// Returns the key of `kv_heads` key heads of one sequence, with the query heads that read them.
CudnnAttentionKey SomeHeads(CudnnAttentionKey key, int64_t kv_heads) {
  key.shape.batch = 1;
  key.shape.heads = key.shape.heads / key.shape.kv_heads * kv_heads;
  key.shape.kv_heads = kv_heads;
  return key;
}

// Advances the addresses by `sequences` sequences. Arrays that a pass does not have stay null.
CudnnAttentionPointers Advanced(const CudnnAttentionKey& key, const CudnnAttentionPointers& from,
                                int64_t sequences) {
  const AttentionShape& shape = key.shape;
  const int64_t tokens = sequences * shape.seq;
  const int64_t packed = tokens * shape.packed_dim();
  const int64_t out = tokens * shape.heads * shape.head_dim;
  return {.qkv = Advance(from.qkv, packed, key.dtype),
          .out = Advance(from.out, out, key.dtype),
          .lse = from.lse == nullptr ? nullptr : from.lse + tokens * shape.heads,
          .dout = Advance(from.dout, out, key.dtype),
          .dqkv = Advance(from.dqkv, packed, key.dtype)};
}

}  // namespace

AttentionChoice::Made AttentionChoice::Make(CudnnAttentionKey key) {
  key.deterministic = deterministic_;
  Parts parts;
  parts.part = {key.shape.batch, key.shape.kv_heads};
  ZEROTH_ASSIGN_OR_RETURN(parts.plan, cudnn_->MakePlan(key));
  const size_t whole = parts.plan->workspace_bytes();
  if (whole > kMostCudnnWorkspace) {
    // The workspace is proportional to the batch.
    const size_t each = (whole + key.shape.batch - 1) / key.shape.batch;
    parts.part = PartThatFits(key.shape, each);
    if (parts.part.kv_heads == 0) {
      return Unimplemented("cuDNN: attention over ", key.shape.seq, " tokens in ", key.shape.heads,
                           " heads needs ", each / static_cast<size_t>(key.shape.kv_heads) >> 20,
                           " MiB of workspace for one of a sequence's ", key.shape.kv_heads,
                           " heads of keys, expected at most ", kMostCudnnWorkspace >> 20);
    }
    const bool some_heads = parts.part.kv_heads < key.shape.kv_heads;
    ZEROTH_ASSIGN_OR_RETURN(parts.plan,
                            cudnn_->MakePlan(some_heads ? SomeHeads(key, parts.part.kv_heads)
                                                        : WithBatch(key, parts.part.sequences)));
    if (const int64_t rest = key.shape.batch % parts.part.sequences; rest != 0) {
      ZEROTH_ASSIGN_OR_RETURN(parts.rest, cudnn_->MakePlan(WithBatch(key, rest)));
    }
  }
  parts.workspace_bytes =
      std::max(parts.plan->workspace_bytes(),
               parts.rest == nullptr ? size_t{0} : parts.rest->workspace_bytes());
  return parts;
}

absl::StatusOr<const AttentionChoice::Parts*> AttentionChoice::Find(const CudnnAttentionKey& key) {
  // This comes before the library is loaded, which takes a while.
  ZEROTH_RETURN_IF_ERROR(CheckCudnnAttention(key.shape, key.dtype, key.packed_documents));
  if (!asked_) {
    asked_ = true;
    absl::StatusOr<std::unique_ptr<Cudnn>> cudnn = make_cudnn_();
    no_cudnn_ = cudnn.status();
    if (cudnn.ok()) cudnn_ = *std::move(cudnn);
  }
  ZEROTH_RETURN_IF_ERROR(no_cudnn_);
  const auto found = made_.find(key);
  if (found != made_.end()) {
    recent_.splice(recent_.begin(), recent_, found->second);
  } else {
    recent_.emplace_front(key, Make(key));
    made_[key] = recent_.begin();
    if (recent_.size() > kMostKeys) {
      made_.erase(recent_.back().first);
      recent_.pop_back();
    }
  }
  const Made& made = recent_.front().second;
  ZEROTH_RETURN_IF_ERROR(made.status());
  return &*made;
}

absl::StatusOr<std::optional<size_t>> AttentionChoice::CudnnWorkspace(
    const CudnnAttentionKey& key, const CudnnAttentionPointers& pointers) {
  if (wanted_ == AttentionBackend::kFlash || IsEmpty(key.shape)) return std::nullopt;
  if (!ArePacked(pointers.qkv, pointers.out, pointers.lse, pointers.dout, pointers.dqkv)) {
    if (wanted_ == AttentionBackend::kAuto) return std::nullopt;
    return absl::InvalidArgumentError(
        "cuDNN: attention on memory that is not aligned to 16 bytes, which it needs; expected "
        "other memory, or attention = auto or flash");
  }
  const absl::StatusOr<const Parts*> parts = Find(key);
  if (parts.ok()) return (*parts)->workspace_bytes;
  if (wanted_ == AttentionBackend::kAuto && absl::IsUnimplemented(parts.status())) {
    return std::nullopt;
  }
  return parts.status();
}

absl::Status AttentionChoice::EnqueueCudnn(const CudnnAttentionKey& key,
                                           const CudnnAttentionPointers& pointers,
                                           void* workspace) {
  ZEROTH_ASSIGN_OR_RETURN(const Parts* parts, Find(key));
  int64_t done = 0;
  const auto [sequences, kv_heads] = parts->part;
  for (; done + sequences <= key.shape.batch; done += sequences) {
    CudnnAttentionPointers part = Advanced(key, pointers, done);
    for (; part.first_kv_head < key.shape.kv_heads; part.first_kv_head += kv_heads) {
      part.first_head = part.first_kv_head * (key.shape.heads / key.shape.kv_heads);
      ZEROTH_RETURN_IF_ERROR(parts->plan->Enqueue(part, workspace));
    }
  }
  if (parts->rest == nullptr) return absl::OkStatus();
  return parts->rest->Enqueue(Advanced(key, pointers, done), workspace);
}

absl::StatusOr<std::string> AttentionChoice::Describe(const AttentionShape& shape, DType dtype,
                                                      bool packed_documents) {
  constexpr char kOwn[] = "Zeroth's kernels";
  if (wanted_ == AttentionBackend::kFlash) return kOwn;
  const CudnnAttentionKey forward_key = {shape, dtype, AttentionPass::kForward, packed_documents};
  const CudnnAttentionKey backward_key = {shape, dtype, AttentionPass::kBackward, packed_documents};
  const absl::StatusOr<const Parts*> forward = Find(forward_key);
  const absl::StatusOr<const Parts*> backward = forward.ok() ? Find(backward_key) : forward;
  for (const absl::Status& status : {forward.status(), backward.status()}) {
    if (!status.ok() && (wanted_ == AttentionBackend::kCudnn || !absl::IsUnimplemented(status))) {
      return status;
    }
  }
  if (!forward.ok()) return absl::StrCat(kOwn, " (", forward.status().message(), ")");
  const std::string library = absl::StrCat("cuDNN ", cudnn_->version());
  if (!backward.ok()) {
    return absl::StrCat(library, " forward, ", kOwn, " backward (", backward.status().message(),
                        ")");
  }
  std::string words = library;
  const AttentionPart& part = (*backward)->part;
  if (part.kv_heads < shape.kv_heads) {
    absl::StrAppend(&words, ", backward of ", part.kv_heads, " of ", shape.kv_heads,
                    " heads of keys at a time");
  } else if (part.sequences < shape.batch) {
    absl::StrAppend(&words, ", backward of ", part.sequences, " sequences at a time");
  }
  if (!deterministic_) absl::StrAppend(&words, ", backward not deterministic");
  return words;
}

}  // namespace zeroth::cuda
