// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/sharded/training_state.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/types/span.h"

#include "zeroth/checkpoint/sharded/checkpoint_index.h"

namespace zeroth {
namespace {

// How many ranks hold the same elements of a segment, and this rank's index among them.
struct Holders {
  int64_t count = 1;
  int64_t index = 0;
};

Holders HoldersOf(Sharding& sharding, const Mesh::Axes& owners) {
  const Mesh::Axes copies = sharding.mesh().AllBut(owners);
  return {sharding.mesh().size(copies), sharding.mesh().index(copies)};
}

// A piece of a parameter that this rank holds, whichever rank writes it.
struct HeldPiece {
  const Unit* unit;
  int parameter;
  ShardLayout::Piece piece;
};

using SegmentId = std::pair<const Unit*, int>;

// Returns the part of `piece` that lies in [from, to) of the concatenation of all pieces, in which
// `piece` starts at `offset`. Cuts at multiples of `align` elements, so that blocks stay whole.
ShardLayout::Piece PartOf(const ShardLayout::Piece& piece, int64_t offset, int64_t from, int64_t to,
                          int64_t align) {
  const auto place = [&](int64_t at) {
    const int64_t inside = std::clamp(at - offset, int64_t{0}, piece.numel());
    return inside == piece.numel() ? inside : inside / align * align;
  };
  return {piece.parameter, piece.begin + place(from), piece.begin + place(to),
          piece.shard_offset + place(from)};
}

// The pieces that this rank holds, grouped by the mesh axes that shard them. All pieces of a group
// are held by the same ranks.
using HeldByOwners = std::map<Mesh::Axes, std::vector<HeldPiece>, std::greater<>>;

HeldByOwners HeldPieces(Sharding& sharding) {
  HeldByOwners held;
  for (const Unit* unit : sharding.units()) {
    for (int i = 0; i < unit->layout().parameter_count(); ++i) {
      const int segment = unit->layout().placement(i).segment;
      const ShardLayout::Piece piece = unit->PieceOf(i);
      if (piece.numel() > 0) held[unit->OwnerAxes(segment)].push_back({unit, i, piece});
    }
  }
  return held;
}

void AddPiece(const HeldPiece& held, const ShardLayout::Piece& part, const ShardState& state,
              std::vector<StatePiece>& pieces) {
  const Parameter& parameter = *held.unit->parameters()[static_cast<size_t>(held.parameter)];
  for (const ShardLayout::Piece& global : GlobalPieces(parameter, part)) {
    const ShardLayout::Piece blocks = InBlocks(global, state);
    pieces.push_back({parameter.name(), parameter.global_shape(), state.name, state.block,
                      blocks.begin, blocks.end, state.shard, blocks.shard_offset});
  }
}

// The states of each segment: the parameters' shard, and those of the optimizer and others.
using SegmentStates = std::map<SegmentId, std::vector<ShardState>>;

SegmentStates StatesBySegment(const Sharding& sharding, absl::Span<const ShardState> states) {
  SegmentStates by_segment;
  for (const Unit* unit : sharding.units()) {
    for (int i = 0; i < unit->segment_count(); ++i) {
      by_segment[{unit, i}].push_back({unit, i, kParameterState, unit->ShardState(i)});
    }
  }
  for (const ShardState& state : states) by_segment[{state.unit, state.segment}].push_back(state);
  return by_segment;
}

// Adds parameters without elements, which are in no shard, but belong to the model.
void AddEmptyParameters(Sharding& sharding, std::vector<StatePiece>& pieces) {
  for (const Unit* unit : sharding.units()) {
    for (size_t i = 0; i < unit->parameters().size(); ++i) {
      const Parameter& parameter = *unit->parameters()[i];
      if (parameter.global_numel() > 0) continue;
      const int segment = unit->layout().placement(static_cast<int>(i)).segment;
      const HeldPiece held{unit, static_cast<int>(i), {}};
      AddPiece(held, {}, {unit, segment, kParameterState, unit->ShardState(segment)}, pieces);
    }
  }
}

}  // namespace

ShardLayout::Piece InBlocks(const ShardLayout::Piece& part, const ShardState& state) {
  const int64_t block = state.block;
  return {part.parameter, part.begin / block, (part.end + block - 1) / block,
          (part.shard_offset - state.begin) / block};
}

std::vector<ShardLayout::Piece> GlobalPieces(const Parameter& parameter,
                                             const ShardLayout::Piece& piece) {
  if (piece.numel() == 0) return {piece};
  std::vector<ShardLayout::Piece> pieces;
  for (const ElementRun& run : parameter.GlobalRuns(piece.begin, piece.numel())) {
    pieces.push_back({piece.parameter, run.global_begin, run.global_begin + run.numel,
                      piece.shard_offset + run.begin - piece.begin});
  }
  return pieces;
}

std::vector<StatePiece> OwnedPieces(Sharding& sharding, absl::Span<const ShardState> states) {
  const SegmentStates by_segment = StatesBySegment(sharding, states);
  std::vector<StatePiece> pieces;
  for (const auto& [owners, held] : HeldPieces(sharding)) {
    const Holders holders = HoldersOf(sharding, owners);
    int64_t total = 0;
    for (const HeldPiece& piece : held) total += piece.piece.numel();
    int64_t offset = 0;
    for (const HeldPiece& piece : held) {
      const int segment = piece.unit->layout().placement(piece.parameter).segment;
      // In two terms, since total * index may overflow.
      const auto cut = [&](int64_t i) {
        return total / holders.count * i + total % holders.count * i / holders.count;
      };
      const ShardLayout::Piece part =
          PartOf(piece.piece, offset, cut(holders.index), cut(holders.index + 1),
                 piece.unit->layout().block_numel());
      offset += piece.piece.numel();
      if (part.numel() == 0) continue;
      for (const ShardState& state : by_segment.at({piece.unit, segment})) {
        const std::vector<int>& having = ParametersOf(state);
        if (std::find(having.begin(), having.end(), piece.parameter) != having.end()) {
          AddPiece(piece, part, state, pieces);
        }
      }
    }
  }
  if (sharding.mesh().world().rank() == 0) AddEmptyParameters(sharding, pieces);
  return pieces;
}

}  // namespace zeroth
