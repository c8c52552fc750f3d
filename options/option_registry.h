// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The options of options.inc as a table, for code that treats all options alike; and as a TOML
// file, whose keys are the options' names, without sections.

#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

#include "zeroth/options/options.h"

namespace zeroth {

// The values that an option may have, within its type. Numbers must always be finite.
struct AllowedValues {
  double least = std::numeric_limits<double>::lowest();
  double below = std::numeric_limits<double>::infinity();
  double or_value = least;  // also allowed
  // The words of an option that is an enum, and their enumerators.
  std::vector<std::pair<std::string, int>> words = {};
  // A word of earlier versions, which checkpoints may hold, and its present name.
  const char* old_word = nullptr;
  const char* new_word = nullptr;
  bool (*parses)(absl::string_view text) = nullptr;
  const char* expected = nullptr;  // replaces the text that messages derive from the above
};

// Accessors of an option that is an enum.
struct EnumField {
  int (*get)(const TrainOptions& options);
  void (*set)(TrainOptions& options, int value);
};

struct Option {
  const char* name;
  const char* group;
  bool decides_results;  // see options.inc
  AllowedValues allowed;
  const char* help;
  std::variant<std::string TrainOptions::*, bool TrainOptions::*, int TrainOptions::*,
               int64_t TrainOptions::*, uint64_t TrainOptions::*, double TrainOptions::*, EnumField>
      field;
};

// All options, group by group.
const std::vector<Option>& AllOptions();
// Returns nullptr if no option has this name.
const Option* FindOption(absl::string_view name);
// Options that may have been meant by `unknown`, a flag's name without dashes, as "; did you mean
// --beta1 or --beta2?": those with that name in other frameworks or earlier versions, or else those
// spelled alike. May be empty.
std::string DidYouMean(absl::string_view unknown);

// Returns advice on a `value` that the option does not allow: what other frameworks' word is here,
// as "; did you mean next_token?", or how to name a file. Empty if there is none.
std::string ValueHint(absl::string_view option, absl::string_view value);

nlohmann::json OptionValue(const Option& option, const TrainOptions& options);
// Returns the value in the spelling of a flag.
std::string OptionText(const Option& option, const TrainOptions& options);
// Like the function above, for the option with this name, which must exist.
std::string OptionText(absl::string_view name, const TrainOptions& options);

// Describes the allowed values, as "fp32, bf16 or fp16" or "a whole number of at least 1". Empty if
// any text is allowed.
std::string Expected(const Option& option);
// InvalidArgument, "expected ...", if the value of the option in `options` is not allowed.
absl::Status CheckOption(const Option& option, const TrainOptions& options);
// Sets the option to `text`, in the spelling of a flag. InvalidArgument as CheckOption's if the
// value has another type or is not allowed; `options` must not be used then.
absl::Status SetOption(const Option& option, absl::string_view text, TrainOptions& options);

// The name of the configuration file that a run writes to --out.
inline constexpr char kConfigName[] = "config.toml";

// Sets the options that the file names, and leaves the others. InvalidArgument names the file, line
// and key of everything that is wrong, what was expected there, and the option that may have been
// meant. Also the errors of ReadFile.
absl::Status ReadConfig(const std::string& path, TrainOptions& options);

// Returns the text of a file that sets every option to its value in `options`, with a comment for
// each group.
std::string ConfigText(const TrainOptions& options);

// Writes ConfigText to kConfigName in `directory`, and replaces an earlier file. Errors of
// WriteFileDurably.
absl::Status WriteConfig(const std::string& directory, const TrainOptions& options);

}  // namespace zeroth
