// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Trains a custom model under full_shard on four ranks: which points of the plane lie inside the
// unit circle? The README shows the lines between the two rulers.

#include <cmath>
#include <cstdint>
#include <iostream>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "zeroth/api/zeroth.h"
#include "zeroth/core/base/philox.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/nn/layers/linear.h"
#include "zeroth/nn/ops/loss.h"

namespace {

using namespace zeroth;  // NOLINT: a program's own .cc

constexpr int64_t kBatch = 32;  // points of a rank in a step

struct Batch {
  Tensor points;  // [kBatch, 1, 2]
  Tensor labels;  // [kBatch, 1] int32: 1 inside the unit circle
};

// Draws different points for every step and rank.
absl::StatusOr<Batch> DrawBatch(Rank& rank, int step) {
  const CounterRng rng(static_cast<uint64_t>(rank.index()), "points");
  std::vector<float> points;
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < kBatch; ++i) {
    const auto at = static_cast<uint64_t>((step * kBatch + i) * 2);
    const float x = 3.0f * rng.Uniform(at) - 1.5f;
    const float y = 3.0f * rng.Uniform(at + 1) - 1.5f;
    points.insert(points.end(), {x, y});
    labels.push_back(x * x + y * y < 1.0f ? 1 : 0);
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

// ---------------------------------------------------------------------------------- README: begin
struct Classifier : Module {  // two layers and an activation
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

absl::Status Train(Rank& rank) {  // called on each rank
  Classifier model;
  ZEROTH_ASSIGN_OR_RETURN(auto sharded, FullyShard(rank, model, {.strategy = "full_shard"}));
  ZEROTH_ASSIGN_OR_RETURN(auto optimizer, AdamW::Create(*sharded, {.lr = 1e-2}));
  for (int i = 0; i < 500; ++i) {
    TrainingStep step(*sharded);  // abandons everything unless it is finished
    ZEROTH_ASSIGN_OR_RETURN(const Batch batch, DrawBatch(rank, i));
    ZEROTH_ASSIGN_OR_RETURN(const Value loss, model.Loss(step.context(), batch));
    ZEROTH_RETURN_IF_ERROR(step.Backward(loss));
    ZEROTH_RETURN_IF_ERROR(step.Update(*optimizer, {.clip_grad_norm = 1.0}));
  }
  return sharded->Save("circle", optimizer.get());
}
// ------------------------------------------------------------------------------------ README: end

// Loads what was saved under another strategy, and checks the mean loss on points that no step has
// seen.
absl::Status Check(Rank& rank) {
  Classifier model;
  ZEROTH_ASSIGN_OR_RETURN(auto whole, FullyShard(rank, model, {.strategy = "no_shard"}));
  ZEROTH_RETURN_IF_ERROR(whole->Load("circle"));
  const NoGradient inference(whole->tape());
  ZEROTH_ASSIGN_OR_RETURN(const Batch batch, DrawBatch(rank, 100'000));
  ZEROTH_ASSIGN_OR_RETURN(const Value loss, model.Loss(whole->context(), batch));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> value, loss.data.ToHost<float>());
  if (rank.index() == 0) std::cout << "loss on new points: " << value[0] << "\n";
  if (value[0] < 0.3f) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the loss is ", value[0], ", expected below 0.3"));
}

}  // namespace

int main() {
  const int failed = RunRanks(4, Train);
  return failed != 0 ? failed : RunRanks(4, Check);
}
