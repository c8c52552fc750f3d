// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The arguments that Sharding::Create refuses.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/parameter_part.h"
#include "zeroth/core/tensor/shape.h"
#include "zeroth/strategies/mixed_precision.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {
namespace {

absl::Status ValidateUnits(const std::vector<UnitSpec>& units) {
  if (units.empty())
    return absl::InvalidArgumentError("sharding: no units were given; expected at least one");
  std::set<std::string> unit_names;
  std::map<const Parameter*, std::string> unit_of;
  std::map<std::string, std::string> unit_of_name;
  const UnitSpec* root = nullptr;
  for (const UnitSpec& unit : units) {
    if (!unit_names.insert(unit.name).second) {
      return InvalidArgument("two units are named '", unit.name, "'; names must differ");
    }
    if (unit.is_root && root != nullptr) {
      return InvalidArgument("units '", root->name, "' and '", unit.name,
                             "' are both the root; at most one unit is");
    }
    if (unit.is_root) root = &unit;
    for (const Parameter* parameter : unit.parameters) {
      if (parameter == nullptr) {
        return InvalidArgument("unit '", unit.name, "' has a null parameter");
      }
      const auto [owner, first] = unit_of.emplace(parameter, unit.name);
      if (!first) {
        return InvalidArgument(
            "parameter '", parameter->name(), "' is in unit '", owner->second,
            "' and again in unit '", unit.name,
            "'; a parameter belongs to one unit: put everything that shares it into one unit");
      }
      const auto [named, fresh] = unit_of_name.emplace(parameter->name(), unit.name);
      if (!fresh) {
        return InvalidArgument("two parameters are named '", parameter->name(), "', in units '",
                               named->second, "' and '", unit.name, "'; names must differ");
      }
      if (parameter->is_owned()) {
        return FailedPrecondition(
            "parameter '", parameter->name(), "' of unit '", unit.name,
            "' belongs to another sharding; destroy that one before, or shard another model");
      }
      const bool is_frozen_bytes =
          parameter->dtype() == DType::kUInt8 && !parameter->requires_grad();
      if (parameter->dtype() != DType::kFloat32 && !is_frozen_bytes) {
        return InvalidArgument("parameter '", parameter->name(), "' is ",
                               DTypeName(parameter->dtype()),
                               "; expected fp32, or uint8 for a frozen one");
      }
    }
  }
  return absl::OkStatus();
}

// Refuses a number of ranks for which a tree over micro-batches is not bitwise reproducible.
absl::Status ExpectTreeOverRanks(int data_parallel_size) {
  if ((data_parallel_size & (data_parallel_size - 1)) == 0) return absl::OkStatus();
  return InvalidArgument(
      "sharding: gradients are to be summed in one tree over ranks and micro-batches "
      "(tree_micro_batches), but there are ",
      data_parallel_size, " ranks; expected a power of two");
}

absl::Status ValidateUnit(const ShardingOptions& options, const UnitSpec& unit,
                          const StrategyCapabilities& supported) {
  if (unit.layout.value_or(options.layout) == LayoutKind::kRows && options.block_numel > 1) {
    return InvalidArgument("sharding: unit '", unit.name,
                           "' is to be sharded between rows, and block_numel is ",
                           options.block_numel, "; expected 1 with rows, or the flat layout");
  }
  ZEROTH_RETURN_IF_ERROR_WITH(
      ValidateMixedPrecision(unit.precision.value_or(options.mixed_precision)),
      absl::StrCat("unit '", unit.name, "'"));
  if (!supported.unit_axes && unit.axes != UnitAxes()) {
    return InvalidArgument("strategy '", options.strategy,
                           "' does not support UnitSpec::axes (set on unit '", unit.name,
                           "'); leave them out, or use another strategy");
  }
  if (unit.collectives == nullptr) return absl::OkStatus();
  if (!supported.unit_collectives) {
    return InvalidArgument("strategy '", options.strategy,
                           "' does not support UnitSpec::collectives (set on unit '", unit.name,
                           "'); leave them out, or use another strategy");
  }
  if (options.strategy_options.tree_micro_batches == 0) return absl::OkStatus();
  return InvalidArgument("unit '", unit.name,
                         "' has custom collectives, whose rounding may depend on the ranks, "
                         "and tree_micro_batches asks for sums that do not; leave one of them out");
}

}  // namespace

absl::Status ExpectWholeBlocks(const Parameter& parameter, int64_t block_numel) {
  if (!parameter.part().has_value()) return absl::OkStatus();
  const Shape& global = parameter.global_shape();
  ParameterPart part = *parameter.part();
  for (part.index = 0; part.index < part.count; ++part.index) {
    ZEROTH_ASSIGN_OR_RETURN(const Shape shape, ShapeOfPart(global, part));
    for (const ElementRun& run : RunsOfPart(global, part, 0, shape.numel())) {
      const int64_t end = run.global_begin + run.numel;
      if (run.global_begin % block_numel == 0 &&
          (end % block_numel == 0 || end == global.numel())) {
        continue;
      }
      return InvalidArgument("parameter '", parameter.name(), "' of shape ", global.ToString(),
                             " is divided over '", part.axis, "' into ", part.count,
                             " parts, of which part ", part.index, " has elements ",
                             run.global_begin, " to ", end, "; expected multiples of ", block_numel,
                             ": divide it otherwise, or choose a type of the optimizer's state "
                             "that has no blocks, as fp32");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Mesh::Axes>> Sharding::PartAxes(
    const std::vector<UnitSpec>& units) const {
  std::vector<Mesh::Axes> part_axes;
  for (const UnitSpec& unit : units) {
    Mesh::Axes& of_unit = part_axes.emplace_back();
    for (const Parameter* parameter : unit.parameters) {
      if (!parameter->part().has_value()) continue;
      const ParameterPart& part = *parameter->part();
      const std::string what =
          absl::StrCat("parameter '", parameter->name(), "' is divided over '", part.axis, "'");
      const absl::StatusOr<Mesh::Axes> found = mesh_->Find({part.axis});
      ZEROTH_RETURN_IF_ERROR_WITH(found.status(), what);
      const Mesh::Axes& axes = *found;
      if (part.axis == kReplicateAxis || part.axis == kShardAxis) {
        return InvalidArgument(
            what, ", over which units are; expected an axis of ShardingOptions::inner_axes");
      }
      if (part.count != mesh_->size(axes) || part.index != mesh_->index(axes)) {
        return InvalidArgument(what, ": this is part ", part.index, " of ", part.count,
                               ", but this rank is ", mesh_->index(axes), " of ", mesh_->size(axes),
                               " on that axis");
      }
      if (!of_unit.empty() && of_unit != axes) {
        return InvalidArgument(what, ", and others of unit '", unit.name,
                               "' over another axis; put them into a separate unit");
      }
      of_unit = axes;
    }
  }
  return part_axes;
}

absl::StatusOr<int> Sharding::DataParallelSize(const ShardingOptions& options, int world_size) {
  int64_t inner = 1;
  for (const MeshAxis& axis : options.inner_axes) inner *= std::max(axis.size, 0);
  if (inner > 0 && world_size % inner == 0) return world_size / static_cast<int>(inner);
  return InvalidArgument("sharding: inner_axes have ", inner, " ranks, which do not divide the ",
                         world_size, " of the world");
}

absl::Status Sharding::Validate(const ShardingOptions& options, const std::vector<UnitSpec>& units,
                                const ShardingStrategy& strategy, int data_parallel_size) {
  ZEROTH_RETURN_IF_ERROR(ValidateUnits(units));
  ZEROTH_RETURN_IF_ERROR(ValidateMixedPrecision(options.mixed_precision));
  if (options.min_shard_numel < 0) {
    return InvalidArgument("sharding: min_shard_numel is ", options.min_shard_numel,
                           ", expected 0 (shard every parameter) or a number of elements");
  }
  if (options.block_numel < 1) {
    return InvalidArgument("sharding: block_numel is ", options.block_numel,
                           ", expected at least 1 element");
  }
  if (options.strategy_options.tree_micro_batches > 0) {
    ZEROTH_RETURN_IF_ERROR(ExpectTreeOverRanks(data_parallel_size));
  }
  const StrategyCapabilities supported = strategy.capabilities();
  if ((options.offload.parameters || options.offload.gradients) && !supported.offload) {
    return InvalidArgument("strategy '", options.strategy,
                           "' does not support offloaded parameters or gradients; offload "
                           "only optimizer state, or use another strategy");
  }
  for (const UnitSpec& unit : units) {
    ZEROTH_RETURN_IF_ERROR(ValidateUnit(options, unit, supported));
  }
  return absl::OkStatus();
}

}  // namespace zeroth
