// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Which kernels compute attention: cuDNN's or our own.

#ifndef ZEROTH_KERNELS_ATTENTION_ATTENTION_CHOICE_H_
#define ZEROTH_KERNELS_ATTENTION_ATTENTION_CHOICE_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/attention/attention_shape.h"
#include "zeroth/kernels/attention/cudnn.h"
#include "zeroth/kernels/attention/cudnn_attention.h"

namespace zeroth::cuda {

// One stream's. The choice depends on shape, type, device and library alone, so that the same call
// is computed the same way under every strategy. Not thread-safe.
class AttentionChoice {
 public:
  using MakeCudnn = std::function<absl::StatusOr<std::unique_ptr<Cudnn>>()>;

  // `make_cudnn` is called at the first call that cuDNN might compute.
  AttentionChoice(AttentionBackend wanted, MakeCudnn make_cudnn)
      : wanted_(wanted), make_cudnn_(std::move(make_cudnn)) {}

  // The workspace that cuDNN computes the call in, or nothing if our own kernels do. Unimplemented
  // if cuDNN was asked for by name and cannot.
  absl::StatusOr<std::optional<size_t>> CudnnWorkspace(const CudnnAttentionKey& key,
                                                       const CudnnAttentionPointers& pointers);
  // Of a call that CudnnWorkspace gave a workspace for.
  absl::Status EnqueueCudnn(const CudnnAttentionKey& key, const CudnnAttentionPointers& pointers,
                            void* workspace);
  // kernels::DescribeAttention.
  absl::StatusOr<std::string> Describe(const AttentionShape& shape, DType dtype,
                                       bool packed_documents = false);

 private:
  // OK if cuDNN computes it; Unimplemented says why it does not.
  absl::StatusOr<size_t> Ask(const CudnnAttentionKey& key);

  const AttentionBackend wanted_;
  const MakeCudnn make_cudnn_;
  bool made_ = false;
  std::unique_ptr<CudnnAttention> cudnn_;  // null if there is none, for the reason in no_cudnn_
  absl::Status no_cudnn_;
};

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_ATTENTION_ATTENTION_CHOICE_H_
