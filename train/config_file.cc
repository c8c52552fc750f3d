// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/config_file.h"

// toml++ then returns errors as values.
#define TOML_EXCEPTIONS 0

#include <algorithm>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/flags/marshalling.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "toml.hpp"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/train/option_registry.h"

namespace zeroth {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;

// Returns the value in the spelling of a flag, or nullopt if its type is not the option's.
std::optional<std::string> FlagText(const Option& option, const toml::node& node) {
  const auto is = [&](auto field) { return std::holds_alternative<decltype(field)>(option.field); };
  const bool is_text = is(&TrainOptions::data);
  const bool is_bool = is(&TrainOptions::shuffle);
  // A seed may be too large for an integer of TOML, and is text then.
  if (node.is_string() && (is_text || is(&TrainOptions::seed))) return node.ref<std::string>();
  if (node.is_boolean() && is_bool) return absl::UnparseFlag(node.ref<bool>());
  if (node.is_integer() && !is_text && !is_bool) return absl::UnparseFlag(node.ref<int64_t>());
  if (node.is_floating_point() && is(&TrainOptions::lr)) {
    return absl::UnparseFlag(node.ref<double>());
  }
  return std::nullopt;
}

absl::Status SetFromNode(const std::string& key, const toml::node& node, TrainOptions& options) {
  const Option* const option = FindOption(key);
  if (option == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no option ", key, DidYouMean(key),
                     node.is_table() ? "; keys are names of flags, without sections" : ""));
  }
  if (const std::optional<std::string> text = FlagText(*option, node)) {
    return Annotate(SetOption(*option, *text, options), absl::StrCat(key, " = ", *text));
  }
  std::ostringstream type;
  type << node.type();
  std::string expected = Expected(*option);
  if (std::holds_alternative<std::string TrainOptions::*>(option->field)) {
    absl::StrAppend(&expected, expected.empty() ? "text in quotes" : ", in quotes");
  }
  return absl::InvalidArgumentError(
      absl::StrCat(key, " is of type ", type.str(), ", expected ", expected));
}

}  // namespace

absl::Status ReadConfig(const std::string& path, TrainOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMostBytes));
  const toml::parse_result parsed = toml::parse(std::string_view(text), std::string_view(path));
  if (!parsed) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", parsed.error().source().begin.line, ": ",
                     std::string(parsed.error().description()),
                     "; expected lines of TOML as steps = 500, each key once"));
  }
  std::vector<std::pair<int64_t, std::string>> wrong;  // by line
  for (const auto& [key, node] : parsed.table()) {
    const absl::Status status = SetFromNode(std::string(key.str()), node, options);
    if (!status.ok()) wrong.emplace_back(key.source().begin.line, status.message());
  }
  if (wrong.empty()) return absl::OkStatus();
  std::sort(wrong.begin(), wrong.end());
  return absl::InvalidArgumentError(
      absl::StrJoin(wrong, "\n  ", [&](std::string* out, const auto& error) {
        absl::StrAppend(out, path, ":", error.first, ": ", error.second);
      }));
}

std::string ConfigText(const TrainOptions& options) {
  std::string text =
      "# All options of a run: --config=FILE --out=OTHER repeats the run, flags override.\n";
  std::string group;
  for (const Option& option : AllOptions()) {
    if (option.group != group) {
      group = option.group;
      absl::StrAppend(&text, "\n# ", group, "\n");
    }
    nlohmann::json value = OptionValue(option, options);
    // TOML has no larger integers.
    if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) {
      value = OptionText(option, options);
    }
    // JSON's texts, numbers and booleans are valid TOML, except for one character.
    const std::string json = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    absl::StrAppend(&text, option.name, " = ", absl::StrReplaceAll(json, {{"\x7f", "\\u007f"}}),
                    "\n");
  }
  return text;
}

absl::Status WriteConfig(const std::string& directory, const TrainOptions& options) {
  return WriteFileDurably(absl::StrCat(directory, "/", kConfigName), ConfigText(options));
}

}  // namespace zeroth
