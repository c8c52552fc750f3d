// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/option_registry.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "absl/flags/marshalling.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/byte_count.h"
#include "zeroth/optim/outlier_detector.h"

namespace zeroth {
namespace {

constexpr bool kDecides = true;
constexpr bool kKeeps = false;

// What options.inc says of values.
AllowedValues Any() { return {}; }
AllowedValues AtLeast(double least, const char* expected = nullptr) {
  return {.least = least, .or_value = least, .expected = expected};
}
AllowedValues AtLeastOr(double least, double or_value) {
  return {.least = least, .or_value = or_value};
}
// From 0 on.
AllowedValues Below(double below) { return {.least = 0, .below = below, .or_value = 0}; }
AllowedValues OneOf(const char* words, const char* old_word = nullptr,
                    const char* new_word = nullptr) {
  return {.words = words, .old_word = old_word, .new_word = new_word};
}
AllowedValues Parsed(bool (*parses)(absl::string_view), const char* expected) {
  return {.parses = parses, .expected = expected};
}

bool IsTimeout(absl::string_view text) { return ParseTimeout(text).ok(); }
bool IsByteCount(absl::string_view text) { return ParseByteCount(text).ok(); }
bool IsOffload(absl::string_view text) { return ParseOffload(text).ok(); }
bool IsTrace(absl::string_view text) { return text.empty() || ParseStepRange(text).has_value(); }
bool IsReshard(absl::string_view text) {
  int group = 0;
  return text == "true" || text == "false" || (absl::SimpleAtoi(text, &group) && group > 0);
}
bool IsLossScale(absl::string_view text) {
  double scale = 0;
  return text == "auto" || text == "dynamic" || absl::SimpleAtod(text, &scale);
}
bool AreTargets(absl::string_view text) {
  for (const absl::string_view target : absl::StrSplit(text, ',')) {
    if (absl::StripAsciiWhitespace(target).empty()) return false;
  }
  return true;
}

std::vector<Option> MakeOptions() {
  std::vector<Option> options;
  const char* group = "";
#define GROUP(text) group = text;
#define OPTION(type, name, default_value, decides_results, allowed, help) \
  options.push_back({#name, group, decides_results, allowed, help, &TrainOptions::name});
#include "zeroth/train/options.inc"
  return options;
}

// Calls `visit` with the option's field.
template <typename Options, typename Visit>
auto VisitField(const Option& option, Options& options, Visit visit) {
  return std::visit([&](auto field) { return visit(options.*field); }, option.field);
}

bool Allows(const AllowedValues& allowed, const std::string& value) {
  if (allowed.parses != nullptr) return allowed.parses(value);
  if (allowed.words == nullptr) return true;
  const std::vector<absl::string_view> words = absl::StrSplit(allowed.words, ' ');
  return std::find(words.begin(), words.end(), value) != words.end();
}
template <typename Number>
bool Allows(const AllowedValues& allowed, Number value) {
  const double number = static_cast<double>(value);
  return number == allowed.or_value ||
         (std::isfinite(number) && number >= allowed.least && number < allowed.below);
}

std::string ListWords(const char* text) {
  std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  const absl::string_view last = words.back();
  words.pop_back();
  return absl::StrCat(absl::StrJoin(words, ", "), " or ", last);
}

template <typename T>
std::string ExpectedOf(const AllowedValues& allowed, const T&) {
  if (allowed.expected != nullptr) return allowed.expected;
  if (allowed.words != nullptr) return ListWords(allowed.words);
  if (std::is_same_v<T, std::string>) return "";
  if (std::is_same_v<T, bool>) return "true or false";
  std::string text = std::is_integral_v<T> ? "a whole number" : "a finite number";
  const double least = std::is_unsigned_v<T> ? 0 : allowed.least;
  if (least > AllowedValues().least) absl::StrAppend(&text, " of at least ", least);
  if (std::isfinite(allowed.below)) absl::StrAppend(&text, " and below ", allowed.below);
  if (allowed.or_value != allowed.least) absl::StrAppend(&text, ", or ", allowed.or_value);
  return text;
}

absl::Status NotExpected(const Option& option) {
  const AllowedValues& allowed = option.allowed;
  std::string renamed;
  if (allowed.old_word != nullptr) {
    renamed = absl::StrCat("; ", allowed.old_word, " is called ", allowed.new_word, " now");
  }
  return absl::InvalidArgumentError(absl::StrCat("expected ", Expected(option), renamed));
}

}  // namespace

const std::vector<Option>& AllOptions() {
  static const std::vector<Option>& options = *new std::vector<Option>(MakeOptions());
  return options;
}

const Option* FindOption(absl::string_view name) {
  for (const Option& option : AllOptions()) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

nlohmann::json OptionValue(const Option& option, const TrainOptions& options) {
  return VisitField(option, options, [](const auto& value) -> nlohmann::json { return value; });
}

std::string OptionText(const Option& option, const TrainOptions& options) {
  return VisitField(option, options, [](const auto& value) { return absl::UnparseFlag(value); });
}

std::string Expected(const Option& option) {
  const TrainOptions any;
  return VisitField(option, any,
                    [&](const auto& value) { return ExpectedOf(option.allowed, value); });
}

absl::Status CheckOption(const Option& option, const TrainOptions& options) {
  const bool allowed =
      VisitField(option, options, [&](const auto& value) { return Allows(option.allowed, value); });
  return allowed ? absl::OkStatus() : NotExpected(option);
}

absl::Status SetOption(const Option& option, absl::string_view text, TrainOptions& options) {
  std::string error;
  const bool parsed = VisitField(
      option, options, [&](auto& value) { return absl::ParseFlag(text, &value, &error); });
  return parsed ? CheckOption(option, options) : NotExpected(option);
}

}  // namespace zeroth
