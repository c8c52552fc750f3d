// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Which options decide a run's results: what a checkpoint records of them, and a resumed run
// compares.

#ifndef ZEROTH_TRAIN_RESULT_FLAGS_H_
#define ZEROTH_TRAIN_RESULT_FLAGS_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/train/options.h"

namespace zeroth {

// A field of TrainOptions. It decides results if losses or weights may have other bits for another
// value of it, the rest being equal, on some device or at some values of the rest.
struct OptionField {
  const char* name;
  bool decides_results;
  nlohmann::json (*value)(const TrainOptions& options);
};
// All of them: result_flags_test.cc fails for a field that is not here.
absl::Span<const OptionField> OptionFields();

inline constexpr char kGlobalBatchSize[] = "global_batch_size";

// Values of the fields that decide results, resolved where 0 stands for the machine's or another
// flag's choice. The data are compared by content: see DataOrder.
nlohmann::json ResultFlags(const TrainOptions& options);

// "lr is 0.1, was 0.2", for each member that both objects have with different values. What only one
// has is of another version of the program, and not compared.
std::vector<std::string> Changed(const nlohmann::json& before, const nlohmann::json& now);
// The same of ResultFlags: "--lr is 0.1, was 0.2".
std::vector<std::string> ChangedFlags(const nlohmann::json& before, const nlohmann::json& now);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_RESULT_FLAGS_H_
