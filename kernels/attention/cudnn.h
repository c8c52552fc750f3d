// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A wrapper of cuDNN 9: plans for causal attention. The library, libcudnn.so.9, is loaded at the
// first use and never linked, so that programs run without it. In builds without its headers
// (third_party/cudnn), these functions return errors.

#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/attention/attention.h"

namespace zeroth::cuda {

enum class AttentionPass : uint8_t { kForward, kBackward };

// Everything that determines how attention is computed.
struct CudnnAttentionKey {
  AttentionShape shape;  // not empty
  DType dtype = DType::kBFloat16;
  AttentionPass pass = AttentionPass::kForward;
  bool packed_documents = false;
  // Whether backward must have the same bits in every run. AttentionChoice sets it.
  bool deterministic = true;
  // The number of heads in the arrays; the shape may name only some of them.
  int64_t all_heads = shape.heads;
  int64_t all_kv_heads = shape.kv_heads;

  int64_t packed_dim() const { return (all_heads + 2 * all_kv_heads) * shape.head_dim; }
  auto Tied() const {
    return std::tie(shape.batch, shape.seq, shape.heads, shape.kv_heads, shape.head_dim,
                    shape.scale, dtype, pass, deterministic, all_heads, all_kv_heads);
  }
  bool operator<(const CudnnAttentionKey& other) const { return Tied() < other.Tied(); }
};

// Device memory, laid out as in AttentionArgs and AttentionBackwardArgs and aligned to 16 bytes.
// Forward writes out and always lse. Without lse, cuDNN might choose another engine, and a forward
// that is recomputed for backward would not match the first one's bits. Backward reads out and lse,
// and writes dqkv.
struct CudnnAttentionPointers {
  const void* qkv = nullptr;
  void* out = nullptr;
  float* lse = nullptr;
  const void* dout = nullptr;
  void* dqkv = nullptr;
  // For a plan that computes only some of the heads in the arrays: the first of them.
  int64_t first_head = 0;
  int64_t first_kv_head = 0;
};

class CudnnAttentionPlan {
 public:
  virtual ~CudnnAttentionPlan() = default;

  virtual size_t workspace_bytes() const = 0;
  // Enqueues attention on the stream of the Cudnn that made the plan and must outlive it.
  // `workspace` holds workspace_bytes() and lives until the stream has passed the call.
  // FailedPrecondition for a plan of a described device.
  virtual absl::Status Enqueue(const CudnnAttentionPointers& pointers, void* workspace) = 0;
};

// A handle of the library for one stream. Not thread-safe.
class Cudnn {
 public:
  // Earlier versions have bugs in their attention engines.
  static constexpr int kLeastVersion = 90500;

  virtual ~Cudnn() = default;

  // `stream` belongs to the calling thread's device and must outlive the result. Unimplemented says
  // why there is no cuDNN: it was built without, it is not found, or its version or the device is
  // too old.
  static absl::StatusOr<std::unique_ptr<Cudnn>> Create(cudaStream_t stream, int compute_capability);
  // Creates a Cudnn for a device that need not be present, from cuDNN's own JSON description of it
  // (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION). Its plans tell whether the library computes a
  // shape on such a device, and with how much workspace. InvalidArgument if the library rejects the
  // description.
  static absl::StatusOr<std::unique_ptr<Cudnn>> CreateForDescription(absl::string_view json,
                                                                     int compute_capability);

  // "9.19.0".
  virtual const std::string& version() const = 0;
  // Asks the library for a plan, which takes about half a second. By default plans are
  // deterministic: backward, too, has the same bits in every run. Unimplemented, with cuDNN's
  // message, if it has no such engine.
  virtual absl::StatusOr<std::unique_ptr<CudnnAttentionPlan>> MakePlan(
      const CudnnAttentionKey& key) = 0;
};

}  // namespace zeroth::cuda
