// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Attention on CPUs, for every instruction set: the division of work into tiles and among threads,
// and the layout of a thread's scratch memory.

#pragma once

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"

namespace zeroth::cpu {

// 64 keys of a head of width 64 take 16 KiB, so that the key tile, the value tile and the scores of
// a few rows fit into an L1 cache of 48 KiB. 64 is also a multiple of every vector length up to 512
// bits.
inline constexpr int64_t kKeyTile = 64;
inline constexpr int64_t kQueryTile = 64;
// Widths are padded to a multiple of the longest vector, so that inner loops have no tails and rows
// are aligned.
inline constexpr int64_t kWidthMultiple = 16;

struct AttentionLayout {
  explicit AttentionLayout(const AttentionShape& shape)
      : seq(shape.seq),
        padded_seq((shape.seq + kKeyTile - 1) / kKeyTile * kKeyTile),
        dim(shape.head_dim),
        width((shape.head_dim + kWidthMultiple - 1) / kWidthMultiple * kWidthMultiple),
        packed(shape.packed_dim()),
        keys_begin(shape.heads * shape.head_dim),
        values_begin((shape.heads + shape.kv_heads) * shape.head_dim),
        scale(shape.score_scale()),
        cap(shape.cap) {}

  // Return the first column of a head in a packed row. A query head begins at head * dim.
  int64_t KeyColumn(int64_t kv_head) const { return keys_begin + kv_head * dim; }
  int64_t ValueColumn(int64_t kv_head) const { return values_begin + kv_head * dim; }

  int64_t seq;
  int64_t padded_seq;  // padded to whole tiles
  int64_t dim;
  int64_t width;   // dim, padded
  int64_t packed;  // elements of a token in qkv
  int64_t keys_begin;
  int64_t values_begin;
  float scale;  // of the scores
  float cap;    // of the scores; 0: none
};

// The first key that each query sees, given the window and the start of its document. It never
// decreases from one query to the next, so the first key of a tile of queries is that of its first
// query.
class FirstKeys {
 public:
  FirstKeys(const AttentionShape& shape, const int32_t* starts, int64_t batch)
      : window_(shape.window), starts_(starts == nullptr ? nullptr : starts + batch * shape.seq) {}

  int64_t Of(int64_t query) const {
    const int64_t start = starts_ == nullptr ? 0 : starts_[query];
    return window_ == 0 ? start : std::max(start, query + 1 - window_);
  }

 private:
  const int64_t window_;
  const int32_t* const starts_;
};

// One thread's scratch memory in forward. Arrays named "_t" are transposed tile by tile: tile j is
// [width, kKeyTile] at j * kKeyTile * width.
struct ForwardScratch {
  ForwardScratch(const AttentionLayout& layout, float* base)
      : k_t(base),
        v(k_t + layout.padded_seq * layout.width),
        tile(v + layout.padded_seq * layout.width),
        q(tile + kKeyTile * layout.width),
        o(q + kQueryTile * layout.width) {}

  static int64_t Floats(const AttentionLayout& layout) {
    return (2 * layout.padded_seq + kKeyTile + 2 * kQueryTile) * layout.width;
  }

  float* k_t;
  float* v;     // [padded_seq, width]
  float* tile;  // [kKeyTile, width]
  float* q;     // [kQueryTile, width], times the scale
  float* o;     // [kQueryTile, width], before the division by the row sums
};

// One thread's scratch memory in backward: the arrays of one key head and one of its query heads,
// [padded_seq, width] each.
struct BackwardScratch {
  BackwardScratch(const AttentionLayout& layout, float* base)
      : k(base),
        k_t(k + Plane(layout)),
        v_t(k_t + Plane(layout)),
        q(v_t + Plane(layout)),
        dout(q + Plane(layout)),
        dq(dout + Plane(layout)),
        dk(dq + Plane(layout)),
        dv(dk + Plane(layout)),
        p(dv + Plane(layout)),
        ds(p + TileFloats(layout)),
        delta(ds + TileFloats(layout)) {}

  static int64_t Floats(const AttentionLayout& layout) {
    return 8 * Plane(layout) + 2 * TileFloats(layout) + layout.padded_seq;
  }

  float* k;
  float* k_t;
  float* v_t;
  float* q;  // times the scale
  float* dout;
  float* dq;
  float* dk;
  float* dv;
  float* p;      // [kQueryTile, kKeyTile]; holds a [kKeyTile, width] tile while packing
  float* ds;     // [kQueryTile, kKeyTile]
  float* delta;  // [padded_seq]: dout . out of each row

 private:
  static int64_t Plane(const AttentionLayout& layout) { return layout.padded_seq * layout.width; }
  static int64_t TileFloats(const AttentionLayout& layout) {
    return kKeyTile * (layout.width > kQueryTile ? layout.width : kQueryTile);
  }
};

// Divides the heads of a batch among threads: evenly, contiguously, and in the same way in every
// run.
class AttentionTeam {
 public:
  AttentionTeam(const AttentionShape& shape, int64_t heads)
      : items_(IsEmpty(shape) ? 0 : shape.batch * heads),
        threads_(static_cast<int>(std::min<int64_t>(items_, omp_get_max_threads()))) {}

  int threads() const { return threads_; }

  // Calls body(thread, begin, end) on every thread. Its items are [begin, end); an item is batch *
  // heads + head.
  template <typename Body>
  void Run(const Body& body) const {
    ParallelFor(threads_, 1, [&](int64_t thread, int64_t, int64_t) {
      body(thread, items_ * thread / threads_, items_ * (thread + 1) / threads_);
    });
  }

 private:
  const int64_t items_;
  const int threads_;
};

// Checks the values of `starts`, since the inner loops do not. InvalidArgument names the first
// invalid token.
absl::Status CheckStarts(const AttentionShape& shape, const int32_t* starts);

// Both fail only if the workspace cannot be allocated, or if `starts` are invalid. The result does
// not depend on the number of threads.
absl::Status AttentionForward(const AttentionCall& call, CpuKernels& kernels);
absl::Status AttentionBackward(const AttentionBackwardCall& call, CpuKernels& kernels);

}  // namespace zeroth::cpu
