// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// How attention is cut into blocks, and what a block needs; plain numbers, tested on the host.
//
// Every tile fits 99 KiB, the least that a block may have on any device from compute capability 8.0
// on, so that one table serves all; most leave room for two blocks or more on a multiprocessor,
// which hide each other's waits.

#ifndef ZEROTH_KERNELS_ATTENTION_ATTENTION_PLAN_H_
#define ZEROTH_KERNELS_ATTENTION_ATTENTION_PLAN_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/cuda/launch.h"
#include "zeroth/kernels/attention/attention_shape.h"

namespace zeroth::cuda {

// Least shared memory that a block may ask for, over all supported devices.
inline constexpr size_t kAttentionSharedLimit = size_t{99} << 10;

// Shared tiles of 16-bit elements have rows of kDim elements and 16 bytes between them: the eight
// rows that one ldmatrix reads start in different banks.
template <int kDim>
inline constexpr int kMmaStride = kDim + 8;
template <int kDim>
inline constexpr size_t kMmaRowBytes = kMmaStride<kDim> * 2;

inline constexpr int kMmaWarps = 4;
inline constexpr int kMmaThreads = kMmaWarps * 32;

// One block: kRows queries, 16 * kRowTiles for each warp, against kKeys keys at a time. A block's
// queries stay; keys and values arrive alternately, each while the other is in use.
template <int kDim>
struct MmaForwardTile {
  // Each fragment of keys and values that a warp loads is used for two tiles of queries: one would
  // leave tensor cores waiting for shared memory.
  static constexpr int kRowTiles = 2;
  static constexpr int kRows = kMmaWarps * 16 * kRowTiles;
  // Of wide heads the sums take so many registers that no more scores fit beside them.
  static constexpr int kKeys = kDim <= 64 ? 64 : 32;
  // Narrow queries stay in registers.
  static constexpr bool kHoldQueries = kDim <= 64;
  static constexpr size_t kSharedBytes = (kRows + 2 * kKeys) * kMmaRowBytes<kDim>;
};

// One block: kRows rows that own the result (keys for dk and dv, queries for dq) against kSteps of
// the other kind at a time, the next of which arrive meanwhile.
template <int kDim>
struct MmaBackwardTile {
  // dk and dv of two tiles, wider than this, do not fit a thread's registers.
  static constexpr int kRowTiles = kDim <= 64 ? 2 : 1;
  static constexpr int kRows = kMmaWarps * 16 * kRowTiles;
  static constexpr int kSteps = 32;
  static constexpr int kStages = 2;
  static constexpr size_t kStatisticsBytes = kStages * 2 * kSteps * sizeof(float);
  static constexpr size_t kSharedBytes =
      2 * (kRows + kStages * kSteps) * kMmaRowBytes<kDim> + kStatisticsBytes;
};

// Tiles of the plain kernels: 64 queries, 64 keys and kWidth columns of fp32, a quarter of whose
// rows and columns each of 16 x 16 threads owns.
inline constexpr int kPlainTile = 64;
inline constexpr int kPlainThreads = 256;
template <int kWidth>
inline constexpr int kPlainStride = kWidth + 4;  // rows start in different banks, on 16 bytes
inline constexpr int kPlainScoreStride = kPlainTile + 4;

template <int kWidth>
inline constexpr size_t kPlainForwardBytes = (2 * kPlainTile * kPlainStride<kWidth> +
                                              kPlainTile * kPlainScoreStride) *
                                             sizeof(float);
// Two arrays of scores, unpadded for the sake of the limit: only their writing has conflicts.
template <int kWidth>
inline constexpr size_t kPlainBackwardBytes = (2 * kPlainTile * kPlainStride<kWidth> +
                                               2 * kPlainTile * kPlainTile) *
                                              sizeof(float);

enum class AttentionPath : uint8_t { kMma, kPlain };

// What decides the kernels of a call. `aligned`: all pointers are, to 16 bytes.
struct AttentionPlan {
  AttentionPath path = AttentionPath::kPlain;
  // Columns of a tile. kMma: head_dim, rounded up to an instance. kPlain: of one block's share of
  // the result; wider heads are cut into several blocks, each of which computes the scores.
  int width = 0;
  LaunchShape forward;
  LaunchShape backward_keys;
  LaunchShape backward_queries;
};

// The shape is not empty. InvalidArgument if it has more blocks or places than a launch can count.
absl::Status PlanAttention(const AttentionShape& shape, DType dtype, bool aligned,
                           AttentionPlan& plan);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_ATTENTION_ATTENTION_PLAN_H_
