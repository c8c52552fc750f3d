// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A sharded training state, made from parameters.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/mesh.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/strategies/mixed_precision.h"
#include "zeroth/strategies/offload.h"
#include "zeroth/strategies/scheduler.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

struct ShardingOptions {
  // A registered name: "no_shard", "shard_optimizer", "shard_grad_op", "full_shard",
  // "hybrid_shard", or a custom strategy.
  std::string strategy = "full_shard";
  StrategyOptions strategy_options = {};
  // Axes nested inside "replicate" and "shard", unused by the strategy: {"tensor", 4} = 4
  // neighbouring ranks on the same data. Parameters divided by Parameter::Divide are split over
  // them. Undivided parameters are replicated, and the ranks must keep the copies equal.
  std::vector<MeshAxis> inner_axes = {};
  SchedulerOptions scheduler = {};
  MixedPrecision mixed_precision = {};
  // Parameters with fewer elements are replicated, and their gradients all-reduced. 0: every
  // parameter is sharded.
  int64_t min_shard_numel = 0;
  // LayoutOptions::block_numel, for optimizers that keep state for blocks of a parameter (AdamW
  // with 8-bit moments: kMomentBlock). At least 1. Shards then end at blocks, but the parts of
  // Parameter::Divide may not: such an optimizer checks them with ExpectWholeBlocks.
  int64_t block_numel = 1;
  // Where parameters are divided; UnitSpec::layout takes precedence. kRows needs block_numel = 1.
  LayoutKind layout = LayoutKind::kFlat;
  // Collectives of units; UnitSpec::collectives take precedence. nullptr: the communicator's.
  std::shared_ptr<UnitCollectives> collectives = {};
  // The state that lies outside of the device's memory. Results are bitwise unchanged.
  OffloadOptions offload = {};
};

// For an optimizer with state for each block of a parameter, when it is created: InvalidArgument
// names a parameter whose parts (Parameter::Divide) begin or end within a block of `block_numel`
// elements of the undivided parameter, except at its end. Their blocks would depend on the number
// of parts. All parts are checked, so every rank gets the same status.
absl::Status ExpectWholeBlocks(const Parameter& parameter, int64_t block_numel);

// A rank's memory, and the bytes that its collectives send (CollectiveBytes).
struct ShardingStats {
  // The sum over Sharding::communicators().
  std::array<CommStats::Counter, kCollectiveOpCount> collectives{};
  MemoryStats memory;
  OffloadStats offload;
  int64_t local_numel = 0;  // elements of parameters that this rank stores between steps
  int64_t total_numel = 0;
  int64_t padding_numel = 0;  // added to total_numel by layouts, over all ranks
  // local / total: 1 when replicated, about 1 / number of owners (MeshView) when sharded.
  double local_ratio = 1;
};

// Fills `out` with elements [begin, begin + out.size()) of the undivided parameter
// (Parameter::global_shape). Bytes are whole numbers from 0 to 255.
using ParameterReader =
    std::function<absl::Status(const Parameter& parameter, int64_t begin, absl::Span<float> out)>;

// The sharded training state of one rank: its units, mesh, strategy and scheduler. It owns the
// storage of the parameters, which stay the caller's. Collective: every rank of `world` creates it
// with the same units and options, and makes the same calls in the same order. Used by one rank's
// thread only.
//
// A parameter that is frozen when the sharding is made (requires_grad() is false) never has a
// gradient. One that is trainable then may be frozen and unfrozen later: while it is frozen, zeros
// are reduced as its gradient, and the optimizer skips it.
class Sharding {
 public:
  // `world`, `device` and all parameters outlive the result. InvalidArgument: an unknown strategy,
  // or options that it does not support or that do not fit; no units, two units of one name, or two
  // roots; a parameter that is in two units or twice in one, is neither fp32 nor frozen bytes, or
  // has the name of another one. FailedPrecondition for a parameter of another sharding, which must
  // be destroyed first. Errors of the offload store.
  static absl::StatusOr<std::unique_ptr<Sharding>> Create(Communicator& world, Device& device,
                                                          const ShardingOptions& options,
                                                          std::vector<UnitSpec> units);

  // Fills every shard from the parameters' initializers, with the same values at any world size and
  // under any strategy.
  absl::Status Initialize(uint64_t seed);
  // Fills every shard by `reader`. Each element is read by one of the data-parallel ranks that hold
  // it, which sends it to the others (ReplicaSlices). FailedPrecondition within a step. Returns the
  // same status on every rank; an error of the reader may leave values partly changed.
  absl::Status Load(const ParameterReader& reader);
  // Shows this rank's values to `visitor`, range by range. Ranks that hold the same range all see
  // it.
  using PieceVisitor = std::function<absl::Status(const Parameter& parameter, int64_t begin,
                                                  absl::Span<const float> values)>;
  absl::Status VisitShards(const PieceVisitor& visitor) const;
  // Gathers the masters of one unit at a time, and shows each full parameter to `visitor` on every
  // rank.
  absl::Status VisitFull(const PieceVisitor& visitor);

  Scheduler& scheduler() { return *scheduler_; }
  const ShardingStrategy& strategy() const { return *strategy_; }
  Mesh& mesh() { return *mesh_; }
  // The group for statistics of shards, such as norms: its ranks together hold every element. Every
  // such group gets the same result.
  Communicator& statistics_group() { return *statistics_group_; }
  // True if this rank adds its shard of a segment to such statistics: exactly one of the group's
  // ranks that hold the same elements does.
  bool AddsToStatistics(const Unit& unit, int segment) const;
  // The groups of all units' collectives: the mesh's, then the strategy's own.
  std::vector<Communicator*> communicators() const;
  // The offload store, also for an optimizer's state.
  Offload& offload() { return *offload_; }
  // Zeros [numel] for an optimizer's state, offloaded or in memory. Errors of the store name
  // `what`.
  absl::StatusOr<StateTensor> ZeroState(int64_t numel, DType dtype, absl::string_view what);
  Device& device() { return *device_; }
  absl::Span<Unit* const> units() const { return unit_pointers_; }
  // Returns the unit of this name; nullptr if there is none.
  Unit* FindUnit(absl::string_view name) const;
  // FailedPrecondition names the first unit that is within a step, see Unit::ExpectBetweenSteps.
  absl::Status ExpectBetweenSteps(absl::string_view attempt) const;
  // Every parameter once, by unit and then as given: the same order on every rank.
  std::vector<Parameter*> parameters() const;

  // ShardingStrategy::ProgramsText of all units; identical ones are listed once.
  std::string ProgramsText() const;

  // Bytes of memory of this rank's shards of parameters (0 if they are offloaded), and of all
  // parameters in full.
  int64_t ShardMemoryBytes() const;
  int64_t ReplicatedMemoryBytes() const;
  double LocalShardingRatio() const { return stats().local_ratio; }
  ShardingStats stats() const;

 private:
  Sharding() = default;
  // Returns the errors of Create that do not depend on the rank.
  static absl::Status Validate(const ShardingOptions& options, const std::vector<UnitSpec>& units,
                               const ShardingStrategy& strategy, int data_parallel_size);
  // The number of data-parallel ranks.
  static absl::StatusOr<int> DataParallelSize(const ShardingOptions& options, int world_size);
  absl::Status CreateView(const UnitAxes& axes, const StrategyOptions& options);
  // Returns, for each unit, the axes over which Parameter::part divides its parameters: none or
  // one.
  absl::StatusOr<std::vector<Mesh::Axes>> PartAxes(const std::vector<UnitSpec>& units) const;
  absl::Status CreateStatisticsGroup(const std::vector<Mesh::Axes>& part_axes);
  // Sets the pieces of each parameter that `parts` returns, by `reader`.
  using PartsOf =
      absl::FunctionRef<std::vector<ShardLayout::Piece>(const Unit& unit, int parameter)>;
  absl::Status Fill(const ParameterReader& reader, PartsOf parts);
  // Returns the undivided parameter; `mine` is this rank's part of it. Collective over the axis.
  absl::StatusOr<std::vector<float>> GatherUndivided(const Parameter& parameter,
                                                     const Tensor& mine);

  Device* device_ = nullptr;
  std::unique_ptr<Mesh> mesh_;
  std::map<UnitAxes, std::unique_ptr<MeshView>> views_;
  Mesh::Axes statistics_axes_;
  Communicator* statistics_group_ = nullptr;
  std::unique_ptr<Offload> offload_;
  std::unique_ptr<ShardingStrategy> strategy_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<Unit*> unit_pointers_;
  // Last, so that its streams stop before anything that they use is destroyed.
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace zeroth
