// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The state of a run in a checkpoint, and how a run continues from it.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/trainer.h"
#include "zeroth/options/options.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

// How the data are divided into sequences, and the order of these. A position in the data has a
// meaning only together with both.
struct DataOrder {
  int64_t tokens = 0;
  uint64_t content = 0;  // HashTokens of the tokens; 0: unknown
  int64_t seq_len = 0;
  uint64_t seed = 0;
  bool shuffle = true;
  bool operator==(const DataOrder&) const = default;

  // Describes the differences, flag by flag. If empty, a position means the same in both orders.
  std::vector<std::string> Differences(const DataOrder& before) const;
};

// The progress of a run, which a checkpoint stores beside weights and moments (as "training" in its
// index). Nothing else is needed to continue with the same bits: shuffling, initial values and
// samples draw from counters, and the learning rate is a function of the step.
struct RunProgress {
  int64_t steps = 0;  // including skipped ones
  int64_t skipped_steps = 0;
  int64_t sequences = 0;  // read by all ranks together
  DataOrder data;
  TrainerCounts trainer;
  // ResultFlags of the run. For comparison only.
  nlohmann::json flags = nlohmann::json::object();
  // LanguageModel::HfConfig(), for comparison: shapes alone do not show another rotary base.
  nlohmann::json model = nlohmann::json::object();

  nlohmann::json ToJson() const;
  // InvalidArgument names the key of `where` that is missing or wrong.
  static absl::StatusOr<RunProgress> FromJson(const nlohmann::json& json, absl::string_view where);
};

// The options that decide a run's results, as a checkpoint records them and a resumed run compares.

inline constexpr char kGlobalBatchSize[] = "global_batch_size";

// Returns the values of the options that decide results, explicit where they depend on the machine
// or on other options, so that they describe the same run everywhere. The world size must be known.
// The data are not among them: DataOrder compares these by content.
nlohmann::json ResultFlags(const TrainOptions& options);

// Returns "lr is 0.1, was 0.2" for each member that both objects have with different values.
// Members of only one object come from another version of the program and are not compared.
std::vector<std::string> Changed(const nlohmann::json& before, const nlohmann::json& now);
// Like Changed, for ResultFlags: "--lr is 0.1, was 0.2". Words that were renamed are compared by
// their new names.
std::vector<std::string> ChangedFlags(nlohmann::json before, const nlohmann::json& now);

// Checks before any rank starts: NotFound if there is no checkpoint where --resume says.
absl::Status CheckCheckpointFlags(const TrainOptions& options);

struct Resumed {
  // nullopt if there was no checkpoint; the state is unchanged then.
  std::optional<RunProgress> progress;
  // Lines to print: which checkpoint was loaded, which were passed over and why, and what differs
  // now. The same on every rank, except for the names of values that were filled in.
  std::vector<std::string> notes;
};

// Returns the progress of each checkpoint that Resume may load, newest first, without those that
// cannot be read.
std::vector<RunProgress> SavedProgress(const TrainOptions& options, const std::string& out);

// Loads the checkpoint that --resume names into the trainer: weights, moments, the average of the
// weights, and Trainer::counts(). If --resume is auto or a directory of several checkpoints,
// damaged ones are passed over for the newest intact one. A checkpoint with a newer format, or one
// that cannot be read now, is an error. With --allow_partial, `fill_missing` gives the values that
// the checkpoint lacks. `out` is the directory of this run, in which --resume=auto looks.
// Checkpoints in `out` that are newer than the resumed one are renamed (set aside) if this run
// writes checkpoints. Collective, with the same error on every rank: DataLoss if every checkpoint
// is damaged, with the damage of each; also the errors of LoadState.
absl::StatusOr<Resumed> Resume(const TrainOptions& options, const std::string& out,
                               Trainer& trainer, const ParameterReader& fill_missing);

}  // namespace zeroth
