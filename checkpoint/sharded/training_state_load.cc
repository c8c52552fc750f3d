// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/safetensors_format.h"
#include "zeroth/checkpoint/sharded/checkpoint_index.h"
#include "zeroth/checkpoint/sharded/coded_moments.h"
#include "zeroth/checkpoint/sharded/training_state.h"
#include "zeroth/core/base/check.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/state_host_copy.h"
#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/adamw/adamw.h"

namespace zeroth {
namespace {

// Of host staging, as in Sharding::Load.
constexpr int64_t kStagingNumel = int64_t{1} << 20;
// Parameters that an error lists of each kind.
constexpr size_t kMaxListed = 3;

using SegmentId = std::pair<const Unit*, int>;

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
    } else if (found->second.shape != parameter->global_shape()) {
      differences.reshaped.push_back(absl::StrCat(
          parameter->name(), " (", found->second.shape.ToString(), " in the checkpoint, ",
          parameter->global_shape().ToString(), " in the model)"));
    }
  }
  for (const auto& [name, parameter] : index.parameters) {
    if (names.count(name) == 0) differences.unexpected.push_back(name);
  }
  return differences;
}

// How many there are; and, for the end of a message, the first of them.
std::string Counted(const std::vector<std::string>& names, const char* what) {
  return names.empty() ? "" : absl::StrCat("; ", names.size(), " ", what);
}

std::string Examples(const std::vector<std::string>& names, const char* what) {
  const absl::Span<const std::string> shown =
      absl::MakeConstSpan(names).subspan(0, std::min(names.size(), kMaxListed));
  return names.empty() ? ""
                       : absl::StrCat("\n  ", what, ": ", absl::StrJoin(shown, ", "),
                                      names.size() > shown.size() ? ", ..." : "");
}

std::vector<std::string> Notes(const Differences& differences) {
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

// The bytes of elements [begin, begin + count) of a shard, if they may be written where they are.
absl::Span<uint8_t> InPlace(Device& device, const StateTensor& shard, int64_t begin,
                            int64_t count) {
  if (shard.is_offloaded() || !device.MemoryIsHost() || count == 0) return {};
  const Tensor view = shard.tensor().View(begin, Shape({count}));
  return absl::MakeSpan(static_cast<uint8_t*>(view.raw_data()), view.bytes());
}

// One parameter's piece of a state; zeros if `source` is null.
absl::Status LoadPiece(CheckpointReader& reader, const CheckpointTensor* source,
                       const Parameter& parameter, const ShardLayout::Piece& piece,
                       const ShardState& state) {
  Device& device = state.unit->device();
  // Equal types are copied: bits that are no number are kept as well.
  const bool converts =
      source != nullptr && source->dtype != ToSafetensorsDType(state.shard.dtype());
  const auto size = static_cast<int64_t>(SizeOf(state.shard.dtype()));
  if (source != nullptr && !converts) {
    const absl::Span<uint8_t> in_place =
        InPlace(device, state.shard, piece.shard_offset, piece.numel());
    if (!in_place.empty()) {
      ZEROTH_RETURN_IF_ERROR(device.compute_stream().Synchronize());
      return reader.ReadBytes(parameter.name(), state.name, piece.begin, in_place);
    }
  }
  std::vector<float> floats;
  std::vector<uint8_t> bytes;
  for (int64_t done = 0; done < piece.numel(); done += kStagingNumel) {
    const int64_t count = std::min(kStagingNumel, piece.numel() - done);
    const int64_t begin = piece.begin + done;
    const int64_t place = piece.shard_offset + done;
    if (converts) {
      floats.resize(static_cast<size_t>(count));
      ZEROTH_RETURN_IF_ERROR(
          HasCodedMoments(reader, parameter.name(), state.name)
              ? ReadCodedMoments(reader, parameter.name(), state.name, state.coding, begin,
                                 absl::MakeSpan(floats))
              : reader.Read(parameter.name(), state.name, begin, absl::MakeSpan(floats)));
      ZEROTH_RETURN_IF_ERROR(CopyRounded(device, floats, state.shard, place));
      continue;
    }
    bytes.assign(static_cast<size_t>(count * size), 0);
    if (source != nullptr) {
      ZEROTH_RETURN_IF_ERROR(
          reader.ReadBytes(parameter.name(), state.name, begin, absl::MakeSpan(bytes)));
    }
    ZEROTH_RETURN_IF_ERROR(CopyStateFromHost(device, bytes.data(), state.shard, place, count));
  }
  return absl::OkStatus();
}

bool HasParameter(const CheckpointReader& reader, const Parameter& parameter) {
  const auto found = reader.index().parameters.find(parameter.name());
  return found != reader.index().parameters.end() &&
         found->second.shape == parameter.global_shape();
}

// The checkpoint's tensor for a state of a parameter; null if it has none.
const CheckpointTensor* SourceOf(const CheckpointReader& reader, const Parameter& parameter,
                                 const ShardState& state) {
  return HasParameter(reader, parameter) ? reader.Find(parameter.name(), state.name) : nullptr;
}

const Parameter& ParameterOf(const ShardState& state, int index) {
  return *state.unit->parameters()[static_cast<size_t>(index)];
}

// What loading a state takes beside the state itself.
struct StateToLoad {
  const ShardState* state;
  // Of a coded state that is kept in codes: its scales.
  const ShardState* scales = nullptr;
  // Of scales: whose they are.
  const ShardState* scaled = nullptr;
};

std::vector<StateToLoad> StatesToLoad(absl::Span<const ShardState> states) {
  std::map<std::tuple<SegmentId, int64_t, std::string>, size_t> places;
  const auto place_of = [](const ShardState& state, const std::string& name) {
    return std::make_tuple(SegmentId(state.unit, state.segment), state.begin, name);
  };
  std::vector<StateToLoad> result;
  for (const ShardState& state : states) {
    places[place_of(state, state.name)] = result.size();
    result.push_back({&state});
  }
  for (StateToLoad& coded : result) {
    if (coded.state->coding == StateCoding::kNone) continue;
    const auto scales = places.find(place_of(*coded.state, ScaleStateOf(coded.state->name)));
    if (scales == places.end()) continue;
    coded.scales = result[scales->second].state;
    result[scales->second].scaled = coded.state;
  }
  return result;
}

enum class Conversion {
  kNone,    // floating-point types to each other, or bytes as they are
  kDecode,  // codes in the checkpoint, numbers here
  kEncode,  // numbers in the checkpoint, codes here
};

// How what the checkpoint has of a state becomes what is kept here.
absl::StatusOr<Conversion> ConversionOf(const CheckpointReader& reader, const Parameter& parameter,
                                        const StateToLoad& load, const CheckpointTensor& source) {
  const ShardState& state = *load.state;
  const DType dtype = state.shard.dtype();
  const bool float_there = ConvertsToFloat32(source.dtype);
  const bool float_here = IsFloatingPoint(dtype);
  if (source.block == state.block &&
      ((float_here && float_there) || source.dtype == ToSafetensorsDType(dtype))) {
    return Conversion::kNone;
  }
  if (state.coding != StateCoding::kNone) {
    if (float_here && HasCodedMoments(reader, parameter.name(), state.name)) {
      return Conversion::kDecode;
    }
    if (float_there && source.block == 1 && load.scales != nullptr) return Conversion::kEncode;
  }
  return absl::FailedPreconditionError(
      absl::StrCat(reader.directory(), ": state \"", state.name, "\" of parameter \"",
                   parameter.name(), "\" is ", SafetensorsDTypeName(source.dtype), " in blocks of ",
                   source.block, ", but is kept as ", DTypeName(dtype), " in blocks of ",
                   state.block, " here, which it cannot be converted to; keep it as it was"));
}

// Whether these are scales that come out of encoding what they scale, and not from the checkpoint.
bool ComesFromEncoding(const CheckpointReader& reader, const Parameter& parameter,
                       const StateToLoad& load) {
  if (load.scaled == nullptr) return false;
  const CheckpointTensor* const values = SourceOf(reader, parameter, *load.scaled);
  return values != nullptr && ConvertsToFloat32(values->dtype);
}

// The moments of a piece in codes. Pieces begin with a block, and so does every round of staging.
absl::Status EncodePiece(CheckpointReader& reader, const Parameter& parameter,
                         const ShardLayout::Piece& piece, const StateToLoad& load) {
  static_assert(kStagingNumel % kMomentBlock == 0);
  const ShardState& state = *load.state;
  Device& device = state.unit->device();
  std::vector<float> floats;
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  for (int64_t done = 0; done < piece.numel(); done += kStagingNumel) {
    const int64_t count = std::min(kStagingNumel, piece.numel() - done);
    const int64_t blocks = (count + kMomentBlock - 1) / kMomentBlock;
    floats.resize(static_cast<size_t>(count));
    codes.resize(floats.size());
    scales.resize(static_cast<size_t>(blocks));
    ZEROTH_RETURN_IF_ERROR(
        reader.Read(parameter.name(), state.name, piece.begin + done, absl::MakeSpan(floats)));
    EncodeMoments(state.coding, floats, absl::MakeSpan(codes), absl::MakeSpan(scales));
    const int64_t place = piece.shard_offset + done;
    ZEROTH_RETURN_IF_ERROR(CopyStateFromHost(device, codes.data(), state.shard, place, count));
    ZEROTH_RETURN_IF_ERROR(
        CopyStateFromHost(device, scales.data(), load.scales->shard, place / kMomentBlock, blocks));
  }
  return absl::OkStatus();
}

absl::Status CheckStates(const CheckpointReader& reader, absl::Span<const StateToLoad> loads,
                         std::set<std::string>& incomplete) {
  for (const StateToLoad& load : loads) {
    const ShardState& state = *load.state;
    for (const int index : ParametersOf(state)) {
      const Parameter& parameter = ParameterOf(state, index);
      if (ComesFromEncoding(reader, parameter, load)) continue;
      const CheckpointTensor* const source = SourceOf(reader, parameter, state);
      if (source == nullptr) {
        if (parameter.numel() > 0) incomplete.insert(state.name);
        continue;
      }
      ZEROTH_RETURN_IF_ERROR(ConversionOf(reader, parameter, load, *source).status());
    }
  }
  return absl::OkStatus();
}

absl::Status LoadParameterState(CheckpointReader& reader, const Parameter& parameter,
                                const ShardLayout::Piece& held, const StateToLoad& load) {
  const ShardState& state = *load.state;
  const ShardLayout::Piece piece = InBlocks(held, state);
  const CheckpointTensor* const source = SourceOf(reader, parameter, state);
  Conversion conversion = Conversion::kNone;
  if (source != nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(conversion, ConversionOf(reader, parameter, load, *source));
  }
  if (conversion == Conversion::kEncode) return EncodePiece(reader, parameter, piece, load);
  return LoadPiece(reader, source, parameter, piece, state);
}

absl::Status LoadStates(CheckpointReader& reader, absl::Span<const StateToLoad> loads) {
  for (const StateToLoad& load : loads) {
    const ShardState& state = *load.state;
    for (const int index : ParametersOf(state)) {
      const Parameter& parameter = ParameterOf(state, index);
      if (ComesFromEncoding(reader, parameter, load)) continue;
      for (const ShardLayout::Piece& piece : GlobalPieces(parameter, state.unit->PieceOf(index))) {
        ZEROTH_RETURN_IF_ERROR(LoadParameterState(reader, parameter, piece, load));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadedState> LoadState(CheckpointReader& reader, Sharding& sharding,
                                      absl::Span<const ShardState> states,
                                      const LoadStateOptions& options) {
  const Differences differences = Compare(reader.index(), sharding);
  if (!differences.empty() && options.fill_missing == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(reader.directory(), ": the checkpoint is of another model",
                     Counted(differences.missing, "parameters are missing from it"),
                     Counted(differences.reshaped, "have another shape"),
                     Counted(differences.unexpected, "are not in the model"),
                     Examples(differences.missing, "missing"),
                     Examples(differences.reshaped, "of another shape"),
                     Examples(differences.unexpected, "not in the model")));
  }
  LoadedState loaded;
  const std::vector<StateToLoad> loads = StatesToLoad(states);
  ZEROTH_RETURN_IF_ERROR(CheckStates(reader, loads, loaded.incomplete));
  ZEROTH_RETURN_IF_ERROR(sharding.Load(
      [&](const Parameter& parameter, int64_t begin, absl::Span<float> out) -> absl::Status {
        if (!HasParameter(reader, parameter)) return options.fill_missing(parameter, begin, out);
        return reader.Read(parameter.name(), kParameterState, begin, out);
      }));
  ZEROTH_RETURN_IF_ERROR(LoadStates(reader, loads));
  loaded.notes = Notes(differences);
  return loaded;
}

}  // namespace zeroth
