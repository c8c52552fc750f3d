// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A unit: the parameters that are gathered and freed together.

#pragma once

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

// The state of a unit's full parameters.
enum class UnitState : uint8_t {
  kSharded,    // hidden: only the shard may be used, even if the strategy keeps all (no_shard)
  kGathering,  // a gather is enqueued, which Unit::gather_event ends
  kGathered,   // usable through Parameter::data()
};
absl::string_view UnitStateName(UnitState state);

// The state of a unit's gradients within a step.
enum class GradientState : uint8_t {
  kNone,     // there are none yet
  kFull,     // backward writes them through Parameter::grad()
  kReduced,  // each rank has the shard that its optimizer reads, once Unit::reduce_event is done
};
absl::string_view GradientStateName(GradientState state);

// How the gradients of a step's micro-batches accumulate.
enum class Accumulation : uint8_t {
  kSingle,   // the step has one micro-batch
  kReduced,  // each micro-batch's gradients are reduced, and the shards accumulate
  kFull,     // the full gradients accumulate, and are reduced once
};
inline constexpr size_t kAccumulationCount = 3;

// The mesh axes over which a unit is replicated, and those over which it is sharded, by name and in
// the mesh's order. Each of "replicate" and "shard" is in one of the lists: {{}, {"replicate",
// "shard"}} shards the unit over all data-parallel ranks, {{"replicate", "shard"}, {}} replicates
// it. Sums over ranks have the same bits as with other axes if the replicated axes come first in
// the mesh, and the size of shard groups is a power of two.
struct UnitAxes {
  std::vector<std::string> replicated = {kReplicateAxis};
  std::vector<std::string> sharded = {kShardAxis};

  friend auto operator<=>(const UnitAxes&, const UnitAxes&) = default;
};

struct UnitSpec {
  std::string name;
  std::vector<Parameter*> parameters;  // each belongs to exactly one unit, and outlives it
  // The root has the parameters that no other unit has. It is used at both ends of a pass, so it
  // stays gathered in between.
  bool is_root = false;
  // Custom collectives, which several units may share. nullptr: ShardingOptions::collectives.
  std::shared_ptr<UnitCollectives> collectives = nullptr;
  // Override the ShardingOptions of the same meaning for this unit.
  std::optional<LayoutKind> layout = std::nullopt;
  std::optional<MixedPrecision> precision = std::nullopt;  // such as fp32 for norms
  // The axes over which the unit is replicated and sharded. The strategy decides their sizes.
  UnitAxes axes = {};
};

// Flat storage of the parameters that are gathered and freed together. The unit owns this rank's
// shards; the strategy provides full buffers while they are needed. Parameters and gradients are
// views into the full buffers, so that collectives need no copies. Used by one rank's thread only.
class Unit {
 public:
  // One flat piece of storage, see ShardLayout::Segment. In replicated segments the full buffer may
  // be the shard itself (is_full), and the full gradient the reduced one (is_full_gradient).
  struct Segment {
    StateTensor shard;  // [shard_numel] of Unit::master_dtype, in memory or offloaded
    Tensor full;        // [numel] of Unit::param_dtype, while gathering or gathered
    // Trainable segments only.
    Tensor grad;  // [numel] of full_gradient_dtype, while gradients are full
    // [shard_numel]: in memory from a step's first gradients to its end, or offloaded at all times,
    // in a region that has room for fp32.
    StateTensor grad_shard;
    // fp32 sums of earlier micro-batches that wait for later ones: those of the tree
    // (CompileReduce), or, if owners span groups, this rank's part of its group's sum.
    std::vector<Tensor> waiting_sums;
  };

  // Allocates the shards, zeroed. `shard_rank` is this rank's index among the layout's shards.
  // `offload`, which outlives the unit, says which state lies in its store; nullptr: none.
  // InvalidArgument if the unit has replicated gradients that are kept in another dtype than they
  // are reduced in.
  static absl::StatusOr<std::unique_ptr<Unit>> Create(UnitSpec spec, int index,
                                                      const LayoutOptions& options, int shard_rank,
                                                      Device& device,
                                                      const MixedPrecision& precision = {},
                                                      Offload* offload = nullptr);
  ~Unit();
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  const std::string& name() const { return spec_.name; }
  int index() const { return index_; }  // in Sharding::units()
  bool is_root() const { return spec_.is_root; }
  Device& device() const { return *device_; }
  const MixedPrecision& precision() const { return precision_; }
  // UnitSpec::collectives; nullptr: the communicator's.
  UnitCollectives* custom_collectives() const { return spec_.collectives.get(); }
  const std::vector<Parameter*>& parameters() const { return spec_.parameters; }
  Parameter& parameter(int i) const { return *spec_.parameters[static_cast<size_t>(i)]; }
  const ShardLayout& layout() const { return layout_; }
  int shard_rank() const { return shard_rank_; }
  int segment_count() const { return static_cast<int>(segments_.size()); }
  const ShardLayout::Segment& segment_layout(int i) const {
    return layout_.segments()[static_cast<size_t>(i)];
  }
  // Returns the segment that a parameter lies in.
  int segment_of(int parameter) const { return layout_.placement(parameter).segment; }
  Segment& segment(int i) { return segments_[static_cast<size_t>(i)]; }
  const Segment& segment(int i) const { return segments_[static_cast<size_t>(i)]; }
  // Sets the ranks that share the unit. `mesh` outlives the unit, and is set before its first use.
  // `part_axes` are the axes over which Parameter::part divides the unit's parameters, if it does.
  void set_mesh(const MeshView* mesh, Mesh::Axes part_axes = {}) {
    mesh_ = mesh;
    part_axes_ = std::move(part_axes);
  }
  const MeshView& mesh() const {
    ZEROTH_CHECK(mesh_ != nullptr);
    return *mesh_;
  }
  bool has_default_axes() const { return spec_.axes == UnitAxes(); }
  // Returns the axes of the mesh over which ranks hold different elements of a segment.
  Mesh::Axes OwnerAxes(int i) const {
    Mesh::Axes axes = segment_layout(i).replicated ? Mesh::Axes() : mesh().owner_axes();
    if (segment_layout(i).of_parts) axes.insert(axes.end(), part_axes_.begin(), part_axes_.end());
    return axes;
  }
  // True if every rank holds all of the segment, so that nothing is gathered.
  bool is_replicated(int i) const {
    return segment_layout(i).numel == segment_layout(i).shard_numel;
  }
  // The types of a segment's shards and full buffers: those of the precision, unless parameters
  // keep their bits.
  DType master_dtype(int i) const {
    return keeps_bits(i) ? segment_layout(i).dtype : precision_.master_dtype;
  }
  DType param_dtype(int i) const {
    return keeps_bits(i) ? segment_layout(i).dtype : precision_.param_dtype;
  }
  // True for parameters of bytes, which are frozen, and for those that keep fp32. Custom
  // collectives do not gather them.
  bool keeps_bits(int i) const {
    return segment_layout(i).dtype == DType::kUInt8 || segment_layout(i).keeps_fp32;
  }
  // True if the shard and the full buffer are the same memory.
  bool is_full(int i) const {
    return is_replicated(i) && master_dtype(i) == param_dtype(i) && !offloads_parameters();
  }
  // True if the full gradient and the gradient that the optimizer reads are the same memory.
  bool is_full_gradient(int i) const {
    return is_replicated(i) && !offloads_gradients() && !sums_in_tree();
  }
  bool offloads_parameters() const { return offload_ != nullptr && offload_->options().parameters; }
  // OffloadOptions::chunk_numel.
  int64_t offload_chunk_numel() const { return offload_->options().chunk_numel; }
  bool offloads_gradients() const { return offload_ != nullptr && offload_->options().gradients; }
  bool has_trainable() const;
  // StrategyOptions::tree_micro_batches; set before the unit's first step.
  void set_tree_micro_batches(int64_t count) { tree_micro_batches_ = count; }
  int64_t tree_micro_batches() const { return tree_micro_batches_; }
  // True if each micro-batch has separate full gradients, which are summed in a tree.
  bool sums_in_tree() const { return tree_micro_batches_ > 1; }
  // True if shard groups have one rank and owners span them, so that gradients accumulate in full
  // until the last micro-batch.
  bool sums_only_across() const {
    return mesh().owners_span_groups() && mesh().shard_size() == 1 && tree_micro_batches_ == 0;
  }
  // Set before gradients begin (kNone → kFull).
  void set_accumulation(Accumulation how) { accumulation_ = how; }
  Accumulation accumulation() const { return accumulation_; }
  // The type of a segment's full gradients: grad_accum_dtype if they accumulate several
  // micro-batches, and reduce_dtype otherwise.
  DType full_gradient_dtype(int i, Accumulation how) const;
  // The type of the gradient shard that the optimizer reads. `adds_up`: the step has several
  // micro-batches, whose reduced gradients the shards of sharded segments accumulate.
  DType gradient_shard_dtype(int i, Accumulation how, bool adds_up) const;
  // True if layers add to the full gradients of the step's earlier micro-batches.
  bool adds_to_full(int i) const {
    return has_accumulated() && is_replicated(i) && !sums_in_tree();
  }
  // True if the parameter has memory for gradients: if requires_grad() was true when the unit was
  // made. A parameter that is frozen later keeps that memory, which holds zeros.
  bool takes_gradient(int parameter) const {
    return segment_layout(segment_of(parameter)).trainable;
  }

  // Returns this rank's shard of a segment, or of its reduced gradients, in memory or offloaded.
  // The latter is undefined unless gradients are reduced and the segment is trainable.
  StateTensor ShardState(int i) const { return segment(i).shard; }
  StateTensor GradientShardState(int i) const;
  // Returns elements [begin, begin + count) of one of these: a view of memory, or staging that the
  // compute stream fills from the offload store.
  absl::StatusOr<Tensor> InMemory(const StateTensor& state, int64_t begin, int64_t count) const;
  // Returns a piece of a parameter, or of its reduced gradient, as a view [piece.numel()] of this
  // rank's shard, which must not be offloaded. Undefined for a gradient that does not exist or is
  // not reduced.
  Tensor ShardView(const ShardLayout::Piece& piece) const;
  Tensor GradientShardView(const ShardLayout::Piece& piece) const;
  ShardLayout::Piece PieceOf(int parameter) const {
    return layout_.PieceOf(parameter, shard_rank_);
  }

  // Elements of parameters, without padding: those that this rank stores between steps, and those
  // of the undivided parameters.
  int64_t local_numel() const;
  int64_t total_numel() const;

  UnitState state() const { return state_; }
  GradientState gradient_state() const { return gradient_state_; }
  // True if earlier micro-batches of this step have left gradients.
  bool has_accumulated() const { return micro_batches_accumulated_ > 0; }
  int64_t micro_batches_accumulated() const { return micro_batches_accumulated_; }
  // FailedPrecondition names the unit, its state, the attempt, and the state that it expects.
  absl::Status ExpectState(UnitState expected, absl::string_view attempt) const;
  absl::Status ExpectGradientState(GradientState expected, absl::string_view attempt) const;
  // FailedPrecondition, with the same content, if the unit is within a step: gathered, or with
  // gradients. A gather that is still in flight is allowed: its pass never ran.
  absl::Status ExpectBetweenSteps(absl::string_view attempt) const;

  // Transitions. Each is an error from any state but the one that it starts in.
  //
  // kSharded → kGathering. Every segment has its full buffer, which `done` fills.
  absl::Status BeginGather(std::shared_ptr<Event> done);
  // kGathering → kGathered: sets Parameter::data().
  absl::Status FinishGather();
  // kGathered → kSharded: clears Parameter::data().
  absl::Status MarkSharded();
  // kNone → kFull: sets Parameter::grad(). Every trainable segment has its gradient buffer.
  absl::Status BeginGradients();
  // kFull → kReduced: clears Parameter::grad().
  absl::Status MarkReduced(std::shared_ptr<Event> done);
  // kFull → kNone, with a micro-batch's gradients added to those of the step.
  absl::Status MarkAccumulated(std::shared_ptr<Event> done);
  // Any state → kNone: frees the gradients, after making the compute stream wait for their
  // reduction. An error leaves them to Abandon.
  absl::Status ForgetGradients();
  // Any states → kSharded and kNone, after an error and once all streams are idle. Clears data()
  // and grad() of the parameters, and destroys the strategy's state.
  void Abandon();

  // The state that the strategy keeps for this unit, by type, so that a strategy and its base class
  // can each have one. Made at its first use, and kept until Abandon.
  template <typename State>
  State& strategy_state() {
    std::shared_ptr<void>& state = strategy_states_[typeid(State)];
    if (state == nullptr) state = std::make_shared<State>();
    return *static_cast<State*>(state.get());
  }

  // The events that end the gather and the reduction that were enqueued last; nullptr if none was.
  const std::shared_ptr<Event>& gather_event() const { return gather_event_; }
  const std::shared_ptr<Event>& reduce_event() const { return reduce_event_; }

 private:
  Unit(UnitSpec spec, int index, const LayoutOptions& options, int shard_rank, Device& device,
       const MixedPrecision& precision, Offload* offload);

  absl::Status ExpectGradientsFit() const;
  absl::Status AllocateSegment(int i);
  void FreeParameters();
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
  Accumulation accumulation_ = Accumulation::kSingle;
  int64_t micro_batches_accumulated_ = 0;
  int64_t tree_micro_batches_ = 0;
  const MeshView* mesh_ = nullptr;
  Mesh::Axes part_axes_;
  std::shared_ptr<Event> gather_event_;
  std::shared_ptr<Event> reduce_event_;
  std::map<std::type_index, std::shared_ptr<void>> strategy_states_;
};

}  // namespace zeroth
