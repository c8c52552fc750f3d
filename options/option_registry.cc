// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/options/option_registry.h"

// Makes toml++ return errors as values.
#define TOML_EXCEPTIONS 0

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/flags/marshalling.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"
#include "toml.hpp"

#include "zeroth/core/base/byte_count.h"
#include "zeroth/core/base/check.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/temporary_path.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/optim/outlier_detector.h"

namespace zeroth {
namespace {

constexpr bool kDecides = true;
constexpr bool kKeeps = false;

// Functions with which options.inc states the allowed values.
AllowedValues Any() { return {}; }
AllowedValues AtLeast(double least, const char* expected = nullptr) {
  return {.least = least, .or_value = least, .expected = expected};
}
AllowedValues AtLeastOr(double least, double or_value) {
  return {.least = least, .or_value = or_value};
}
// Allows 0 <= value < below.
AllowedValues Below(double below) { return {.least = 0, .below = below, .or_value = 0}; }
// Allows 0 <= value <= 1.
AllowedValues Share() {
  return {.least = 0, .below = 1, .or_value = 1, .expected = "a number from 0 to 1"};
}
// Allows these words, separated by blanks, one for each of the enumerators.
template <typename Enum>
AllowedValues OneOf(absl::string_view words, std::initializer_list<Enum> enumerators,
                    const char* old_word = nullptr, const char* new_word = nullptr) {
  AllowedValues allowed = {.old_word = old_word, .new_word = new_word};
  const std::vector<std::string> names = absl::StrSplit(words, ' ');
  ZEROTH_CHECK(names.size() == enumerators.size());
  for (const Enum enumerator : enumerators) {
    allowed.words.emplace_back(names[allowed.words.size()], static_cast<int>(enumerator));
  }
  return allowed;
}
AllowedValues DTypes(absl::string_view names) {
  AllowedValues allowed;
  for (const absl::string_view name : absl::StrSplit(names, ' ')) {
    allowed.words.emplace_back(name, static_cast<int>(*ParseDType(name)));
  }
  return allowed;
}
// Allows the words that the enumerators' names spell: zeroth and megatron_fsdp for "(kZeroth,
// kMegatronFsdp)".
AllowedValues WordsOf(absl::string_view enumerators) {
  AllowedValues allowed;
  for (absl::string_view name :
       absl::StrSplit(enumerators, absl::ByAnyChar("(), "), absl::SkipEmpty())) {
    absl::ConsumePrefix(&name, "k");
    std::string word;
    for (const char c : name) {
      if (absl::ascii_isupper(c) && !word.empty()) word += '_';
      word += absl::ascii_tolower(c);
    }
    allowed.words.emplace_back(word, static_cast<int>(allowed.words.size()));
  }
  return allowed;
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
bool IsChatTemplate(absl::string_view text) {
  return text == "auto" || text == "chatml" || text == "llama3" || text == "mistral" ||
         absl::EndsWith(text, ".jinja");
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

bool AreModules(absl::string_view text) { return text.empty() || AreTargets(text); }

template <auto kMember>
auto FieldOf() {
  using Value = std::decay_t<decltype(TrainOptions().*kMember)>;
  if constexpr (std::is_enum_v<Value>) {
    return EnumField{
        [](const TrainOptions& options) { return static_cast<int>(options.*kMember); },
        [](TrainOptions& options, int value) { options.*kMember = static_cast<Value>(value); }};
  } else {
    return kMember;
  }
}

std::vector<Option> MakeOptions() {
  std::vector<Option> options;
  const char* group = "";
#define GROUP(text) group = text;
#define OPTION(type, name, default_value, decides_results, allowed, help) \
  options.push_back({#name, group, decides_results, allowed, help, FieldOf<&TrainOptions::name>()});
#include "zeroth/options/options.inc"
  return options;
}

// Calls `visit` with the option's value, which is a word if the option is an enum.
template <typename Visit>
auto VisitValue(const Option& option, const TrainOptions& options, Visit visit) {
  return std::visit(
      [&](auto field) {
        if constexpr (std::is_same_v<decltype(field), EnumField>) {
          const int value = field.get(options);
          for (const auto& [word, enumerator] : option.allowed.words) {
            if (enumerator == value) return visit(word);
          }
          return visit(absl::StrCat(value));
        } else {
          return visit(options.*field);
        }
      },
      option.field);
}

bool Parse(const Option& option, absl::string_view text, TrainOptions& options) {
  return std::visit(
      [&](auto field) {
        if constexpr (std::is_same_v<decltype(field), EnumField>) {
          for (const auto& [word, enumerator] : option.allowed.words) {
            if (word != text) continue;
            field.set(options, enumerator);
            return true;
          }
          return false;
        } else {
          std::string error;
          return absl::ParseFlag(text, &(options.*field), &error);
        }
      },
      option.field);
}

bool IsText(const Option& option) {
  return std::holds_alternative<std::string TrainOptions::*>(option.field) ||
         std::holds_alternative<EnumField>(option.field);
}

bool Allows(const AllowedValues& allowed, const std::string& value) {
  if (allowed.parses != nullptr) return allowed.parses(value);
  return allowed.words.empty() ||
         absl::c_any_of(allowed.words, [&](const auto& word) { return word.first == value; });
}
template <typename Number>
bool Allows(const AllowedValues& allowed, Number value) {
  const double number = static_cast<double>(value);
  return number == allowed.or_value ||
         (std::isfinite(number) && number >= allowed.least && number < allowed.below);
}

std::string ListWords(absl::Span<const std::pair<std::string, int>> words) {
  const auto append = [](std::string* out, const auto& word) { *out += word.first; };
  return absl::StrCat(absl::StrJoin(words.first(words.size() - 1), ", ", append), " or ",
                      words.back().first);
}

template <typename T>
std::string ExpectedOf(const AllowedValues& allowed, const T&) {
  if (allowed.expected != nullptr) return allowed.expected;
  if (!allowed.words.empty()) return ListWords(allowed.words);
  if (std::is_same_v<T, std::string>) return "";
  if (std::is_same_v<T, bool>) return "true or false";
  std::string text = std::is_integral_v<T> ? "a whole number" : "a finite number";
  const double least = std::is_unsigned_v<T> ? 0 : allowed.least;
  if (least > AllowedValues().least) absl::StrAppend(&text, " of at least ", least);
  if (std::isfinite(allowed.below)) absl::StrAppend(&text, " and below ", allowed.below);
  if (allowed.or_value != allowed.least) absl::StrAppend(&text, ", or ", allowed.or_value);
  return text;
}

// `hint` is about the value.
absl::Status NotExpected(const Option& option, absl::string_view hint = "") {
  const AllowedValues& allowed = option.allowed;
  std::string renamed;
  if (allowed.old_word != nullptr) {
    renamed = absl::StrCat("; ", allowed.old_word, " is called ", allowed.new_word, " now");
  }
  return InvalidArgument("expected ", Expected(option), renamed, hint);
}

constexpr size_t kMostBytes = size_t{1} << 20;

// Returns the value in the spelling of a flag, or nullopt if its type is not the option's.
std::optional<std::string> FlagText(const Option& option, const toml::node& node) {
  const auto is = [&](auto field) { return std::holds_alternative<decltype(field)>(option.field); };
  const bool is_text = IsText(option);
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
    return InvalidArgument("there is no option ", Shorten(key), DidYouMean(Shorten(key)),
                           node.is_table() ? "; keys are names of flags, without sections" : "");
  }
  if (const std::optional<std::string> text = FlagText(*option, node)) {
    return Annotate(SetOption(*option, *text, options), absl::StrCat(key, " = ", Shorten(*text)));
  }
  std::ostringstream type;
  type << node.type();
  std::string expected = Expected(*option);
  if (IsText(*option)) {
    absl::StrAppend(&expected, expected.empty() ? "text in quotes" : ", in quotes");
  }
  return InvalidArgument(key, " is of type ", type.str(), ", expected ", expected);
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
  return VisitValue(option, options, [](const auto& value) -> nlohmann::json { return value; });
}

std::string OptionText(const Option& option, const TrainOptions& options) {
  return VisitValue(option, options, [](const auto& value) {
    std::string text = absl::UnparseFlag(value);
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, double>) {
      // Abseil tries 15 digits and then prints 17, although 16 may read back as the same number.
      const std::string shorter = absl::StrFormat("%.16g", value);
      double read = 0;
      if (shorter.size() < text.size() && absl::SimpleAtod(shorter, &read) && read == value) {
        text = shorter;
      }
    }
    return text;
  });
}

std::string OptionText(absl::string_view name, const TrainOptions& options) {
  return OptionText(*FindOption(name), options);
}

std::string Expected(const Option& option) {
  const TrainOptions any;
  return VisitValue(option, any,
                    [&](const auto& value) { return ExpectedOf(option.allowed, value); });
}

absl::Status CheckOption(const Option& option, const TrainOptions& options) {
  const bool allowed =
      VisitValue(option, options, [&](const auto& value) { return Allows(option.allowed, value); });
  return allowed ? absl::OkStatus() : NotExpected(option);
}

absl::Status SetOption(const Option& option, absl::string_view text, TrainOptions& options) {
  if (Parse(option, text, options) && CheckOption(option, options).ok()) return absl::OkStatus();
  return NotExpected(option, ValueHint(option.name, text));
}

absl::Status ReadConfig(const std::string& path, TrainOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMostBytes));
  const toml::parse_result parsed = toml::parse(std::string_view(text), std::string_view(path));
  if (!parsed) {
    const toml::source_position place = parsed.error().source().begin;
    return InvalidArgument(
        path, ":", place.line, ":", place.column, ": ", std::string(parsed.error().description()),
        "; expected TOML such as steps = 500 or data = \"books\": text is quoted, and each key "
        "occurs once");
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
  return ReplaceFile(absl::StrCat(directory, "/", kConfigName), ConfigText(options));
}

}  // namespace zeroth
