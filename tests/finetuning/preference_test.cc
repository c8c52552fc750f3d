// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares training on preference pairs with TRL in float64 (tests/testdata/preferences), under
// every layout.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/data/open_data.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/options/options.h"
#include "zeroth/tests/finetuning/tiny_run.h"
#include "zeroth/train/model_source.h"
#include "zeroth/train/reference_losses.h"

namespace zeroth::testing {
namespace {

constexpr char kFolder[] = "tests/testdata/preferences";
constexpr int64_t kLength = 63;  // of rows, each of which has one pair
constexpr int64_t kPairs = 4;    // of a step

struct Record {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<PreferenceStatistics> statistics;
  NamedValues weights;
  NamedValues adapter;  // under PEFT's names

  bool HasBitsOf(const Record& other) const {
    const auto same = [](const PreferenceStatistics& a, const PreferenceStatistics& b) {
      return a.loss == b.loss && a.reward_chosen == b.reward_chosen &&
             a.reward_rejected == b.reward_rejected && a.accuracy == b.accuracy && a.kl == b.kl;
    };
    return losses == other.losses && norms == other.norms && weights == other.weights &&
           std::equal(statistics.begin(), statistics.end(), other.statistics.begin(),
                      other.statistics.end(), same);
  }
};

class PreferenceTest : public ::testing::TestWithParam<const char*> {
 protected:
  bool HasAdapters() const { return absl::EndsWith(GetParam(), "_lora"); }
  std::string Folder() const { return absl::StrCat(kFolder, "/", GetParam()); }
  bool Judges() const { return absl::StartsWith(GetParam(), "kto"); }
  bool Scores() const { return absl::StartsWith(GetParam(), "reward"); }
  PreferenceOptions Objective(const nlohmann::json& expected) const {
    PreferenceOptions options;
    const std::string name = GetParam();
    options.kind = absl::StartsWith(name, "dpo")   ? PreferenceKind::kDpo
                   : absl::StartsWith(name, "ipo") ? PreferenceKind::kIpo
                   : name == "simpo"               ? PreferenceKind::kSimpo
                   : Judges()                      ? PreferenceKind::kKto
                   : Scores()                      ? PreferenceKind::kReward
                                                   : PreferenceKind::kOrpo;
    options.beta = expected["beta"].get<float>();
    options.gamma = expected["gamma"].get<float>();
    options.desirable_weight = expected.value("desirable_weight", 1.0f);
    options.undesirable_weight = expected.value("undesirable_weight", 1.0f);
    options.center = expected.value("center", 0.0f);
    return options;
  }

  absl::StatusOr<Record> Train(const Layout& layout) const {
    ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json expected,
                            ReadJsonFile(absl::StrCat(Folder(), "/expected.json")));
    TrainOptions options;
    options.init_from = "tests/testdata/llama_tiny";
    if (HasAdapters()) options.init_adapter = Folder();
    if (Scores()) options.objective = Objective::kReward;
    ZEROTH_ASSIGN_OR_RETURN(options, WithInitAdapter(options));
    ZEROTH_ASSIGN_OR_RETURN(const ModelSource source, ModelSource::Open(options));
    const ByteTokenizer tokenizer;
    DataOptions data_options;
    data_options.tokenizer = &tokenizer;
    data_options.vocab_size = 257;
    data_options.seq_len = kLength;
    data_options.pairs = true;
    data_options.judgements = Judges();
    data_options.scores = Scores();
    const char* const file = Judges() ? "/judgements.jsonl" : "/pairs.jsonl";
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<const Mixture> data,
                            OpenMixture(absl::StrCat(kFolder, file), data_options));
    NamedValues head;  // of a run whose adapter does not hold it
    if (Scores() && !HasAdapters()) {
      ZEROTH_ASSIGN_OR_RETURN(head, PeftFile(absl::StrCat(Folder(), "/score.safetensors")));
    }
    Record record;
    Collector weights;
    const auto body = [&](Communicator& world) -> absl::Status {
      ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                              DeviceRegistry::Create("cpu", DeviceOptions()));
      device->BindThread();
      ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, source.Build());
      TrainerOptions trainer_options = layout.Options();
      trainer_options.preference = Objective(expected);
      ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                              Trainer::Create(world, *device, std::move(model), trainer_options));
      const ParameterReader stored = source.Reader(/*seed=*/0);
      ZEROTH_RETURN_IF_ERROR(trainer->sharding().Load(
          [&](const Parameter& parameter, int64_t begin, absl::Span<float> out) -> absl::Status {
            const auto values = head.find(parameter.name());
            if (values == head.end()) return stored(parameter, begin, out);
            std::copy_n(values->second.begin() + begin, out.size(), out.begin());
            return absl::OkStatus();
          }));
      LoaderOptions rows = layout.Loader(world, kPairs, kLength);
      rows.documents = true;
      rows.pairs = true;
      rows.judgements = Judges();
      if (!HasAdapters() && UsesReference(trainer_options.preference->kind)) {
        const int64_t count = data->source(0).size() / data->source(0).row_length();
        const RowMask all = {std::vector<bool>(static_cast<size_t>(count), true)};
        ReferenceLosses losses = NoReferenceLosses(all, kLength);
        ZEROTH_ASSIGN_OR_RETURN(const bool done,
                                ComputeReferenceLosses(
                                    *trainer, *data, rows, all, [] { return false; }, losses));
        if (!done) return absl::CancelledError("the reference");
        rows.reference = std::make_shared<const ReferenceLosses>(std::move(losses));
      }
      ZEROTH_ASSIGN_OR_RETURN(const DataLoader loader, DataLoader::Create(data, rows));
      const int64_t micro_batches = layout.MicroBatches(kPairs);
      const size_t steps = expected["loss"].size();
      for (size_t step = 0; step < steps; ++step) {
        ZEROTH_ASSIGN_OR_RETURN(
            const std::vector<Batch> batches,
            loader.LoadMany(static_cast<int64_t>(step) * micro_batches, micro_batches));
        ZEROTH_ASSIGN_OR_RETURN(const StepResult result,
                                trainer->Step(batches, expected["lr"].get<double>()));
        if (world.rank() != 0) continue;
        record.losses.push_back(result.loss);
        record.norms.push_back(result.grad_norm);
        record.statistics.push_back(result.preference.value_or(PreferenceStatistics()));
      }
      return weights.PutWeights(trainer->sharding());
    };
    ZEROTH_RETURN_IF_ERROR(RunLocalRanks(layout.world_size, body));
    record.weights = weights.values();
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model, source.Build());
    record.adapter = AsPeft(*model, record.weights);
    return record;
  }

  void ExpectTrls(const Record& record) const {
    const absl::StatusOr<nlohmann::json> expected =
        ReadJsonFile(absl::StrCat(Folder(), "/expected.json"));
    ASSERT_TRUE(expected.ok()) << expected.status();
    const auto value = [&](const char* key, size_t step) {
      return (*expected)[key][step].get<double>();
    };
    ASSERT_EQ(record.losses.size(), 3u);
    for (size_t step = 0; step < record.losses.size(); ++step) {
      SCOPED_TRACE(step);
      const PreferenceStatistics& statistics = record.statistics[step];
      EXPECT_NEAR(record.losses[step], value("loss", step), 2e-5 * value("loss", step));
      EXPECT_EQ(record.losses[step], statistics.loss);
      EXPECT_NEAR(record.norms[step], value("grad_norm", step), 1e-4 * value("grad_norm", step));
      if (Scores()) {
        const float mean = (statistics.reward_chosen + statistics.reward_rejected) / 2;
        EXPECT_NEAR(mean, value("mean_reward", step), 2e-5);
        EXPECT_NEAR(statistics.margin(), value("margin", step), 2e-5);
        EXPECT_EQ(statistics.accuracy, value("accuracy", step));
        continue;
      }
      // Differences of log-probabilities of about 60.
      EXPECT_NEAR(statistics.reward_chosen, value("rewards/chosen", step), 1e-4);
      EXPECT_NEAR(statistics.reward_rejected, value("rewards/rejected", step), 1e-4);
      ASSERT_EQ(statistics.kl.has_value(), Judges());
      if (Judges()) {
        EXPECT_NEAR(*statistics.kl, value("kl", step), 1e-4);
      } else {
        EXPECT_EQ(statistics.accuracy, value("rewards/accuracies", step));
      }
    }
    if (!HasAdapters()) return;
    const absl::StatusOr<NamedValues> adapter =
        PeftFile(absl::StrCat(Folder(), "/final.safetensors"));
    ASSERT_TRUE(adapter.ok()) << adapter.status();
    ExpectClose(record.adapter, *adapter, 1e-3);
  }
};

TEST_P(PreferenceTest, LossesNormsRewardsAndAdaptersAreTrls) {
  for (const int world_size : {1, 2, 4}) {
    SCOPED_TRACE(world_size);
    const absl::StatusOr<Record> record = Train({"full_shard", world_size});
    ASSERT_TRUE(record.ok()) << record.status();
    ExpectTrls(*record);
  }
}

TEST_P(PreferenceTest, BitsDoNotDependOnTheLayout) {
  ExpectBitsOfOneRank(
      kPairs, [&](const Layout& layout) { return Train(layout); },
      [&](const Record& record) { ExpectTrls(record); },
      [](const Record& record, const Record& expected) { return record.HasBitsOf(expected); });
}

INSTANTIATE_TEST_SUITE_P(Objectives, PreferenceTest,
                         ::testing::Values("dpo", "dpo_lora", "ipo_lora", "simpo", "orpo", "kto",
                                           "kto_lora", "reward", "reward_lora"));

}  // namespace
}  // namespace zeroth::testing
