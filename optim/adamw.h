// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/optim/device_rows.h"
#include "zeroth/optim/optimizer.h"
#include "zeroth/optim/parameter_group.h"
#include "zeroth/optim/shard_state.h"
#include "zeroth/strategies/sharding.h"
#include "zeroth/strategies/state_passes.h"

namespace zeroth {

using AdamWOptions = OptimizerOptions;
using ParameterSelection = std::function<bool(const Parameter&)>;

// InvalidArgument lists the values unless betas are in [0, 1), lr, eps and weight decay are finite
// and not negative, min_8bit_numel is not negative, and the state's type is one of the three.
absl::Status ValidateAdamWOptions(const AdamWOptions& options);

// Returns the number that must divide ShardingOptions::block_numel for moments of this dtype.
int64_t RequiredBlockNumel(DType state_dtype);

// Returns the type of the moments of a parameter of `numel` elements, undivided.
DType MomentDType(const AdamWOptions& options, int64_t numel);

// Returns the scalars of an update without weight decay; `step` counts from 1.
AdamWArgs AdamWStepArgs(const AdamWOptions& options, int64_t step, double lr);

// AdamW (Loshchilov and Hutter, 2019) on the shards of one rank. Moments exist only for the
// elements that this rank owns (ZeRO, Rajbhandari et al., 2020). Parameters are updated in
// MixedPrecision::master_dtype, element by element, or block by block with 8-bit moments. The draws
// of stochastic rounding depend on an element's index in its parameter. So no bit depends on where
// shards begin, nor on offloading (ShardingOptions::offload), where state passes through memory in
// chunks: with 8-bit moments, separately for each run of parameters whose moments have one type.
// Used by one rank's thread only.
class AdamW : public Optimizer {
 public:
  // Allocates zeroed moments, in the sharding's store if optimizer state is offloaded.
  // InvalidArgument for an option, or a group's setting, that is out of its range; for a unit whose
  // shards, or a parameter whose parts, do not end at the state's blocks; and for a group without a
  // parameter that can have a gradient (Unit::takes_gradient, frozen now or not). The message names
  // the unit, the parameter or the group. `sharding` and `kernels` outlive the optimizer. With
  // `selects`, it updates only the selected parameters; groups may name the others too, which
  // another optimizer updates.
  static absl::StatusOr<std::unique_ptr<AdamW>> Create(Sharding& sharding, Kernels& kernels,
                                                       const AdamWOptions& options,
                                                       absl::Span<const ParameterGroup> groups = {},
                                                       const ParameterSelection& selects = nullptr);

  // Like the function above, for an object that has a sharding and kernels, such as a
  // ShardedModule.
  template <typename Sharded>
  static auto Create(Sharded& sharded, const AdamWOptions& options,
                     absl::Span<const ParameterGroup> groups = {})
      -> decltype(Create(sharded.sharding(), sharded.kernels(), options, groups)) {
    return Create(sharded.sharding(), sharded.kernels(), options, groups);
  }

  // Returns the row of a parameter's coefficients, whether this or another optimizer updates it.
  // There are two rows for parameters without a group, and then two for each group: without weight
  // decay and with it.
  size_t RowOf(const Parameter& parameter) const;
  absl::Status Update(const Tensor& grad_factor = Tensor()) override;
  // The moments "m" and "v", and their scales "m_scale" and "v_scale" if they are 8-bit codes.
  std::vector<ShardState> states() const override;

 protected:
  // Waits until the coefficients of the previous step have been copied from the host.
  absl::Status PrepareStep(int64_t step, double lr, double grad_scale) override;

 private:
  // A run of elements of one shard that share one update.
  struct Range {
    int64_t offset;
    int64_t numel;
    size_t row;             // of coefficients_
    uint64_t stream;        // of the parameter's draws
    int64_t first_element;  // its index in the parameter, which selects the draws
  };
  // The settings of the parameters of one group, or of those without a group.
  struct Settings {
    AdamWOptions options;
    double lr_scale = 1;
  };
  struct State {
    Unit* unit = nullptr;
    int segment = 0;
    int64_t begin = 0;  // in the shard
    int64_t numel = 0;
    std::vector<int> parameters;    // as ShardState::parameters
    DType dtype = DType::kFloat32;  // of both moments
    StateTensor m = {};             // [numel]
    StateTensor v = {};             // [numel]
    // [ceil(numel / kMomentBlock)] with 8-bit moments, undefined otherwise.
    StateTensor m_scale = {};
    StateTensor v_scale = {};
  };

  AdamW(Sharding& sharding, Kernels& kernels, const AdamWOptions& options);
  absl::Status SetGroups(absl::Span<const ParameterGroup> groups);
  std::vector<Range> Ranges(const State& state) const;
  absl::Status AddStates(Unit& unit, int segment, const ParameterSelection& selects);
  absl::Status ZeroMoments(State& state) const;
  // The operands of an update: parameters, gradients, both moments and, for 8-bit moments, both
  // scales.
  std::vector<StatePass::Operand> Operands(const State& state) const;
  // Appends the updates of those elements of `ranges` that lie in [begin, begin +
  // chunk[0].numel()). `chunk` holds these elements of each operand.
  void AppendUpdates(absl::Span<const Range> ranges, const Tensor& grad_factor, int64_t begin,
                     absl::Span<const Tensor> chunk, std::vector<AdamWArgs>& updates) const;

  Kernels& kernels_;
  AdamWOptions options_;
  std::vector<State> states_;
  std::vector<Settings> settings_;                  // for parameters without a group, then by group
  std::map<const Parameter*, size_t> settings_of_;  // for parameters that have a group
  // The coefficients of the current step; RowOf returns a parameter's row.
  DeviceRows<AdamWCoefficients> coefficients_;
};

}  // namespace zeroth
