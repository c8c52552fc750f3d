// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/testing/toy_model.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/tensor/state_tensor.h"

namespace zeroth {
namespace {

absl::Status Visit(const ToyStep& step, absl::string_view stage, const Unit* unit) {
  return step.hook == nullptr ? absl::OkStatus() : step.hook(stage, unit);
}

absl::Status CheckValues(absl::string_view what, const Parameter& parameter, int64_t begin,
                         absl::Span<const float> values, const ToyFormula& formula,
                         double tolerance) {
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t element = begin + static_cast<int64_t>(i);
    const float expected = formula(parameter, element);
    if (std::abs(double{values[i]} - expected) <= tolerance * std::abs(double{expected})) continue;
    return absl::InternalError(absl::StrCat(what, " of '", parameter.name(), "', element ", element,
                                            ": ", values[i], ", expected ", expected));
  }
  return absl::OkStatus();
}

absl::Status CheckGathered(const Unit& unit, const ToyStep& step) {
  if (step.expected == nullptr) return absl::OkStatus();
  const auto dtype_of = [&unit](const Parameter& parameter) {
    return parameter.keeps_fp32() ? DType::kFloat32 : unit.precision().param_dtype;
  };
  const ToyFormula expected = [&](const Parameter& parameter, int64_t element) {
    return RoundTo(dtype_of(parameter), step.expected(parameter, element));
  };
  for (const Parameter* parameter : unit.parameters()) {
    ZEROTH_TOY_EXPECT(parameter->data().dtype() == dtype_of(*parameter));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values, ToFloats(parameter->data()));
    ZEROTH_RETURN_IF_ERROR(CheckValues("gathered value", *parameter, 0, values, expected, 0));
  }
  return absl::OkStatus();
}

// Sums are rounded to the tensor's type, as kernels do.
absl::Status WriteFloats(const std::vector<float>& values, const Tensor& out) {
  Stream& stream = out.device().compute_stream();
  if (out.dtype() == DType::kFloat32) {
    ZEROTH_RETURN_IF_ERROR(
        out.device().CopyFromHost(out.raw_data(), values.data(), out.bytes(), stream));
    return stream.Synchronize();
  }
  ZEROTH_TOY_EXPECT(SizeOf(out.dtype()) == sizeof(uint16_t));
  std::vector<uint16_t> rounded;
  rounded.reserve(values.size());
  for (const float value : values) {
    rounded.push_back(out.dtype() == DType::kBFloat16 ? ToBFloat16(value).bits
                                                      : ToFloat16(value).bits);
  }
  ZEROTH_RETURN_IF_ERROR(
      out.device().CopyFromHost(out.raw_data(), rounded.data(), out.bytes(), stream));
  return stream.Synchronize();
}

absl::Status WriteGradients(const Unit& unit, const ToyGradient& gradient) {
  for (Parameter* parameter : unit.parameters()) {
    if (!parameter->requires_grad()) continue;
    ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, parameter->TakeGradient());
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values, ToFloats(parameter->data()));
    std::vector<float> out(values.size());
    if (slot.accumulate) {
      ZEROTH_ASSIGN_OR_RETURN(out, ToFloats(slot.tensor));
    }
    for (size_t i = 0; i < values.size(); ++i) {
      out[i] += gradient(*parameter, static_cast<int64_t>(i), values[i]);
    }
    ZEROTH_RETURN_IF_ERROR(WriteFloats(out, slot.tensor));
  }
  return absl::OkStatus();
}

StateTensor ShardOf(const Unit& unit, const ShardLayout::Piece& piece) {
  return unit.ShardState(unit.layout().placement(piece.parameter).segment);
}

// Elements [begin, begin + numel), wherever they lie.
absl::StatusOr<std::vector<float>> ReadState(const StateTensor& state, int64_t begin, int64_t numel,
                                             Device& device) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor values, Tensor::Empty(device, Shape({numel}), state.dtype(),
                                                             MemoryCategory::kOffloadStaging));
  ZEROTH_RETURN_IF_ERROR(state.Read(begin, values, device.compute_stream()));
  return ToFloats(values);
}

std::vector<Unit*> Order(Sharding& sharding, const ToyStep& step) {
  if (!step.order.empty()) return step.order;
  return {sharding.units().begin(), sharding.units().end()};
}

absl::Status ForwardOne(Sharding& sharding, const ToyStep& step, Unit& unit, bool expects_backward,
                        const std::function<absl::Status()>& inside) {
  ZEROTH_RETURN_IF_ERROR(Visit(step, "before forward", &unit));
  ZEROTH_RETURN_IF_ERROR(sharding.scheduler().BeforeForward(unit, expects_backward));
  ZEROTH_RETURN_IF_ERROR(Visit(step, "forward", &unit));
  if (inside != nullptr) ZEROTH_RETURN_IF_ERROR(inside());
  // Checked after the inner units, because nothing that they did may have changed this one.
  ZEROTH_RETURN_IF_ERROR(CheckGathered(unit, step));
  return sharding.scheduler().AfterForward(unit, expects_backward);
}

absl::Status BackwardOne(Sharding& sharding, const ToyStep& step, Unit& unit,
                         const std::function<absl::Status()>& inside) {
  ZEROTH_RETURN_IF_ERROR(Visit(step, "before backward", &unit));
  ZEROTH_RETURN_IF_ERROR(sharding.scheduler().BeforeBackward(unit));
  if (inside != nullptr) ZEROTH_RETURN_IF_ERROR(inside());
  ZEROTH_RETURN_IF_ERROR(CheckGathered(unit, step));
  ZEROTH_RETURN_IF_ERROR(WriteGradients(unit, step.gradient));
  ZEROTH_RETURN_IF_ERROR(Visit(step, "backward", &unit));
  return sharding.scheduler().AfterBackward(unit);
}

}  // namespace

absl::Status RunToyRanks(int world_size, absl::string_view device_type, const ToyRank& rank_main,
                         absl::string_view back_end) {
  LaunchOptions options;
  options.world_size = world_size;
  return LauncherRegistry::Launch(back_end, options, [&](Communicator& world) -> absl::Status {
    DeviceOptions device_options;
    device_options.index = world.device_index();
    device_options.transport_memory = world.memory_source();
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create(device_type, device_options));
    device->BindThread();
    return rank_main(world, *device);
  });
}

float RoundTo(DType dtype, float value) {
  if (dtype == DType::kFloat32) return value;
  return dtype == DType::kBFloat16 ? ToFloat(ToBFloat16(value)) : ToFloat(ToFloat16(value));
}

namespace {

template <typename T>
absl::StatusOr<std::vector<float>> Widened(const Tensor& tensor) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<T> values, tensor.ToHost<T>());
  std::vector<float> floats;
  floats.reserve(values.size());
  for (const T value : values) floats.push_back(ToFloat(value));
  return floats;
}

}  // namespace

absl::StatusOr<std::vector<float>> ToFloats(const Tensor& tensor) {
  if (tensor.dtype() == DType::kFloat32) return tensor.ToHost<float>();
  return tensor.dtype() == DType::kBFloat16 ? Widened<BFloat16>(tensor) : Widened<Float16>(tensor);
}

ToyModel::ToyModel(const std::vector<ToyUnit>& units) {
  for (const ToyUnit& unit : units) {
    OwnedUnit owned;
    owned.spec = unit;
    for (const Shape& shape : unit.shapes) {
      const std::string name = absl::StrCat(unit.name, ".", owned.parameters.size());
      owned.parameters.push_back(std::make_unique<Parameter>(name, shape));
    }
    units_.push_back(std::move(owned));
  }
}

std::vector<UnitSpec> ToyModel::Specs() const {
  std::vector<UnitSpec> specs;
  for (const OwnedUnit& unit : units_) {
    UnitSpec spec;
    spec.name = unit.spec.name;
    spec.is_root = unit.spec.is_root;
    spec.axes = unit.spec.axes;
    for (const auto& parameter : unit.parameters) spec.parameters.push_back(parameter.get());
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<ToyUnit> AwkwardUnits() {
  return {{"root", {Shape({5, 3}), Shape({})}, /*is_root=*/true},
          {"h.0", {Shape({7}), Shape({4, 16})}},
          {"h.1", {Shape({0, 3}), Shape({11}), Shape({1}), Shape({0})}},
          {"h.2", {Shape({127}), Shape({3, 3}), Shape({})}}};
}

std::vector<ToyUnit> UniformUnits(int blocks) {
  std::vector<ToyUnit> units = {{"root", {Shape({64, 33})}, /*is_root=*/true}};
  for (int i = 0; i < blocks; ++i)
    units.push_back({absl::StrCat("h.", i), {Shape({32, 32}), Shape({97})}});
  return units;
}

float ToyValue(const Parameter& parameter, int64_t element) {
  int64_t name = 0;
  for (const char c : parameter.name()) name += c;
  return static_cast<float>((name * 37 + element * 11) % 1009 + 1);
}

ParameterReader ReaderOf(const ToyFormula& formula) {
  return [formula](const Parameter& parameter, int64_t begin, absl::Span<float> out) {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = formula(parameter, begin + static_cast<int64_t>(i));
    return absl::OkStatus();
  };
}

absl::StatusOr<std::unique_ptr<Sharding>> ShardToy(Communicator& world, Device& device,
                                                   const ToyModel& model,
                                                   const ShardingOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(auto sharding, Sharding::Create(world, device, options, model.Specs()));
  ZEROTH_RETURN_IF_ERROR(sharding->Load(ReaderOf(ToyValue)));
  return sharding;
}

absl::Status ToyForward(Sharding& sharding, const ToyStep& step, bool expects_backward) {
  const std::vector<Unit*> order = Order(sharding, step);
  const auto from = [&](size_t first) -> absl::Status {
    for (size_t i = first; i < order.size(); ++i) {
      ZEROTH_RETURN_IF_ERROR(ForwardOne(sharding, step, *order[i], expects_backward, nullptr));
    }
    return absl::OkStatus();
  };
  if (!order[0]->is_root()) return from(0);
  return ForwardOne(sharding, step, *order[0], expects_backward, [&] { return from(1); });
}

absl::Status ToyBackward(Sharding& sharding, const ToyStep& step) {
  const std::vector<Unit*> order = Order(sharding, step);
  const auto down_to = [&](size_t last) -> absl::Status {
    for (size_t i = order.size(); i > last; --i) {
      ZEROTH_RETURN_IF_ERROR(BackwardOne(sharding, step, *order[i - 1], nullptr));
    }
    return absl::OkStatus();
  };
  if (!order[0]->is_root()) return down_to(0);
  return BackwardOne(sharding, step, *order[0], [&] { return down_to(1); });
}

absl::StatusOr<std::vector<float>> ReadGradient(const Unit& unit, const ShardLayout::Piece& piece) {
  const int segment = unit.layout().placement(piece.parameter).segment;
  const StateTensor gradient = unit.GradientShardState(segment);
  ZEROTH_TOY_EXPECT(gradient.defined());
  return ReadState(gradient, piece.shard_offset, piece.numel(), unit.device());
}

absl::Status ToyUpdate(Sharding& sharding, float lr) {
  for (const Unit* unit : sharding.units()) {
    for (int i = 0; i < unit->layout().parameter_count(); ++i) {
      if (!unit->takes_gradient(i)) continue;
      const ShardLayout::Piece piece = unit->PieceOf(i);
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> gradients, ReadGradient(*unit, piece));
      const StateTensor shard = ShardOf(*unit, piece);
      Device& device = unit->device();
      ZEROTH_ASSIGN_OR_RETURN(std::vector<float> values,
                              ReadState(shard, piece.shard_offset, piece.numel(), device));
      for (size_t j = 0; j < values.size(); ++j) values[j] -= lr * gradients[j];
      ZEROTH_ASSIGN_OR_RETURN(const Tensor changed,
                              Tensor::Empty(device, Shape({piece.numel()}), shard.dtype(),
                                            MemoryCategory::kOffloadStaging));
      ZEROTH_RETURN_IF_ERROR(WriteFloats(values, changed));
      Stream& stream = device.compute_stream();
      ZEROTH_RETURN_IF_ERROR(shard.Write(piece.shard_offset, changed, stream));
      ZEROTH_RETURN_IF_ERROR(stream.Synchronize());
    }
  }
  return absl::OkStatus();
}

absl::Status RunToyStep(Sharding& sharding, const ToyStep& step) {
  ZEROTH_RETURN_IF_ERROR(ToyForward(sharding, step));
  ZEROTH_RETURN_IF_ERROR(ToyBackward(sharding, step));
  ZEROTH_RETURN_IF_ERROR(Visit(step, "before finish", nullptr));
  ZEROTH_RETURN_IF_ERROR(sharding.scheduler().FinishBackward());
  ZEROTH_RETURN_IF_ERROR(Visit(step, "before update", nullptr));
  ZEROTH_RETURN_IF_ERROR(ToyUpdate(sharding, step.lr));
  ZEROTH_RETURN_IF_ERROR(Visit(step, "before end", nullptr));
  return sharding.scheduler().EndStep();
}

absl::Status CheckShards(const Sharding& sharding, const ToyFormula& formula, double tolerance) {
  return sharding.VisitShards(
      [&](const Parameter& parameter, int64_t begin, absl::Span<const float> values) {
        return CheckValues("shard", parameter, begin, values, formula, tolerance);
      });
}

absl::Status CheckFull(Sharding& sharding, const ToyFormula& formula, double tolerance) {
  size_t seen = 0;
  ZEROTH_RETURN_IF_ERROR(sharding.VisitFull(
      [&](const Parameter& parameter, int64_t begin, absl::Span<const float> values) {
        ++seen;
        if (begin != 0 || static_cast<int64_t>(values.size()) != parameter.numel()) {
          return absl::InternalError(
              absl::StrCat("'", parameter.name(), "' is not whole: ", values.size(), " elements"));
        }
        return CheckValues("parameter", parameter, begin, values, formula, tolerance);
      }));
  ZEROTH_TOY_EXPECT(seen == sharding.parameters().size());
  return absl::OkStatus();
}

absl::Status CheckGradients(const Sharding& sharding, const ToyFormula& formula, double tolerance) {
  for (const Unit* unit : sharding.units()) {
    for (int i = 0; i < unit->layout().parameter_count(); ++i) {
      if (!unit->takes_gradient(i)) continue;
      const ShardLayout::Piece piece = unit->PieceOf(i);
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values, ReadGradient(*unit, piece));
      ZEROTH_RETURN_IF_ERROR(CheckValues("gradient", *unit->parameters()[static_cast<size_t>(i)],
                                         piece.begin, values, formula, tolerance));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAtRest(Sharding& sharding) {
  for (const Unit* unit : sharding.units()) {
    ZEROTH_RETURN_IF_ERROR(unit->ExpectState(UnitState::kSharded, "rest"));
    ZEROTH_RETURN_IF_ERROR(unit->ExpectGradientState(GradientState::kNone, "rest"));
    for (const Parameter* parameter : unit->parameters()) {
      ZEROTH_TOY_EXPECT(!parameter->data().defined());
      ZEROTH_TOY_EXPECT(!parameter->grad().defined());
    }
  }
  const MemoryStats memory = sharding.device().allocator().stats();
  // Registered buffers are kept.
  const bool keeps_buffers = sharding.device().allocator().has_transport_memory();
  ZEROTH_TOY_EXPECT(keeps_buffers ||
                    memory[MemoryCategory::kGatheredParameters].current_bytes == 0);
  ZEROTH_TOY_EXPECT(memory[MemoryCategory::kParameters].current_bytes ==
                    sharding.ShardMemoryBytes());
  ZEROTH_TOY_EXPECT(keeps_buffers || memory[MemoryCategory::kGradients].current_bytes == 0);
  ZEROTH_TOY_EXPECT(memory[MemoryCategory::kOffloadStaging].current_bytes == 0);
  return absl::OkStatus();
}

}  // namespace zeroth
