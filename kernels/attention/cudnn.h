// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// cuDNN 9 as this project uses it: plans for causal attention. The library, libcudnn.so.9, is
// loaded when first asked for, never linked, so that programs run without it; builds without its
// headers (third_party/cudnn) have only the errors of these functions.

#ifndef ZEROTH_KERNELS_ATTENTION_CUDNN_H_
#define ZEROTH_KERNELS_ATTENTION_CUDNN_H_

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
#include "zeroth/kernels/attention/attention_shape.h"

namespace zeroth::cuda {

enum class AttentionPass : uint8_t { kForward, kBackward };

// Everything that decides how attention is computed.
struct CudnnAttentionKey {
  AttentionShape shape;  // not empty
  DType dtype = DType::kBFloat16;
  AttentionPass pass = AttentionPass::kForward;
  bool packed_documents = false;
  // How many heads the arrays hold, if the shape's are only some of them.
  int64_t all_heads = shape.heads;
  int64_t all_kv_heads = shape.kv_heads;

  int64_t packed_dim() const { return (all_heads + 2 * all_kv_heads) * shape.head_dim; }
  auto Tied() const {
    return std::tie(shape.batch, shape.seq, shape.heads, shape.kv_heads, shape.head_dim, dtype,
                    pass, all_heads, all_kv_heads);
  }
  bool operator<(const CudnnAttentionKey& other) const { return Tied() < other.Tied(); }
};

// Unimplemented for what no version of cuDNN computes: asked of a key first, since loading the
// library takes a while. MakePlan checks it too.
absl::Status CheckCudnnKey(const CudnnAttentionKey& key);

// Device memory, laid out as in AttentionArgs and AttentionBackwardArgs and aligned to 16 bytes.
// Forward writes out and lse, wanted or not: without the latter cuDNN might take another engine,
// and a forward that is computed again for backward would have other bits than the first. Backward
// reads both, and writes dqkv.
struct CudnnAttentionPointers {
  const void* qkv = nullptr;
  void* out = nullptr;
  float* lse = nullptr;
  const void* dout = nullptr;
  void* dqkv = nullptr;
  // Of those in the arrays, the first pair of heads that a plan for some of them computes.
  int64_t first_head = 0;
  int64_t first_kv_head = 0;
};

class CudnnAttentionPlan {
 public:
  virtual ~CudnnAttentionPlan() = default;

  virtual size_t workspace_bytes() const = 0;
  // What cuDNN calls the engine it chose, with its knobs.
  virtual const std::string& engine() const = 0;
  // On the stream of the Cudnn that made it, which outlives it; `workspace` has workspace_bytes()
  // until the stream has passed. FailedPrecondition from one of a described device.
  virtual absl::Status Enqueue(const CudnnAttentionPointers& pointers, void* workspace) = 0;
};

// A handle of the library on one stream. Not thread-safe.
class Cudnn {
 public:
  // Below this, engines of attention had errors that later versions mend.
  static constexpr int kLeastVersion = 90500;

  virtual ~Cudnn() = default;

  // `stream` belongs to the calling thread's device and outlives it. Unimplemented says why there
  // is no cuDNN: built without, not found, too old a version or device.
  static absl::StatusOr<std::unique_ptr<Cudnn>> Create(cudaStream_t stream, int compute_capability);
  // For a device that is not here, described as cuDNN itself does it (in JSON,
  // CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION): its plans tell whether the library computes a shape
  // there, and with how much workspace. InvalidArgument if the library rejects the description.
  static absl::StatusOr<std::unique_ptr<Cudnn>> CreateForDescription(absl::string_view json,
                                                                     int compute_capability);

  // "9.19.0".
  virtual const std::string& version() const = 0;
  // Asks the library, which takes about half a second. Deterministic: a backward plan gives the
  // same bits from run to run. Unimplemented, with cuDNN's words, where it has no such engine.
  virtual absl::StatusOr<std::unique_ptr<CudnnAttentionPlan>> MakePlan(
      const CudnnAttentionKey& key) = 0;
};

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_ATTENTION_CUDNN_H_
