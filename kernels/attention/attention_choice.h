// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Decides whether cuDNN or our own kernels compute attention, and runs cuDNN in bounded memory.
//
// On Hopper the library's deterministic backward keeps the gradients of all scores, [batch, heads,
// seq, seq], in its workspace. If the workspace of a whole batch would pass a limit, the batch is
// computed in parts: as many sequences at a time as fit, or some heads of one sequence at a time.
// If not even one key head fits, our own kernels compute the call.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/attention/cudnn.h"
#include "zeroth/kernels/attention/cudnn_limits.h"

namespace zeroth::cuda {

// The choice and cuDNN's plans for one stream. The choice depends on options, shape, type,
// device and library alone, so that every strategy computes the same call in the same way. Not
// thread-safe.
class AttentionChoice {
 public:
  using MakeCudnn = std::function<absl::StatusOr<std::unique_ptr<Cudnn>>()>;

  // The number of keys whose plans are kept; the least recently used one is evicted first.
  static constexpr size_t kMostKeys = 64;

  // Calls `make_cudnn` once, at the first call that cuDNN might compute.
  AttentionChoice(const KernelOptions& options, MakeCudnn make_cudnn)
      : wanted_(options.attention),
        deterministic_(options.attention_determinism),
        make_cudnn_(std::move(make_cudnn)) {}

  // Returns the workspace in bytes with which cuDNN computes the call, at most kMostCudnnWorkspace,
  // or nullopt if our own kernels compute it. Unimplemented says why cuDNN cannot, if it was asked
  // for by name.
  absl::StatusOr<std::optional<size_t>> CudnnWorkspace(const CudnnAttentionKey& key,
                                                       const CudnnAttentionPointers& pointers);
  // Enqueues a call for which CudnnWorkspace has returned a size. `workspace` has that many bytes
  // until the stream has passed the call.
  absl::Status EnqueueCudnn(const CudnnAttentionKey& key, const CudnnAttentionPointers& pointers,
                            void* workspace);
  // Implements kernels::DescribeAttention.
  absl::StatusOr<std::string> Describe(const AttentionShape& shape, DType dtype,
                                       bool packed_documents = false);

 private:
  // cuDNN's plans for the calls of one key.
  struct Parts {
    AttentionPart part;  // what `plan` computes at a time
    std::unique_ptr<CudnnAttentionPlan> plan;
    std::unique_ptr<CudnnAttentionPlan> rest;  // null if part.sequences divides the batch
    size_t workspace_bytes = 0;
  };
  using Made = absl::StatusOr<Parts>;
  // The most recently used key comes first.
  using Recent = std::list<std::pair<CudnnAttentionKey, Made>>;

  // Returns cuDNN's plans for `key`, or Unimplemented with the reason why it computes none. Keeps
  // either answer.
  absl::StatusOr<const Parts*> Find(const CudnnAttentionKey& key);
  Made Make(CudnnAttentionKey key);

  const AttentionBackend wanted_;
  const bool deterministic_;
  const MakeCudnn make_cudnn_;
  bool asked_ = false;            // make_cudnn_ has been called
  std::unique_ptr<Cudnn> cudnn_;  // null if there is none, for the reason in no_cudnn_
  absl::Status no_cudnn_;
  Recent recent_;
  std::map<CudnnAttentionKey, Recent::iterator> made_;
};

}  // namespace zeroth::cuda
