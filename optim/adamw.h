// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_OPTIM_ADAMW_H_
#define ZEROTH_OPTIM_ADAMW_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/optim/optimizer.h"
#include "zeroth/optim/parameter_group.h"
#include "zeroth/optim/shard_state.h"
#include "zeroth/strategies/sharding.h"
#include "zeroth/strategies/state_passes.h"

namespace zeroth {

using AdamWOptions = OptimizerOptions;

// InvalidArgument lists the values unless betas are in [0, 1), lr, eps and weight decay are finite
// and not negative, and the state's type is one of the three.
absl::Status ValidateAdamWOptions(const AdamWOptions& options);

// What shards are to be divided by for such a state: ShardingOptions::block_numel must be a
// multiple.
int64_t RequiredBlockNumel(DType state_dtype);

// AdamW (Loshchilov and Hutter, 2019) on the shards of one rank: moments exist for what this rank
// owns and nothing else (ZeRO, Rajbhandari et al., 2020). Updates are element by element, or block
// by block of a parameter, and are rounded by draws that depend on the element's place in its
// parameter, so where shards begin changes no bit, and neither does offloading
// (ShardingOptions::offload): state in a store passes through memory in chunks. Parameters are
// updated in the type that the sharding keeps them in (MixedPrecision::master_dtype). Used by one
// rank's thread only.
class AdamW : public Optimizer {
 public:
  // Allocates zeroed moments, in the sharding's store if optimizer state is offloaded.
  // InvalidArgument if an option is out of its range, names the unit whose shards are not divided
  // by the state's blocks, or a group that no parameter with a place for gradients belongs to
  // (Unit::takes_gradient, whether it is frozen just now or not), or whose settings are out of
  // range. `sharding` and `kernels` outlive the optimizer.
  static absl::StatusOr<std::unique_ptr<AdamW>> Create(
      Sharding& sharding, Kernels& kernels, const AdamWOptions& options,
      absl::Span<const ParameterGroup> groups = {});

  // For whoever has both, as a ShardedModule.
  template <typename Sharded>
  static auto Create(Sharded& sharded, const AdamWOptions& options,
                     absl::Span<const ParameterGroup> groups = {})
      -> decltype(Create(sharded.sharding(), sharded.kernels(), options, groups)) {
    return Create(sharded.sharding(), sharded.kernels(), options, groups);
  }

  absl::Status Update(const Tensor& grad_factor = Tensor()) override;
  // Its moments "m" and "v", with their scales "m_scale" and "v_scale" if they are 8-bit codes.
  std::vector<ShardState> states() const override;

 protected:
  // Waits until the step before has copied its coefficients from the host.
  absl::Status PrepareStep(int64_t step, double lr, double grad_scale) override;

 private:
  // A run of elements of one shard that take the same update.
  struct Range {
    int64_t offset;
    int64_t numel;
    int64_t row;            // of its coefficients
    uint64_t stream;        // of its parameter's draws
    int64_t first_element;  // where it starts in its parameter
  };
  // What parameters of one group, or of none, are updated with.
  struct Settings {
    AdamWOptions options;
    double lr_scale = 1;
  };
  struct State {
    Unit* unit = nullptr;
    int segment = 0;
    StateTensor m;  // [shard_numel]
    StateTensor v;  // [shard_numel]
    // [ceil(shard_numel / kMomentBlock)] with 8-bit moments, undefined otherwise.
    StateTensor m_scale;
    StateTensor v_scale;
  };

  AdamW(Sharding& sharding, Kernels& kernels, const AdamWOptions& options);
  absl::Status SetGroups(absl::Span<const ParameterGroup> groups);
  // Its group's row of coefficients without weight decay, or the one after it with.
  int64_t RowOf(const Parameter& parameter) const;
  std::vector<Range> Ranges(const State& state) const;
  absl::Status ZeroMoments(State& state) const;
  absl::StatusOr<StateTensor> ZeroState(int64_t numel, DType dtype) const;
  // What an update reads and writes: parameters, gradients, both moments and, of 8-bit ones, both
  // scales.
  std::vector<StatePass::Operand> Operands(const State& state) const;
  // Appends the updates of the elements of `ranges` among [begin, begin + chunk[0].numel()), where
  // `chunk` has the operands' elements.
  void AppendUpdates(absl::Span<const Range> ranges, const Tensor& grad_factor, int64_t begin,
                     absl::Span<const Tensor> chunk, std::vector<AdamWArgs>& updates) const;

  Kernels& kernels_;
  AdamWOptions options_;
  std::vector<State> states_;
  std::vector<Settings> settings_;                  // of parameters without a group, of each group
  std::map<const Parameter*, size_t> settings_of_;  // of those that have a group
  // Of this step, of each of the settings: without decay, with it.
  std::vector<AdamWCoefficients> coefficients_;
  Tensor device_coefficients_;  // the same, [rows, kAdamWCoefficients] fp32
  // When the copy from the one to the other has ended; nullptr: none was made.
  std::shared_ptr<Event> coefficients_copied_;
};

}  // namespace zeroth

#endif  // ZEROTH_OPTIM_ADAMW_H_
