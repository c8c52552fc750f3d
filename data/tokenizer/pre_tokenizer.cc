// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/formats/json_fields.h"

namespace zeroth {
namespace {

// Alternatives of the patterns of GPT-2, Llama 3, Qwen and GPT-4o. No match of any of them has a
// space after a printable ASCII character, and none distinguishes such a space from the text's end.
constexpr absl::string_view kCutAlternatives[] = {
    R"('s)",
    R"('t)",
    R"('re)",
    R"('ve)",
    R"('m)",
    R"('ll)",
    R"('d)",
    R"('(?:[sdmt]|ll|ve|re))",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d))",
    R"((?i:[sdmt]|ll|ve|re))",
    R"([^\r\n\p{L}\p{N}]?\p{L}+)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)",
    R"(\p{N}{1,3})",
    R"(\p{N}+)",
    R"(\p{N})",
    R"( ?\p{L}+)",
    R"( ?\p{N}+)",
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*)",
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*)",
    R"( ?[^\s\p{L}\p{N}]+)",
    R"(\s*[\r\n]+)",
    R"(\s*[\r\n])",
    R"(\s+(?!\S))",
    R"(\s+)"};

// True if `pattern` consists of these alternatives alone.
bool IsOfCutAlternatives(absl::string_view pattern) {
  while (true) {
    const auto fits = [&pattern](absl::string_view alternative) {
      return absl::StartsWith(pattern, alternative) &&
             (pattern.size() == alternative.size() || pattern[alternative.size()] == '|');
    };
    const auto* const found =
        std::find_if(std::begin(kCutAlternatives), std::end(kCutAlternatives), fits);
    if (found == std::end(kCutAlternatives)) return false;
    pattern.remove_prefix(found->size());
    if (pattern.empty()) return true;
    pattern.remove_prefix(1);
  }
}

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::FromJson(const nlohmann::json& json) {
  PreTokenizer result;
  ZEROTH_RETURN_IF_ERROR(ForEachPart(json, "pre_tokenizer", "pretokenizers",
                                     std::bind_front(&PreTokenizer::Add, &result)));
  return result;
}

absl::Status PreTokenizer::Add(const std::string& type, const nlohmann::json& json) {
  if (byte_level_) {
    return Unimplemented(Excerpt(type),
                         " after ByteLevel, which Zeroth knows only as the last part");
  }
  if (type == "ByteLevel") {
    ZEROTH_ASSIGN_OR_RETURN(const bool prefix, BoolField(json, "add_prefix_space", true));
    ZEROTH_ASSIGN_OR_RETURN(const bool use_regex, BoolField(json, "use_regex", true));
    if (prefix) stages_.push_back({.kind = Kind::kPrefixSpace});
    byte_level_ = true;
    return use_regex ? AddExpression(kGpt2Pattern) : absl::OkStatus();
  }
  if (type == "Split") return AddSplit(json);
  if (type == "Metaspace") return AddMetaspace(json);
  if (type == "Digits") {
    ZEROTH_ASSIGN_OR_RETURN(const bool individual, BoolField(json, "individual_digits", false));
    return AddExpression(individual ? R"(\p{N})" : R"(\p{N}+)");
  }
  return UnknownKind("pre-tokenizer", type, "ByteLevel, Split, Digits, Metaspace, Sequence");
}

absl::Status PreTokenizer::AddExpression(absl::string_view pattern) {
  ZEROTH_ASSIGN_OR_RETURN(Regex regex, Regex::Compile(pattern));
  stages_.push_back({.pattern = TextPattern(std::move(regex))});
  return absl::OkStatus();
}

absl::Status PreTokenizer::AddSplit(const nlohmann::json& json) {
  static constexpr std::pair<absl::string_view, Behavior> kBehaviors[] = {
      {"Removed", Behavior::kRemoved},
      {"Isolated", Behavior::kIsolated},
      {"MergedWithPrevious", Behavior::kMergedWithPrevious},
      {"MergedWithNext", Behavior::kMergedWithNext},
      {"Contiguous", Behavior::kContiguous}};
  Stage stage;
  ZEROTH_ASSIGN_OR_RETURN(stage.pattern, TextPattern::FromJson(FieldOf(json, "pattern")));
  ZEROTH_ASSIGN_OR_RETURN(stage.invert, BoolField(json, "invert", false));
  ZEROTH_ASSIGN_OR_RETURN(const std::string behavior, StringField(json, "behavior"));
  const auto* const found = std::find_if(std::begin(kBehaviors), std::end(kBehaviors),
                                         [&](const auto& each) { return each.first == behavior; });
  if (found == std::end(kBehaviors)) {
    return UnknownKind("behavior of a Split", behavior,
                       "Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
  }
  stage.behavior = found->second;
  stages_.push_back(std::move(stage));
  return absl::OkStatus();
}

absl::Status PreTokenizer::AddMetaspace(const nlohmann::json& json) {
  Stage stage;
  stage.kind = Kind::kMetaspace;
  ZEROTH_ASSIGN_OR_RETURN(stage.replacement, StringField(json, "replacement"));
  if (stage.replacement.empty()) return absl::InvalidArgumentError("\"replacement\" is empty");
  // Before "prepend_scheme" there was "add_prefix_space".
  ZEROTH_ASSIGN_OR_RETURN(const bool prefix, BoolField(json, "add_prefix_space", true));
  std::string scheme = prefix ? "always" : "never";
  if (!FieldOf(json, "prepend_scheme").is_null()) {
    ZEROTH_ASSIGN_OR_RETURN(scheme, StringField(json, "prepend_scheme"));
  }
  if (scheme != "always" && scheme != "first" && scheme != "never")
    return UnknownKind("prepend_scheme", scheme, "always, first, never");
  stage.prepend = scheme == "always"  ? Prepend::kAlways
                  : scheme == "first" ? Prepend::kFirst
                                      : Prepend::kNever;
  ZEROTH_ASSIGN_OR_RETURN(const bool split, BoolField(json, "split", true));
  stages_.push_back(stage);
  if (split) {
    stages_.push_back(
        {.pattern = TextPattern(stage.replacement), .behavior = Behavior::kMergedWithNext});
  }
  return absl::OkStatus();
}

bool PreTokenizer::has_expressions() const {
  return std::any_of(stages_.begin(), stages_.end(), [](const Stage& stage) {
    return stage.kind == Kind::kSplit && stage.pattern.regex() != nullptr;
  });
}

bool PreTokenizer::CutsAtSpaces() const {
  bool tiles = false;
  for (const Stage& stage : stages_) {
    if (stage.kind != Kind::kSplit || stage.pattern.regex() == nullptr) continue;
    const std::string& pattern = stage.pattern.regex()->pattern();
    if (stage.behavior != Behavior::kIsolated || !IsOfCutAlternatives(pattern)) return false;
    tiles = tiles || absl::EndsWith(pattern, R"(|\s+)");
  }
  return tiles;
}

absl::Status PreTokenizer::Run(size_t stage, absl::string_view piece, Place place,
                               Regex::Scratch& scratch, Sink sink) const {
  if (piece.empty()) return absl::OkStatus();
  if (stage == stages_.size()) return sink(piece);
  const Stage& now = stages_[stage];
  switch (now.kind) {
    case Kind::kSplit:
      return Split(stage, piece, place, scratch, sink);
    case Kind::kPrefixSpace: {
      if (piece[0] == ' ' || place == Place::kContinues) {
        return Run(stage + 1, piece, place, scratch, sink);
      }
      return Run(stage + 1, absl::StrCat(" ", piece), place, scratch, sink);
    }
    case Kind::kMetaspace: {
      std::string text = absl::StrReplaceAll(piece, {{" ", now.replacement}});
      const bool wanted = (now.prepend == Prepend::kAlways && place != Place::kContinues) ||
                          (now.prepend == Prepend::kFirst && place == Place::kStart);
      if (wanted && !absl::StartsWith(text, now.replacement)) text.insert(0, now.replacement);
      return Run(stage + 1, text, place, scratch, sink);
    }
  }
  return absl::InternalError("a pre-tokenizer of no kind");
}

absl::Status PreTokenizer::Split(size_t stage, absl::string_view piece, Place place,
                                 Regex::Scratch& scratch, Sink sink) const {
  const Stage& now = stages_[stage];
  const bool at_once = now.behavior == Behavior::kIsolated;
  std::vector<Part> parts;
  const auto add = [&](size_t begin, size_t end, bool is_delimiter) -> absl::Status {
    if (at_once) {
      return Run(stage + 1, piece.substr(begin, end - begin),
                 begin == 0 ? place : Place::kAfterPiece, scratch, sink);
    }
    parts.push_back({begin, end, is_delimiter});
    return absl::OkStatus();
  };
  size_t done = 0;
  const auto visit = [&](size_t begin, size_t end) -> absl::Status {
    if (begin > done) ZEROTH_RETURN_IF_ERROR(add(done, begin, now.invert));
    // An empty match is a place to split.
    done = end;
    return end > begin ? add(begin, end, !now.invert) : absl::OkStatus();
  };
  ZEROTH_RETURN_IF_ERROR(now.pattern.ForEachMatch(piece, scratch, visit));
  if (done < piece.size()) ZEROTH_RETURN_IF_ERROR(add(done, piece.size(), now.invert));
  if (at_once) return absl::OkStatus();
  for (const Part& part : Join(now.behavior, parts)) {
    ZEROTH_RETURN_IF_ERROR(Run(stage + 1, piece.substr(part.begin, part.end - part.begin),
                               part.begin == 0 ? place : Place::kAfterPiece, scratch, sink));
  }
  return absl::OkStatus();
}

std::vector<PreTokenizer::Part> PreTokenizer::Join(Behavior behavior,
                                                   const std::vector<Part>& parts) {
  std::vector<Part> joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    const bool after_delimiter = i > 0 && parts[i - 1].is_delimiter;
    bool joins = false;
    switch (behavior) {
      case Behavior::kRemoved:
        if (part.is_delimiter) continue;
        break;
      case Behavior::kIsolated:
        break;
      case Behavior::kContiguous:
        joins = i > 0 && part.is_delimiter == after_delimiter;
        break;
      case Behavior::kMergedWithPrevious:
        // The first of several delimiters joins the part before them.
        joins = i > 0 && part.is_delimiter && !after_delimiter;
        break;
      case Behavior::kMergedWithNext:
        // The last of several delimiters joins the part after them.
        joins = !part.is_delimiter && after_delimiter;
        break;
    }
    if (joins) {
      joined.back().end = part.end;
    } else {
      joined.push_back(part);
    }
  }
  return joined;
}

}  // namespace zeroth
