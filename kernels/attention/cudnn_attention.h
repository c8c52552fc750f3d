// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Attention by cuDNN in bounded memory.
//
// On Hopper the library's deterministic backward keeps the gradients of all scores, [batch, heads,
// seq, seq], in workspace. A batch whose workspace would pass a limit goes through in parts, each
// of as many sequences as fit, or of as many heads of one sequence; where not even one key's head
// does, cuDNN is not used.

#ifndef ZEROTH_KERNELS_ATTENTION_CUDNN_ATTENTION_H_
#define ZEROTH_KERNELS_ATTENTION_CUDNN_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/kernels/attention/cudnn.h"

namespace zeroth::cuda {

// Plans, made at the first call of each kind. Not thread-safe.
class CudnnAttention {
 public:
  // At 2 bytes a score, 26 sequences of gpt2_124m, one of 4096 tokens in 16 heads, or 8192 tokens
  // in 4 heads.
  static constexpr size_t kMostWorkspaceBytes = size_t{640} << 20;
  static constexpr size_t kMostKeys = 64;

  // `most_workspace_bytes` is for tests.
  explicit CudnnAttention(std::unique_ptr<Cudnn> cudnn,
                          size_t most_workspace_bytes = kMostWorkspaceBytes)
      : cudnn_(std::move(cudnn)), most_workspace_bytes_(most_workspace_bytes) {}

  const Cudnn& cudnn() const { return *cudnn_; }

  // Workspace for one call, at most kMostWorkspaceBytes. Unimplemented says why cuDNN does not
  // compute it; that too is kept.
  absl::StatusOr<size_t> WorkspaceBytes(const CudnnAttentionKey& key);
  // How many sequences go through at a time: the whole batch, or fewer; and how many heads of keys.
  struct Part {
    int64_t sequences;
    int64_t kv_heads;
  };
  absl::StatusOr<Part> PartAtOnce(const CudnnAttentionKey& key);
  // Enqueues. `workspace` as WorkspaceBytes says, until the stream has passed.
  absl::Status Enqueue(const CudnnAttentionKey& key, const CudnnAttentionPointers& pointers,
                       void* workspace);

 private:
  struct Parts {
    int64_t sequences = 0;  // of `plan`
    int64_t kv_heads = 0;   // of `plan`, which divide all
    std::unique_ptr<CudnnAttentionPlan> plan;
    std::unique_ptr<CudnnAttentionPlan> rest;  // null if plan's sequences divide the batch
    size_t workspace_bytes = 0;
  };
  using Made = absl::StatusOr<Parts>;
  // The latest used first.
  using Recent = std::list<std::pair<CudnnAttentionKey, Made>>;

  absl::StatusOr<const Parts*> Find(const CudnnAttentionKey& key);
  Made Make(const CudnnAttentionKey& key);

  const std::unique_ptr<Cudnn> cudnn_;
  const size_t most_workspace_bytes_;
  Recent recent_;
  std::map<CudnnAttentionKey, Recent::iterator> made_;
};

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_ATTENTION_CUDNN_ATTENTION_H_
