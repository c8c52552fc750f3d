// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// --optimizer=faulty_adamw is AdamW with a fault of one rank after update number STEP, as
// ZEROTH_FAULT=KIND:RANK:STEP says: "flip" flips a bit of a moment, "nan" makes an element of a
// parameter NaN, "hang" never returns, and "late" sleeps after this update and each later one.

#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/optim/optimizer.h"

namespace zeroth {
namespace {

class FaultyAdamW : public Optimizer {
 public:
  static absl::StatusOr<std::unique_ptr<Optimizer>> Create(
      Sharding& sharding, Kernels& kernels, const OptimizerOptions& options,
      absl::Span<const ParameterGroup> groups) {
    std::unique_ptr<FaultyAdamW> faulty(new FaultyAdamW(sharding, options.lr));
    ZEROTH_ASSIGN_OR_RETURN(faulty->adamw_,
                            OptimizerRegistry::Create("adamw", sharding, kernels, options, groups));
    const char* const fault = std::getenv("ZEROTH_FAULT");
    const std::vector<std::string> words = absl::StrSplit(fault == nullptr ? "" : fault, ':');
    if (words.size() != 3 || !absl::SimpleAtoi(words[1], &faulty->rank_) ||
        !absl::SimpleAtoi(words[2], &faulty->at_step_)) {
      return absl::InvalidArgumentError("faulty_adamw: expected ZEROTH_FAULT=KIND:RANK:STEP");
    }
    faulty->kind_ = words[0];
    return std::unique_ptr<Optimizer>(std::move(faulty));
  }

  absl::Status Update(const Tensor& grad_factor) override {
    ZEROTH_RETURN_IF_ERROR(adamw_->Update(grad_factor));
    if (sharding_.mesh().world().rank() != rank_ || ++updates_ < at_step_) {
      return absl::OkStatus();
    }
    if (kind_ == "late") {
      absl::SleepFor(absl::Milliseconds(300));
      return absl::OkStatus();
    }
    if (updates_ != at_step_) return absl::OkStatus();
    if (kind_ == "hang") {
      for (;;) absl::SleepFor(absl::Seconds(1));
    }
    if (kind_ == "flip") {
      // In a parameter that all tensor ranks have.
      for (const ShardState& state : states()) {
        if (state.unit->segment_layout(state.segment).of_parts) continue;
        // A bit of the mantissa that later updates do not round away.
        static_cast<uint8_t*>(state.shard.tensor().raw_data())[2] ^= 0x40;
        return absl::OkStatus();
      }
      return absl::NotFoundError("faulty_adamw: every parameter is a part of a larger one");
    }
    // In a block's matrix, whose element is used for every token.
    const Unit& unit = *sharding_.units().back();
    unit.ShardView(unit.PieceOf(2)).data<float>()[0] = std::nanf("");
    return absl::OkStatus();
  }

  std::vector<ShardState> states() const override { return adamw_->states(); }

 protected:
  absl::Status PrepareStep(int64_t step, double lr, double grad_scale) override {
    adamw_->set_step(step - 1);
    return adamw_->BeginStep(lr, grad_scale);
  }

 private:
  using Optimizer::Optimizer;

  std::unique_ptr<Optimizer> adamw_;
  std::string kind_;
  int rank_ = 0;
  int at_step_ = 0;
  int updates_ = 0;
};

const OptimizerRegistration registration("faulty_adamw", FaultyAdamW::Create);

}  // namespace
}  // namespace zeroth
