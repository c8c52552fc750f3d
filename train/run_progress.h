// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_RUN_PROGRESS_H_
#define ZEROTH_TRAIN_RUN_PROGRESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "zeroth/train/options.h"
#include "zeroth/train/trainer_counts.h"

namespace zeroth {

// Which sequences the data are cut into, and in which order they come: what a position in them
// means something in.
struct DataOrder {
  int64_t tokens = 0;
  uint64_t content = 0;  // HashTokens of them; 0: unknown
  int64_t seq_len = 0;
  uint64_t seed = 0;
  bool shuffle = true;
  bool operator==(const DataOrder&) const = default;

  // What is otherwise than it was, flag by flag; empty: a position in one means the same in the
  // other.
  std::vector<std::string> Differences(const DataOrder& before) const;
};

// How far a run has come, as a checkpoint keeps it beside weights and moments (the "training" of
// its index). Nothing else is needed to go on with the same bits: shuffling, initial values and
// samples draw from counters, and the learning rate is a function of the step.
struct RunProgress {
  int64_t steps = 0;  // skipped ones included
  int64_t skipped_steps = 0;
  int64_t sequences = 0;  // of the data, by all ranks together
  DataOrder data;
  TrainerCounts trainer;
  // What the run was told, by flag, as far as it changes results. For comparison only.
  nlohmann::json flags = nlohmann::json::object();
  // LanguageModel::HfConfig(), for comparison: shapes do not tell a rotary base from another.
  nlohmann::json model = nlohmann::json::object();

  nlohmann::json ToJson() const;
  // InvalidArgument says at which key of `where` what is missing or wrong.
  static absl::StatusOr<RunProgress> FromJson(const nlohmann::json& json, absl::string_view where);
};

// What a checkpoint records of the options that decide a run's results, and a resumed run compares.

inline constexpr char kGlobalBatchSize[] = "global_batch_size";

// `options` of a run whose world size is known, with values in the place of those that stand for
// the machine's or another option's choice: the same run, wherever it is made.
TrainOptions Resolved(TrainOptions options);
// What to tell a run so that it does the same, and goes by what flags change: with the number of
// threads that there was, but without what follows from other options.
TrainOptions AsTold(TrainOptions options);

// Values of the options that decide results, resolved. The data are compared by content: see
// DataOrder.
nlohmann::json ResultFlags(const TrainOptions& options);

// "lr is 0.1, was 0.2", for each member that both objects have with different values. What only one
// has is of another version of the program, and not compared.
std::vector<std::string> Changed(const nlohmann::json& before, const nlohmann::json& now);
// The same of ResultFlags: "--lr is 0.1, was 0.2". Words that have other names now are compared by
// what they mean.
std::vector<std::string> ChangedFlags(nlohmann::json before, const nlohmann::json& now);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_RUN_PROGRESS_H_
