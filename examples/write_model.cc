// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A custom model, written with Zeroth's operations and trained under every strategy.
// docs/writing_a_model.md shows the lines between the rulers.

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "zeroth/api/zeroth.h"
#include "zeroth/core/base/philox.h"
#include "zeroth/nn/layers/linear.h"
#include "zeroth/nn/ops/basic.h"
#include "zeroth/nn/ops/pointwise.h"

namespace {

using namespace zeroth;  // NOLINT: a program's own .cc

constexpr int64_t kDim = 24;
constexpr int64_t kBatch = 16;
constexpr int kSteps = 60;

// ------------------------------------------------------------------------------------ docs: model
// x + out(dropout(value(x) * sigmoid(gate(x)))).
class GatedBlock : public Module {
 public:
  GatedBlock(std::string name, int64_t dim, int64_t hidden) : Module(std::move(name)) {
    LinearOptions in;
    in.in = dim;
    in.projections = {{"gate", hidden}, {"value", hidden}};  // two weights, one matmul
    in.init_std = 0.1f;
    in_ = AddChild(std::make_unique<Linear>(Scoped("in"), in));
    out_weight_ = AddParameter("out.weight", Shape({dim, hidden}), Initializer::Normal(0.1f));
    out_bias_ = AddParameter("out.bias", Shape({dim}), Initializer::Zeros());
  }

  Role role() const override { return Role::kBlock; }

  absl::StatusOr<Value> Forward(Context& context, const Value& x) {
    return HookedOne(context, x, [this](Context& c, const Value& in) { return Compute(c, in); });
  }

 private:
  absl::StatusOr<Value> Compute(Context& context, const Value& x) {
    ZEROTH_ASSIGN_OR_RETURN(const Value both, in_->Forward(context, x));
    const int64_t hidden = both.data.dim(-1) / 2;
    ZEROTH_ASSIGN_OR_RETURN(Value gate, SliceOp(context, both, -1, 0, hidden));
    ZEROTH_ASSIGN_OR_RETURN(const Value value, SliceOp(context, both, -1, hidden, hidden));
    ZEROTH_ASSIGN_OR_RETURN(gate, ActivationOp(context, gate, ActivationFunction::kSigmoid));
    ZEROTH_ASSIGN_OR_RETURN(Value h, MultiplyOp(context, value, gate));
    ZEROTH_ASSIGN_OR_RETURN(h, DropoutOp(context, h, /*rate=*/0.1f, name()));
    ZEROTH_ASSIGN_OR_RETURN(h,
                            LinearOp(context, h, {{out_weight_, out_bias_}}, WeightLayout::kOutIn));
    return AddOp(context, x, h);
  }

  Linear* in_;
  Parameter* out_weight_;
  Parameter* out_bias_;
};

// Two blocks. The loss is the mean squared error.
class Regressor : public Module {
 public:
  Regressor() : Module("regressor") {
    for (int i = 0; i < 2; ++i) {
      blocks_.push_back(AddChild(
          std::make_unique<GatedBlock>(Scoped(absl::StrCat("blocks.", i)), kDim, 2 * kDim)));
    }
  }

  absl::StatusOr<Value> Loss(Context& context, const Value& x, const Value& minus_y) {
    return Hooked(context, [&]() -> absl::StatusOr<Value> {
      Value h = x;
      for (GatedBlock* block : blocks_) {
        ZEROTH_ASSIGN_OR_RETURN(h, block->Forward(context, h));
      }
      ZEROTH_ASSIGN_OR_RETURN(const Value missed, AddOp(context, h, minus_y));
      ZEROTH_ASSIGN_OR_RETURN(const Value square, MultiplyOp(context, missed, missed));
      return MeanOp(context, square);
    });
  }

 private:
  std::vector<GatedBlock*> blocks_;
};
// -------------------------------------------------------------------------------------- docs: end

// Draws a rank's samples for a step: x is normal, and y is x with its elements in reverse order.
absl::StatusOr<std::pair<Value, Value>> Draw(Device& device, int step, int rank) {
  std::vector<float> x(static_cast<size_t>(kBatch * kDim));
  std::vector<float> minus_y(x.size());
  const int64_t first = (int64_t{step} * 1000 + rank) * kBatch * kDim;
  CounterRng(1, "samples").FillNormal(static_cast<uint64_t>(first), 1.0f, absl::MakeSpan(x));
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t column = i % kDim;
    minus_y[i] = -x[i - column + kDim - 1 - column];
  }
  std::pair<Value, Value> batch;
  for (auto& [value, values] : {std::pair(&batch.first, &x), std::pair(&batch.second, &minus_y)}) {
    ZEROTH_ASSIGN_OR_RETURN(value->data, Tensor::FromHost<float>(device, Shape({kBatch, kDim}),
                                                                 absl::MakeConstSpan(*values),
                                                                 MemoryCategory::kActivations));
  }
  return batch;
}

// Returns this rank's loss of each step.
absl::StatusOr<std::vector<float>> Train(Rank& rank, const std::string& strategy) {
  std::vector<Tensor> losses;

  // ---------------------------------------------------------------------------------- docs: train
  Regressor model;
  ZEROTH_ASSIGN_OR_RETURN(auto sharded, FullyShard(rank, model, {.strategy = strategy}));
  ZEROTH_ASSIGN_OR_RETURN(auto adamw, AdamW::Create(*sharded, {.lr = 0.01}));
  for (int i = 0; i < kSteps; ++i) {
    TrainingStep step(*sharded);
    ZEROTH_ASSIGN_OR_RETURN(const auto batch, Draw(rank.device(), i, rank.index()));
    step.context().set_draws(
        StepDraws{.seed = 1, .step = i, .first_sample = rank.index() * kBatch});
    ZEROTH_ASSIGN_OR_RETURN(const Value loss,
                            model.Loss(step.context(), batch.first, batch.second));
    losses.push_back(loss.data);
    ZEROTH_RETURN_IF_ERROR(step.Backward(loss));
    ZEROTH_RETURN_IF_ERROR(step.Update(*adamw));
  }
  // ------------------------------------------------------------------------------------ docs: end

  std::vector<float> values;
  for (const Tensor& loss : losses) {
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> value, loss.ToHost<float>());
    values.push_back(value[0]);
  }
  return values;
}

absl::Status Check(const std::vector<float>& losses, const std::vector<float>& expected) {
  if (losses != expected)
    return absl::InternalError("the losses differ from those under the first strategy");
  if (losses.back() < 0.2f * losses.front()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the loss went from ", losses.front(), " to ", losses.back()));
}

}  // namespace

int main() {
  std::vector<std::vector<float>> first(4);
  absl::Status all;
  for (const char* strategy : {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard"}) {
    RunOptions run;
    run.launch.world_size = 4;
    const absl::Status status = RunRanks(run, [&](Rank& rank) {
      absl::StatusOr<std::vector<float>> losses = Train(rank, strategy);
      if (!losses.ok()) return losses.status();
      std::vector<float>& expected = first[static_cast<size_t>(rank.index())];
      if (expected.empty()) expected = *losses;
      return Check(*losses, expected);
    });
    std::cout << strategy << ": " << status << "\n";
    all.Update(status);
  }
  return all.ok() ? 0 : 1;
}
