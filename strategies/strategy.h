// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The plug-in interface: a strategy defines what is sharded, and how it is gathered and reduced.
// The scheduler decides when.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/mesh.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/full_buffers.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

class ProgramRunner;
struct ProgramOptions;

// The pass for which a unit is gathered, or after which it may be resharded.
enum class Pass : uint8_t {
  kForward,    // a forward that a backward follows
  kInference,  // a forward without a backward
  kBackward,
  kStepEnd,  // the optimizer has changed the shards, so gathered parameters are stale
};

// The features that a strategy supports. The registry or Sharding refuses all others with
// InvalidArgument.
struct StrategyCapabilities {
  // Parameters, gradients and the optimizer's state are sharded. False: every rank keeps all of
  // them at any world size, so that there is nothing to gather.
  bool shards = true;
  // Units other than the root share the scheduler's gather buffers. False: each unit keeps its own
  // buffer until it is resharded.
  bool shares_buffers = false;
  // Gather and SyncGradients support shards in an offload store (Unit::offloads_parameters).
  bool offload = false;
  // Gather and SyncGradients call UnitSpec::collectives.
  bool unit_collectives = false;
  // Supports UnitSpec::axes: the strategy uses only the groups of Unit::mesh.
  bool unit_axes = false;
  // Supports the StrategyOptions of the same names.
  bool post_forward_shard_size = false;
  bool gradient_divide_factor = false;
  bool shard_optimizer_over_world = false;
  bool tree_micro_batches = false;
  // SyncGradients needs StrategyContext::reduce_kernels even if gradients are fp32.
  bool needs_reduce_kernels = false;
  // Before the last micro-batch SyncGradients leaves all gradients full, for the next one to add
  // to, in MixedPrecision::grad_accum_dtype.
  bool adds_up_in_full = false;
};

// Options of all strategies. The registry refuses those that a strategy does not support.
struct StrategyOptions {
  // Ranks in a shard group. 0: the strategy's own choice (all ranks, or one for no_shard).
  int shard_size = 0;
  // How gradients are reduced over ranks: kMean or kSum.
  ReduceOp gradient_op = ReduceOp::kMean;
  // False: full_shard and hybrid_shard keep units gathered from forward to backward, with memory
  // for all of them (FSDP2's reshard_after_forward). Other strategies always keep them.
  bool reshard_after_forward = true;
  // k > 0: after its forward a unit is resharded to groups of k neighbouring ranks, inside which
  // its backward gathers it (FSDP2's reshard_after_forward = k, ZeRO++'s hpZ): less traffic between
  // machines for 1 / k of the unit's memory. k must divide the shard size. Only for strategies that
  // free units after their forward.
  int post_forward_shard_size = 0;
  // If above 0, reduced gradients are the sum over ranks divided by this factor, whatever
  // gradient_op is (FSDP2's set_gradient_divide_factor). For ranks with batches of unequal size.
  double gradient_divide_factor = 0;
  // For hybrid_shard: masters, the optimizer's state and reduced gradients are sharded over all
  // ranks, and within a step parameters and gradients inside groups (Megatron-FSDP's hybrid FSDP).
  // Once a step, parameters are gathered and gradients reduce-scattered across groups; a rank keeps
  // 1 / shard size of a unit in between. Results are bitwise unchanged.
  bool shard_optimizer_over_world = false;
  // Above 0: every step has this many micro-batches on each rank, and the gradients of all ranks'
  // micro-batches are summed in one binary tree, with the same bits at every world size (see
  // CompileReduce). Needs a power of two of data-parallel ranks, gradient_op kSum without a divide
  // factor, and units whose replicated axes come first in the mesh (UnitAxes). Each of the n
  // micro-batches is reduced over all ranks, and up to log2(n + 1) fp32 gradient shards are kept.
  int64_t tree_micro_batches = 0;
  // The values of the strategy's own options (StrategyOption), checked, with defaults for those not
  // given. The registry sets them from the text that names the strategy.
  std::map<std::string, std::string> own = {};
  // Returns the value of a numeric option.
  int64_t IntOption(const std::string& option) const;
};

// A strategy-specific option, as in "my_strategy:depth=2,mode=fast". Its value is one of `choices`
// or, if there are none, a number from `least` to `most`.
struct StrategyOption {
  std::string name;
  std::string default_value;
  int64_t least = 0;
  int64_t most = 0;
  std::vector<std::string> choices = {};
};

// The objects that a strategy uses. All outlive it.
struct StrategyContext {
  Device* device = nullptr;
  Mesh* mesh = nullptr;  // for groups that the strategy makes; a unit's are in Unit::mesh
  absl::Span<Unit* const> units;
  // Buffers for full parameters and full gradients. After a failed step the scheduler reclaims all
  // of them, and between steps it returns unused ones to the allocator.
  FullBuffers* gathered = nullptr;
  FullBuffers* gradients = nullptr;
  // Kernels that round parameters and gradients on the streams of Gather and SyncGradients; nullptr
  // if everything is fp32.
  Kernels* gather_kernels = nullptr;
  Kernels* reduce_kernels = nullptr;
  // A second stream for SyncGradients, with its kernels, so that reductions across groups overlap
  // the next unit's inside its group. Unit::MarkReduced's event must follow the work on both
  // streams. nullptr if no unit is reduced across groups.
  Stream* across_stream = nullptr;
  Kernels* across_kernels = nullptr;
  Timeline* timeline = nullptr;  // SchedulerOptions::timeline
};

// A strategy on flat units. Its gathers and reductions are unit programs (unit_program.h), each
// compiled once; the built-in strategies only say what is sharded and which units stay gathered.
// Each function can be overridden: SyncGradients for another reduction, say. An override of Gather
// or SyncGradients also overrides capabilities(), to claim only what it does, and ProgramsText.
//
// One object per rank, used by that rank's thread only. Calls enqueue collectives on streams and
// never wait for them. Every rank makes the same calls in the same order.
class ShardingStrategy {
 public:
  explicit ShardingStrategy(const StrategyOptions& options);
  virtual ~ShardingStrategy();

  // The default is the name that it was registered under, empty while its constructor runs.
  virtual absl::string_view name() const { return name_; }
  // Always returns the same value. The default claims offload, unit_collectives, unit_axes,
  // gradient_divide_factor and tree_micro_batches.
  virtual StrategyCapabilities capabilities() const;
  // Ranks in a shard group, for `world_size` data-parallel ranks. By default
  // StrategyOptions::shard_size, which must divide `world_size`, or all ranks. InvalidArgument if
  // the options do not fit.
  virtual absl::StatusOr<int> ShardSize(int world_size) const;
  // Called once, before the calls below. An override calls this one, with all units.
  virtual absl::Status Attach(const StrategyContext& context);
  // Groups that the strategy made besides the mesh's; ShardingStats counts their traffic.
  virtual std::vector<Communicator*> ExtraGroups() const;

  // Enqueues on `comm` the gather of a sharded unit's parameters: kSharded → kGathering.
  virtual absl::Status Gather(Unit& unit, Pass pass, Stream& comm);
  // Called when a pass over a gathered unit is over. Frees the full parameters (kGathered →
  // kSharded), or keeps them (KeepsGathered); at kStepEnd it must free them.
  virtual absl::Status Reshard(Unit& unit, Pass pass);
  // Gives a unit its full gradient buffers of Unit::full_gradient_dtype: kNone → kFull.
  virtual absl::Status PrepareGradients(Unit& unit);
  // Enqueues on `comm` the reduction of full gradients to the shard that the optimizer reads, and
  // adds it to the sum of the step's earlier micro-batches (Unit::has_accumulated). The full
  // gradients are complete, with zeros where there were none, and `comm` is ordered after their
  // writes. Last micro-batch of the step: kFull → kReduced. Others: kFull → kNone
  // (Unit::MarkAccumulated), where work such as sums across groups may be left to the last one; or
  // the gradients stay kFull for the next one to add to (StrategyCapabilities::adds_up_in_full).
  virtual absl::Status SyncGradients(Unit& unit, Stream& comm, bool is_last_micro_batch);
  // Called between steps: frees the strategy's own unused memory, all of it even on error. After a
  // failed step all streams are idle, and Unit::strategy_state is destroyed already.
  virtual absl::Status Trim();
  // After Attach: the operations of Gather and SyncGradients for the unit, one per line.
  virtual std::string ProgramsText(const Unit& unit) const;

 protected:
  // True if the unit stays gathered after this pass over it. By default it does until the step
  // ends.
  virtual bool KeepsGathered(const Unit& unit, Pass pass) const;

  const StrategyOptions& options() const { return options_; }
  const StrategyContext& context() const { return context_; }
  // Returns InvalidArgument that says what is `wrong` with the shard size, and lists those that
  // fit.
  absl::Status WrongShardSize(absl::string_view wrong, int world_size) const;
  // Implements KeepsGathered for strategies that free units after their forward: true after a
  // forward for the root, and for all units without reshard_after_forward.
  bool KeepsGatheredAfterForward(const Unit& unit, Pass pass) const;

 private:
  friend class StrategyRegistry;  // sets the name
  struct Programs;

  absl::StatusOr<ProgramOptions> ProgramOptionsOf(const Unit& unit);
  Programs& ProgramsOf(const Unit& unit);
  absl::Status ExpectPlaceInTree(const Unit& unit, bool is_last) const;
  // Returns the group inside which the unit's backward gathers the slices that its forward has
  // kept; nullptr if its forward keeps none. Collective where a group is made.
  absl::StatusOr<Communicator*> PostForwardGroup(const Unit& unit);
  // Returns the number of data-parallel ranks; the same for all units.
  int DataParallelSize() const;
  // Returns the factor that multiplies reduced gradients.
  double GradientScale() const;

  std::string name_;
  StrategyOptions options_;
  StrategyContext context_;
  std::unique_ptr<ProgramRunner> runner_;
  std::vector<Programs> programs_;  // by Unit::index()
  // The groups of StrategyOptions::post_forward_shard_size, by shard group, in the order of units.
  std::vector<std::pair<Communicator*, std::unique_ptr<Communicator>>> post_forward_groups_;
};

// The base of strategies that free units after their forward, unless the options say otherwise.
class FreesAfterForward : public ShardingStrategy {
 public:
  using ShardingStrategy::ShardingStrategy;

  StrategyCapabilities capabilities() const override;

 protected:
  bool KeepsGathered(const Unit& unit, Pass pass) const override {
    return KeepsGatheredAfterForward(unit, pass);
  }
};

// Returns the ranks in a shard group, which determine the mesh. InvalidArgument as
// ShardingStrategy::ShardSize, and if `options` ask for a size other than the strategy's.
absl::StatusOr<int> ShardSizeOf(const ShardingStrategy& strategy, const StrategyOptions& options,
                                int world_size);

// Strategies by name. Thread-safe.
class StrategyRegistry {
 public:
  using Factory =
      std::function<absl::StatusOr<std::unique_ptr<ShardingStrategy>>(const StrategyOptions&)>;

  // Called by a strategy's static registration object. A second registration of a name is a bug and
  // aborts.
  static void Register(absl::string_view name, std::vector<StrategyOption> own, Factory factory);
  // `text` is a strategy's name, optionally with its own options:
  // "name:option=value,option=value". InvalidArgument lists the strategies that are linked in or
  // the strategy's own options, or says which of `options` the strategy does not support.
  static absl::StatusOr<std::unique_ptr<ShardingStrategy>> Create(absl::string_view text,
                                                                  StrategyOptions options);
  // Sorted.
  static std::vector<std::string> Names();
};

// Put one at namespace scope in the strategy's .cc, in a target with alwayslink.
struct StrategyRegistration {
  // A class that is made from StrategyOptions.
  template <typename Strategy>
  static StrategyRegistration Of(absl::string_view name) {
    return StrategyRegistration(
        name, [](const StrategyOptions& options) { return std::make_unique<Strategy>(options); });
  }
  StrategyRegistration(absl::string_view name, StrategyRegistry::Factory factory)
      : StrategyRegistration(name, {}, std::move(factory)) {}
  StrategyRegistration(absl::string_view name, std::vector<StrategyOption> own,
                       StrategyRegistry::Factory factory) {
    StrategyRegistry::Register(name, std::move(own), std::move(factory));
  }
};

}  // namespace zeroth
