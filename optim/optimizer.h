// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What training needs of an optimizer, and the optimizers by name.

#ifndef ZEROTH_OPTIM_OPTIMIZER_H_
#define ZEROTH_OPTIM_OPTIMIZER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/optim/parameter_group.h"
#include "zeroth/optim/shard_state.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

// What optimizers have in common, as the trainer's flags say it; one refuses what it cannot do.
struct OptimizerOptions {
  double lr = 1e-3;  // of steps that are not given another
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  // of parameters whose decay() is true
  EpsMode eps_mode = EpsMode::kAfterCorrection;
  // What moments are kept as. fp32; bf16, rounded stochastically; or uint8: 8-bit codes and an fp32
  // scale for each kMomentBlock elements of a parameter (moment_codes.h), which the sharding must
  // be divided by: ShardingOptions::block_numel. 8, 4 and 2.0625 bytes a parameter.
  DType state_dtype = DType::kFloat32;
  // Of the draws that round moments and bf16 parameters; nothing else is random.
  uint64_t seed = 0;
};

// Updates the shards of one rank from their reduced gradients. State exists for what this rank owns
// and for nothing else (ZeRO, Rajbhandari et al., 2020). Where shards begin must change no bit of a
// result. Used by one rank's thread only.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One step at learning rate `lr` on the reduced gradients, each times `grad_scale`: between
  // Scheduler::FinishBackward and EndStep. Parameters that do not require a gradient now keep
  // values and states. `grad_factor`, if defined, is a further factor in device memory, fp32 [1],
  // as GradNormAndScale makes it; where it or grad_scale is NaN, values and states stay as they
  // are, and the caller, who learns of that later, must ForgetSkippedStep. FailedPrecondition names
  // a unit whose gradients are not reduced, or says that FinishBackward was not called; nothing is
  // changed then.
  absl::Status Step(double lr, double grad_scale = 1.0, const Tensor& grad_factor = Tensor());

  // Step in two parts, for a part that is recorded (Device::BeginRecording) and played at every
  // step: BeginStep counts the step and puts what changes from step to step where Update finds it
  // when it runs. Both are enqueued on the kernels' stream. After an error of BeginStep the step is
  // not counted.
  absl::Status BeginStep(double lr, double grad_scale = 1.0);
  virtual absl::Status Update(const Tensor& grad_factor = Tensor()) = 0;

  // The last step was skipped: it does not count.
  void ForgetSkippedStep() { --step_; }
  // Steps taken.
  int64_t step() const { return step_; }
  // As if so many had been taken: for states that come from elsewhere.
  void set_step(int64_t step) { step_ = step; }
  // OptimizerOptions::lr.
  double lr() const { return lr_; }

  // For those who save and restore its states without knowing what they are.
  virtual std::vector<ShardState> states() const = 0;
  // Of this rank's states, wherever they lie.
  int64_t MemoryBytes() const;

 protected:
  // `sharding` outlives the optimizer.
  Optimizer(Sharding& sharding, double lr) : sharding_(sharding), lr_(lr) {}

  // BeginStep's work; `step` counts from 1.
  virtual absl::Status PrepareStep(int64_t step, double lr, double grad_scale) = 0;
  // What Update begins with.
  absl::Status ExpectReducedGradients() const;

  Sharding& sharding_;

 private:
  double lr_;
  int64_t step_ = 0;
};

// Optimizers by name. Thread-safe.
class OptimizerRegistry {
 public:
  // `sharding` and `kernels` outlive the optimizer.
  using Factory = std::function<absl::StatusOr<std::unique_ptr<Optimizer>>(
      Sharding& sharding, Kernels& kernels, const OptimizerOptions& options,
      absl::Span<const ParameterGroup> groups)>;

  // A second registration of a name is a bug and aborts.
  static void Register(absl::string_view name, Factory factory);
  // InvalidArgument lists the optimizers that are linked in, or says which option does not fit.
  static absl::StatusOr<std::unique_ptr<Optimizer>> Create(
      absl::string_view name, Sharding& sharding, Kernels& kernels, const OptimizerOptions& options,
      absl::Span<const ParameterGroup> groups = {});
  // The first of these errors, if the name has it.
  static absl::Status Check(absl::string_view name);
};

// Put one at namespace scope in the optimizer's .cc, in a target with alwayslink.
struct OptimizerRegistration {
  OptimizerRegistration(absl::string_view name, OptimizerRegistry::Factory factory) {
    OptimizerRegistry::Register(name, std::move(factory));
  }
};

}  // namespace zeroth

#endif  // ZEROTH_OPTIM_OPTIMIZER_H_
