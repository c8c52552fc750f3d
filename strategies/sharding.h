// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The front door: parameters in, a sharded training state out.

#ifndef ZEROTH_STRATEGIES_SHARDING_H_
#define ZEROTH_STRATEGIES_SHARDING_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/mesh.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/strategies/mixed_precision.h"
#include "zeroth/strategies/offload.h"
#include "zeroth/strategies/scheduler.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

struct ShardingOptions {
  // A registered name: "no_shard", "shard_grad_op", "full_shard", "hybrid_shard", or one of your
  // own.
  std::string strategy = "full_shard";
  StrategyOptions strategy_options = {};
  // Axes of the mesh inside "replicate" and "shard", over which the strategy does nothing:
  // {"tensor", 4} for 4 neighbouring ranks that share the work on the same data. What is divided
  // among these says each parameter (Parameter::Divide); of what is not, each has a copy of its
  // own, which is theirs to keep the same.
  std::vector<MeshAxis> inner_axes = {};
  SchedulerOptions scheduler = {};
  MixedPrecision mixed_precision = {};
  // Parameters with fewer elements are replicated, and their gradients all-reduced. 0: every
  // parameter is sharded.
  int64_t min_shard_numel = 0;
  // Parameters start, and shards end, at multiples of this many elements: what an optimizer
  // that keeps something per block of a parameter asks for (AdamW with 8-bit moments:
  // kMomentBlock). The padding that this takes is the layout's, see ShardLayout. At least 1.
  int64_t block_numel = 1;
  // Where parameters are divided; a unit's own choice comes first. kRows goes with block_numel = 1.
  LayoutKind layout = LayoutKind::kFlat;
  // nullptr: the communicator's. A unit's own (UnitSpec::collectives) come first.
  std::shared_ptr<UnitCollectives> collectives = {};
  // What of a rank's state lies beyond its device's memory. Changes no bit of a result.
  OffloadOptions offload = {};
};

// What a rank has and has sent.
struct ShardingStats {
  std::array<CommStats::Counter, kCollectiveOpCount>
      collectives{};  // all of Sharding::communicators() together
  MemoryStats memory;
  OffloadStats offload;
  int64_t local_numel = 0;  // elements of parameters that this rank stores between steps
  int64_t total_numel = 0;
  int64_t padding_numel = 0;  // of all ranks together: what layouts add to total_numel
  // local / total: 1 when replicated, about 1 / number of owners (MeshView) when sharded.
  double local_ratio = 1;
};

// Where the values of a range of one parameter come from: fills `out` with elements [begin, begin +
// out.size()) of the undivided parameter (Parameter::global_shape).
using ParameterReader =
    std::function<absl::Status(const Parameter& parameter, int64_t begin, absl::Span<float> out)>;

// The sharded training state of one rank: its units, mesh, strategy and scheduler. Parameters stay
// the caller's; this owns their storage. Collective: every rank of `world` creates it with the same
// units and options, in the same order, and keeps the order of all calls below. Used by one rank's
// thread only.
//
// A parameter that is frozen (requires_grad() is false) when the sharding is made takes no gradient
// memory and causes no gradient traffic for good; one that is trainable then may be frozen and
// unfrozen at will: while it is frozen its gradient is reduced as zeros, and the optimizer skips
// it.
class Sharding {
 public:
  // `world` and `device` and all parameters outlive the result. Errors: an unknown strategy or
  // options that do not fit it; types
  // that mixed precision does not know; parameters or gradients offloaded under a strategy that
  // does not serve that, or a store that has no room; no units; two units of one name, or two
  // roots; a parameter in two units, or twice in one (naming it and the units); two parameters of
  // one name; a dtype that has no master copy here (fp32 only).
  static absl::StatusOr<std::unique_ptr<Sharding>> Create(Communicator& world, Device& device,
                                                          const ShardingOptions& options,
                                                          std::vector<UnitSpec> units);

  // Fills every shard from the parameters' initializers: the same values whatever the world size or
  // strategy.
  absl::Status Initialize(uint64_t seed);
  // Fills every shard from elsewhere; each rank asks for its own ranges only. FailedPrecondition
  // within a step.
  absl::Status Load(const ParameterReader& reader);
  // This rank's values, range by range: the inverse of Load. With several ranks holding the same
  // range all see it.
  using PieceVisitor = std::function<absl::Status(const Parameter& parameter, int64_t begin,
                                                  absl::Span<const float> values)>;
  absl::Status VisitShards(const PieceVisitor& visitor) const;
  // Gathers the masters of unit after unit and shows each full parameter to `visitor` on every
  // rank; at most one unit is gathered on top of those that are already.
  absl::Status VisitFull(const PieceVisitor& visitor);

  Scheduler& scheduler() { return *scheduler_; }
  const ShardingStrategy& strategy() const { return *strategy_; }
  Mesh& mesh() { return *mesh_; }
  // For statistics of shards, such as norms: the ranks that together hold every element, and
  // whether this rank is the one of them that counts what it has of a segment, since those that
  // have the same must not. Every such group comes to the same result.
  Communicator& statistics_group() { return *statistics_group_; }
  bool CountsHere(const Unit& unit, int segment) const;
  // All that the traffic of units goes through: the mesh's groups, then the strategy's own.
  std::vector<Communicator*> communicators() const;
  // Where what is offloaded lies, also for an optimizer's state.
  Offload& offload() { return *offload_; }
  Device& device() { return *device_; }
  absl::Span<Unit* const> units() const { return unit_pointers_; }
  // By name; nullptr if there is none.
  Unit* FindUnit(absl::string_view name) const;
  // Every parameter once, in one order on every rank and in every process: by unit, then as given.
  std::vector<Parameter*> parameters() const;

  // Bytes of memory for this rank's shards of parameters, none if they are offloaded, and those of
  // all parameters.
  int64_t ShardMemoryBytes() const;
  int64_t ReplicatedMemoryBytes() const;
  double LocalShardingRatio() const { return stats().local_ratio; }
  ShardingStats stats() const;

 private:
  Sharding() = default;
  // The errors of Create that need no rank to be seen; units have their collectives already.
  static absl::Status Validate(const ShardingOptions& options, const std::vector<UnitSpec>& units,
                               const ShardingStrategy& strategy, int data_size);
  // Ranks with data of their own.
  static absl::StatusOr<int> DataSize(const ShardingOptions& options, int world_size);
  absl::Status CreateView(const UnitAxes& axes, bool owners_over_groups);
  // The axes over which the parts among each unit's parameters are divided: none or one.
  absl::StatusOr<std::vector<Mesh::Axes>> PartAxes(const std::vector<UnitSpec>& units,
                                                   const ShardingOptions& options) const;
  absl::Status CreateStatisticsGroup(const std::vector<Mesh::Axes>& part_axes);
  // All of a parameter of which `mine` is this rank's part. Collective over the axis.
  absl::StatusOr<std::vector<float>> Undivided(const Parameter& parameter, const Tensor& mine);

  Device* device_ = nullptr;
  std::unique_ptr<Mesh> mesh_;
  std::map<UnitAxes, std::unique_ptr<MeshView>> views_;
  Mesh::Axes statistics_axes_;
  Communicator* statistics_group_ = nullptr;
  std::unique_ptr<Offload> offload_;
  std::unique_ptr<ShardingStrategy> strategy_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<Unit*> unit_pointers_;
  std::unique_ptr<Scheduler>
      scheduler_;  // last: its streams stop before anything that they touch goes away
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_SHARDING_H_
