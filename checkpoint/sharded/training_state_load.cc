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
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"
#include "zeroth/core/comm/mesh.h"
#include "zeroth/core/tensor/host_floats.h"
#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/strategies/replica_slices.h"

namespace zeroth {
namespace {

// Elements in host staging at a time, as in Sharding::Load.
constexpr int64_t kStagingNumel = int64_t{1} << 20;
// Number of parameters of each kind that an error lists.
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

// For messages: how many parameters there are, and the first of them.
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

// The bytes of elements [begin, begin + count) of a shard, if the host may write them in place;
// otherwise empty.
absl::Span<uint8_t> InPlace(Device& device, const StateTensor& shard, int64_t begin,
                            int64_t count) {
  if (shard.is_offloaded() || !device.MemoryIsHost() || count == 0) return {};
  const Tensor view = shard.tensor().View(begin, Shape({count}));
  return absl::MakeSpan(static_cast<uint8_t*>(view.raw_data()), view.bytes());
}

bool HasParameter(const CheckpointReader& reader, const Parameter& parameter) {
  const auto found = reader.index().parameters.find(parameter.name());
  return found != reader.index().parameters.end() &&
         found->second.shape == parameter.global_shape();
}

// Returns the tensor that stores `state` of `parameter` in the checkpoint; null if there is none.
const CheckpointTensor* SourceOf(const CheckpointReader& reader, const Parameter& parameter,
                                 const ShardState& state) {
  return HasParameter(reader, parameter) ? reader.Find(parameter.name(), state.name) : nullptr;
}

const Parameter& ParameterOf(const ShardState& state, int index) {
  return *state.unit->parameters()[static_cast<size_t>(index)];
}

// A state to load, and the states that it is coupled with.
struct StateToLoad {
  const ShardState* state;
  // The scales of a state that is kept in codes.
  const ShardState* scales = nullptr;
  // The coded state of a state of scales.
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

// How the checkpoint's values of a state become the run's.
enum class Conversion {
  kZero,    // the checkpoint has none
  kCopy,    // one type: bytes are copied, so that every bit of a NaN is kept
  kRound,   // other floating-point types
  kDecode,  // 8-bit codes in the checkpoint, numbers here
  kEncode,  // numbers in the checkpoint, 8-bit codes here
};

// `source` is the checkpoint's tensor of the state; null if it has none.
absl::StatusOr<Conversion> ConversionOf(const CheckpointReader& reader, const Parameter& parameter,
                                        const StateToLoad& load, const CheckpointTensor* source) {
  if (source == nullptr) return Conversion::kZero;
  const ShardState& state = *load.state;
  const DType dtype = state.shard.dtype();
  const bool float_there = ConvertsToFloat32(source->dtype);
  const bool float_here = IsFloatingPoint(dtype);
  if (source->block == state.block) {
    if (source->dtype == ToSafetensorsDType(dtype)) return Conversion::kCopy;
    if (float_here && float_there) return Conversion::kRound;
  }
  if (state.coding != StateCoding::kNone) {
    if (float_here && HasCodedMoments(reader, parameter.name(), state.name)) {
      return Conversion::kDecode;
    }
    if (float_there && source->block == 1 && load.scales != nullptr) return Conversion::kEncode;
  }
  return FailedPrecondition(reader.directory(), ": state \"", state.name, "\" of parameter \"",
                            parameter.name(), "\" is ", SafetensorsDTypeName(source->dtype),
                            " in blocks of ", source->block, ", but is kept as ", DTypeName(dtype),
                            " in blocks of ", state.block,
                            " here, which it cannot be converted to; keep it as it was");
}

// True for scales that encoding computes, so that they do not come from the checkpoint.
bool ComesFromEncoding(const CheckpointReader& reader, const Parameter& parameter,
                       const StateToLoad& load) {
  if (load.scaled == nullptr) return false;
  const CheckpointTensor* const values = SourceOf(reader, parameter, *load.scaled);
  return values != nullptr && ConvertsToFloat32(values->dtype);
}

// Fills one piece of a parameter's state.
absl::Status LoadPiece(CheckpointReader& reader, const Parameter& parameter,
                       const ShardLayout::Piece& piece, const StateToLoad& load,
                       Conversion conversion) {
  static_assert(kStagingNumel % kMomentBlock == 0, "every round begins with a block");
  const ShardState& state = *load.state;
  const std::string& name = parameter.name();
  Device& device = state.unit->device();
  if (conversion == Conversion::kCopy) {
    const absl::Span<uint8_t> in_place =
        InPlace(device, state.shard, piece.shard_offset, piece.numel());
    if (!in_place.empty()) {
      ZEROTH_RETURN_IF_ERROR(device.compute_stream().Synchronize());
      return reader.ReadBytes(name, state.name, piece.begin, in_place);
    }
  }
  const bool is_raw = conversion == Conversion::kZero || conversion == Conversion::kCopy;
  std::vector<float> floats;
  std::vector<uint8_t> bytes;
  for (int64_t done = 0; done < piece.numel(); done += kStagingNumel) {
    const int64_t count = std::min(kStagingNumel, piece.numel() - done);
    const int64_t begin = piece.begin + done;
    const int64_t place = piece.shard_offset + done;
    if (is_raw) {
      bytes.assign(static_cast<size_t>(count) * SizeOf(state.shard.dtype()), 0);
      if (conversion == Conversion::kCopy) {
        ZEROTH_RETURN_IF_ERROR(reader.ReadBytes(name, state.name, begin, absl::MakeSpan(bytes)));
      }
      ZEROTH_RETURN_IF_ERROR(CopyStateFromHost(device, bytes.data(), state.shard, place, count));
      continue;
    }
    floats.resize(static_cast<size_t>(count));
    ZEROTH_RETURN_IF_ERROR(
        conversion == Conversion::kDecode
            ? ReadCodedMoments(reader, name, state, begin, absl::MakeSpan(floats))
            : reader.Read(name, state.name, begin, absl::MakeSpan(floats)));
    ZEROTH_RETURN_IF_ERROR(conversion == Conversion::kEncode
                               ? CopyEncodedMoments(floats, state, *load.scales, place)
                               : SetFromHostFloats(device, floats, state.shard, place));
  }
  return absl::OkStatus();
}

// A parameter's part of a state, and how it is loaded.
struct PlannedLoad {
  const StateToLoad* load;
  int parameter;
  Conversion conversion;
};

// Plans how each state is loaded. Adds the names of states that the checkpoint lacks to
// `incomplete`.
absl::StatusOr<std::vector<PlannedLoad>> PlanLoads(const CheckpointReader& reader,
                                                   absl::Span<const StateToLoad> loads,
                                                   std::set<std::string>& incomplete) {
  std::vector<PlannedLoad> plan;
  for (const StateToLoad& load : loads) {
    for (const int index : ParametersOf(*load.state)) {
      const Parameter& parameter = ParameterOf(*load.state, index);
      if (ComesFromEncoding(reader, parameter, load)) continue;
      const CheckpointTensor* const source = SourceOf(reader, parameter, *load.state);
      if (source == nullptr && parameter.numel() > 0) incomplete.insert(load.state->name);
      ZEROTH_ASSIGN_OR_RETURN(const Conversion conversion,
                              ConversionOf(reader, parameter, load, source));
      plan.push_back({&load, index, conversion});
    }
  }
  return plan;
}

// Reads elements [begin, begin + out.size()) of a parameter of bytes.
absl::Status ReadWholeBytes(CheckpointReader& reader, const Parameter& parameter, int64_t begin,
                            absl::Span<float> out) {
  const CheckpointTensor* const tensor = reader.Find(parameter.name(), kParameterState);
  if (tensor != nullptr && tensor->dtype != SafetensorsDType::kU8) {
    return FailedPrecondition(reader.directory(), ": parameter \"", parameter.name(), "\" is ",
                              SafetensorsDTypeName(tensor->dtype),
                              ", expected U8, the bytes of a quantized weight; the checkpoint was "
                              "changed or is of another program, so resume from another");
  }
  std::vector<uint8_t> bytes(out.size());
  ZEROTH_RETURN_IF_ERROR(
      reader.ReadBytes(parameter.name(), kParameterState, begin, absl::MakeSpan(bytes)));
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return absl::OkStatus();
}

// A coded state and its scales have the same slices.
ReplicaSlices SlicesOf(const StateToLoad& load) {
  const ShardState& values = load.scaled != nullptr ? *load.scaled : *load.state;
  const ShardState& blocks = load.scales != nullptr ? *load.scales : *load.state;
  const int64_t rest = values.unit->segment_layout(values.segment).shard_numel - values.begin;
  return ReplicaSlices(*values.unit, values.segment, values.begin,
                       std::min(rest, values.shard.numel() * values.block), blocks.block);
}

// Reads what this rank reads of the parameters' states, as `plan` says.
absl::Status ReadStates(CheckpointReader& reader, absl::Span<const PlannedLoad> plan) {
  for (const auto& [load, index, conversion] : plan) {
    const ShardState& state = *load->state;
    const Parameter& parameter = ParameterOf(state, index);
    for (const ShardLayout::Piece& part : SlicesOf(*load).PartsToRead(state.unit->PieceOf(index))) {
      for (const ShardLayout::Piece& piece : GlobalPieces(parameter, part)) {
        ZEROTH_RETURN_IF_ERROR(
            LoadPiece(reader, parameter, InBlocks(piece, state), *load, conversion));
      }
    }
  }
  return absl::OkStatus();
}

// Loads the parameters, and their states as `plan` says. Returns the same status on every rank.
absl::Status LoadPlan(CheckpointReader& reader, absl::Span<const PlannedLoad> plan,
                      absl::Span<const StateToLoad> loads, Sharding& sharding,
                      const LoadStateOptions& options) {
  ZEROTH_RETURN_IF_ERROR(sharding.Load(
      [&](const Parameter& parameter, int64_t begin, absl::Span<float> out) -> absl::Status {
        if (!HasParameter(reader, parameter)) return options.fill_missing(parameter, begin, out);
        if (parameter.dtype() == DType::kUInt8)
          return ReadWholeBytes(reader, parameter, begin, out);
        return reader.Read(parameter.name(), kParameterState, begin, out);
      }));
  ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(sharding.mesh().world(), sharding.device(),
                                       ReadStates(reader, plan), "load optimizer state"));
  for (const StateToLoad& load : loads) {
    const ShardState& state = *load.state;
    ZEROTH_RETURN_IF_ERROR(SlicesOf(load).Exchange(
        state.shard, state.block, absl::StrCat(state.unit->name(), " ", state.name)));
  }
  return absl::OkStatus();
}

// Compares the checkpoint with the model and its states, and plans how the states are loaded.
// Changes nothing.
absl::StatusOr<std::vector<PlannedLoad>> Plan(const CheckpointReader& reader,
                                              const Sharding& sharding,
                                              const Differences& differences,
                                              absl::Span<const StateToLoad> loads,
                                              const LoadStateOptions& options,
                                              std::set<std::string>& incomplete) {
  ZEROTH_RETURN_IF_ERROR(sharding.ExpectBetweenSteps("load a checkpoint"));
  if (!differences.empty() && options.fill_missing == nullptr) {
    return FailedPrecondition(reader.directory(), ": the checkpoint is of another model",
                              Counted(differences.missing, "parameters are missing from it"),
                              Counted(differences.reshaped, "have another shape"),
                              Counted(differences.unexpected, "are not in the model"),
                              Examples(differences.missing, "missing"),
                              Examples(differences.reshaped, "of another shape"),
                              Examples(differences.unexpected, "not in the model"));
  }
  return PlanLoads(reader, loads, incomplete);
}

}  // namespace

absl::StatusOr<LoadedState> LoadState(CheckpointReader& reader, Sharding& sharding,
                                      absl::Span<const ShardState> states,
                                      const LoadStateOptions& options) {
  const Differences differences = Compare(reader.index(), sharding);
  LoadedState loaded;
  const std::vector<StateToLoad> loads = StatesToLoad(states);
  const absl::StatusOr<std::vector<PlannedLoad>> plan =
      Plan(reader, sharding, differences, loads, options, loaded.incomplete);
  ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(sharding.mesh().world(), sharding.device(), plan.status(),
                                       "compare the checkpoint"));
  // From here on values change, so FailedPrecondition, which means that nothing has changed, must
  // not be returned. A file that is a link gives that code, too.
  const absl::Status read = LoadPlan(reader, *plan, loads, sharding, options);
  if (absl::IsFailedPrecondition(read)) return absl::InternalError(read.message());
  ZEROTH_RETURN_IF_ERROR(read);
  loaded.notes = Notes(differences);
  return loaded;
}

}  // namespace zeroth
