// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/shard_layout.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "zeroth/core/base/check.h"

namespace zeroth {
namespace {

// Aligning a shard costs less than one unit of alignment: under 2 % of a shard of this many units.
constexpr int64_t kUnitsWorthAligning = 64;

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

int64_t ShardNumel(int64_t used, int shard_count, int64_t block, int64_t alignment) {
  const int64_t exact = RoundUp((used + shard_count - 1) / shard_count, block);
  return exact >= kUnitsWorthAligning * alignment ? RoundUp(exact, alignment) : exact;
}

// Returns the alignment of parameters, in elements.
int64_t Alignment(DType dtype, const LayoutOptions& options) {
  const int64_t own = static_cast<int64_t>(SizeOf(dtype));
  const int64_t smallest = options.smallest_element_bytes;
  const int64_t in_bytes =
      ShardLayout::kAlignmentBytes / (smallest > 0 ? std::min(own, smallest) : own);
  return std::lcm(in_bytes, options.block_numel);
}

}  // namespace

ShardLayout::ShardLayout(absl::Span<const ParameterExtent> extents, const LayoutOptions& options)
    : shard_count_(options.shard_count), block_numel_(options.block_numel) {
  ZEROTH_CHECK(shard_count_ >= 1);
  ZEROTH_CHECK(block_numel_ >= 1);
  std::vector<int64_t> used;  // by segment: the end of its last parameter
  for (size_t i = 0; i < extents.size(); ++i) {
    const ParameterExtent& extent = extents[i];
    ZEROTH_CHECK(extent.numel >= 0);
    const bool replicated = shard_count_ > 1 && extent.numel < options.min_shard_numel;
    const auto same_kind = [&](const Segment& segment) {
      const bool alone = options.kind == LayoutKind::kRows && !(replicated && segment.replicated);
      return !alone && segment.dtype == extent.dtype && segment.trainable == extent.trainable &&
             segment.replicated == replicated && segment.of_parts == extent.is_part &&
             segment.keeps_fp32 == extent.keeps_fp32;
    };
    auto found = std::find_if(segments_.begin(), segments_.end(), same_kind);
    if (found == segments_.end()) {
      Segment& segment = segments_.emplace_back();
      segment.dtype = extent.dtype;
      segment.trainable = extent.trainable;
      segment.replicated = replicated;
      segment.of_parts = extent.is_part;
      segment.keeps_fp32 = extent.keeps_fp32;
      used.push_back(0);
      found = segments_.end() - 1;
    }
    const size_t index = static_cast<size_t>(found - segments_.begin());
    const int64_t alignment = Alignment(extent.dtype, options);
    const int64_t offset = RoundUp(used[index], alignment);
    found->parameters.push_back(static_cast<int>(i));
    // An empty parameter has no elements and no gap before it.
    placements_.push_back({static_cast<int>(index), extent.numel > 0 ? offset : 0, extent.numel});
    if (extent.numel > 0) used[index] = offset + extent.numel;
  }
  for (size_t index = 0; index < segments_.size(); ++index) {
    Segment& segment = segments_[index];
    const int count = segment.replicated ? 1 : shard_count_;
    const int64_t alignment = Alignment(segment.dtype, options);
    segment.shard_numel = ShardNumel(used[index], count, block_numel_, alignment);
    if (options.kind == LayoutKind::kRows && count > 1 && used[index] > 0) {
      const int64_t row = extents[static_cast<size_t>(segment.parameters.front())].row_numel;
      ZEROTH_CHECK(row > 0 && used[index] % row == 0);
      segment.shard_numel = (used[index] / row + count - 1) / count * row;
    }
    segment.numel = segment.shard_numel * count;
  }
}

int64_t ShardLayout::padding_numel() const {
  int64_t numel = 0;
  for (const Segment& segment : segments_) numel += segment.numel;
  for (const Placement& at : placements_) numel -= at.numel;
  return numel;
}

ShardLayout::Piece ShardLayout::PieceOf(int parameter, int rank) const {
  ZEROTH_CHECK(rank >= 0 && rank < shard_count_);
  const Placement& at = placement(parameter);
  const Segment& segment = segments_[static_cast<size_t>(at.segment)];
  const int64_t shard_begin = segment.replicated ? 0 : rank * segment.shard_numel;
  const int64_t shard_end = shard_begin + segment.shard_numel;
  const int64_t begin = std::clamp(shard_begin - at.offset, int64_t{0}, at.numel);
  const int64_t end = std::clamp(shard_end - at.offset, begin, at.numel);
  const int64_t shard_offset = end > begin ? at.offset + begin - shard_begin : 0;
  return {parameter, begin, end, shard_offset};
}

std::vector<ShardLayout::Gap> ShardLayout::Gaps(int segment) const {
  const Segment& in = segments_[static_cast<size_t>(segment)];
  std::vector<Gap> gaps;
  int64_t covered = 0;
  for (int parameter : in.parameters) {
    const Placement& at = placement(parameter);
    if (at.numel == 0) continue;
    if (at.offset > covered) gaps.push_back({covered, at.offset - covered});
    covered = at.offset + at.numel;
  }
  if (in.numel > covered) gaps.push_back({covered, in.numel - covered});
  return gaps;
}

int64_t AlignedBytes(int64_t numel, DType dtype) {
  return RoundUp(numel * static_cast<int64_t>(SizeOf(dtype)), ShardLayout::kAlignmentBytes);
}

}  // namespace zeroth
