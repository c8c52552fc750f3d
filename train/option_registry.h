// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The options of options.inc as data: whatever treats all of them alike goes by this table.

#ifndef ZEROTH_TRAIN_OPTION_REGISTRY_H_
#define ZEROTH_TRAIN_OPTION_REGISTRY_H_

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "zeroth/train/options.h"

namespace zeroth {

// What an option may be, beyond being of its type. Numbers are finite either way.
struct AllowedValues {
  double least = std::numeric_limits<double>::lowest();
  double below = std::numeric_limits<double>::infinity();
  double or_value = least;      // is allowed as well
  const char* words = nullptr;  // one of these, which blanks separate
  // A word of earlier versions, which checkpoints may hold, and what it is called now.
  const char* old_word = nullptr;
  const char* new_word = nullptr;
  bool (*parses)(absl::string_view text) = nullptr;
  const char* expected = nullptr;  // what to say in the place of what follows from the above
};

struct Option {
  const char* name;
  const char* group;
  bool decides_results;  // see options.inc
  AllowedValues allowed;
  const char* help;
  std::variant<std::string TrainOptions::*, bool TrainOptions::*, int TrainOptions::*,
               int64_t TrainOptions::*, uint64_t TrainOptions::*, double TrainOptions::*>
      field;
};

// All options, group by group.
const std::vector<Option>& AllOptions();
// Nullptr if there is none of this name.
const Option* FindOption(absl::string_view name);

nlohmann::json OptionValue(const Option& option, const TrainOptions& options);
// The same as a flag spells it.
std::string OptionText(const Option& option, const TrainOptions& options);

// "fp32, bf16 or fp16", "a whole number of at least 1"; empty if any text will do.
std::string Expected(const Option& option);
// InvalidArgument says "expected ..." if the option has a value that it may not have.
absl::Status CheckOption(const Option& option, const TrainOptions& options);
// Reads a value as a flag spells it. InvalidArgument as CheckOption's, also if `text` is of another
// type; `options` are of no use then.
absl::Status SetOption(const Option& option, absl::string_view text, TrainOptions& options);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_OPTION_REGISTRY_H_
