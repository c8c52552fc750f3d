// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Trains with a custom objective, under full_shard on four ranks: which points of the plane lie
// inside the unit circle, learned from labels of which a fifth is wrong?
// docs/writing_an_objective.md shows the lines between the two rulers.

#include <cstdint>
#include <iostream>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "zeroth/api/zeroth.h"
#include "zeroth/core/base/philox.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/nn/layers/linear.h"
#include "zeroth/nn/objective.h"
#include "zeroth/nn/ops/loss.h"

namespace {

using namespace zeroth;  // NOLINT: a program's own .cc

constexpr int64_t kBatch = 64;  // points of a rank in a step

struct Batch {
  Tensor points;  // [kBatch, 1, 2]
  Tensor labels;  // [kBatch, 1] int32: 1 inside the unit circle
};

// Draws different points for every step and rank, and gives `wrong` of them the other label.
absl::StatusOr<Batch> DrawBatch(Rank& rank, int step, float wrong) {
  const CounterRng rng(static_cast<uint64_t>(rank.index()), "points");
  std::vector<float> points;
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < kBatch; ++i) {
    const auto at = static_cast<uint64_t>((step * kBatch + i) * 3);
    const float x = 3.0f * rng.Uniform(at) - 1.5f;
    const float y = 3.0f * rng.Uniform(at + 1) - 1.5f;
    points.insert(points.end(), {x, y});
    labels.push_back((x * x + y * y < 1.0f) != (rng.Uniform(at + 2) < wrong) ? 1 : 0);
  }
  Batch batch;
  ZEROTH_ASSIGN_OR_RETURN(batch.points,
                          Tensor::FromHost<float>(rank.device(), Shape({kBatch, 1, 2}), points,
                                                  MemoryCategory::kActivations));
  ZEROTH_ASSIGN_OR_RETURN(batch.labels,
                          Tensor::FromHost<int32_t>(rank.device(), Shape({kBatch, 1}), labels,
                                                    MemoryCategory::kActivations));
  return batch;
}

struct Classifier : Module {
  Linear* hidden = AddChild(std::make_unique<Linear>("hidden", 2, 64));
  Parameter* head = AddParameter("head", Shape({2, 64}), Initializer::Normal(0.1f));
  Classifier() : Module("") {}

  absl::StatusOr<Value> Loss(Context& context, const Batch& batch) {
    return Hooked(context, [&]() -> absl::StatusOr<Value> {
      ZEROTH_ASSIGN_OR_RETURN(const Value x,
                              hidden->Forward(context, {batch.points}, Activation::kGelu));
      return LinearCrossEntropyOp(context, x, *head, batch.labels);
    });
  }
};

// ------------------------------------------------------------------------------- docs: objective
// The mean over tokens of 2 tanh(loss / 2): a token whose label is wrong costs at most 2.
class BoundedLoss : public TokenObjective {
 public:
  absl::StatusOr<Result> Apply(Context& context, const Tensor& losses, const Tensor&) override {
    constexpr float kMost = 2;
    const int64_t count = losses.numel();
    Result result;
    ZEROTH_ASSIGN_OR_RETURN(const Tensor bounded, context.Empty({count, 1}, DType::kFloat32));
    ZEROTH_ASSIGN_OR_RETURN(result.loss, context.Empty({1}, DType::kFloat32));
    ZEROTH_ASSIGN_OR_RETURN(result.weights, context.EmptyLike(losses));
    const Tensor loss = losses.Reshape({count, 1});
    const Tensor mean = result.loss.Reshape({1, 1});
    const Tensor weights = result.weights.Reshape({count, 1});
    for (const BasicArgs& args : {
             BasicArgs{.op = BasicOp::kSoftCap, .a = loss, .out = bounded, .scalar = kMost},
             BasicArgs{.op = BasicOp::kMean, .a = bounded, .out = mean, .group = count},
             // The slope of 2 tanh(loss / 2) is 1 - tanh(loss / 2)^2.
             BasicArgs{.op = BasicOp::kScale, .a = bounded, .out = bounded, .scalar = 1 / kMost},
             BasicArgs{.op = BasicOp::kFill, .out = weights, .scalar = 1.0f / count},
             BasicArgs{.op = BasicOp::kTanhBackward, .a = bounded, .b = weights, .out = weights},
         }) {
      ZEROTH_RETURN_IF_ERROR(kernels::Basic(context.kernels(), args));
    }
    return result;
  }
};

absl::Status Train(Rank& rank) {  // called on each rank
  Classifier model;
  ZEROTH_ASSIGN_OR_RETURN(auto sharded, FullyShard(rank, model, {.strategy = "full_shard"}));
  ZEROTH_ASSIGN_OR_RETURN(auto optimizer, AdamW::Create(*sharded, {.lr = 1e-2}));
  BoundedLoss bounded;
  for (int i = 0; i < 500; ++i) {
    TrainingStep step(*sharded);
    const auto objective = step.context().UseObjective(bounded);
    ZEROTH_ASSIGN_OR_RETURN(const Batch batch, DrawBatch(rank, i, /*wrong=*/0.2f));
    ZEROTH_ASSIGN_OR_RETURN(const Value loss, model.Loss(step.context(), batch));
    ZEROTH_RETURN_IF_ERROR(step.Backward(loss));
    ZEROTH_RETURN_IF_ERROR(step.Update(*optimizer, {.clip_grad_norm = 1.0}));
  }
  return sharded->Save("bounded", optimizer.get());
}
// -----------------------------------------------------------------------------------------------

// Checks the cross-entropy against correct labels, on points that no step has seen. A model that
// had learned the wrong labels as well would have at least -log(0.8) = 0.22.
absl::Status Check(Rank& rank) {
  Classifier model;
  ZEROTH_ASSIGN_OR_RETURN(auto whole, FullyShard(rank, model, {.strategy = "no_shard"}));
  ZEROTH_RETURN_IF_ERROR(whole->Load("bounded"));
  const NoGradient inference(whole->tape());
  float mean = 0;
  constexpr int kBatches = 8;
  for (int i = 0; i < kBatches; ++i) {
    ZEROTH_ASSIGN_OR_RETURN(const Batch batch, DrawBatch(rank, 100'000 + i, /*wrong=*/0.0f));
    ZEROTH_ASSIGN_OR_RETURN(const Value loss, model.Loss(whole->context(), batch));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> value, loss.data.ToHost<float>());
    mean += value[0] / kBatches;
  }
  if (rank.index() == 0) std::cout << "loss of right labels: " << mean << "\n";
  if (mean < 0.15f) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the loss is ", mean, ", expected below 0.15"));
}

}  // namespace

int main() {
  const int failed = RunRanks(4, Train);
  return failed != 0 ? failed : RunRanks(4, Check);
}
