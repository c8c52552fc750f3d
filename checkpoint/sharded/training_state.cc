// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/sharded/training_state.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/types/span.h"

#include "zeroth/checkpoint/sharded/checkpoint_index.h"

namespace zeroth {
namespace {

// Ranks that hold the same elements of a segment, and which of them this is.
struct Holders {
  int64_t count = 1;
  int64_t index = 0;
};

Holders HoldersOf(Sharding& sharding, const ShardLayout::Segment& segment) {
  Mesh& mesh = sharding.mesh();
  if (segment.replicated) return {mesh.world().size(), mesh.world().rank()};
  return {mesh.owner_copies(), mesh.owner_copy()};
}

// A piece of a parameter that this rank has, before it is known who writes it.
struct HeldPiece {
  const Unit* unit;
  int parameter;
  ShardLayout::Piece piece;
};

using SegmentId = std::pair<const Unit*, int>;

// The part of `piece` that lies in [from, to) of the concatenation of all pieces, in which it
// starts at `offset`; cut at multiples of `align` elements, so that blocks stay whole.
ShardLayout::Piece PartOf(const ShardLayout::Piece& piece, int64_t offset, int64_t from, int64_t to,
                          int64_t align) {
  const auto place = [&](int64_t at) {
    const int64_t inside = std::clamp(at - offset, int64_t{0}, piece.numel());
    return inside == piece.numel() ? inside : inside / align * align;
  };
  ShardLayout::Piece part = piece;
  part.begin = piece.begin + place(from);
  part.end = piece.begin + place(to);
  part.shard_offset = piece.shard_offset + place(from);
  return part;
}

std::vector<HeldPiece> HeldPieces(Sharding& sharding, bool replicated) {
  std::vector<HeldPiece> held;
  for (const Unit* unit : sharding.units()) {
    for (int i = 0; i < unit->layout().parameter_count(); ++i) {
      const int segment = unit->layout().placement(i).segment;
      if (unit->segment_layout(segment).replicated != replicated) continue;
      const ShardLayout::Piece piece = unit->PieceOf(i);
      if (piece.numel() > 0) held.push_back({unit, i, piece});
    }
  }
  return held;
}

void AddPiece(const HeldPiece& held, const ShardLayout::Piece& part, const ShardState& state,
              std::vector<StatePiece>& pieces) {
  const Parameter& parameter = *held.unit->parameters()[static_cast<size_t>(held.parameter)];
  const ShardLayout::Piece blocks = InBlocks(part, state.block);
  StatePiece piece;
  piece.parameter = parameter.name();
  piece.shape = parameter.shape();
  piece.state = state.name;
  piece.block = state.block;
  piece.begin = blocks.begin;
  piece.end = blocks.end;
  piece.shard = state.shard;
  piece.shard_begin = blocks.shard_offset;
  pieces.push_back(std::move(piece));
}

// By segment: the parameters' own shard, and what is kept beside it.
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

// Parameters without elements are in nobody's shard, but the model has them.
void AddEmptyParameters(Sharding& sharding, std::vector<StatePiece>& pieces) {
  for (const Unit* unit : sharding.units()) {
    for (size_t i = 0; i < unit->parameters().size(); ++i) {
      const Parameter& parameter = *unit->parameters()[i];
      if (parameter.numel() > 0) continue;
      const int segment = unit->layout().placement(static_cast<int>(i)).segment;
      const HeldPiece held{unit, static_cast<int>(i), {}};
      AddPiece(held, {}, {unit, segment, kParameterState, unit->ShardState(segment)}, pieces);
    }
  }
}

}  // namespace

ShardLayout::Piece InBlocks(const ShardLayout::Piece& part, int64_t block) {
  ShardLayout::Piece blocks = part;
  blocks.begin = part.begin / block;
  blocks.end = (part.end + block - 1) / block;
  blocks.shard_offset = part.shard_offset / block;
  return blocks;
}

std::vector<StatePiece> OwnedPieces(Sharding& sharding, absl::Span<const ShardState> states) {
  const SegmentStates by_segment = StatesBySegment(sharding, states);
  std::vector<StatePiece> pieces;
  for (const bool replicated : {false, true}) {
    const std::vector<HeldPiece> held = HeldPieces(sharding, replicated);
    int64_t total = 0;
    for (const HeldPiece& piece : held) total += piece.piece.numel();
    int64_t offset = 0;
    for (const HeldPiece& piece : held) {
      const int segment = piece.unit->layout().placement(piece.parameter).segment;
      const Holders holders = HoldersOf(sharding, piece.unit->segment_layout(segment));
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
        AddPiece(piece, part, state, pieces);
      }
    }
  }
  if (sharding.mesh().world().rank() == 0) AddEmptyParameters(sharding, pieces);
  return pieces;
}

}  // namespace zeroth
