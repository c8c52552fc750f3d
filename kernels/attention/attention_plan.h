// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The division of attention into blocks, and what a block needs: plain numbers, tested on the host.
//
// Every tile fits into 99 KiB, which a block may use on any device from compute capability 8.0 on,
// so that one table suits all. Most leave room for two or more blocks on an SM, which hide each
// other's latencies.

#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// Shared memory that a block may use on every supported device.
inline constexpr size_t kAttentionSharedLimit = size_t{99} << 10;

// In shared tiles of 16-bit elements, 16 unused bytes follow each row of kDim elements, so that the
// eight rows that one ldmatrix reads start in different banks.
template <int kDim>
inline constexpr int kMmaStride = kDim + 8;
template <int kDim>
inline constexpr size_t kMmaRowBytes = kMmaStride<kDim> * 2;

inline constexpr int kMmaWarps = 4;
inline constexpr int kMmaThreads = kMmaWarps * 32;

// A block computes kRows queries, 16 * kRowTiles for each warp, against kKeys keys at a time. The
// queries stay in shared memory. Keys and values arrive alternately, each while the other is in
// use.
template <int kDim>
struct MmaForwardTile {
  // A warp uses each fragment of keys and values for two tiles of queries. With one tile, tensor
  // cores would wait for shared memory.
  static constexpr int kRowTiles = 2;
  static constexpr int kRows = kMmaWarps * 16 * kRowTiles;
  // The sums of wide heads leave registers for only 32 columns of scores.
  static constexpr int kKeys = kDim <= 64 ? 64 : 32;
  // The queries of narrow heads are held in registers.
  static constexpr bool kHoldQueries = kDim <= 64;
  static constexpr size_t kSharedBytes = (kRows + 2 * kKeys) * kMmaRowBytes<kDim>;
};

// A block owns kRows rows of a result (keys for dk and dv, queries for dq), and processes kSteps
// rows of the other kind at a time, while the next ones arrive.
template <int kDim>
struct MmaBackwardTile {
  // The dk and dv of two tiles of wider heads do not fit into a thread's registers.
  static constexpr int kRowTiles = kDim <= 64 ? 2 : 1;
  static constexpr int kRows = kMmaWarps * 16 * kRowTiles;
  static constexpr int kSteps = 32;
  static constexpr int kStages = 2;
  static constexpr size_t kStatisticsBytes = kStages * 2 * kSteps * sizeof(float);
  static constexpr size_t kSharedBytes =
      2 * (kRows + kStages * kSteps) * kMmaRowBytes<kDim> + kStatisticsBytes;
};

// Tiles of the plain kernels are 64 x 64 floats. Forward has two operands, one tile of scores, and
// a float for each row; backward has two operands and two tiles (probabilities and gradients).
inline constexpr int kPlainTile = 64;
inline constexpr int kPlainThreads = 256;
inline constexpr int kPlainStride = kPlainTile + 1;  // rows and columns start in different banks
inline constexpr size_t kPlainForwardBytes = (3 * kPlainStride + 1) * kPlainTile * sizeof(float);
inline constexpr size_t kPlainBackwardBytes = 4 * kPlainStride * kPlainTile * sizeof(float);

enum class AttentionPath : uint8_t { kMma, kPlain };

// The kernels of a call and their launch shapes.
struct AttentionPlan {
  AttentionPath path = AttentionPath::kPlain;
  // kMma: head_dim, rounded up to a width that is instantiated (64, 96 or 128).
  int width = 0;
  LaunchShape forward;
  LaunchShape backward_keys;
  LaunchShape backward_queries;
};

// Plans a call whose shape is not empty. `aligned`: all pointers are 16-byte aligned.
// InvalidArgument if the shape has more blocks or positions than a launch can count.
absl::StatusOr<AttentionPlan> PlanAttention(const AttentionShape& shape, DType dtype, bool aligned);

}  // namespace zeroth::cuda
