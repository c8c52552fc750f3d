// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What a checkpoint records of the options that decide a run's results, and a resumed run compares.

#ifndef ZEROTH_TRAIN_RESULT_FLAGS_H_
#define ZEROTH_TRAIN_RESULT_FLAGS_H_

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "zeroth/train/options.h"

namespace zeroth {

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

#endif  // ZEROTH_TRAIN_RESULT_FLAGS_H_
