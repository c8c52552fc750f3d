// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/formats/json_fields.h"

namespace zeroth {
namespace {

struct Form {
  absl::string_view name;
  int options;
  bool compat;
};
constexpr std::array<Form, 4> kForms = {{{"NFC", UTF8PROC_COMPOSE, false},
                                         {"NFD", UTF8PROC_DECOMPOSE, false},
                                         {"NFKC", UTF8PROC_COMPOSE | UTF8PROC_COMPAT, true},
                                         {"NFKD", UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, true}}};

// At most this many bytes are normalised together, because the library sorts combining marks in
// quadratic time. Segments begin with an ASCII character, which no form changes or moves; only a
// longer text without one is cut elsewhere.
constexpr size_t kMaxSegment = size_t{64} << 10;

// Appends a form of `text`, which is valid UTF-8.
absl::Status AppendForm(absl::string_view text, int form, std::string* out) {
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &result,
                   static_cast<utf8proc_option_t>(form | UTF8PROC_STABLE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(result, &std::free);
  if (size < 0) {
    return absl::InternalError(
        absl::StrCat("utf8proc cannot normalise a text: ", utf8proc_errmsg(size)));
  }
  out->append(reinterpret_cast<const char*>(result), static_cast<size_t>(size));
  return absl::OkStatus();
}

// Normalises `text`. `form` leaves text alone whose UTF-8 bytes are all below `first_changed`: NFC
// neither changes nor combines characters below U+0300, and the other forms none below U+00A0.
absl::Status Normalize(int form, uint8_t first_changed, std::string* text) {
  const auto may_change = [first_changed](char c) {
    return static_cast<uint8_t>(c) >= first_changed;
  };
  if (std::none_of(text->begin(), text->end(), may_change)) return absl::OkStatus();
  std::string out;
  out.reserve(text->size() + text->size() / 8);
  const absl::string_view all = *text;
  for (size_t begin = 0; begin < all.size();) {
    // Text up to the last ASCII character before a character that may change is copied.
    const size_t change = static_cast<size_t>(
        std::find_if(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end(), may_change) -
        all.begin());
    size_t first = change;
    while (first > begin && static_cast<uint8_t>(all[first - 1]) >= 0x80) --first;
    if (change < all.size() && first > begin) --first;
    if (change == all.size()) first = change;
    out.append(all.data() + begin, first - begin);
    size_t end = std::max(first + 1, change);
    while (end < all.size() && end - first < kMaxSegment && static_cast<uint8_t>(all[end]) >= 0x80)
      ++end;
    while (end < all.size() && (static_cast<uint8_t>(all[end]) & 0xC0) == 0x80) ++end;
    for (absl::string_view rest = all.substr(first, std::min(end, all.size()) - first);
         !rest.empty();) {
      const size_t valid = ValidUtf8Length(rest);
      if (valid > 0) ZEROTH_RETURN_IF_ERROR(AppendForm(rest.substr(0, valid), form, &out));
      rest.remove_prefix(valid);
      const size_t invalid = std::min<size_t>(rest.size(), 1);
      out.append(rest.data(), invalid);
      rest.remove_prefix(invalid);
    }
    begin = std::min(end, all.size());
  }
  *text = std::move(out);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Normalizer> Normalizer::FromJson(const nlohmann::json& json) {
  Normalizer normalizer;
  ZEROTH_RETURN_IF_ERROR(ForEachPart(json, "normalizer", "normalizers",
                                     std::bind_front(&Normalizer::Add, &normalizer)));
  return normalizer;
}

absl::Status Normalizer::Add(const std::string& type, const nlohmann::json& json) {
  Step step;
  const auto form = std::find_if(kForms.begin(), kForms.end(),
                                 [&type](const Form& each) { return each.name == type; });
  if (form != kForms.end()) {
    step.form = form->options;
    step.compat = form->compat || type == "NFD";
  } else if (type == "Prepend") {
    step.kind = Kind::kPrepend;
    ZEROTH_ASSIGN_OR_RETURN(step.prepend, StringField(json, "prepend"));
  } else if (type == "Replace") {
    step.kind = Kind::kReplace;
    ZEROTH_ASSIGN_OR_RETURN(step.replace, Replacement::FromJson(json));
  } else {
    return UnknownKind("normalizer", type, "NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence");
  }
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

bool Normalizer::prepends() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return step.kind == Kind::kPrepend; });
}

bool Normalizer::CutsAtSpaces(bool as_spaces) const {
  for (const Step& step : steps_) {
    if (step.kind != Kind::kReplace) continue;
    const std::string* const literal = step.replace.pattern().literal();
    if (literal == nullptr || *literal != " " || as_spaces) return false;
  }
  return true;
}

absl::Status Normalizer::Apply(bool continues, std::string* text, Regex::Scratch& scratch) const {
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Kind::kUnicode:
        ZEROTH_RETURN_IF_ERROR(Normalize(step.form, step.compat ? 0xC2 : 0xCC, text));
        break;
      case Kind::kPrepend:
        if (!continues && !text->empty()) text->insert(0, step.prepend);
        break;
      case Kind::kReplace:
        ZEROTH_RETURN_IF_ERROR(step.replace.Apply(text, scratch));
        break;
    }
  }
  return absl::OkStatus();
}

}  // namespace zeroth
