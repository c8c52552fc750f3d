// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A GPT-2 whose units have no padding, trained on real ranks, so that a step's traffic matches the
// formulas of the literature to the byte; and the record of that traffic.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "zeroth/api/trainer.h"
#include "zeroth/core/comm/comm_stats.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/nn/language_model.h"

namespace zeroth::testing {

inline constexpr int kBlocks = 3;
inline constexpr int kUnits = kBlocks + 1;  // the root too
inline constexpr int64_t kWidth = 128;
inline constexpr int64_t kVocabulary = 64;
inline constexpr int64_t kPositions = 16;
// Embeddings and the last norm; two norms, attention (3 + 1) and an MLP (4 + 4) with biases.
inline constexpr int64_t kRootNumel = (kVocabulary + kPositions + 2) * kWidth;
inline constexpr int64_t kBlockNumel = 12 * kWidth * kWidth + 13 * kWidth;
inline constexpr int kRootParameters = 4;
inline constexpr int kBlockParameters = 12;
inline constexpr int64_t kNumel = kRootNumel + kBlocks * kBlockNumel;

// `count` micro-batches of 2 x 4 tokens, which differ between ranks, steps and micro-batches.
std::vector<Batch> MicroBatches(int rank, int step, int count);

// One rank's trainer, with initial weights.
using SmallGpt2Rank = std::function<absl::Status(Trainer& trainer, Device& device, int rank)>;
// `prepare`, if there is one, sees the model before it is sharded. Also fails if anything is left
// in a rank's memory once its trainer is gone.
absl::Status RunSmallGpt2(int world_size, const TrainerOptions& options, const SmallGpt2Rank& rank,
                          const std::function<void(LanguageModel&)>& prepare = nullptr);

// The configuration of that GPT-2.
nlohmann::json SmallGpt2Config();

// RunSmallGpt2 with any model.
absl::Status RunModel(const nlohmann::json& config, int world_size, const TrainerOptions& options,
                      const SmallGpt2Rank& rank,
                      const std::function<void(LanguageModel&)>& prepare = nullptr);

TrainerOptions OptionsOf(const std::string& strategy, int shard_size = 0);

// The collectives of a sharding's groups, in the order in which its rank issued them.
class TrafficRecord {
 public:
  // Records from now on.
  explicit TrafficRecord(Sharding& sharding);

  struct Call {
    // "gather" and "reduce" in the shard group; "gather in part" in a smaller one; "across" groups,
    // or "gather across" and "scatter across" where owners are in all of them; over "all" ranks;
    // or "norm".
    std::string what;
    std::string unit;  // as in the plan, without the model's name: "h.1"
    int64_t bytes = 0;
  };
  // Returns the calls since the last Take.
  std::vector<Call> Take();
  // "gather(h.1) reduce(h.2) …"
  static std::string ToString(const std::vector<Call>& calls);

 private:
  Sharding& sharding_;
};

}  // namespace zeroth::testing
