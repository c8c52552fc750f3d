// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The place of every element of a unit's parameters in flat storage, and the rank that owns it.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"

namespace zeroth {

// The properties of a parameter that determine its place.
struct ParameterExtent {
  int64_t numel = 0;
  DType dtype = DType::kFloat32;
  bool trainable = true;
  int64_t row_numel = 1;    // elements of one index of dimension 0; for LayoutKind::kRows
  bool is_part = false;     // it is a part of an undivided parameter (Parameter::Divide)
  bool keeps_fp32 = false;  // Parameter::keeps_fp32
};

// Where parameters are divided.
enum class LayoutKind : uint8_t {
  // Parameters lie back to back, and the whole is divided into equal shards. One collective.
  kFlat,
  // Each parameter is divided between rows of dimension 0, as FSDP2 does: for row-wise quantisation
  // and matrix optimizers. One collective, and up to shard_count - 1 rows of padding, for each.
  kRows,
};

struct LayoutOptions {
  // Shards of each segment. 1: nothing is sharded.
  int shard_count = 1;
  // Parameters with fewer elements go into a replicated segment. 0: all parameters are sharded.
  int64_t min_shard_numel = 0;
  // Bytes of an element in the smallest type that a segment is ever stored in, so that parameters
  // are aligned in gathered bf16 too, at the same offsets. 0: the size of the parameters' dtype.
  int64_t smallest_element_bytes = 0;
  // Parameters start, and segments are divided, at multiples of this many elements, so that each
  // block for which an optimizer keeps state has one owner at any shard count. At least 1.
  int64_t block_numel = 1;
  LayoutKind kind = LayoutKind::kFlat;
};

// Maps (extents, options) to offsets. Immutable, hence thread-safe.
//
// There is one segment, and so one collective, for each combination of sharded or replicated,
// trainable or frozen, part or undivided, keeping fp32 or not, and dtype that occurs. Inside a
// segment, parameters keep their order, and each starts 64-byte aligned (see
// smallest_element_bytes).
//
// A segment ends with zero padding, so that the shard count divides it, and rank r owns the
// elements [r * shard_numel, (r + 1) * shard_numel). Shards of large segments are 64-byte aligned.
// Small segments are divided at any element or block, which spreads parameters over more ranks; the
// last ranks may still hold only padding.
//
// In kRows every parameter is its own segment, and rank r owns the rows [r * c, min((r + 1) * c,
// rows)), c = ceil(rows / shard count): 5 rows over 4 ranks are 2, 2, 1 and 0.
//
// Aborts on negative sizes, shard_count < 1 and block_numel < 1.
class ShardLayout {
 public:
  static constexpr int64_t kAlignmentBytes = 64;

  struct Segment {
    DType dtype = DType::kFloat32;
    bool trainable = true;
    bool replicated = false;      // every rank holds all of it
    bool of_parts = false;        // its parameters are parts of undivided ones
    bool keeps_fp32 = false;      // its parameters keep fp32
    int64_t numel = 0;            // gaps and padding included
    int64_t shard_numel = 0;      // numel / shard count, or numel if replicated
    std::vector<int> parameters;  // indices, in order of offset
  };

  // The place of a whole parameter.
  struct Placement {
    int segment = 0;
    int64_t offset = 0;  // in elements from the segment's begin; 0 for an empty parameter
    int64_t numel = 0;
  };

  // Elements [begin, end) of a parameter, which lie at `shard_offset` in a rank's shard of its
  // segment.
  struct Piece {
    int parameter = 0;
    int64_t begin = 0;
    int64_t end = 0;
    int64_t shard_offset = 0;

    int64_t numel() const { return end - begin; }
  };

  // Elements of a segment that belong to no parameter.
  struct Gap {
    int64_t offset = 0;
    int64_t numel = 0;
  };

  ShardLayout() = default;
  ShardLayout(absl::Span<const ParameterExtent> extents, const LayoutOptions& options);

  int shard_count() const { return shard_count_; }
  int64_t block_numel() const { return block_numel_; }
  const std::vector<Segment>& segments() const { return segments_; }
  const Placement& placement(int parameter) const {
    return placements_[static_cast<size_t>(parameter)];
  }
  int parameter_count() const { return static_cast<int>(placements_.size()); }
  // Returns the elements of gaps and tail padding in all segments.
  int64_t padding_numel() const;

  // Returns the piece of a parameter that `rank` owns; begin == end if it owns nothing. In a
  // replicated segment every rank owns all of it.
  Piece PieceOf(int parameter, int rank) const;
  // Returns alignment gaps and the tail padding, in order.
  std::vector<Gap> Gaps(int segment) const;

 private:
  int shard_count_ = 1;
  int64_t block_numel_ = 1;
  std::vector<Segment> segments_;
  std::vector<Placement> placements_;
};

// Returns the bytes of a run of elements, rounded up to a multiple of ShardLayout::kAlignmentBytes.
int64_t AlignedBytes(int64_t numel, DType dtype);

}  // namespace zeroth
