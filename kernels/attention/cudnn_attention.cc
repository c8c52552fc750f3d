// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/attention/cudnn_attention.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth::cuda {
namespace {

CudnnAttentionKey WithBatch(CudnnAttentionKey key, int64_t batch) {
  key.shape.batch = batch;
  return key;
}

// Of one sequence, so many heads of keys with the queries that belong to them.
CudnnAttentionKey SomeHeads(CudnnAttentionKey key, int64_t kv_heads) {
  key.shape.batch = 1;
  key.shape.heads = key.shape.heads / key.shape.kv_heads * kv_heads;
  key.shape.kv_heads = kv_heads;
  return key;
}

// The most heads of keys, a divisor of all, whose scores fit; 0 if one does not.
int64_t HeadsThatFit(int64_t kv_heads, size_t bytes, size_t most) {
  int64_t some = kv_heads;
  while (some > 0 && (kv_heads % some != 0 ||
                      bytes / static_cast<size_t>(kv_heads) * static_cast<size_t>(some) > most)) {
    --some;
  }
  return some;
}

// The addresses `sequences` further on; what a pass does not have stays null.
CudnnAttentionPointers Advanced(const CudnnAttentionKey& key, const CudnnAttentionPointers& from,
                                int64_t sequences) {
  const AttentionShape& shape = key.shape;
  const int64_t tokens = sequences * shape.seq;
  const auto element = static_cast<int64_t>(SizeOf(key.dtype));
  const int64_t packed = tokens * shape.packed_dim() * element;
  const int64_t out = tokens * shape.heads * shape.head_dim * element;
  const auto advance = [](auto* pointer, int64_t bytes) {
    return pointer == nullptr ? nullptr : pointer + bytes;
  };
  CudnnAttentionPointers to;
  to.qkv = advance(static_cast<const char*>(from.qkv), packed);
  to.out = advance(static_cast<char*>(from.out), out);
  to.lse = advance(from.lse, tokens * shape.heads);
  to.dout = advance(static_cast<const char*>(from.dout), out);
  to.dqkv = advance(static_cast<char*>(from.dqkv), packed);
  return to;
}

}  // namespace

CudnnAttention::Made CudnnAttention::Make(const CudnnAttentionKey& key) {
  Parts parts;
  parts.sequences = key.shape.batch;
  parts.kv_heads = key.shape.kv_heads;
  ZEROTH_ASSIGN_OR_RETURN(parts.plan, cudnn_->MakePlan(key));
  const size_t whole = parts.plan->workspace_bytes();
  if (whole > most_workspace_bytes_) {
    // Workspace grows with the batch, by what the whole tells of one sequence.
    const size_t each = (whole + key.shape.batch - 1) / key.shape.batch;
    parts.sequences = std::max<int64_t>(static_cast<int64_t>(most_workspace_bytes_ / each), 1);
    parts.kv_heads = HeadsThatFit(key.shape.kv_heads, each, most_workspace_bytes_);
    if (parts.kv_heads == 0) {
      return absl::UnimplementedError(
          absl::StrCat("cuDNN: attention over ", key.shape.seq, " tokens in ", key.shape.heads,
                       " heads needs ", each / static_cast<size_t>(key.shape.kv_heads) >> 20,
                       " MiB of workspace for one of a sequence's ", key.shape.kv_heads,
                       " heads of keys, expected at most ", most_workspace_bytes_ >> 20));
    }
    const bool some_heads = parts.kv_heads < key.shape.kv_heads;
    ZEROTH_ASSIGN_OR_RETURN(parts.plan,
                            cudnn_->MakePlan(some_heads ? SomeHeads(key, parts.kv_heads)
                                                        : WithBatch(key, parts.sequences)));
    if (const int64_t rest = key.shape.batch % parts.sequences; rest != 0) {
      ZEROTH_ASSIGN_OR_RETURN(parts.rest, cudnn_->MakePlan(WithBatch(key, rest)));
    }
  }
  parts.workspace_bytes =
      std::max(parts.plan->workspace_bytes(),
               parts.rest == nullptr ? size_t{0} : parts.rest->workspace_bytes());
  return parts;
}

absl::StatusOr<const CudnnAttention::Parts*> CudnnAttention::Find(const CudnnAttentionKey& key) {
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

absl::StatusOr<size_t> CudnnAttention::WorkspaceBytes(const CudnnAttentionKey& key) {
  ZEROTH_ASSIGN_OR_RETURN(const Parts* parts, Find(key));
  return parts->workspace_bytes;
}

absl::StatusOr<CudnnAttention::Part> CudnnAttention::PartAtOnce(const CudnnAttentionKey& key) {
  ZEROTH_ASSIGN_OR_RETURN(const Parts* parts, Find(key));
  return Part{parts->sequences, parts->kv_heads};
}

absl::Status CudnnAttention::Enqueue(const CudnnAttentionKey& key,
                                     const CudnnAttentionPointers& pointers, void* workspace) {
  ZEROTH_ASSIGN_OR_RETURN(const Parts* parts, Find(key));
  int64_t done = 0;
  for (; done + parts->sequences <= key.shape.batch; done += parts->sequences) {
    CudnnAttentionPointers part = Advanced(key, pointers, done);
    for (; part.first_kv_head < key.shape.kv_heads; part.first_kv_head += parts->kv_heads) {
      part.first_head = part.first_kv_head * (key.shape.heads / key.shape.kv_heads);
      ZEROTH_RETURN_IF_ERROR(parts->plan->Enqueue(part, workspace));
    }
  }
  if (parts->rest == nullptr) return absl::OkStatus();
  return parts->rest->Enqueue(Advanced(key, pointers, done), workspace);
}

}  // namespace zeroth::cuda
