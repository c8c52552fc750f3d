// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Plans a run without starting it: executes the trainer's step, with the options' scheduler and
// strategy, as one rank of the world, on a device and a communicator that only account for memory
// and time.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "zeroth/core/device/memory.h"
#include "zeroth/core/device/planned/machine.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/options/options.h"

namespace zeroth {

// All calls of one operation in a step, on the compute stream.
struct OperationCost {
  int64_t calls = 0;
  int64_t launches = 0;  // of kernels
  double flops = 0;
  double bytes = 0;    // read and written
  double seconds = 0;  // with the device to itself

  OperationCost& operator+=(const OperationCost& other);
};

struct Plan {
  int64_t memory_peak_bytes = 0;                       // as a rank's allocator counts them
  std::array<int64_t, kMemoryCategoryCount> memory{};  // at the peak; they add up to it
  int64_t memory_reserved_bytes = 0;  // the peak, and what the --like system reserves beside it
  std::string moment;                 // of the peak: "backward of h.3, at a matmul"
  int64_t memory_limit_bytes = 0;     // the machine's, or --memory_limit
  bool fits = false;                  // the reserved bytes are within the limit
  double step_seconds = 0;
  double tokens_per_second_per_rank = 0;
  // The model's operations in a second (LanguageModel::FlopsPerToken, which counts recomputation
  // under checkpointing once), and their fraction of the rate of large matmuls.
  double flops_per_second_per_rank = 0;
  double flop_utilization = 0;
  double compute_seconds = 0;                // the compute stream is busy
  double exposed_communication_seconds = 0;  // it waits while a collective is in flight
  std::map<std::string, double> exposed;     // the same by kind of collective
  std::map<std::string, int64_t> bytes;      // that a rank sends in a step, by kind of collective
  // A rank's share of what its node sends to other nodes in a step, by kind of collective. Sums of
  // two-level reductions are fp32, so it may exceed its share of `bytes`.
  std::map<std::string, int64_t> bytes_across_nodes;
  std::map<std::string, OperationCost> operations;  // of a step, by the operation's name
};

// The step of one rank as a run with --trace would record it.
struct PlanTimeline {
  std::vector<Timeline::Span> spans;
  // Memory by category after each change, at the compute stream's time.
  std::vector<Timeline::MemorySample> memory;
};

// Plans the run of `options`, which must have passed Validate and name a world size; `model` must
// be built from them. Starts no rank and no thread, and allocates no memory for the model. Plans
// only the first few micro-batches and extrapolates, unless `timeline` must show all or the batch
// is deterministic. Fills in `timeline` unless it is nullptr. Returns the errors of
// Trainer::Create.
absl::StatusOr<Plan> PlanRun(const TrainOptions& options, const Machine& machine,
                             std::unique_ptr<LanguageModel> model,
                             PlanTimeline* timeline = nullptr);

// Format a plan as text for people, and as JSON for programs.
std::string PlanText(const Plan& plan, const TrainOptions& options, const Machine& machine);
nlohmann::json PlanJson(const Plan& plan);

}  // namespace zeroth
