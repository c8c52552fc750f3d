// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/adamw.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/offload.h"

namespace zeroth {

namespace {

bool IsCoded(DType dtype) { return dtype == DType::kUInt8; }

int64_t BlocksOf(int64_t numel) { return (numel + kMomentBlock - 1) / kMomentBlock; }

// Checks that the unit's shards end at the state's blocks.
absl::Status ExpectBlocks(const Unit& unit, DType state_dtype) {
  const int64_t required = RequiredBlockNumel(state_dtype);
  if (unit.layout().block_numel() % required == 0) return absl::OkStatus();
  return InvalidArgument("AdamW: the shards of unit '", unit.name(), "' end at multiples of ",
                         unit.layout().block_numel(),
                         " elements, and 8-bit moments come in blocks of ", required,
                         "; set ShardingOptions::block_numel to ", required);
}

}  // namespace

DType MomentDType(const AdamWOptions& options, int64_t numel) {
  const bool is_small = IsCoded(options.state_dtype) && numel < options.min_8bit_numel;
  return is_small ? DType::kFloat32 : options.state_dtype;
}

int64_t RequiredBlockNumel(DType state_dtype) { return IsCoded(state_dtype) ? kMomentBlock : 1; }

absl::Status ValidateAdamWOptions(const AdamWOptions& options) {
  if (options.state_dtype != DType::kFloat32 && options.state_dtype != DType::kBFloat16 &&
      options.state_dtype != DType::kUInt8) {
    return InvalidArgument("AdamW: state_dtype is ", DTypeName(options.state_dtype),
                           ", expected fp32, bf16 or uint8");
  }
  if (options.min_8bit_numel < 0) {
    return InvalidArgument("AdamW: min_8bit_numel is ", options.min_8bit_numel,
                           ", expected at least 0");
  }
  const auto is_decay_rate = [](double beta) { return beta >= 0 && beta < 1; };
  const auto is_size = [](double value) { return std::isfinite(value) && value >= 0; };
  if (is_size(options.lr) && is_decay_rate(options.beta1) && is_decay_rate(options.beta2) &&
      is_size(options.eps) && is_size(options.weight_decay)) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "AdamW: lr = ", options.lr, ", beta1 = ", options.beta1, ", beta2 = ", options.beta2,
      ", eps = ", options.eps, ", weight_decay = ", options.weight_decay,
      "; expected betas in [0, 1) and finite lr, eps and weight_decay of at least 0");
}

AdamWArgs AdamWStepArgs(const AdamWOptions& options, int64_t step, double lr) {
  AdamWArgs args;
  args.lr = lr;
  args.beta1 = options.beta1;
  args.beta2 = options.beta2;
  args.eps = options.eps;
  args.eps_mode = options.eps_mode;
  args.correction1 = 1 - std::pow(options.beta1, static_cast<double>(step));
  args.correction2 = 1 - std::pow(options.beta2, static_cast<double>(step));
  args.seed = options.seed;
  args.step = step;
  return args;
}

AdamW::AdamW(Sharding& sharding, Kernels& kernels, const AdamWOptions& options)
    : Optimizer(sharding, options.lr), kernels_(kernels), options_(options) {}

absl::Status AdamW::SetGroups(absl::Span<const ParameterGroup> groups) {
  settings_ = {{options_, 1.0}};
  for (const ParameterGroup& group : groups) {
    Settings settings{options_, group.lr_scale};
    settings.options.weight_decay = group.weight_decay.value_or(options_.weight_decay);
    settings.options.beta1 = group.beta1.value_or(options_.beta1);
    settings.options.beta2 = group.beta2.value_or(options_.beta2);
    settings.options.eps = group.eps.value_or(options_.eps);
    const std::string where = absl::StrCat("parameter group '", group.pattern, "'");
    ZEROTH_RETURN_IF_ERROR_WITH(ValidateAdamWOptions(settings.options), where);
    if (!std::isfinite(group.lr_scale) || group.lr_scale < 0) {
      return InvalidArgument(where, ": lr_scale = ", group.lr_scale,
                             ", expected a finite number of at least 0");
    }
    settings_.push_back(settings);
  }
  std::vector<const Parameter*> parameters;
  std::vector<std::string> names;
  for (const Unit* unit : sharding_.units()) {
    for (int i = 0; i < unit->layout().parameter_count(); ++i) {
      // A parameter that is frozen now may be trained later.
      if (!unit->takes_gradient(i)) continue;
      parameters.push_back(&unit->parameter(i));
      names.push_back(parameters.back()->name());
    }
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<int> assigned, AssignGroups(groups, names));
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (assigned[i] >= 0) settings_of_[parameters[i]] = static_cast<size_t>(assigned[i]) + 1;
  }
  return coefficients_.Allocate(sharding_.device(), 2 * settings_.size());
}

size_t AdamW::RowOf(const Parameter& parameter) const {
  const auto found = settings_of_.find(&parameter);
  const size_t settings = found == settings_of_.end() ? 0 : found->second;
  return 2 * settings + (parameter.decay() ? 1 : 0);
}

absl::StatusOr<std::unique_ptr<AdamW>> AdamW::Create(Sharding& sharding, Kernels& kernels,
                                                     const AdamWOptions& options,
                                                     absl::Span<const ParameterGroup> groups,
                                                     const ParameterSelection& selects) {
  ZEROTH_RETURN_IF_ERROR(ValidateAdamWOptions(options));
  std::unique_ptr<AdamW> optimizer(new AdamW(sharding, kernels, options));
  ZEROTH_RETURN_IF_ERROR(optimizer->SetGroups(groups));
  for (Unit* unit : sharding.units()) {
    for (int i = 0; i < unit->segment_count(); ++i) {
      if (!unit->segment_layout(i).trainable) continue;
      ZEROTH_RETURN_IF_ERROR(ExpectBlocks(*unit, options.state_dtype));
      ZEROTH_RETURN_IF_ERROR(optimizer->AddStates(*unit, i, selects));
    }
  }
  for (State& state : optimizer->states_) ZEROTH_RETURN_IF_ERROR(optimizer->ZeroMoments(state));
  return optimizer;
}

// Adds one state for the whole shard, or, if parameters differ, one for each run of selected
// parameters whose moments have one type.
absl::Status AdamW::AddStates(Unit& unit, int segment, const ParameterSelection& selects) {
  const ShardLayout::Segment& layout = unit.segment_layout(segment);
  if (selects == nullptr && !IsCoded(options_.state_dtype)) {
    states_.push_back(
        {&unit, segment, 0, layout.shard_numel, layout.parameters, options_.state_dtype});
    return absl::OkStatus();
  }
  bool joins = false;  // the last parameter seen is in the last state
  for (const int index : layout.parameters) {
    const Parameter& parameter = unit.parameter(index);
    const DType dtype = MomentDType(options_, parameter.global_numel());
    const bool selected = selects == nullptr || selects(parameter);
    if (selected && IsCoded(dtype)) {
      ZEROTH_RETURN_IF_ERROR_WITH(ExpectWholeBlocks(parameter, kMomentBlock),
                                  "AdamW: 8-bit moments share scales in blocks");
    }
    const ShardLayout::Piece piece = unit.PieceOf(index);
    if (piece.numel() == 0) continue;
    if (!selected) {
      joins = false;
      continue;
    }
    if (!joins || states_.back().dtype != dtype) {
      states_.push_back({&unit, segment, piece.shard_offset, 0, {}, dtype});
    }
    joins = true;
    State& state = states_.back();
    state.numel = piece.shard_offset + piece.numel() - state.begin;
    state.parameters.push_back(index);
  }
  return absl::OkStatus();
}

absl::Status AdamW::ZeroMoments(State& state) const {
  constexpr char kWhat[] = "moments";
  for (StateTensor* moment : {&state.m, &state.v}) {
    ZEROTH_ASSIGN_OR_RETURN(*moment, sharding_.ZeroState(state.numel, state.dtype, kWhat));
  }
  if (!IsCoded(state.dtype)) return absl::OkStatus();
  for (StateTensor* scale : {&state.m_scale, &state.v_scale}) {
    ZEROTH_ASSIGN_OR_RETURN(*scale,
                            sharding_.ZeroState(BlocksOf(state.numel), DType::kFloat32, kWhat));
  }
  return absl::OkStatus();
}

// In fp32, neighbours with the same coefficients become one range: parameters and gradients are
// zero in the gap between them, and an update of zeros by zeros is zero. Where updates are rounded,
// each parameter has its own draws, and so its own range; with draws_of_undivided, each of its runs
// in the undivided parameter.
std::vector<AdamW::Range> AdamW::Ranges(const State& state) const {
  const bool rounds =
      state.dtype != DType::kFloat32 || state.unit->precision().master_dtype != DType::kFloat32;
  std::vector<Range> ranges;
  bool joins = false;  // the last parameter seen was updated
  for (const int index : state.parameters) {
    const ShardLayout::Piece piece = state.unit->PieceOf(index);
    if (piece.numel() == 0) continue;
    const Parameter& parameter = state.unit->parameter(index);
    if (!parameter.requires_grad()) {
      joins = false;
      continue;
    }
    const size_t row = RowOf(parameter);
    const int64_t offset = piece.shard_offset - state.begin;
    if (joins && ranges.back().row == row) {
      ranges.back().numel = offset + piece.numel() - ranges.back().offset;
    } else if (rounds && options_.draws_of_undivided) {
      for (const ElementRun& run : parameter.GlobalRuns(piece.begin, piece.numel())) {
        ranges.push_back({offset + run.begin - piece.begin, run.numel, row,
                          HashName(parameter.name()), run.global_begin});
      }
    } else {
      ranges.push_back({offset, piece.numel(), row, HashName(parameter.name()), piece.begin});
    }
    joins = !rounds;
  }
  return ranges;
}

absl::Status AdamW::PrepareStep(int64_t step, double lr, double grad_scale) {
  ZEROTH_ASSIGN_OR_RETURN(std::vector<AdamWCoefficients>* const rows, coefficients_.Rows());
  for (size_t i = 0; i < settings_.size(); ++i) {
    const AdamWOptions& options = settings_[i].options;
    AdamWArgs args = AdamWStepArgs(options, step, lr * settings_[i].lr_scale);
    args.grad_scale = grad_scale;
    for (const bool decay : {false, true}) {
      args.weight_decay = decay ? options.weight_decay : 0.0;
      (*rows)[2 * i + (decay ? 1 : 0)] = DeriveAdamWCoefficients(args);
    }
  }
  return coefficients_.Upload(kernels_.stream());
}

std::vector<StatePass::Operand> AdamW::Operands(const State& state) const {
  std::vector<StatePass::Operand> operands = {
      {state.unit->ShardState(state.segment).View(state.begin, state.numel), /*written=*/true},
      {state.unit->GradientShardState(state.segment).View(state.begin, state.numel)},
      {state.m, /*written=*/true},
      {state.v, /*written=*/true}};
  if (IsCoded(state.dtype)) {
    operands.push_back({state.m_scale, /*written=*/true, kMomentBlock});
    operands.push_back({state.v_scale, /*written=*/true, kMomentBlock});
  }
  return operands;
}

void AdamW::AppendUpdates(absl::Span<const Range> ranges, const Tensor& grad_factor, int64_t begin,
                          absl::Span<const Tensor> chunk, std::vector<AdamWArgs>& updates) const {
  const int64_t end = begin + chunk[0].numel();
  for (const Range& range : ranges) {
    const int64_t first = std::max(begin, range.offset);
    const int64_t last = std::min(end, range.offset + range.numel);
    if (first >= last) continue;
    const Shape shape({last - first});
    AdamWArgs args;
    args.param = chunk[0].View(first - begin, shape);
    args.grad = chunk[1].View(first - begin, shape);
    args.m = chunk[2].View(first - begin, shape);
    args.v = chunk[3].View(first - begin, shape);
    if (IsCoded(args.m.dtype())) {
      // Ranges and chunks start with a block.
      const int64_t block = (first - begin) / kMomentBlock;
      const Shape blocks({BlocksOf(shape.numel())});
      args.m_scale = chunk[4].View(block, blocks);
      args.v_scale = chunk[5].View(block, blocks);
    }
    args.grad_factor = grad_factor;
    args.stream = range.stream;
    args.first_element = range.first_element + first - range.offset;
    args.coefficients = coefficients_.Row(range.row);
    updates.push_back(std::move(args));
  }
}

std::vector<ShardState> AdamW::states() const {
  std::vector<ShardState> states;
  for (const State& state : states_) {
    const auto add = [&](const char* name, const StateTensor& shard, int64_t block,
                         StateCoding coding) {
      states.push_back(
          {state.unit, state.segment, name, shard, block, coding, state.begin, state.parameters});
    };
    add("m", state.m, 1, StateCoding::kFirstMoment);
    add("v", state.v, 1, StateCoding::kSecondMoment);
    if (!IsCoded(state.dtype)) continue;
    add("m_scale", state.m_scale, kMomentBlock, StateCoding::kNone);
    add("v_scale", state.v_scale, kMomentBlock, StateCoding::kNone);
  }
  return states;
}

// One kernel call updates all state in memory; each chunk of offloaded state takes another.
absl::Status AdamW::Update(const Tensor& grad_factor) {
  ZEROTH_RETURN_IF_ERROR(ExpectReducedGradients());
  std::vector<AdamWArgs> in_memory;
  std::vector<StatePass> passes;
  for (const State& state : states_) {
    std::vector<Range> ranges = Ranges(state);
    if (ranges.empty()) continue;
    StatePass pass;
    pass.operands = Operands(state);
    if (!pass.is_staged()) {
      std::vector<Tensor> whole;
      for (const StatePass::Operand& operand : pass.operands) {
        whole.push_back(operand.state.tensor());
      }
      AppendUpdates(ranges, grad_factor, 0, whole, in_memory);
      continue;
    }
    pass.body = [this, &state, &grad_factor, ranges = std::move(ranges)](
                    int64_t begin, absl::Span<const Tensor> chunk) -> absl::Status {
      std::vector<AdamWArgs> updates;
      AppendUpdates(ranges, grad_factor, begin, chunk, updates);
      ZEROTH_RETURN_IF_ERROR_WITH(kernels::AdamW(kernels_, updates),
                                  absl::StrCat("unit '", state.unit->name(), "'"));
      return absl::OkStatus();
    };
    passes.push_back(std::move(pass));
  }
  ZEROTH_RETURN_IF_ERROR(kernels::AdamW(kernels_, in_memory));
  return Annotate(sharding_.offload().passes().Run(passes), "AdamW");
}

static const OptimizerRegistration registration("adamw", [](auto&&... arguments) {
  return AdamW::Create(arguments...);
});

}  // namespace zeroth
