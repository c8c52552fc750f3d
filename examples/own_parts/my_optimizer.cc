// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Lion (Chen et al., "Symbolic discovery of optimization algorithms", 2023), with g the gradient:
//   w -= lr * (sign(beta1 m + (1 - beta1) g) + decay * w);  m = beta2 m + (1 - beta2) g
// Each rank updates the shards that it owns, by kernels that every device has. One `m` for each
// element is sharded like the weights, and saved with them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/muon/muon.h"
#include "zeroth/optim/device_rows.h"
#include "zeroth/optim/lr_schedule.h"
#include "zeroth/optim/optimizer.h"
#include "zeroth/strategies/offload.h"

namespace {

using namespace zeroth;  // NOLINT: a program's own .cc

class Lion : public Optimizer {
 public:
  static absl::StatusOr<std::unique_ptr<Optimizer>> Create(
      Sharding& sharding, Kernels& kernels, const OptimizerOptions& options,
      absl::Span<const ParameterGroup> groups) {
    if (!groups.empty()) return absl::UnimplementedError("lion: expected no parameter groups");
    if (options.state_dtype != DType::kFloat32) {
      return absl::UnimplementedError("lion: expected --optimizer_state_dtype=fp32");
    }
    if (sharding.offload().options().any()) {
      return absl::UnimplementedError(
          "lion: expected weights and moments in memory; leave --offload out");
    }
    for (const Unit* unit : sharding.units()) {
      if (unit->precision().master_dtype == DType::kFloat32) continue;
      return absl::UnimplementedError("lion: unit '" + unit->name() +
                                      "': expected --master_dtype=fp32");
    }
    std::unique_ptr<Lion> lion(new Lion(sharding, kernels, options));
    ZEROTH_RETURN_IF_ERROR(lion->scalars_.Allocate(sharding.device(), kRows));
    for (Unit* unit : sharding.units()) {
      for (int i = 0; i < unit->segment_count(); ++i) {
        if (!unit->segment_layout(i).trainable) continue;
        ZEROTH_ASSIGN_OR_RETURN(
            const Tensor m, Tensor::Zeros(sharding.device(), Shape({unit->ShardState(i).numel()}),
                                          DType::kFloat32, MemoryCategory::kOptimizer));
        lion->states_.push_back({unit, i, "momentum", m});
      }
    }
    return lion;
  }

  absl::Status Update(const Tensor& grad_factor) override {
    ZEROTH_RETURN_IF_ERROR(ExpectReducedGradients());
    for (const ShardState& state : states_) {
      for (const int index : ParametersOf(state)) {
        const Parameter& parameter = state.unit->parameter(index);
        const ShardLayout::Piece piece = state.unit->PieceOf(index);
        if (piece.numel() == 0 || !parameter.requires_grad()) continue;
        ZEROTH_RETURN_IF_ERROR_WITH(
            UpdatePiece(state.unit->ShardView(piece), state.unit->GradientShardView(piece),
                        state.shard.tensor().View(piece.shard_offset, Shape({piece.numel()})),
                        parameter.decay() ? kDecays : kPlain, grad_factor),
            parameter.name());
      }
    }
    return absl::OkStatus();
  }

  std::vector<ShardState> states() const override { return states_; }

 protected:
  // Writes the step's scalars to device memory, where a recorded Update (--cuda_graphs) reads them.
  absl::Status PrepareStep(int64_t, double lr, double grad_scale) override {
    ZEROTH_ASSIGN_OR_RETURN(std::vector<MuonCoefficients>* const rows, scalars_.Rows());
    for (const size_t row : {kPlain, kDecays, kMoment}) {
      const double beta = row == kMoment ? options_.beta2 : options_.beta1;
      (*rows)[row] = {.grad_scale = static_cast<float>(grad_scale),
                      .momentum = static_cast<float>(beta),
                      .one_minus_momentum = static_cast<float>(1 - beta),
                      .decay = static_cast<float>(row == kDecays ? lr * options_.weight_decay : 0),
                      .step = static_cast<float>(lr)};
    }
    return scalars_.Upload(kernels_.stream());
  }

 private:
  // Rows of scalars: of the update without and with decay, and of the moment.
  static constexpr size_t kPlain = 0;
  static constexpr size_t kDecays = 1;
  static constexpr size_t kMoment = 2;
  static constexpr size_t kRows = 3;

  Lion(Sharding& sharding, Kernels& kernels, const OptimizerOptions& options)
      : Optimizer(sharding, options.lr), kernels_(kernels), options_(options) {}

  // Muon's elementwise kernels read a gradient of any type, and skip the step if a factor is NaN.
  absl::Status UpdatePiece(const Tensor& w, const Tensor& g, const Tensor& m, size_t row,
                           const Tensor& grad_factor) {
    const MuonScalars update{scalars_.Row(row), grad_factor};
    const MuonScalars moment{scalars_.Row(kMoment), grad_factor};
    // A copy of the piece, as large as this rank's part of the largest parameter.
    ZEROTH_ASSIGN_OR_RETURN(
        const Tensor c,
        Tensor::Empty(sharding_.device(), m.shape(), DType::kFloat32, MemoryCategory::kWorkspace));
    ZEROTH_RETURN_IF_ERROR(kernels::Basic(kernels_, {.op = BasicOp::kScale, .a = m, .out = c}));
    ZEROTH_RETURN_IF_ERROR(kernels::MuonMomentum(kernels_, update, g, c, Tensor()));
    ZEROTH_RETURN_IF_ERROR(kernels::MuonMomentum(kernels_, moment, g, m, Tensor()));
    // c is 0 or at least 1e-38, so that the tanh of 1e60 c is its sign. 1e60 is no float, hence
    // two.
    ZEROTH_RETURN_IF_ERROR(kernels::Scale(kernels_, c, 1e30f));
    ZEROTH_RETURN_IF_ERROR(kernels::Scale(kernels_, c, 1e30f));
    ZEROTH_RETURN_IF_ERROR(kernels::Basic(kernels_, {.op = BasicOp::kTanh, .a = c, .out = c}));
    return kernels::MuonUpdate(kernels_, update, c, w);
  }

  Kernels& kernels_;
  const OptimizerOptions options_;
  DeviceRows<MuonCoefficients> scalars_;
  std::vector<ShardState> states_;  // one for each segment that is trained
};

const OptimizerRegistration registration("lion", Lion::Create);

// Falls with the inverse square root of the step.
const LrScheduleRegistration schedule("inverse_sqrt", [](int64_t step,
                                                         const LrScheduleOptions& options) {
  const double warmup = std::max(1.0, static_cast<double>(options.warmup_steps));
  return options.lr * std::sqrt(warmup / std::max(warmup, static_cast<double>(step + 1)));
});

}  // namespace
