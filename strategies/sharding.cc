// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/sharding.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/host_floats.h"

namespace zeroth {
namespace {

// Host staging of Load and VisitShards: large enough to amortise a call, small against any shard.
constexpr int64_t kStagingNumel = int64_t{1} << 20;

absl::Status ValidateUnits(const std::vector<UnitSpec>& units) {
  if (units.empty())
    return absl::InvalidArgumentError("sharding: no units were given; expected at least one");
  std::set<std::string> unit_names;
  std::map<const Parameter*, std::string> unit_of;
  std::map<std::string, std::string> unit_of_name;
  const UnitSpec* root = nullptr;
  for (const UnitSpec& unit : units) {
    if (!unit_names.insert(unit.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two units are named '", unit.name, "'; names must differ"));
    }
    if (unit.is_root && root != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("units '", root->name, "' and '", unit.name,
                                                     "' are both the root; at most one unit is"));
    }
    if (unit.is_root) root = &unit;
    for (const Parameter* parameter : unit.parameters) {
      if (parameter == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("unit '", unit.name, "' has a null parameter"));
      }
      const auto [owner, first] = unit_of.emplace(parameter, unit.name);
      if (!first) {
        return absl::InvalidArgumentError(absl::StrCat(
            "parameter '", parameter->name(), "' is in unit '", owner->second,
            "' and again in unit '", unit.name,
            "'; a parameter belongs to one unit: put everything that shares it into one unit"));
      }
      const auto [named, fresh] = unit_of_name.emplace(parameter->name(), unit.name);
      if (!fresh) {
        return absl::InvalidArgumentError(
            absl::StrCat("two parameters are named '", parameter->name(), "', in units '",
                         named->second, "' and '", unit.name, "'; names must differ"));
      }
      if (parameter->dtype() != DType::kFloat32) {
        return absl::InvalidArgumentError(absl::StrCat("parameter '", parameter->name(), "' is ",
                                                       DTypeName(parameter->dtype()),
                                                       "; parameters are kept in fp32"));
      }
    }
  }
  return absl::OkStatus();
}

// Where `count` elements of a shard, from `begin` on, are in memory or pass through it.
absl::StatusOr<Tensor> HostWindow(const Unit& unit, const StateTensor& shard, int64_t begin,
                                  int64_t count) {
  if (!shard.is_offloaded()) return shard.tensor().View(begin, Shape({count}));
  return Tensor::Empty(unit.device(), Shape({count}), shard.dtype(),
                       MemoryCategory::kOffloadStaging);
}

// Sets the elements from `done` on of this rank's piece of a parameter.
absl::Status SetShard(const Unit& unit, const ShardLayout::Piece& piece, int64_t done,
                      const std::vector<float>& values) {
  const StateTensor shard = unit.ShardState(unit.layout().placement(piece.parameter).segment);
  const int64_t begin = piece.shard_offset + done;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor target,
                          HostWindow(unit, shard, begin, static_cast<int64_t>(values.size())));
  ZEROTH_RETURN_IF_ERROR(SetFromHostFloats(values, target));
  if (!shard.is_offloaded()) return absl::OkStatus();
  Stream& stream = unit.device().compute_stream();
  ZEROTH_RETURN_IF_ERROR(shard.Write(begin, target, stream));
  return stream.Synchronize();
}

// Elements [begin, begin + count) of a shard, if they may be set where they are.
absl::Span<float> InPlace(const Unit& unit, const StateTensor& shard, int64_t begin,
                          int64_t count) {
  if (shard.is_offloaded() || shard.dtype() != DType::kFloat32 || !unit.device().MemoryIsHost()) {
    return {};
  }
  return absl::MakeSpan(shard.tensor().View(begin, Shape({count})).data<float>(),
                        static_cast<size_t>(count));
}

// Sets this rank's piece of a parameter, through `staging` unless it can be done in place.
absl::Status LoadPiece(const Unit& unit, const Parameter& parameter,
                       const ShardLayout::Piece& piece, const ParameterReader& reader,
                       std::vector<float>& staging) {
  const StateTensor shard = unit.ShardState(unit.layout().placement(piece.parameter).segment);
  const absl::Span<float> in_place = InPlace(unit, shard, piece.shard_offset, piece.numel());
  if (!in_place.empty()) {
    ZEROTH_RETURN_IF_ERROR(unit.device().compute_stream().Synchronize());
    return reader(parameter, piece.begin, in_place);
  }
  for (int64_t done = 0; done < piece.numel(); done += kStagingNumel) {
    staging.resize(static_cast<size_t>(std::min(kStagingNumel, piece.numel() - done)));
    ZEROTH_RETURN_IF_ERROR(reader(parameter, piece.begin + done, absl::MakeSpan(staging)));
    ZEROTH_RETURN_IF_ERROR(SetShard(unit, piece, done, staging));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> GetShard(const Unit& unit, const ShardLayout::Piece& piece,
                                            int64_t done, int64_t count) {
  const StateTensor shard = unit.ShardState(unit.layout().placement(piece.parameter).segment);
  const int64_t begin = piece.shard_offset + done;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor source, HostWindow(unit, shard, begin, count));
  if (shard.is_offloaded()) {
    ZEROTH_RETURN_IF_ERROR(shard.Read(begin, source, unit.device().compute_stream()));
  }
  return ToHostFloats(source);
}

// Where the result is to be the same at all world sizes that can be.
absl::Status ExpectTreeOverRanks(int world_size) {
  if ((world_size & (world_size - 1)) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("sharding: gradients are to be summed in one tree over ranks and micro-batches "
                   "(tree_micro_batches), but there are ",
                   world_size, " ranks; expected a power of two"));
}

absl::Status ExpectGradientsFit(const Unit& unit) {
  if (unit.precision().gradient_dtype() == unit.precision().reduce_dtype) return absl::OkStatus();
  for (int i = 0; i < unit.segment_count(); ++i) {
    if (!unit.segment_layout(i).trainable || !unit.is_whole(i)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("unit '", unit.name(),
                     "': keep_low_precision_grads is false, but this rank holds its "
                     "gradients whole, in ",
                     DTypeName(unit.precision().reduce_dtype),
                     "; take reduce_dtype fp32, or a strategy that shards gradients"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Sharding>> Sharding::Create(Communicator& world, Device& device,
                                                           const ShardingOptions& options,
                                                           std::vector<UnitSpec> units) {
  ZEROTH_RETURN_IF_ERROR(ValidateUnits(units));
  ZEROTH_RETURN_IF_ERROR(ValidateMixedPrecision(options.mixed_precision));
  if (options.min_shard_numel < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("sharding: min_shard_numel is ", options.min_shard_numel,
                     ", expected 0 (shard every parameter) or a number of elements"));
  }
  if (options.block_numel < 1) {
    return absl::InvalidArgumentError(absl::StrCat("sharding: block_numel is ", options.block_numel,
                                                   ", expected at least 1 element"));
  }
  std::unique_ptr<Sharding> sharding(new Sharding);
  sharding->device_ = &device;
  ZEROTH_ASSIGN_OR_RETURN(sharding->strategy_,
                          StrategyRegistry::Create(options.strategy, options.strategy_options));
  if (sharding->strategy_ == nullptr) {
    return absl::InternalError(
        absl::StrCat("strategy '", options.strategy, "': its factory returned no strategy"));
  }
  const int64_t tree_micro_batches = options.strategy_options.tree_micro_batches;
  if (tree_micro_batches > 0) ZEROTH_RETURN_IF_ERROR(ExpectTreeOverRanks(world.size()));
  ZEROTH_ASSIGN_OR_RETURN(const int shard_size, sharding->strategy_->ShardSize(world.size()));
  const bool over_world = sharding->strategy_->ShardsOptimizerOverWorld();
  ZEROTH_ASSIGN_OR_RETURN(sharding->mesh_, Mesh::Create(world, shard_size, over_world));
  const OffloadOptions& offload = options.offload;
  if ((offload.parameters || offload.gradients) && !sharding->strategy_->SupportsOffload()) {
    return absl::InvalidArgumentError(
        absl::StrCat("strategy '", options.strategy,
                     "' does not serve offloaded parameters or gradients; offload nothing but "
                     "optimizer state, or take another strategy"));
  }
  ZEROTH_ASSIGN_OR_RETURN(sharding->offload_, Offload::Create(device, offload));
  LayoutOptions layout;
  layout.shard_count = sharding->mesh_->owner_count();
  layout.min_shard_numel = options.min_shard_numel;
  layout.block_numel = options.block_numel;
  for (UnitSpec& spec : units) {
    const int index = static_cast<int>(sharding->units_.size());
    layout.kind = spec.layout.value_or(options.layout);
    if (layout.kind == LayoutKind::kRows && options.block_numel > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "sharding: unit '", spec.name, "' is to be cut between rows, and block_numel is ",
          options.block_numel, "; expected 1 with rows, or the flat layout"));
    }
    if (spec.collectives == nullptr) spec.collectives = options.collectives;
    const MixedPrecision precision = spec.precision.value_or(options.mixed_precision);
    ZEROTH_RETURN_IF_ERROR_WITH(ValidateMixedPrecision(precision),
                                absl::StrCat("unit '", spec.name, "'"));
    if (spec.collectives != nullptr && !sharding->strategy_->SupportsUnitCollectives()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "strategy '", options.strategy, "' does not serve collectives of your own, which unit '",
          spec.name, "' has; leave them out, or take another strategy"));
    }
    if (spec.collectives != nullptr && tree_micro_batches > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("unit '", spec.name,
                       "' has collectives of its own, whose rounding may depend on the ranks, and "
                       "tree_micro_batches asks for sums that do not; leave one of them out"));
    }
    ZEROTH_ASSIGN_OR_RETURN(
        std::unique_ptr<Unit> unit,
        Unit::Create(std::move(spec), index, layout, sharding->mesh_->owner_index(), device,
                     precision, sharding->offload_.get()));
    unit->set_tree_micro_batches(tree_micro_batches);
    ZEROTH_RETURN_IF_ERROR(ExpectGradientsFit(*unit));
    sharding->unit_pointers_.push_back(unit.get());
    sharding->units_.push_back(std::move(unit));
  }
  ZEROTH_ASSIGN_OR_RETURN(sharding->scheduler_,
                          Scheduler::Create(options.scheduler, *sharding->strategy_,
                                            *sharding->mesh_, device, sharding->unit_pointers_));
  return sharding;
}

absl::Status Sharding::Initialize(uint64_t seed) {
  return Load([seed](const Parameter& parameter, int64_t begin, absl::Span<float> out) {
    parameter.initializer().Fill(seed, parameter.name(), begin, out);
    return absl::OkStatus();
  });
}

absl::Status Sharding::Load(const ParameterReader& reader) {
  for (const Unit* unit : unit_pointers_) {
    ZEROTH_RETURN_IF_ERROR(unit->ExpectState(UnitState::kSharded, "load parameters"));
    ZEROTH_RETURN_IF_ERROR(unit->ExpectGradientState(GradientState::kNone, "load parameters"));
  }
  std::vector<float> staging;
  for (Unit* unit : unit_pointers_) {
    for (int i = 0; i < unit->layout().parameter_count(); ++i) {
      const Parameter& parameter = *unit->parameters()[static_cast<size_t>(i)];
      ZEROTH_RETURN_IF_ERROR_WITH(LoadPiece(*unit, parameter, unit->PieceOf(i), reader, staging),
                                  absl::StrCat("parameter '", parameter.name(), "'"));
    }
  }
  return scheduler_->EndStep();
}

absl::Status Sharding::VisitShards(const PieceVisitor& visitor) const {
  for (const Unit* unit : unit_pointers_) {
    for (int i = 0; i < unit->layout().parameter_count(); ++i) {
      const ShardLayout::Piece piece = unit->PieceOf(i);
      for (int64_t done = 0; done < piece.numel(); done += kStagingNumel) {
        const int64_t count = std::min(kStagingNumel, piece.numel() - done);
        ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values,
                                GetShard(*unit, piece, done, count));
        ZEROTH_RETURN_IF_ERROR(
            visitor(*unit->parameters()[static_cast<size_t>(i)], piece.begin + done, values));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Sharding::VisitFull(const PieceVisitor& visitor) {
  for (Unit* unit : unit_pointers_) {
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<Tensor> masters, scheduler_->GatherMasters(*unit));
    for (int i = 0; i < unit->layout().parameter_count(); ++i) {
      const Parameter& parameter = *unit->parameters()[static_cast<size_t>(i)];
      const ShardLayout::Placement& at = unit->layout().placement(i);
      // An empty parameter at a segment's end would start past it.
      const int64_t offset = at.numel == 0 ? 0 : at.offset;
      const Tensor view = masters[static_cast<size_t>(at.segment)].View(offset, parameter.shape());
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values, ToHostFloats(view));
      ZEROTH_RETURN_IF_ERROR(visitor(parameter, 0, values));
    }
  }
  return absl::OkStatus();
}

Unit* Sharding::FindUnit(absl::string_view name) const {
  for (Unit* unit : unit_pointers_) {
    if (name == unit->name()) return unit;
  }
  return nullptr;
}

std::vector<Parameter*> Sharding::parameters() const {
  std::vector<Parameter*> parameters;
  for (const Unit* unit : unit_pointers_) {
    parameters.insert(parameters.end(), unit->parameters().begin(), unit->parameters().end());
  }
  return parameters;
}

int64_t Sharding::ShardMemoryBytes() const {
  int64_t bytes = 0;
  for (const Unit* unit : unit_pointers_) {
    for (int i = 0; i < unit->segment_count(); ++i) {
      const Tensor& shard = unit->segment(i).shard;
      if (shard.defined()) bytes += static_cast<int64_t>(shard.bytes());
    }
  }
  return bytes;
}

int64_t Sharding::ReplicatedMemoryBytes() const {
  int64_t bytes = 0;
  for (const Unit* unit : unit_pointers_) {
    bytes += unit->total_numel() * static_cast<int64_t>(SizeOf(unit->precision().master_dtype));
  }
  return bytes;
}

double Sharding::LocalShardingRatio() const {
  int64_t local = 0;
  int64_t total = 0;
  for (const Unit* unit : unit_pointers_) {
    local += unit->local_numel();
    total += unit->total_numel();
  }
  return total == 0 ? 1.0 : static_cast<double>(local) / static_cast<double>(total);
}

std::vector<Communicator*> Sharding::communicators() const {
  const std::vector<Communicator*> axes = mesh_->communicators();
  std::vector<Communicator*> all(axes.begin(), axes.end());
  for (Communicator* own : strategy_->OwnGroups()) all.push_back(own);
  return all;
}

ShardingStats Sharding::stats() const {
  ShardingStats stats;
  for (const Communicator* group : communicators()) {
    const CommStats::Counters counters = group->stats().counters();
    for (size_t op = 0; op < counters.size(); ++op) {
      stats.collectives[op].calls += counters[op].calls;
      stats.collectives[op].bytes += counters[op].bytes;
    }
  }
  stats.memory = device_->allocator().stats();
  stats.offload = offload_->stats();
  for (const Unit* unit : unit_pointers_) {
    stats.local_numel += unit->local_numel();
    stats.total_numel += unit->total_numel();
    stats.padding_numel += unit->layout().padding_numel();
  }
  stats.local_ratio = LocalShardingRatio();
  return stats;
}

}  // namespace zeroth
