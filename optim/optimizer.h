// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The interface between training and an optimizer, and the registry of optimizers.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
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

// Scales the update of an orthogonalised matrix.
enum class MuonScale : uint8_t {
  kMatchRmsAdamW,  // 0.2 sqrt(max(rows, columns)): the size of AdamW's updates (Liu et al., "Muon
                   // is scalable for LLM training", 2025)
  kSpectral,       // sqrt(max(1, outputs / inputs))
};

// Muon's options; see muon.h.
struct MuonOptions {
  // Muon's learning rate at steps whose rate is OptimizerOptions::lr; it follows the schedule in
  // proportion. 0: the rate of the step.
  double lr = 0;
  double momentum = 0.95;
  int ns_steps = 5;  // Newton-Schulz iterations
  MuonScale scale = MuonScale::kMatchRmsAdamW;
  bool split_qkv = false;  // orthogonalise queries, keys and values of a fused matrix separately
  bool per_head = false;   // orthogonalise each of their heads separately
  // The type of matmuls: fp32 or bf16. std::nullopt: fp32 on a CPU, bf16 elsewhere.
  std::optional<DType> precision = std::nullopt;
  // Patterns of the names of Muon's matrices, see MatchesPattern. Empty: the matrices of the
  // blocks.
  std::vector<std::string> patterns = {};
};

// bitsandbytes' default of min_8bit_size. The help of --optimizer_state_dtype has this number.
inline constexpr int64_t kMin8bitNumel = 4096;

// The options of all optimizers, as the trainer's flags give them. An optimizer refuses values that
// it does not support.
struct OptimizerOptions {
  double lr = 1e-3;  // of steps that are not given another rate
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  // of parameters whose decay() is true
  EpsMode eps_mode = EpsMode::kAfterCorrection;
  // The type of moments: fp32; bf16, rounded stochastically; or uint8, 8-bit codes and an fp32
  // scale for each kMomentBlock elements of a parameter (moment_codes.h). They take 8, 4 and 2.0625
  // bytes a parameter. uint8 needs ShardingOptions::block_numel to be a multiple of kMomentBlock.
  DType state_dtype = DType::kFloat32;
  // With uint8, parameters of fewer elements have fp32 moments. Undivided parameters are counted,
  // so that tensor parallelism changes no type. At least 0.
  int64_t min_8bit_numel = kMin8bitNumel;
  // Seeds the stochastic rounding of moments and bf16 parameters; nothing else is random.
  uint64_t seed = 0;
  // With tensor parallelism: index these draws by the elements of the undivided parameter, so that
  // bits do not depend on the number of tensor ranks. If false, each part draws as if it were the
  // whole parameter. If true, every row of a column-wise part is a separate update, which costs
  // host time.
  bool draws_of_undivided = false;
  MuonOptions muon = {};  // for Muon only
};

// Updates the shards of one rank from their reduced gradients. State exists only for the elements
// that this rank owns (ZeRO, Rajbhandari et al., 2020). No bit of a result may depend on where
// shards begin. Used by one rank's thread only.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Takes one step at learning rate `lr` on the reduced gradients, each times `grad_scale`. Call it
  // between Scheduler::FinishBackward and EndStep. Parameters that do not require a gradient now
  // keep their values and states. `grad_factor`, if defined, is a further factor in device memory,
  // fp32 [1], as GradNormAndScale makes it. If it or grad_scale is NaN, all values and states stay
  // as they are, and the caller, who learns of it later, must call ForgetSkippedStep.
  // FailedPrecondition names a unit whose gradients are not reduced, or says that FinishBackward
  // was not called; nothing is changed then.
  absl::Status Step(double lr, double grad_scale = 1.0, const Tensor& grad_factor = Tensor());

  // Step in two parts, so that Update can be recorded once (Device::BeginRecording) and played at
  // every step. BeginStep counts the step, and copies the values that change from step to step to
  // the place where Update reads them. Both are enqueued on the kernels' stream. After an error of
  // BeginStep the step is not counted. InvalidArgument for a rate that is negative or not finite.
  absl::Status BeginStep(double lr, double grad_scale = 1.0);
  virtual absl::Status Update(const Tensor& grad_factor = Tensor()) = 0;

  // Takes back the last step, which was skipped.
  void ForgetSkippedStep() { --step_; }
  // Returns the number of steps taken.
  int64_t step() const { return step_; }
  // Sets that number, for states that were loaded.
  void set_step(int64_t step) { step_ = step; }
  // OptimizerOptions::lr.
  double lr() const { return lr_; }

  // The states, for code that saves and restores them without knowing what they are.
  virtual std::vector<ShardState> states() const = 0;
  // Bytes of this rank's states, in memory or in the offload store.
  int64_t MemoryBytes() const;

 protected:
  // `sharding` outlives the optimizer.
  Optimizer(Sharding& sharding, double lr) : sharding_(sharding), lr_(lr) {}

  // Does the work of BeginStep; `step` counts from 1.
  virtual absl::Status PrepareStep(int64_t step, double lr, double grad_scale) = 0;
  // Update begins with this check.
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

  // InvalidArgument lists the optimizers that are linked in, or names the option that does not fit.
  static absl::StatusOr<std::unique_ptr<Optimizer>> Create(
      absl::string_view name, Sharding& sharding, Kernels& kernels, const OptimizerOptions& options,
      absl::Span<const ParameterGroup> groups = {});
  // InvalidArgument, as from Create, unless an optimizer of this name is linked in.
  static absl::Status Check(absl::string_view name);
};

// Put one at namespace scope in the optimizer's .cc, in a target with alwayslink. A second
// registration of a name is a bug and aborts.
struct OptimizerRegistration {
  OptimizerRegistration(absl::string_view name, OptimizerRegistry::Factory factory);
};

}  // namespace zeroth
