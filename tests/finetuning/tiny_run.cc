// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tests/finetuning/tiny_run.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/peft_adapter.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/open_data.h"
#include "zeroth/options/options.h"
#include "zeroth/train/model_source.h"

namespace zeroth::testing {
namespace {

std::string Folder(const std::string& model) { return absl::StrCat("tests/testdata/", model); }

// The file has no adapters.
absl::Status ReadWeights(const WeightsSource& weights, const Parameter& parameter, int64_t begin,
                         absl::Span<float> out) {
  constexpr uint64_t kSeed = 3;
  if (absl::EndsWith(parameter.name(), ".lora_A")) {
    parameter.initializer().Fill(kSeed, parameter.name(), begin, out);
    return absl::OkStatus();
  }
  if (absl::EndsWith(parameter.name(), ".lora_magnitude_vector")) {
    std::fill(out.begin(), out.end(), 1.0f);
    return absl::OkStatus();
  }
  if (absl::EndsWith(parameter.name(), ".lora_B")) {
    Initializer::Normal(0.05f).Fill(kSeed, parameter.name(), begin, out);
    return absl::OkStatus();
  }
  return weights.ReadElements(parameter.name(), begin, out);
}

absl::Status RunRank(const TinySetup& setup, Communicator& world,
                     const std::function<absl::Status(TinyRank&)>& body) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create("cpu", DeviceOptions()));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(const HfDirectory directory, HfDirectory::Open(Folder(setup.model)));
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model,
                          ModelRegistry::Create(directory.config().json(), setup.model_options));
  DataOptions data_options;
  data_options.vocab_size = static_cast<int32_t>(model->vocab_size());
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<const TokenSource> tokens,
                          OpenData(absl::StrCat(Folder(setup.model), "/tokens.npy"), data_options));
  LoaderOptions loader_options;
  loader_options.batch_size = 2;
  loader_options.seq_len = 32;
  loader_options.world_size = world.size() / setup.trainer.tensor.size;
  loader_options.rank = world.rank() / setup.trainer.tensor.size;
  loader_options.shuffle = false;
  ZEROTH_ASSIGN_OR_RETURN(DataLoader loader, DataLoader::Create(tokens, loader_options));
  TrainerOptions options = setup.trainer;
  options.sharding.strategy = setup.ranks.strategy;
  options.sharding.strategy_options.shard_size = setup.ranks.shard_size;
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                          Trainer::Create(world, *device, std::move(model), options));
  ZEROTH_RETURN_IF_ERROR(trainer->sharding().Load(
      [&](const Parameter& parameter, int64_t begin, absl::Span<float> out) {
        return ReadWeights(directory.weights(), parameter, begin, out);
      }));
  TinyRank rank{*trainer, std::move(loader)};
  return body(rank);
}

}  // namespace

std::string TinyRanks::ToString() const {
  std::string text = absl::StrCat(strategy, "_world", world_size);
  if (shard_size > 0) absl::StrAppend(&text, "_shard", shard_size);
  return text;
}

std::vector<TinyRanks> AllTinyRanks() {
  std::vector<TinyRanks> all;
  for (const int world_size : {1, 2, 3}) {
    for (const char* strategy : {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard"}) {
      all.push_back({strategy, world_size, 0});
    }
    all.push_back({"hybrid_shard", world_size, 1});
    if (world_size > 1) all.push_back({"hybrid_shard", world_size, world_size});
  }
  return all;
}

absl::StatusOr<StepResult> TinyRank::Step(int64_t step, double lr) const {
  ZEROTH_ASSIGN_OR_RETURN(const Batch batch, loader.Load(step));
  return trainer.Step(batch, lr);
}

absl::Status RunTiny(const TinySetup& setup, const std::function<absl::Status(TinyRank&)>& body) {
  ZEROTH_RETURN_IF_ERROR_WITH(
      RunLocalRanks(setup.ranks.world_size,
                    [&](Communicator& world) { return RunRank(setup, world, body); }),
      setup.ranks.ToString());
  return absl::OkStatus();
}

TrainerOptions Layout::Options() const {
  TrainerOptions options;
  options.sharding.strategy = strategy;
  options.sharding.strategy_options.shard_size = shard_size;
  options.tensor = tensor;
  options.activation_checkpointing = recompute;
  options.deterministic_batch = deterministic_batch;
  options.sync_every_micro_batch = sync_every_micro_batch;
  if (offload) options.sharding.offload = *ParseOffload("all");
  return options;
}

LoaderOptions Layout::Loader(const Communicator& world, int64_t rows, int64_t row_length) const {
  LoaderOptions options;
  options.world_size = world.size() / tensor.size;
  options.rank = world.rank() / tensor.size;
  options.batch_size = rows / options.world_size / MicroBatches(rows);
  options.seq_len = row_length;
  options.shuffle = false;
  return options;
}

absl::StatusOr<NamedValues> TinyWeights(const std::string& model) {
  ZEROTH_ASSIGN_OR_RETURN(const HfDirectory directory, HfDirectory::Open(Folder(model)));
  NamedValues values;
  for (const std::string& name : directory.weights().names()) {
    ZEROTH_ASSIGN_OR_RETURN(const Shape shape, directory.weights().ShapeOf(name));
    ZEROTH_ASSIGN_OR_RETURN(values[name], directory.weights().ReadAll(name, shape));
  }
  return values;
}

void Collector::Put(const Parameter& parameter, int64_t begin, absl::Span<const float> piece) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<float>& whole = values_[parameter.name()];
  whole.resize(static_cast<size_t>(parameter.global_numel()));
  std::copy(piece.begin(), piece.end(), whole.begin() + begin);
}

absl::Status Collector::PutWeights(const Sharding& sharding) {
  return sharding.VisitShards(
      [&](const Parameter& parameter, int64_t begin, absl::Span<const float> values) {
        Put(parameter, begin, values);
        return absl::OkStatus();
      });
}

absl::Status Collector::PutGradients(const Sharding& sharding) {
  for (const Unit* unit : sharding.units()) {
    for (int i = 0; i < unit->layout().parameter_count(); ++i) {
      const ShardLayout::Piece piece = unit->PieceOf(i);
      if (piece.numel() == 0 || !unit->takes_gradient(i)) continue;
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values,
                              unit->GradientShardView(piece).ToHost<float>());
      const Parameter& parameter = *unit->parameters()[static_cast<size_t>(i)];
      for (const ElementRun& run : parameter.GlobalRuns(piece.begin, piece.numel())) {
        Put(parameter, run.global_begin,
            absl::MakeConstSpan(values).subspan(static_cast<size_t>(run.begin - piece.begin),
                                                static_cast<size_t>(run.numel)));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<NamedValues> PeftFile(const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(const auto tensors, SafetensorsFile::Open(path));
  NamedValues values;
  for (const std::string& name : tensors->names()) {
    ZEROTH_ASSIGN_OR_RETURN(values[name], tensors->ReadAll(name, tensors->Find(name)->shape));
  }
  return values;
}

NamedValues AsPeft(const LanguageModel& model, const NamedValues& values) {
  const std::map<std::string, PeftTensor> tensors = PeftAdapterTensors(model);
  NamedValues stored;
  for (const Parameter* parameter : model.Parameters()) {
    const auto tensor = tensors.find(parameter->name());
    if (tensor == tensors.end()) continue;
    const std::vector<float>& found = values.at(parameter->name());
    stored[tensor->second.name] =
        tensor->second.transposed ? Transposed(parameter->global_shape(), found) : found;
  }
  return stored;
}

void ExpectClose(const NamedValues& values, const NamedValues& expected, double tolerance) {
  EXPECT_EQ(values.size(), expected.size());
  for (const auto& [name, reference] : expected) {
    ASSERT_EQ(values.count(name), 1u) << name;
    const std::vector<float>& found = values.at(name);
    ASSERT_EQ(found.size(), reference.size()) << name;
    double error = 0;
    double size = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      error += std::pow(static_cast<double>(found[i]) - reference[i], 2);
      size += std::pow(reference[i], 2);
    }
    EXPECT_GT(size, 0) << name;
    EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(size)) << name;
  }
}

}  // namespace zeroth::testing
