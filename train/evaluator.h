// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "zeroth/api/trainer.h"
#include "zeroth/data/loader.h"
#include "zeroth/options/options.h"
#include "zeroth/train/metrics.h"

namespace zeroth {

// Evaluates held-out data in the global batches of training, so that the text that is read does not
// depend on the ranks.
class Evaluator {
 public:
  // `options` outlives this. `data` reads the held-out data once, in order.
  Evaluator(const TrainOptions& options, DataLoader data)
      : options_(options), data_(std::move(data)) {}

  // Returns how much of the data an evaluation reads, a line to print; empty if it is all of it.
  std::string Note() const;

  // Evaluates the trainer's weights after `step` steps, and their average if it has one. Every
  // target counts the same. Calls `wants_to_stop` before each batch; nullopt, on all ranks, if it
  // was true on some rank before the last batch. Collective.
  absl::StatusOr<std::optional<EvaluationMetrics>> Evaluate(
      Trainer& trainer, int64_t step, absl::FunctionRef<bool()> wants_to_stop);

 private:
  struct Means {
    float loss = 0;
    std::optional<PreferenceStatistics> preference;
  };
  absl::StatusOr<std::optional<Means>> EvaluateWeights(Trainer& trainer,
                                                       absl::FunctionRef<bool()> wants_to_stop);
  // The number of global batches in the data. The last one may be partly filled.
  int64_t batches() const;

  const TrainOptions& options_;
  DataLoader data_;
};

}  // namespace zeroth
