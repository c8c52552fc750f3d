// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Where every element of a unit's parameters lies in flat storage, and which rank owns it.

#ifndef ZEROTH_STRATEGIES_SHARD_LAYOUT_H_
#define ZEROTH_STRATEGIES_SHARD_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"

namespace zeroth {

// What the layout needs to know of a parameter.
struct ParameterExtent {
  int64_t numel = 0;
  DType dtype = DType::kFloat32;
  bool trainable = true;
  int64_t row_numel = 1;  // elements of one index of dimension 0; for LayoutKind::kRows
  bool is_part = false;   // of an undivided one (Parameter::Divide)
};

// Where parameters are divided.
enum class LayoutKind : uint8_t {
  // Back to back, as one: wherever an equal share ends. One collective.
  kFlat,
  // Each parameter by itself, between rows of dimension 0, as FSDP2 does: for row-wise quantisation
  // and for optimizers of matrices. One collective for each parameter, and up to shard_count - 1
  // rows of padding.
  kRows,
};

struct LayoutOptions {
  // Pieces to divide each segment into. 1: nothing is sharded.
  int shard_count = 1;
  // Parameters with fewer elements than this go into a replicated segment. 0: all are
  // sharded.
  int64_t min_shard_numel = 0;
  // Bytes of an element in the smallest type that a segment is ever stored in: parameters are to be
  // aligned in gathered bf16 as well, at the same offsets. 0: the size of the parameters' own type.
  int64_t smallest_element_bytes = 0;
  // Parameters start, and segments are divided, at multiples of this many elements: for optimizers
  // that keep something per block of a parameter, so that a block is one rank's whatever the shard
  // count is. Each parameter and each shard may end in padding of up to this much. At least 1.
  int64_t block_numel = 1;
  LayoutKind kind = LayoutKind::kFlat;
};

// A pure value: (extents, options) to offsets. Parameters lie back to back in segments, one segment
// for each (sharded or replicated, trainable or frozen, part or undivided, dtype) that occurs, so
// that a segment is one collective, frozen parameters are neither gathered nor given gradients, and
// one axis of a mesh more or less divides all of a segment. Inside a segment parameters keep their
// order; each starts 64-byte aligned, in smaller types as well if so asked. A segment ends with
// zero padding so that it divides by the shard count; rank r owns the contiguous elements [r *
// shard_numel, (r + 1)
// * shard_numel). Shards of segments that are large against the alignment are 64-byte aligned too;
// small segments are divided to the element, or to the block if that is more, so that no rank holds
// padding while another holds two of them. Aborts on negative sizes, shard_count < 1 and
// block_numel < 1. Immutable, hence thread-safe.
//
// In kRows every parameter is a segment of its own, and rank r owns rows [r * c, min((r + 1) * c,
// rows)), c = ceil(rows / shard count), of it: 5 rows over 4 ranks are 2, 2, 1 and 0.
class ShardLayout {
 public:
  static constexpr int64_t kAlignmentBytes = 64;

  struct Segment {
    DType dtype = DType::kFloat32;
    bool trainable = true;
    bool replicated = false;      // every rank holds all of it
    bool of_parts = false;        // of undivided parameters
    int64_t numel = 0;            // gaps and padding included
    int64_t shard_numel = 0;      // numel / shard count, or numel if replicated
    std::vector<int> parameters;  // indices, in order of offset
  };

  // Where a whole parameter starts.
  struct Placement {
    int segment = 0;
    int64_t offset = 0;  // elements from the segment's first; 0 if it is empty
    int64_t numel = 0;
  };

  // The elements [begin, end) of a parameter, which lie at [shard_offset, …) of a rank's shard of
  // its segment.
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
  // Elements of gaps and tail padding, of all segments: what the layout costs.
  int64_t padding_numel() const;

  // What `rank` owns of one parameter; begin == end if nothing. In a replicated segment that is all
  // of it, whatever the rank.
  Piece PieceOf(int parameter, int rank) const;
  // Alignment gaps and the tail padding, in order.
  std::vector<Gap> Gaps(int segment) const;

 private:
  int shard_count_ = 1;
  int64_t block_numel_ = 1;
  std::vector<Segment> segments_;
  std::vector<Placement> placements_;
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_SHARD_LAYOUT_H_
