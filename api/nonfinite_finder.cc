// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/api/nonfinite_finder.h"

#include <cmath>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"
#include "zeroth/core/tensor/host_floats.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {
namespace {

constexpr char kLabel[] = "find what is not finite";

// Returns "3 of 64 values, the first of them nan at [1, 5]", with row and column of the matrix;
// std::nullopt if all values are finite.
std::optional<std::string> Describe(const std::vector<float>& values, const Matrix& matrix) {
  int64_t count = 0;
  std::string first;
  for (int64_t row = 0; row < matrix.rows; ++row) {
    for (int64_t col = 0; col < matrix.cols; ++col) {
      const float value = values[static_cast<size_t>(matrix.offset + row * matrix.stride + col)];
      if (std::isfinite(value)) continue;
      if (count++ == 0) first = absl::StrCat(value, " at [", row, ", ", col, "]");
    }
  }
  if (count == 0) return std::nullopt;
  return absl::StrCat(count, " of ", matrix.rows * matrix.cols, " values, the first of them ",
                      first);
}

absl::StatusOr<std::optional<std::string>> Describe(const Matrix& matrix) {
  if (!IsFloatingPoint(matrix.tensor.dtype()) || matrix.rows * matrix.cols == 0) {
    return std::optional<std::string>();
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values, ToHostFloats(matrix.tensor));
  return Describe(values, matrix);
}

bool LiesIn(const Tensor& tensor, const void* address) {
  if (!tensor.defined() || tensor.bytes() == 0) return false;
  const char* const begin = static_cast<const char*>(tensor.raw_data());
  const char* const at = static_cast<const char*>(address);
  return at >= begin && at < begin + tensor.bytes();
}

// The parameter that a kernel argument aliases: its values or its gradient.
struct Place {
  const Unit* unit = nullptr;
  const Parameter* parameter = nullptr;
  bool is_gradient = false;
  bool is_of_teacher = false;
};

std::optional<Place> FindPlace(const Sharding& sharding, const Tensor& tensor) {
  if (tensor.bytes() == 0) return std::nullopt;
  for (const Unit* unit : sharding.units()) {
    for (const Parameter* parameter : unit->parameters()) {
      for (const bool is_gradient : {false, true}) {
        const Tensor& own = is_gradient ? parameter->grad() : parameter->data();
        if (LiesIn(own, tensor.raw_data())) return Place{unit, parameter, is_gradient};
      }
    }
  }
  return std::nullopt;
}

std::string NameOf(const Place& place) {
  return absl::StrCat(place.is_of_teacher ? "the teacher's " : "", "parameter '",
                      place.parameter->name(), "' of unit '", place.unit->name(), "'");
}

}  // namespace

NonFiniteFinder::NonFiniteFinder(Sharding& sharding, Kernels& kernels, const Sharding* teacher)
    : sharding_(sharding), teacher_(teacher), kernels_(kernels) {
  kernels_.set_watch(this);
}

NonFiniteFinder::~NonFiniteFinder() { kernels_.set_watch(nullptr); }

void NonFiniteFinder::Found(std::string text) {
  text_ = std::move(text);
  found_after_ = calls_;
}

absl::Status NonFiniteFinder::AfterCall(const char* operation, absl::Span<const CallField> fields) {
  ++calls_;
  if (!text_.empty()) return absl::OkStatus();
  std::string found;
  bool uses_parameter = false;
  for (const CallField& field : fields) {
    std::optional<Place> place = FindPlace(sharding_, field.values.tensor);
    if (!place.has_value() && teacher_ != nullptr) {
      place = FindPlace(*teacher_, field.values.tensor);
      if (place.has_value()) place->is_of_teacher = true;
    }
    if (place.has_value()) parameter_ = NameOf(*place);
    uses_parameter = uses_parameter || place.has_value();
    ZEROTH_ASSIGN_OR_RETURN(const std::optional<std::string> values, Describe(field.values));
    if (!values.has_value()) continue;
    if (place.has_value() && !place->is_gradient) {
      // Its results cannot be finite, so the message names the parameter and not the operation.
      Found(absl::StrCat(NameOf(*place), " is not finite itself, in ", place_, ": ", *values));
      return absl::OkStatus();
    }
    // The call's inputs were finite when they were made, so this is one of its outputs.
    if (found.empty()) found = absl::StrCat(field.name, " (", *values, ")");
  }
  if (found.empty()) return absl::OkStatus();
  Found(absl::StrCat("in ", place_, ", the first operation with values that are not finite is ",
                     operation, uses_parameter ? " with " : " after one with ", parameter_,
                     ": its ", found));
  return absl::OkStatus();
}

absl::Status NonFiniteFinder::CheckReducedGradients() {
  ++calls_;
  for (const Unit* unit : sharding_.units()) {
    if (!text_.empty() || unit->gradient_state() != GradientState::kReduced) continue;
    for (int i = 0; i < unit->layout().parameter_count(); ++i) {
      if (!unit->takes_gradient(i)) continue;
      const ShardLayout::Piece piece = unit->PieceOf(i);
      if (piece.numel() == 0) continue;
      const StateTensor shard = unit->GradientShardState(unit->segment_of(i));
      ZEROTH_ASSIGN_OR_RETURN(const Tensor mine,
                              unit->InMemory(shard, piece.shard_offset, piece.numel()));
      ZEROTH_ASSIGN_OR_RETURN(const std::optional<std::string> values,
                              Describe(Matrix(mine.Reshape(Shape({1, piece.numel()})))));
      if (!values.has_value()) continue;
      Found(absl::StrCat("the reduction over ranks of the gradient of ",
                         NameOf({unit, &unit->parameter(i)}),
                         ", which every rank had made finite, overflowed: ", *values));
      break;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> NonFiniteFinder::Agree() {
  Communicator& world = sharding_.mesh().world();
  Device& device = sharding_.device();
  // Encodes (call, rank) so that the maximum is the earliest call and then the lowest rank.
  const int64_t size = world.size();
  const int64_t mine =
      text_.empty() ? 0 : ((int64_t{1} << 30) - found_after_) * size + size - 1 - world.rank();
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor shared,
      Tensor::FromHost<int64_t>(device, Shape({1}), absl::MakeConstSpan(&mine, 1),
                                MemoryCategory::kCommunication));
  if (size > 1) {
    ZEROTH_RETURN_IF_ERROR(
        world.AllReduce(shared, ReduceOp::kMax, device.compute_stream(), kLabel));
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<int64_t> first, shared.ToHost<int64_t>());
  if (first[0] == 0) return std::string();
  const int root = static_cast<int>(size - 1 - first[0] % size);
  return BroadcastText(world, device, root, absl::StrCat("on rank ", root, ": ", text_), kLabel);
}

}  // namespace zeroth
