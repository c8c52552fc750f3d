// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The plug-in interface: a strategy says what is sharded and how it is gathered and reduced; the
// scheduler says when.

#ifndef ZEROTH_STRATEGIES_STRATEGY_H_
#define ZEROTH_STRATEGIES_STRATEGY_H_

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

#include "zeroth/core/comm/mesh.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/full_buffers.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// Why a unit is gathered or may be resharded.
enum class Pass : uint8_t {
  kForward,    // a forward that a backward follows
  kInference,  // a forward without a backward
  kBackward,
  kStepEnd,  // the optimizer has changed the shards: gathered copies are stale
};

// Whether the micro-batch whose gradients are reduced is the last of its step.
enum class GradientSync : uint8_t { kFinish, kAccumulate };

// What a strategy does of what a program may ask for. Whatever it does not claim is refused for it,
// by the registry or by Sharding, with InvalidArgument.
struct StrategyCapabilities {
  // Parameters, gradients and the optimizer's state are sharded. False: every rank keeps all of
  // them, whatever the world size, so that there is nothing to gather.
  bool shards = true;
  // Units other than the root share the scheduler's gather buffers, one after the other. False:
  // each has a buffer of its own until it is resharded.
  bool shares_buffers = false;
  // Units may have their shards of parameters or gradients in a store (Unit::offloads_parameters,
  // offloads_gradients), which Gather and SyncGradients then read and write.
  bool offload = false;
  // Units' own collectives (UnitSpec::collectives) carry their buffers.
  bool unit_collectives = false;
  // Units may be sharded and replicated over axes of their own (UnitSpec::axes): whatever the
  // strategy does of a unit it does with the groups of Unit::mesh.
  bool unit_axes = false;
  // StrategyOptions of the same names.
  bool post_forward_shard_size = false;
  bool gradient_divide_factor = false;
  bool shard_optimizer_over_world = false;
  bool tree_micro_batches = false;
  // SyncGradients computes in fp32 too, so that StrategyContext::reduce_kernels are needed.
  bool needs_reduce_kernels = false;
  // SyncGradients, with more micro-batches to come, leaves all gradients full, and the next
  // micro-batch adds to them: what is full is fp32 then, see MixedPrecision::grad_accum_dtype.
  bool adds_up_in_full = false;
};

// Options common to all strategies. The registry refuses what a strategy does not claim to serve.
struct StrategyOptions {
  // Ranks in a shard group. 0: the strategy's own choice (all ranks, or one for no_shard).
  int shard_size = 0;
  // How reduced gradients combine over ranks: kMean or kSum.
  ReduceOp gradient_op = ReduceOp::kMean;
  // False: full_shard and hybrid_shard keep units gathered from their forward to their backward,
  // which then gathers nothing, and need memory for all of them (FSDP2's reshard_after_forward).
  // The others keep them anyway.
  bool reshard_after_forward = true;
  // Above 0: between forward and backward a unit is sharded over groups of this many neighbouring
  // ranks, inside which its backward gathers it: k / shard size of it stays in memory, and traffic
  // between machines halves (FSDP2's reshard_after_forward = k, ZeRO++'s hpZ). Divides the shard
  // size; for strategies that free units after their forward.
  int post_forward_shard_size = 0;
  // Above 0: gradients are their sum over ranks divided by this, whatever gradient_op says (FSDP2's
  // set_gradient_divide_factor): for batches that are not the ranks' in equal parts. Means
  // are sent rather than sums, so that no 16-bit type overflows on the way. 0: gradient_op decides.
  double gradient_divide_factor = 0;
  // For hybrid_shard: masters, the optimizer's state and reduced gradients are sharded over all
  // ranks, while parameters and gradients are sharded inside the groups within a step
  // (Megatron-FSDP's hybrid FSDP). Once a step a unit's parameters are gathered, and its gradients
  // reduce-scattered, across groups; a rank keeps 1 / shard size of all parameters from its first
  // gather to the step's end. Changes no bit.
  bool shard_optimizer_over_world = false;
  // Above 0: every step has this many micro-batches on each rank, and the gradients of those of all
  // ranks together are summed along one binary tree, over micro-batches and ranks, so that the sum
  // has the same bits at every world size (see tree_sum.h). For worlds of 1, 2, 4, 8, … ranks, and
  // gradient_op kSum without a divide factor: what is divided by must not depend on ranks. Each
  // micro-batch is reduced in full, and log2 of the number of them fp32 shards of gradients wait.
  int64_t tree_micro_batches = 0;
  // The values of the strategy's own options (StrategyOption), each checked or the default: set by
  // the registry, from the text that names the strategy.
  std::map<std::string, std::string> own = {};
  // One of them that is a number.
  int64_t OwnNumber(const std::string& option) const;
};

// An option that is one strategy's own, as in "my_strategy:depth=2,mode=fast": a number from
// `least` to `most`, or, if there are any, one of `choices`.
struct StrategyOption {
  std::string name;
  std::string default_value;
  int64_t least = 0;
  int64_t most = 0;
  std::vector<std::string> choices = {};
};

// What a strategy works with. All of it outlives the strategy.
struct StrategyContext {
  Device* device = nullptr;
  Mesh* mesh = nullptr;  // for groups of the strategy's own; those of a unit are in Unit::mesh
  absl::Span<Unit* const> units;
  // Memory for full parameters and full gradients; the scheduler takes back what a failed step
  // leaves there, and gives what nobody uses back to the allocator between steps.
  FullBuffers* gathered = nullptr;
  FullBuffers* gradients = nullptr;
  // On the streams that Gather and SyncGradients are given, for what they have to round; nullptr
  // where everything is fp32.
  Kernels* gather_kernels = nullptr;
  Kernels* reduce_kernels = nullptr;
  // For SyncGradients, beside the stream that it is given: for what has been reduced inside a group
  // and goes across groups, so that the next unit's gradients need not wait for that. What
  // Unit::MarkReduced is told must come after both. nullptr where no unit has several groups.
  Stream* across_stream = nullptr;
  Kernels* across_kernels = nullptr;  // as the others
  Timeline* timeline = nullptr;       // as SchedulerOptions's
};

// One object per rank, used by that rank's thread only. Collectives are enqueued, never waited for:
// each call may only touch streams, and every rank makes the same calls in the same order.
class ShardingStrategy {
 public:
  virtual ~ShardingStrategy() = default;

  virtual absl::string_view name() const = 0;
  // The same whenever it is asked.
  virtual StrategyCapabilities capabilities() const { return {}; }
  // Ranks in a shard group of a world of this size. InvalidArgument if the options do not fit.
  virtual absl::StatusOr<int> ShardSize(int world_size) const = 0;
  // Called once, before the calls below.
  virtual absl::Status Attach(const StrategyContext& context) = 0;
  // Groups that it has made besides the mesh's, whose traffic counts as the sharding's.
  virtual std::vector<Communicator*> OwnGroups() const { return {}; }

  // Makes full parameters usable: enqueues on `comm` whatever that takes and moves a sharded unit
  // to kGathering.
  virtual absl::Status Gather(Unit& unit, Pass pass, Stream& comm) = 0;
  // Called when a pass over a gathered unit is over: frees the full parameters (kSharded) or keeps
  // them.
  virtual absl::Status Reshard(Unit& unit, Pass pass) = 0;
  // Gives a unit whose gradients are kNone its full gradient buffer (kFull), of
  // Unit::full_gradient_dtype.
  virtual absl::Status PrepareGradients(Unit& unit) = 0;
  // Full gradients → what the optimizer reads, enqueued on `comm`. Every contribution is written,
  // or zero, and ordered before `comm` by the caller. Adds to what earlier micro-batches of the
  // step have left (Unit::has_accumulated). kFinish moves kFull to kReduced. kAccumulate, with more
  // micro-batches to come, leaves undone what the last one can do for all, such as sums across
  // shard groups: it moves kFull to kNone with something accumulated, or leaves it kFull, to which
  // the next micro-batch then adds (AddsUpInFull).
  virtual absl::Status SyncGradients(Unit& unit, Stream& comm, GradientSync sync) = 0;
  // Between steps: gives memory of its own that nobody uses back to the allocator, all of it even
  // if it returns an error. After an error, which comes with every stream idle, what it keeps for a
  // unit (Unit::strategy_state) is gone already.
  virtual absl::Status Trim() { return absl::OkStatus(); }
};

// Ranks in a shard group: how the mesh is made. InvalidArgument as ShardingStrategy::ShardSize, and
// if `options` ask for another size than the strategy makes.
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
  // `text` is a name, and the strategy's own options if it is given any:
  // "name:option=value,option=value". InvalidArgument lists the strategies that are linked in, or
  // the options that this one has and what they may be, or says which of `options` it does not
  // serve.
  static absl::StatusOr<std::unique_ptr<ShardingStrategy>> Create(absl::string_view text,
                                                                  StrategyOptions options);
  // Sorted.
  static std::vector<std::string> Names();
};

// Put one at namespace scope in the strategy's .cc, in a target with alwayslink.
struct StrategyRegistration {
  StrategyRegistration(absl::string_view name, StrategyRegistry::Factory factory)
      : StrategyRegistration(name, {}, std::move(factory)) {}
  StrategyRegistration(absl::string_view name, std::vector<StrategyOption> own,
                       StrategyRegistry::Factory factory) {
    StrategyRegistry::Register(name, std::move(own), std::move(factory));
  }
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_STRATEGY_H_
