// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/tokenizer/replacement.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/tokenizer/json_fields.h"
#include "zeroth/data/unicode.h"

namespace zeroth {

absl::StatusOr<TextPattern> TextPattern::FromJson(const nlohmann::json& json) {
  if (FieldOf(json, "Regex").is_string()) {
    ZEROTH_ASSIGN_OR_RETURN(Regex regex, Regex::Compile(json["Regex"].get<std::string>()));
    return TextPattern(std::move(regex));
  }
  const nlohmann::json& literal = FieldOf(json, "String");
  if (!literal.is_string() || literal.get_ref<const std::string&>().empty()) {
    return absl::InvalidArgumentError(
        "\"pattern\" must be {\"String\": …}, not empty, or {\"Regex\": …}");
  }
  return TextPattern(literal.get_ref<const std::string&>());
}

absl::StatusOr<Regex::Match> TextPattern::Find(absl::string_view text, size_t from,
                                               Regex::Scratch& scratch) const {
  if (regex_) return regex_->Find(text, from, scratch);
  const size_t begin = text.find(literal_, from);
  if (begin == absl::string_view::npos) return Regex::Match();
  return Regex::Match{begin, begin + literal_.size(), true};
}

absl::StatusOr<Replacement> Replacement::FromJson(const nlohmann::json& json) {
  Replacement replacement;
  ZEROTH_ASSIGN_OR_RETURN(replacement.pattern_, TextPattern::FromJson(FieldOf(json, "pattern")));
  ZEROTH_ASSIGN_OR_RETURN(replacement.content_, StringField(json, "content"));
  return replacement;
}

absl::Status Replacement::AppendReplaced(absl::string_view text, Regex::Scratch& scratch,
                                         std::string* out) const {
  size_t done = 0;
  for (size_t from = 0; from <= text.size();) {
    ZEROTH_ASSIGN_OR_RETURN(const Regex::Match match, pattern_.Find(text, from, scratch));
    if (!match.found) break;
    out->append(text.data() + done, match.begin - done);
    out->append(content_);
    done = match.end;
    from = match.end;
    // After an empty match the search continues after the next character.
    if (match.begin == match.end) {
      from += match.end < text.size() ? DecodeUtf8(text.substr(match.end)).length : 1;
    }
  }
  out->append(text.data() + done, text.size() - done);
  return absl::OkStatus();
}

absl::Status Replacement::Apply(std::string* text, Regex::Scratch& scratch) const {
  std::string out;
  if (pattern_.literal() != nullptr) {
    if (text->find(*pattern_.literal()) == std::string::npos) return absl::OkStatus();
    out.reserve(text->size() + text->size() / 2);
    ZEROTH_RETURN_IF_ERROR(AppendReplaced(*text, scratch, &out));
  } else {
    for (absl::string_view rest = *text; !rest.empty();) {
      const size_t valid = ValidUtf8Length(rest);
      ZEROTH_RETURN_IF_ERROR(AppendReplaced(rest.substr(0, valid), scratch, &out));
      rest.remove_prefix(valid);
      const size_t invalid = std::min<size_t>(rest.size(), 1);
      out.append(rest.data(), invalid);
      rest.remove_prefix(invalid);
    }
  }
  *text = std::move(out);
  return absl::OkStatus();
}

}  // namespace zeroth
