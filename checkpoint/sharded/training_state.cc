// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/sharded/training_state.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/sharded/checkpoint_index.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/state_host_copy.h"
#include "zeroth/core/tensor/state_tensor.h"

namespace zeroth {
namespace {

// Of host staging, as in Sharding::Load.
constexpr int64_t kStagingNumel = int64_t{1} << 20;
// Parameters that an error lists of each kind.
constexpr size_t kMaxListed = 20;

// Ranks that hold the same elements of a segment, and which of them this is.
struct Holders {
  int64_t count = 1;
  int64_t index = 0;
};

Holders HoldersOf(Sharding& sharding, const ShardLayout::Segment& segment) {
  Mesh& mesh = sharding.mesh();
  if (segment.replicated) return {mesh.world().size(), mesh.world().rank()};
  return {mesh.replicate_size(), mesh.replicate_index()};
}

// A piece of a parameter that this rank has, before it is known who writes it.
struct HeldPiece {
  const Unit* unit;
  int parameter;
  ShardLayout::Piece piece;
};

using SegmentId = std::pair<const Unit*, int>;

// The part of `piece` that lies in [from, to) of the concatenation of all pieces, in which it
// starts at `offset`. Empty pieces belong to whoever has the concatenation's place.
ShardLayout::Piece PartOf(const ShardLayout::Piece& piece, int64_t offset, int64_t from,
                          int64_t to) {
  const int64_t begin = std::clamp(from - offset, int64_t{0}, piece.numel());
  const int64_t end = std::clamp(to - offset, begin, piece.numel());
  ShardLayout::Piece part = piece;
  part.begin = piece.begin + begin;
  part.end = piece.begin + end;
  part.shard_offset = piece.shard_offset + begin;
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

void AddPiece(const HeldPiece& held, const ShardLayout::Piece& part, absl::string_view state,
              const StateTensor& shard, std::vector<StatePiece>& pieces) {
  const Parameter& parameter = *held.unit->parameters()[static_cast<size_t>(held.parameter)];
  StatePiece piece;
  piece.parameter = parameter.name();
  piece.shape = parameter.shape();
  piece.state = std::string(state);
  piece.begin = part.begin;
  piece.end = part.end;
  piece.shard = shard;
  piece.shard_begin = part.shard_offset;
  pieces.push_back(std::move(piece));
}

std::map<SegmentId, std::vector<AdamW::Moment>> MomentsOf(const AdamW& optimizer) {
  std::map<SegmentId, std::vector<AdamW::Moment>> state;
  for (AdamW::Moment& tensor : optimizer.moments()) {
    state[{tensor.unit, tensor.segment}].push_back(std::move(tensor));
  }
  return state;
}

// Parameters without elements are in nobody's shard, but the model has them.
void AddEmptyParameters(Sharding& sharding, std::vector<StatePiece>& pieces) {
  for (const Unit* unit : sharding.units()) {
    for (size_t i = 0; i < unit->parameters().size(); ++i) {
      const Parameter& parameter = *unit->parameters()[i];
      if (parameter.numel() > 0) continue;
      const int segment = unit->layout().placement(static_cast<int>(i)).segment;
      const HeldPiece held{unit, static_cast<int>(i), {}};
      AddPiece(held, {}, kParameterState, unit->ShardState(segment), pieces);
    }
  }
}

struct Differences {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> reshaped;

  bool empty() const { return missing.empty() && unexpected.empty() && reshaped.empty(); }
};

Differences Compare(const CheckpointIndex& index, const Sharding& sharding) {
  Differences differences;
  std::set<std::string> names;
  for (const Parameter* parameter : sharding.parameters()) {
    names.insert(parameter->name());
    const auto found = index.parameters.find(parameter->name());
    if (found == index.parameters.end()) {
      differences.missing.push_back(parameter->name());
    } else if (found->second.shape != parameter->shape()) {
      differences.reshaped.push_back(
          absl::StrCat(parameter->name(), " (", found->second.shape.ToString(),
                       " in the checkpoint, ", parameter->shape().ToString(), " in the model)"));
    }
  }
  for (const auto& [name, parameter] : index.parameters) {
    if (names.count(name) == 0) differences.unexpected.push_back(name);
  }
  return differences;
}

std::string Listed(const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  const absl::Span<const std::string> shown =
      absl::MakeConstSpan(names).subspan(0, std::min(names.size(), kMaxListed));
  return absl::StrCat("; ", names.size(), " ", what, ": ", absl::StrJoin(shown, ", "),
                      names.size() > shown.size() ? ", ..." : "");
}

std::vector<std::string> Warnings(const Differences& differences) {
  std::vector<std::string> lines;
  for (const std::string& name : differences.missing) {
    lines.push_back(absl::StrCat("parameter ", name, " is not in the checkpoint"));
  }
  for (const std::string& name : differences.reshaped) {
    lines.push_back(absl::StrCat("parameter ", name, " is not taken from the checkpoint"));
  }
  for (const std::string& name : differences.unexpected) {
    lines.push_back(absl::StrCat("parameter ", name, " of the checkpoint is not in the model"));
  }
  return lines;
}

absl::Status CopyRounded(Device& device, absl::Span<const float> values, const StateTensor& shard,
                         int64_t begin) {
  const auto count = static_cast<int64_t>(values.size());
  if (shard.dtype() == DType::kFloat32) {
    return CopyStateFromHost(device, values.data(), shard, begin, count);
  }
  std::vector<uint16_t> rounded;
  rounded.reserve(values.size());
  for (const float value : values) {
    rounded.push_back(shard.dtype() == DType::kBFloat16 ? ToBFloat16(value).bits
                                                        : ToFloat16(value).bits);
  }
  return CopyStateFromHost(device, rounded.data(), shard, begin, count);
}

// One parameter's piece of one moment; zeros if `reader` is null.
absl::Status LoadMoment(CheckpointReader* reader, Device& device, const Parameter& parameter,
                        const ShardLayout::Piece& piece, const std::string& state,
                        const StateTensor& shard) {
  std::vector<float> staging;
  for (int64_t done = 0; done < piece.numel(); done += kStagingNumel) {
    const int64_t count = std::min(kStagingNumel, piece.numel() - done);
    staging.assign(static_cast<size_t>(count), 0.0f);
    if (reader != nullptr) {
      ZEROTH_RETURN_IF_ERROR(
          reader->Read(parameter.name(), state, piece.begin + done, absl::MakeSpan(staging)));
    }
    ZEROTH_RETURN_IF_ERROR(CopyRounded(device, staging, shard, piece.shard_offset + done));
  }
  return absl::OkStatus();
}

bool HasParameter(const CheckpointReader& reader, const Parameter& parameter) {
  const auto found = reader.index().parameters.find(parameter.name());
  return found != reader.index().parameters.end() && found->second.shape == parameter.shape();
}

absl::Status LoadMoments(CheckpointReader& reader, const AdamW& optimizer) {
  for (const AdamW::Moment& moment : optimizer.moments()) {
    const Unit& unit = *moment.unit;
    for (const int index : unit.segment_layout(moment.segment).parameters) {
      const Parameter& parameter = *unit.parameters()[static_cast<size_t>(index)];
      const bool is_there =
          HasParameter(reader, parameter) && reader.Find(parameter.name(), moment.name) != nullptr;
      ZEROTH_RETURN_IF_ERROR(LoadMoment(is_there ? &reader : nullptr, unit.device(), parameter,
                                        unit.PieceOf(index), moment.name, moment.shard));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<StatePiece> OwnedPieces(Sharding& sharding, const AdamW& optimizer) {
  const auto state = MomentsOf(optimizer);
  std::vector<StatePiece> pieces;
  for (const bool replicated : {false, true}) {
    const std::vector<HeldPiece> held = HeldPieces(sharding, replicated);
    int64_t total = 0;
    for (const HeldPiece& piece : held) total += piece.piece.numel();
    int64_t offset = 0;
    for (const HeldPiece& piece : held) {
      const int segment = piece.unit->layout().placement(piece.parameter).segment;
      const Holders holders = HoldersOf(sharding, piece.unit->segment_layout(segment));
      // In two factors, since total * index may overflow.
      const auto cut = [&](int64_t i) {
        return total / holders.count * i + total % holders.count * i / holders.count;
      };
      const ShardLayout::Piece part =
          PartOf(piece.piece, offset, cut(holders.index), cut(holders.index + 1));
      offset += piece.piece.numel();
      if (part.numel() == 0) continue;
      AddPiece(piece, part, kParameterState, piece.unit->ShardState(segment), pieces);
      const auto moments = state.find({piece.unit, segment});
      if (moments == state.end()) continue;
      for (const AdamW::Moment& moment : moments->second) {
        AddPiece(piece, part, moment.name, moment.shard, pieces);
      }
    }
  }
  if (sharding.mesh().world().rank() == 0) AddEmptyParameters(sharding, pieces);
  return pieces;
}

absl::StatusOr<std::vector<std::string>> LoadState(CheckpointReader& reader, Sharding& sharding,
                                                   AdamW& optimizer,
                                                   const LoadStateOptions& options) {
  const Differences differences = Compare(reader.index(), sharding);
  if (!differences.empty() && options.fill_missing == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(reader.directory(), ": the checkpoint is of another model",
                     Listed("parameters are missing from it", differences.missing),
                     Listed("have another shape", differences.reshaped),
                     Listed("are not in the model", differences.unexpected)));
  }
  ZEROTH_RETURN_IF_ERROR(sharding.Load(
      [&](const Parameter& parameter, int64_t begin, absl::Span<float> out) -> absl::Status {
        if (!HasParameter(reader, parameter)) return options.fill_missing(parameter, begin, out);
        return reader.Read(parameter.name(), kParameterState, begin, out);
      }));
  ZEROTH_RETURN_IF_ERROR(LoadMoments(reader, optimizer));
  return Warnings(differences);
}

}  // namespace zeroth
