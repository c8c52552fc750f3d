// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/unit.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

std::vector<ParameterExtent> Extents(const std::vector<Parameter*>& parameters) {
  std::vector<ParameterExtent> extents;
  extents.reserve(parameters.size());
  for (const Parameter* parameter : parameters) {
    const int64_t rows = parameter->shape().rank() == 0 ? 1 : parameter->shape().dim(0);
    extents.push_back({parameter->numel(), parameter->dtype(), parameter->requires_grad(),
                       rows == 0 ? 0 : parameter->numel() / rows, parameter->part().has_value(),
                       parameter->keeps_fp32()});
  }
  return extents;
}

LayoutOptions AlignFor(const MixedPrecision& precision, LayoutOptions options) {
  options.smallest_element_bytes =
      static_cast<int64_t>(std::min({SizeOf(precision.param_dtype), SizeOf(precision.reduce_dtype),
                                     SizeOf(precision.master_dtype)}));
  return options;
}

}  // namespace

absl::string_view UnitStateName(UnitState state) {
  constexpr absl::string_view kNames[] = {"sharded", "gathering", "gathered"};
  return kNames[static_cast<size_t>(state)];
}

absl::string_view GradientStateName(GradientState state) {
  constexpr absl::string_view kNames[] = {"none", "full", "reduced"};
  return kNames[static_cast<size_t>(state)];
}

Unit::Unit(UnitSpec spec, int index, const LayoutOptions& options, int shard_rank, Device& device,
           const MixedPrecision& precision, Offload* offload)
    : spec_(std::move(spec)),
      index_(index),
      precision_(precision),
      layout_(Extents(spec_.parameters), AlignFor(precision, options)),
      shard_rank_(shard_rank),
      device_(&device),
      offload_(offload),
      segments_(layout_.segments().size()) {}

absl::Status Unit::ExpectGradientsFit() const {
  if (precision_.gradient_dtype() == precision_.reduce_dtype) return absl::OkStatus();
  for (int i = 0; i < segment_count(); ++i) {
    if (!segment_layout(i).trainable || !is_replicated(i)) continue;
    return InvalidArgument(
        "unit '", name(),
        "': keep_low_precision_grads is false, but its gradients are not sharded and are kept in ",
        DTypeName(precision_.reduce_dtype),
        "; take reduce_dtype fp32, or a strategy that shards gradients");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Unit>> Unit::Create(UnitSpec spec, int index,
                                                   const LayoutOptions& options, int shard_rank,
                                                   Device& device, const MixedPrecision& precision,
                                                   Offload* offload) {
  std::unique_ptr<Unit> unit(
      new Unit(std::move(spec), index, options, shard_rank, device, precision, offload));
  ZEROTH_RETURN_IF_ERROR(unit->ExpectGradientsFit());
  for (int i = 0; i < unit->segment_count(); ++i) {
    ZEROTH_RETURN_IF_ERROR_WITH(unit->AllocateSegment(i),
                                absl::StrCat("unit '", unit->name(), "'"));
  }
  return unit;
}

absl::Status Unit::AllocateSegment(int i) {
  const ShardLayout::Segment& in = segment_layout(i);
  Segment& segment = segments_[static_cast<size_t>(i)];
  if (offloads_gradients() && in.trainable) {
    ZEROTH_ASSIGN_OR_RETURN(segment.grad_shard,
                            offload_->Reserve(in.shard_numel, DType::kFloat32, "gradients"));
    segment.grad_shard = segment.grad_shard.As(precision_.gradient_dtype());
  }
  if (offloads_parameters()) {
    ZEROTH_ASSIGN_OR_RETURN(segment.shard,
                            offload_->Reserve(in.shard_numel, master_dtype(i), "parameters"));
    return absl::OkStatus();
  }
  ZEROTH_ASSIGN_OR_RETURN(segment.shard,
                          Tensor::Zeros(*device_, Shape({in.shard_numel}), master_dtype(i),
                                        MemoryCategory::kParameters));
  return absl::OkStatus();
}

Unit::~Unit() {
  for (Parameter* parameter : spec_.parameters) {
    parameter->set_data(Tensor());
    parameter->set_grad(Tensor());
    parameter->set_gradient_provider(nullptr);
  }
}

bool Unit::has_trainable() const {
  return std::any_of(layout_.segments().begin(), layout_.segments().end(),
                     [](const ShardLayout::Segment& segment) { return segment.trainable; });
}

DType Unit::full_gradient_dtype(int i, Accumulation how) const {
  const bool adds_up =
      how == Accumulation::kFull || (how == Accumulation::kReduced && is_replicated(i));
  // With a tree over micro-batches, each has separate full gradients, so nothing accumulates in
  // them.
  return adds_up && !sums_in_tree() ? precision_.grad_accum_dtype : precision_.reduce_dtype;
}

DType Unit::gradient_shard_dtype(int i, Accumulation how, bool adds_up) const {
  const bool is_sum = adds_up && !is_replicated(i) && !sums_in_tree();
  const bool is_wide = is_sum || full_gradient_dtype(i, how) == DType::kFloat32;
  return is_wide ? DType::kFloat32 : precision_.gradient_dtype();
}

StateTensor Unit::GradientShardState(int i) const {
  const bool is_reduced = gradient_state_ == GradientState::kReduced;
  return is_reduced && segment_layout(i).trainable ? segment(i).grad_shard : StateTensor();
}

absl::StatusOr<Tensor> Unit::InMemory(const StateTensor& state, int64_t begin,
                                      int64_t count) const {
  if (!state.is_offloaded()) return state.tensor().View(begin, Shape({count}));
  ZEROTH_ASSIGN_OR_RETURN(Tensor staging, Tensor::Empty(*device_, Shape({count}), state.dtype(),
                                                        MemoryCategory::kOffloadStaging));
  ZEROTH_RETURN_IF_ERROR(state.Read(begin, staging, device_->compute_stream()));
  return staging;
}

Tensor Unit::ShardView(const ShardLayout::Piece& piece) const {
  const StateTensor shard = ShardState(segment_of(piece.parameter));
  return shard.tensor().View(piece.shard_offset, Shape({piece.numel()}));
}

Tensor Unit::GradientShardView(const ShardLayout::Piece& piece) const {
  const StateTensor shard = GradientShardState(segment_of(piece.parameter));
  if (!shard.defined()) return Tensor();
  return shard.tensor().View(piece.shard_offset, Shape({piece.numel()}));
}

int64_t Unit::local_numel() const {
  int64_t numel = 0;
  for (int i = 0; i < layout_.parameter_count(); ++i) numel += PieceOf(i).numel();
  return numel;
}

int64_t Unit::total_numel() const {
  int64_t numel = 0;
  for (const Parameter* parameter : spec_.parameters) numel += parameter->global_numel();
  return numel;
}

absl::Status Unit::ExpectState(UnitState expected, absl::string_view attempt) const {
  if (state_ == expected) return absl::OkStatus();
  return FailedPrecondition("unit '", name(), "': cannot ", attempt, ": its parameters are ",
                            UnitStateName(state_), ", expected ", UnitStateName(expected));
}

absl::Status Unit::ExpectGradientState(GradientState expected, absl::string_view attempt) const {
  if (gradient_state_ == expected) return absl::OkStatus();
  return FailedPrecondition("unit '", name(), "': cannot ", attempt,
                            ": its gradients are in state '", GradientStateName(gradient_state_),
                            "', expected '", GradientStateName(expected), "'");
}

absl::Status Unit::ExpectBetweenSteps(absl::string_view attempt) const {
  if (state_ != UnitState::kGathering)
    ZEROTH_RETURN_IF_ERROR(ExpectState(UnitState::kSharded, attempt));
  ZEROTH_RETURN_IF_ERROR(ExpectGradientState(GradientState::kNone, attempt));
  if (!has_accumulated()) return absl::OkStatus();
  return FailedPrecondition("unit '", name(), "': cannot ", attempt,
                            ": it has gradients of the step's earlier micro-batches");
}

absl::Status Unit::BeginGather(std::shared_ptr<Event> done) {
  ZEROTH_RETURN_IF_ERROR(ExpectState(UnitState::kSharded, "gather"));
  for (const Segment& segment : segments_) ZEROTH_CHECK(segment.full.defined());
  gather_event_ = std::move(done);
  state_ = UnitState::kGathering;
  return absl::OkStatus();
}

absl::Status Unit::FinishGather() {
  ZEROTH_RETURN_IF_ERROR(ExpectState(UnitState::kGathering, "use gathered parameters"));
  for (int i = 0; i < layout_.parameter_count(); ++i) {
    const ShardLayout::Placement& at = layout_.placement(i);
    parameter(i).set_data(segment(at.segment).full.View(at.offset, parameter(i).shape()));
  }
  state_ = UnitState::kGathered;
  return absl::OkStatus();
}

absl::Status Unit::MarkSharded() {
  ZEROTH_RETURN_IF_ERROR(ExpectState(UnitState::kGathered, "reshard"));
  FreeParameters();
  return absl::OkStatus();
}

absl::Status Unit::BeginGradients() {
  ZEROTH_RETURN_IF_ERROR(ExpectGradientState(GradientState::kNone, "begin gradients"));
  for (int i = 0; i < layout_.parameter_count(); ++i) {
    const ShardLayout::Placement& at = layout_.placement(i);
    if (!takes_gradient(i)) continue;
    parameter(i).set_grad(segment(at.segment).grad.View(at.offset, parameter(i).shape()));
    parameter(i).set_has_gradient(adds_to_full(at.segment));
  }
  gradient_state_ = GradientState::kFull;
  return absl::OkStatus();
}

absl::Status Unit::MarkReduced(std::shared_ptr<Event> done) {
  ZEROTH_RETURN_IF_ERROR(ExpectGradientState(GradientState::kFull, "reduce gradients"));
  for (Parameter* parameter : spec_.parameters) parameter->set_grad(Tensor());
  for (Segment& segment : segments_) segment.grad = Tensor();
  reduce_event_ = std::move(done);
  gradient_state_ = GradientState::kReduced;
  return absl::OkStatus();
}

absl::Status Unit::MarkAccumulated(std::shared_ptr<Event> done) {
  ZEROTH_RETURN_IF_ERROR(MarkReduced(std::move(done)));
  gradient_state_ = GradientState::kNone;
  ++micro_batches_accumulated_;
  return absl::OkStatus();
}

absl::Status Unit::ForgetGradients() {
  if (reduce_event_ != nullptr) {
    ZEROTH_RETURN_IF_ERROR(device_->compute_stream().Wait(reduce_event_));
  }
  DropGradients();
  return absl::OkStatus();
}

void Unit::DropGradients() {
  for (Parameter* parameter : spec_.parameters) parameter->set_grad(Tensor());
  for (Segment& segment : segments_) {
    segment.grad = Tensor();
    segment.waiting_sums.clear();
    // The next step may have one micro-batch, which is read as it is reduced.
    segment.grad_shard = segment.grad_shard.is_offloaded()
                             ? segment.grad_shard.As(precision_.gradient_dtype())
                             : StateTensor();
  }
  reduce_event_ = nullptr;
  gradient_state_ = GradientState::kNone;
  accumulation_ = Accumulation::kSingle;
  micro_batches_accumulated_ = 0;
}

void Unit::Abandon() {
  FreeParameters();
  gather_event_ = nullptr;
  DropGradients();
  strategy_states_.clear();
}

void Unit::FreeParameters() {
  for (Parameter* parameter : spec_.parameters) parameter->set_data(Tensor());
  for (Segment& segment : segments_) segment.full = Tensor();
  state_ = UnitState::kSharded;
}

}  // namespace zeroth
