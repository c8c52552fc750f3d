// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What a run takes before it is made: the trainer's own step, with the scheduler and the strategy
// that the options ask for, as one rank of its world on a device and a communicator that keep
// books.

#ifndef ZEROTH_TRAIN_PLAN_H_
#define ZEROTH_TRAIN_PLAN_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/device/memory.h"
#include "zeroth/core/device/planned/machine.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/train/options.h"

namespace zeroth {

struct Plan {
  int64_t memory_peak_bytes = 0;                       // as a rank's allocator counts them
  std::array<int64_t, kMemoryCategoryCount> memory{};  // at that moment; they add up to it
  int64_t memory_reserved_bytes = 0;  // with what the allocator of --like keeps unused
  std::string moment;                 // "backward of h.3, at a product"
  int64_t memory_limit_bytes = 0;     // what a rank may have: the machine's, or --memory_limit
  bool fits = false;
  double step_seconds = 0;
  double tokens_per_second_per_rank = 0;
  // Of the rate of large products: the model's operations (LanguageModel::FlopsPerToken, which
  // count what is computed again under checkpointing once) in a second.
  double flop_utilization = 0;
  double compute_seconds = 0;                // in which the compute stream computes
  double exposed_communication_seconds = 0;  // in which it waits, and a collective is under way
  std::map<std::string, double> exposed;     // the same by kind of collective
  std::map<std::string, int64_t> bytes;      // that a rank sends in a step, by kind of collective
};

// When what of the step happens, as a run with --trace would record it of a rank.
struct PlanTimeline {
  std::vector<Timeline::Span> spans;
  // The account after all that changes it, when the compute stream is there.
  std::vector<Timeline::MemorySample> memory;
};

// Of `options`, which are validated and whose world size is known, for `model`, which is theirs.
// Nothing is started: no rank, no thread, no memory of the model's. Fills `timeline` in if there is
// one. The errors of Trainer::Create.
absl::StatusOr<Plan> PlanRun(const TrainOptions& options, const Machine& machine,
                             std::unique_ptr<LanguageModel> model,
                             PlanTimeline* timeline = nullptr);

// For people, and for programs.
std::string PlanText(const Plan& plan, const TrainOptions& options, const Machine& machine);
nlohmann::json PlanJson(const Plan& plan);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_PLAN_H_
