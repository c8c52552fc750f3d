// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The smallest model to shard: units of parameters whose "backward" is a formula. Real ranks drive
// it through the scheduler's hooks as hand-written kernels would, and every value is known in
// advance.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/shape.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/strategies/shard_layout.h"
#include "zeroth/strategies/sharding.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// Runs `rank_main` on real ranks, each with its own device.
using ToyRank = std::function<absl::Status(Communicator& world, Device& device)>;
absl::Status RunToyRanks(int world_size, absl::string_view device_type, const ToyRank& rank_main,
                         absl::string_view back_end = "local");
inline absl::Status RunToyRanks(int world_size, const ToyRank& rank_main) {
  return RunToyRanks(world_size, "cpu", rank_main);
}

// `value` as a tensor of `dtype` (fp32, bf16 or fp16) holds it.
float RoundTo(DType dtype, float value);
// A tensor's elements (fp32, bf16 or fp16) on the host.
absl::StatusOr<std::vector<float>> ToFloats(const Tensor& tensor);

struct ToyUnit {
  std::string name;
  std::vector<Shape> shapes;
  bool is_root = false;
  UnitAxes axes = {};
};

// A rank's parameters, named "<unit>.<position>".
class ToyModel {
 public:
  explicit ToyModel(const std::vector<ToyUnit>& units);

  Parameter& parameter(size_t unit, size_t position) { return *units_[unit].parameters[position]; }
  std::vector<UnitSpec> Specs() const;

 private:
  struct OwnedUnit {
    ToyUnit spec;
    std::vector<std::unique_ptr<Parameter>> parameters;
  };
  std::vector<OwnedUnit> units_;
};

// A root and three blocks of awkward parameters: scalars, primes, single elements, and an empty
// one.
std::vector<ToyUnit> AwkwardUnits();
// A root and `blocks` blocks of equal size, large against alignment.
std::vector<ToyUnit> UniformUnits(int blocks);

// The value of an element of a parameter.
using ToyFormula = std::function<float(const Parameter& parameter, int64_t element)>;
// Small integers that differ between parameters and elements.
float ToyValue(const Parameter& parameter, int64_t element);
ParameterReader ReaderOf(const ToyFormula& formula);
// The model's units sharded, with ToyValue as parameters.
absl::StatusOr<std::unique_ptr<Sharding>> ShardToy(Communicator& world, Device& device,
                                                   const ToyModel& model,
                                                   const ShardingOptions& options);

// The mesh as units with the default axes see it.
inline const MeshView& ViewOf(const Sharding& sharding) { return sharding.units()[0]->mesh(); }

// The gradient that one rank contributes, given the parameter's gathered value.
using ToyGradient = std::function<float(const Parameter& parameter, int64_t element, float value)>;

// A training step by hand. Every function returns the first error, including that of `hook`.
struct ToyStep {
  ToyGradient gradient;
  // Units in forward order; the first surrounds the others if it is the root. Empty: all of them.
  std::vector<Unit*> order;
  // Called at each stage: "before forward", "forward", "before backward", "backward", "before
  // finish", "before update", "before end".
  std::function<absl::Status(absl::string_view stage, const Unit* unit)> hook;
  // The expected parameters of a unit in forward and in backward, rounded to the compute type;
  // none: not checked.
  ToyFormula expected;
  // The update: value -= lr * gradient.
  float lr = 0.5f;
};
absl::Status ToyForward(Sharding& sharding, const ToyStep& step, bool expects_backward = true);
absl::Status ToyBackward(Sharding& sharding, const ToyStep& step);
// This rank's piece of a parameter's reduced gradient, wherever it lies.
absl::StatusOr<std::vector<float>> ReadGradient(const Unit& unit, const ShardLayout::Piece& piece);
// Applies the reduced gradients to this rank's shards.
absl::Status ToyUpdate(Sharding& sharding, float lr);
// Forward, backward, FinishBackward, update, EndStep.
absl::Status RunToyStep(Sharding& sharding, const ToyStep& step);

// Error if this rank's shards, the whole gathered parameters, or this rank's shards of reduced
// gradients differ from the formula by more than `tolerance` relative to it (0: in any bit but the
// sign of zero).
absl::Status CheckShards(const Sharding& sharding, const ToyFormula& formula, double tolerance = 0);
absl::Status CheckFull(Sharding& sharding, const ToyFormula& formula, double tolerance = 0);
absl::Status CheckGradients(const Sharding& sharding, const ToyFormula& formula,
                            double tolerance = 0);
// Error unless every unit is sharded, nothing is gathered by the allocator's account, and no more
// gradient memory is in use than this rank's shards.
absl::Status CheckAtRest(Sharding& sharding);

// "condition" as an error, for use in functions that return Status.
#define ZEROTH_TOY_EXPECT(condition)                                           \
  do {                                                                         \
    if (!(condition))                                                          \
      return absl::InternalError("expected " #condition ", at " __FILE__ ":" + \
                                 std::to_string(__LINE__));                    \
  } while (false)

}  // namespace zeroth
