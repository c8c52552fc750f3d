// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tests/structure/small_gpt2.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"

namespace zeroth::testing {
namespace {

absl::Status RunRank(Communicator& world, const nlohmann::json& config,
                     const TrainerOptions& options, const SmallGpt2Rank& rank,
                     const std::function<void(LanguageModel&)>& prepare) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create("cpu", DeviceOptions()));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, ModelRegistry::Create(config));
  if (prepare != nullptr) prepare(*model);
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                          Trainer::Create(world, *device, std::move(model), options));
  ZEROTH_RETURN_IF_ERROR(trainer->sharding().Initialize(/*seed=*/5));
  ZEROTH_RETURN_IF_ERROR(rank(*trainer, *device, world.rank()));
  trainer.reset();
  const int64_t left = device->allocator().stats().total.current_bytes;
  if (left == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(left, " bytes are still allocated after the trainer is gone"));
}

}  // namespace

nlohmann::json SmallGpt2Config() {
  return {{"model_type", "gpt2"},      {"vocab_size", kVocabulary}, {"n_positions", kPositions},
          {"n_embd", kWidth},          {"n_layer", kBlocks},        {"n_head", 2},
          {"layer_norm_epsilon", 1e-5}};
}

std::vector<Batch> MicroBatches(int rank, int step, int count) {
  std::vector<Batch> batches;
  for (int i = 0; i < count; ++i) {
    Batch batch;
    batch.batch = 2;
    batch.seq = 4;
    for (int token = 0; token < 8; ++token) {
      const int seed = 7 * token + 5 * rank + 13 * i + 29 * step;
      batch.inputs.push_back(seed % static_cast<int>(kVocabulary));
      batch.targets.push_back((3 * seed + 1) % static_cast<int>(kVocabulary));
    }
    batches.push_back(std::move(batch));
  }
  return batches;
}

absl::Status RunSmallGpt2(int world_size, const TrainerOptions& options, const SmallGpt2Rank& rank,
                          const std::function<void(LanguageModel&)>& prepare) {
  return RunModel(SmallGpt2Config(), world_size, options, rank, prepare);
}

absl::Status RunModel(const nlohmann::json& config, int world_size, const TrainerOptions& options,
                      const SmallGpt2Rank& rank,
                      const std::function<void(LanguageModel&)>& prepare) {
  return RunLocalRanks(world_size, [&](Communicator& world) {
    return RunRank(world, config, options, rank, prepare);
  });
}

TrainerOptions OptionsOf(const std::string& strategy, int shard_size) {
  TrainerOptions options;
  options.sharding.strategy = strategy;
  options.sharding.strategy_options.shard_size = shard_size;
  return options;
}

TrafficRecord::TrafficRecord(Sharding& sharding) : sharding_(sharding) {
  for (Communicator* group : sharding.communicators()) group->stats().EnableRecord(true);
}

std::vector<TrafficRecord::Call> TrafficRecord::Take() {
  const MeshView& mesh = sharding_.units()[0]->mesh();
  const Communicator* const gathers_across =
      mesh.owners_span_groups() ? &mesh.replicate_gather() : nullptr;
  std::vector<std::pair<uint64_t, Call>> calls;
  for (Communicator* group : sharding_.communicators()) {
    for (const CommStats::Entry& entry : group->stats().TakeRecord()) {
      Call call;
      const bool across = group == &mesh.replicate_reduce() && group != &mesh.data_reduce();
      if (entry.label == "gradient norm") {
        call.what = "norm";
      } else if (group == gathers_across) {
        call.what = "gather across";
      } else if (entry.op == CollectiveOp::kAllGather) {
        call.what = group == &mesh.shard_gather() ? "gather" : "gather in part";
      } else if (entry.op == CollectiveOp::kReduceScatter) {
        call.what = across ? "scatter across" : "reduce";
      } else if (entry.op == CollectiveOp::kAllReduce) {
        call.what = across ? "across" : "all";
      } else {
        call.what = std::string(CollectiveOpName(entry.op));
      }
      call.unit = std::string(absl::StripPrefix(entry.label, "transformer."));
      call.bytes = entry.bytes;
      calls.emplace_back(entry.sequence, std::move(call));
    }
  }
  std::sort(calls.begin(), calls.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Call> ordered;
  for (auto& [sequence, call] : calls) ordered.push_back(std::move(call));
  return ordered;
}

std::string TrafficRecord::ToString(const std::vector<Call>& calls) {
  return absl::StrJoin(calls, " ", [](std::string* out, const Call& call) {
    absl::StrAppend(out, call.what, "(", call.what == "norm" ? "" : call.unit, ")");
  });
}

}  // namespace zeroth::testing
