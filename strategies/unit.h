// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What is gathered and freed together.

#ifndef ZEROTH_STRATEGIES_UNIT_H_
#define ZEROTH_STRATEGIES_UNIT_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/comm/mesh.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/strategies/mixed_precision.h"
#include "zeroth/strategies/offload.h"
#include "zeroth/strategies/shard_layout.h"
#include "zeroth/strategies/unit_collectives.h"

namespace zeroth {

// Where a unit's full parameters are.
enum class UnitState : uint8_t {
  kSharded,    // nowhere: this rank has its shard
  kGathering,  // on their way; the unit's gather event tells when
  kGathered,   // usable through Parameter::data()
};
absl::string_view UnitStateName(UnitState state);

// Where a unit's gradients are, within a step.
enum class GradientState : uint8_t {
  kNone,     // no contribution yet
  kFull,     // contributions are being written through Parameter::grad()
  kReduced,  // given to the ranks that own them; what the optimizer reads, once the reduce event is
             // done
};
absl::string_view GradientStateName(GradientState state);

// How the gradients of a micro-batch come together with those of others of its step.
enum class MicroBatches : uint8_t {
  kOne,          // there are no others
  kReducedEach,  // each one's are reduced, and shards add up
  kAddedInFull,  // they add up in the full gradients, which are reduced once
};
inline constexpr size_t kMicroBatchesCount = 3;

// Over which of a mesh's axes a unit is replicated, and over which it is sharded, each by name and
// in the mesh's order: {{}, {"replicate", "shard"}} shards it over all ranks with data of their own
// whatever the strategy does with others, {{"replicate", "shard"}, {}} replicates it on all of
// them. Both axes are in one of the lists. Sums over ranks have the bits that other axes give where
// the replicated ones come first in the mesh, and shard groups are powers of two of ranks.
struct UnitAxes {
  std::vector<std::string> replicated = {kReplicateAxis};
  std::vector<std::string> sharded = {kShardAxis};

  friend auto operator<=>(const UnitAxes&, const UnitAxes&) = default;
};

struct UnitSpec {
  std::string name;
  std::vector<Parameter*> parameters;  // each in exactly one unit; must outlive it
  // The root holds what no other unit does. It is used at both ends of a pass, so it stays gathered
  // in between.
  bool is_root = false;
  // The unit's collectives; nullptr: those of ShardingOptions, or the communicator's. May be shared
  // by several units.
  std::shared_ptr<UnitCollectives> collectives = nullptr;
  // In place of what ShardingOptions say, for this unit alone.
  std::optional<LayoutKind> layout = std::nullopt;
  std::optional<MixedPrecision> precision = std::nullopt;  // norms in fp32, say
  // By default as the strategy has it, which decides how many ranks are on each axis.
  UnitAxes axes = {};
};

// Flat storage of the parameters that are gathered and freed together. Owns this rank's shards;
// full buffers come from the strategy while they are needed. Parameters are views into the full
// buffers, so that a gather needs no copy-in and no copy-out, and gradients are views into one flat
// gradient buffer that the reduction reads directly. Used by one rank's thread only.
class Unit {
 public:
  // One flat piece of storage, see ShardLayout::Segment. With one shard (or replicated) the reduced
  // gradient is the full gradient, and the shard is the full buffer unless that is of another type:
  // no second copy exists.
  struct Segment {
    Tensor shard;       // [shard_numel] of master_dtype; undefined if it is offloaded
    Tensor full;        // [numel] of param_dtype while gathering or gathered
    Tensor grad;        // [numel] while gradients are full, of full_gradient_dtype; trainable
                        // segments only
    Tensor grad_shard;  // [shard_numel] from a step's first gradients to its end; trainable
                        // segments only
    // fp32 sums that wait for the step's later micro-batches: those of the tree (tree_sum.h), or,
    // where owners are finer than shard groups, this rank's part of its group's sum.
    std::vector<Tensor> waiting_sums;
    // In place of `shard` and `grad_shard` where these are offloaded. The gradient's has room for
    // fp32 whatever it holds.
    OffloadedTensor offloaded_shard;
    OffloadedTensor offloaded_grad_shard;
  };

  // Allocates the shards, zeroed. `shard_rank` is this rank's place among the layout's shards.
  // `offload`, which outlives the unit, says which of its state lies in a store; nullptr: none.
  // InvalidArgument if gradients are to be kept in another type than they are reduced in, and
  // are not sharded.
  static absl::StatusOr<std::unique_ptr<Unit>> Create(UnitSpec spec, int index,
                                                      const LayoutOptions& options, int shard_rank,
                                                      Device& device,
                                                      const MixedPrecision& precision = {},
                                                      Offload* offload = nullptr);
  ~Unit();
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  const std::string& name() const { return spec_.name; }
  int index() const { return index_; }  // position in the sharding's list of units
  bool is_root() const { return spec_.is_root; }
  Device& device() const { return *device_; }
  const MixedPrecision& precision() const { return precision_; }
  // UnitSpec::collectives, or the communicator's.
  UnitCollectives& collectives() const;
  bool has_own_collectives() const { return spec_.collectives != nullptr; }
  const std::vector<Parameter*>& parameters() const { return spec_.parameters; }
  const ShardLayout& layout() const { return layout_; }
  int shard_rank() const { return shard_rank_; }
  int segment_count() const { return static_cast<int>(segments_.size()); }
  const ShardLayout::Segment& segment_layout(int i) const {
    return layout_.segments()[static_cast<size_t>(i)];
  }
  Segment& segment(int i) { return segments_[static_cast<size_t>(i)]; }
  const Segment& segment(int i) const { return segments_[static_cast<size_t>(i)]; }
  // What the ranks are to this unit; set by who makes it, before its first use, and outlives it.
  // `part_axes`: over which those of its parameters that are parts are divided.
  void set_mesh(const MeshView* mesh, Mesh::Axes part_axes = {}) {
    mesh_ = mesh;
    part_axes_ = std::move(part_axes);
  }
  const MeshView& mesh() const {
    ZEROTH_CHECK(mesh_ != nullptr);
    return *mesh_;
  }
  // UnitSpec::axes are the default's.
  bool has_default_axes() const { return spec_.axes == UnitAxes(); }
  // The axes of the mesh over which ranks hold different elements of a segment.
  Mesh::Axes OwnerAxes(int i) const {
    Mesh::Axes axes = segment_layout(i).replicated ? Mesh::Axes() : mesh().owner_axes();
    if (segment_layout(i).of_parts) axes.insert(axes.end(), part_axes_.begin(), part_axes_.end());
    return axes;
  }
  // True where every rank holds all of the segment, or of the shard group where that owns it:
  // nothing is gathered, and the full gradient is what the optimizer reads.
  bool is_replicated(int i) const {
    return segment_layout(i).numel == segment_layout(i).shard_numel;
  }
  // True where the shard and the full buffer are moreover the same memory.
  bool is_full(int i) const {
    return is_replicated(i) && precision_.computes_in_masters() && !offloads_parameters();
  }
  // True where the full gradient and what the optimizer reads are the same memory.
  bool is_full_gradient(int i) const {
    return is_replicated(i) && !offloads_gradients() && !sums_in_tree();
  }
  bool offloads_parameters() const { return offload_ != nullptr && offload_->options().parameters; }
  // Elements of an offloaded shard that pass through memory at a time.
  int64_t offload_chunk_numel() const { return offload_->options().chunk_numel; }
  bool offloads_gradients() const { return offload_ != nullptr && offload_->options().gradients; }
  bool has_trainable() const;
  // As StrategyOptions::tree_micro_batches; set by who makes the unit, before its first step.
  void set_tree_micro_batches(int64_t count) { tree_micro_batches_ = count; }
  int64_t tree_micro_batches() const { return tree_micro_batches_; }
  // True if the gradients of each micro-batch are apart from those of the ones before.
  bool sums_in_tree() const { return tree_micro_batches_ > 1; }
  // True where shard groups are of one rank but owners span them: before the last micro-batch there
  // is nothing to sum, and gradients add up in full.
  bool sums_only_across() const {
    return mesh().owners_span_groups() && mesh().shard_size() == 1 && tree_micro_batches_ == 0;
  }
  // Set before gradients begin (kNone → kFull): a step has either one micro-batch or several.
  void set_micro_batches(MicroBatches how) { micro_batches_ = how; }
  MicroBatches micro_batches() const { return micro_batches_; }
  // What a segment's full gradients are: reduce_dtype, or fp32 where micro-batches add up in them
  // (MixedPrecision::grad_accum_dtype).
  DType full_gradient_dtype(int i, MicroBatches how) const;
  DType full_gradient_dtype(int i) const { return full_gradient_dtype(i, micro_batches_); }
  // Whether a parameter has a place for gradients: decided by requires_grad() when the unit is
  // made, since that decides which segment it lies in. A parameter made trainable and frozen later
  // keeps its place, which holds zeros.
  bool takes_gradient(int parameter) const {
    return segment_layout(layout_.placement(parameter).segment).trainable;
  }

  // This rank's shard of a segment, and of its reduced gradients, wherever they lie. The gradient's
  // is undefined unless gradients are reduced and the segment takes them.
  StateTensor ShardState(int i) const;
  StateTensor GradientShardState(int i) const;
  // This rank's part of a parameter's values, as a view of shape [numel of the piece]. Not for
  // parameters that are offloaded.
  Tensor ShardView(const ShardLayout::Piece& piece) const;
  // The same of its gradient. Undefined unless gradients are reduced and the parameter takes one.
  Tensor GradientShardView(const ShardLayout::Piece& piece) const;
  ShardLayout::Piece PieceOf(int parameter) const {
    return layout_.PieceOf(parameter, shard_rank_);
  }

  // Elements of parameters that this rank stores between steps, and of all of them, undivided;
  // padding not counted.
  int64_t local_numel() const;
  int64_t total_numel() const;

  UnitState state() const { return state_; }
  GradientState gradient_state() const { return gradient_state_; }
  // Earlier micro-batches of this step have left gradients here.
  bool has_accumulated() const { return micro_batches_accumulated_ > 0; }
  // How many of them.
  int64_t micro_batches_accumulated() const { return micro_batches_accumulated_; }
  // FailedPrecondition names the unit, its state, what was attempted and what was expected.
  absl::Status ExpectState(UnitState expected, absl::string_view attempt) const;
  absl::Status ExpectGradientState(GradientState expected, absl::string_view attempt) const;

  // Transitions; each is an error from a state that it does not start in.
  absl::Status BeginGather(
      std::shared_ptr<Event> done);  // kSharded → kGathering; every segment has its full buffer
  absl::Status FinishGather();       // kGathering → kGathered: parameters become visible
  absl::Status MarkSharded();        // kGathered → kSharded: parameters become invisible
  absl::Status BeginGradients();     // kNone → kFull; trainable segments have their grad buffer
  absl::Status MarkReduced(
      std::shared_ptr<Event> done);  // kFull → kReduced: gradient views become invisible
  // kFull → kNone, with the gradients of a micro-batch added to those of the step: further
  // contributions to replicated segments add to them, those to others begin anew.
  absl::Status MarkAccumulated(std::shared_ptr<Event> done);
  // any → kNone, and nothing of them is kept: the compute stream waits for the reduction, in whose
  // order their memory goes back.
  absl::Status ForgetGradients();
  // After an error, and after all streams were waited for: whatever the states are, parameters and
  // gradients become invisible, kSharded and kNone, and the strategy's state is released.
  void Abandon();

  // What the sharding's strategy keeps for this unit, by type, so that a strategy and the class
  // that it is built on have a state each: made when it is first asked for, and kept until Abandon,
  // or as long as the unit.
  template <typename State>
  State& strategy_state() {
    std::shared_ptr<void>& state = strategy_states_[typeid(State)];
    if (state == nullptr) state = std::make_shared<State>();
    return *static_cast<State*>(state.get());
  }

  // When the gather, or the reduction, that was enqueued last is done; nullptr if none was.
  const std::shared_ptr<Event>& gather_event() const { return gather_event_; }
  const std::shared_ptr<Event>& reduce_event() const { return reduce_event_; }

 private:
  Unit(UnitSpec spec, int index, const LayoutOptions& options, int shard_rank, Device& device,
       const MixedPrecision& precision, Offload* offload);

  absl::Status ExpectGradientsFit() const;
  absl::Status AllocateSegment(int i);
  void HideParameters();
  void DropGradients();

  UnitSpec spec_;
  int index_;
  MixedPrecision precision_;
  ShardLayout layout_;
  int shard_rank_;
  Device* device_;
  Offload* offload_;
  std::vector<Segment> segments_;
  UnitState state_ = UnitState::kSharded;
  GradientState gradient_state_ = GradientState::kNone;
  MicroBatches micro_batches_ = MicroBatches::kOne;
  int64_t micro_batches_accumulated_ = 0;
  int64_t tree_micro_batches_ = 0;
  const MeshView* mesh_ = nullptr;
  Mesh::Axes part_axes_;
  std::shared_ptr<Event> gather_event_;
  std::shared_ptr<Event> reduce_event_;
  std::map<std::type_index, std::shared_ptr<void>> strategy_states_;
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_UNIT_H_
