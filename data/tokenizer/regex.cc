// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#define PCRE2_CODE_UNIT_WIDTH 8
#include "zeroth/data/tokenizer/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/formats/json_fields.h"

namespace zeroth {
namespace {

// The characters of \s and \w. PCRE2 10.42 differs from Oniguruma: it counts U+180E as a space, and
// neither marks nor joiners as parts of words.
constexpr char kSpaces[] =
    R"(\t-\r\x20\x85\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr char kWordCharacters[] =
    R"(\p{L}\p{M}\p{Nl}\p{Nd}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169})"
    R"(\x{1F170}-\x{1F189}\xB2\xB3\xB9\xBC-\xBE)";

std::string MessageOf(int code) {
  std::array<PCRE2_UCHAR, 256> text;
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// Rewrites syntax that Oniguruma and PCRE2 read differently.
class Translator {
 public:
  explicit Translator(absl::string_view pattern) : rest_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (!rest_.empty()) {
      if (rest_[0] == '\\') {
        ZEROTH_RETURN_IF_ERROR(Escape());
      } else if (in_class_) {
        ZEROTH_RETURN_IF_ERROR(InClass());
      } else {
        if (rest_[0] == '[') {
          in_class_ = true;
          Copy(absl::StartsWith(rest_, "[^") ? 2 : 1);
          // A bracket in the first place is a character of the class.
          if (absl::StartsWith(rest_, "]")) Copy(1);
          continue;
        }
        if (rest_[0] == '{' && !absl::EndsWith(out_, "\\x")) ZEROTH_RETURN_IF_ERROR(Interval());
        Copy(1);
      }
    }
    return out_;
  }

 private:
  void Copy(size_t count) {
    absl::StrAppend(&out_, rest_.substr(0, count));
    rest_.remove_prefix(count);
  }

  absl::Status Refuse(absl::string_view what) const {
    return Unimplemented("has ", what, ", which Zeroth does not know");
  }

  // At a brace: {n,m}+ repeats the interval to Oniguruma, and is possessive to PCRE2.
  absl::Status Interval() const {
    const absl::string_view digits_and_comma = "0123456789,";
    const size_t end = rest_.find_first_not_of(digits_and_comma, 1);
    if (end == absl::string_view::npos || rest_[end] != '}') return absl::OkStatus();
    if (absl::StartsWith(rest_, "{,")) return Refuse("an interval without its beginning ({,n})");
    if (absl::StartsWith(rest_.substr(end + 1), "+")) return Refuse("a repeated interval ({n,m}+)");
    return absl::OkStatus();
  }

  absl::Status InClass() {
    if (absl::StartsWith(rest_, "[:")) return Refuse("a class by its name ([:...:])");
    if (rest_[0] == '[') return Refuse("a class within a class");
    if (absl::StartsWith(rest_, "&&")) return Refuse("an intersection of classes (&&)");
    if (rest_[0] == ']') in_class_ = false;
    Copy(1);
    return absl::OkStatus();
  }

  absl::Status Escape() {
    if (rest_.size() < 2) return Refuse("a backslash at its end");
    const char kind = rest_[1];
    const char* const characters = kind == 's' || kind == 'S' ? kSpaces : kWordCharacters;
    switch (kind) {
      case 's':
      case 'w':
        absl::StrAppend(&out_, in_class_ ? "" : "[", characters, in_class_ ? "" : "]");
        break;
      case 'S':
      case 'W':
        if (in_class_) return Refuse(absl::StrCat("\\", rest_.substr(1, 1), " in a class"));
        absl::StrAppend(&out_, "[^", characters, "]");
        break;
      case 'v':
        // One vertical tab to Oniguruma, and a class to PCRE2.
        absl::StrAppend(&out_, "\\x0B");
        break;
      case 'p':
      case 'P':
        return Property();
      default:
        if (absl::ascii_isalnum(static_cast<unsigned char>(kind)) &&
            !absl::StrContains("dDAzxnrtf", kind)) {
          return Refuse(absl::StrCat("the escape \\", rest_.substr(1, 1)));
        }
        Copy(2);
        return absl::OkStatus();
    }
    rest_.remove_prefix(2);
    return absl::OkStatus();
  }

  // \p{L}, \p{Lu}, \p{^L}. Longer names are scripts, which PCRE2 would extend without "sc:".
  absl::Status Property() {
    const size_t close = rest_.find('}');
    if (rest_.size() < 4 || rest_[2] != '{' || close == absl::string_view::npos)
      return Refuse("a property without braces");
    const absl::string_view name = rest_.substr(3, close - 3);
    const absl::string_view bare = name.substr(absl::StartsWith(name, "^") ? 1 : 0);
    if (bare.size() <= 2) {
      Copy(close + 1);
      return absl::OkStatus();
    }
    absl::StrAppend(&out_, rest_.substr(0, 3), name.substr(0, name.size() - bare.size()),
                    "sc:", bare, "}");
    rest_.remove_prefix(close + 1);
    return absl::OkStatus();
  }

  absl::string_view rest_;
  std::string out_;
  bool in_class_ = false;
};

}  // namespace

Regex::Scratch::Scratch()
    : match_(pcre2_match_data_create(1, nullptr),
             [](void* owned) { pcre2_match_data_free(static_cast<pcre2_match_data*>(owned)); }),
      context_(
          pcre2_match_context_create(nullptr),
          [](void* owned) { pcre2_match_context_free(static_cast<pcre2_match_context*>(owned)); }),
      // Grows on demand; repeated groups use some of it for each repetition.
      stack_(pcre2_jit_stack_create(size_t{32} << 10, size_t{16} << 20, nullptr),
             [](void* owned) { pcre2_jit_stack_free(static_cast<pcre2_jit_stack*>(owned)); }) {
  ZEROTH_CHECK(match_ != nullptr && context_ != nullptr && stack_ != nullptr);
  auto* const context = static_cast<pcre2_match_context*>(context_.get());
  pcre2_set_match_limit(context, kMatchLimit);
  pcre2_jit_stack_assign(context, nullptr, stack_.get());
}

absl::StatusOr<Regex> Regex::Compile(absl::string_view pattern) {
  const std::string where = absl::StrCat("the regular expression ", Excerpt(pattern));
  const absl::StatusOr<std::string> run = Translator(pattern).Run();
  if (!run.ok()) return Annotate(run.status(), where);
  const std::string& translated = *run;
  int error = 0;
  size_t place = 0;
  // Oniguruma's ^ and $ are ends of lines.
  pcre2_code* const code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &place, nullptr);
  if (code == nullptr) {
    return InvalidArgument(where, ": ", MessageOf(error));
  }
  Regex regex(pattern);
  regex.code_ = std::shared_ptr<void>(
      code, [](void* owned) { pcre2_code_free(static_cast<pcre2_code*>(owned)); });
  // Where the system has no just-in-time compiler, pcre2_match interprets.
  regex.is_compiled_ = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
  return regex;
}

absl::StatusOr<Regex::Match> Regex::Find(absl::string_view text, size_t from,
                                         Scratch& scratch) const {
  auto* const found = static_cast<pcre2_match_data*>(scratch.match_.get());
  // pcre2_jit_match omits the argument checks of pcre2_match, which cost as much as a short match.
  const auto match = is_compiled_ ? pcre2_jit_match : pcre2_match;
  const int result =
      match(static_cast<const pcre2_code*>(code_.get()), reinterpret_cast<PCRE2_SPTR>(text.data()),
            text.size(), from, is_compiled_ ? 0 : PCRE2_NO_UTF_CHECK, found,
            static_cast<pcre2_match_context*>(scratch.context_.get()));
  if (result == PCRE2_ERROR_NOMATCH) return Match();
  if (result < 0) {
    return absl::ResourceExhaustedError(absl::StrCat("the regular expression ", Excerpt(pattern_),
                                                     " gave up at byte ", from, " of a text of ",
                                                     text.size(), ": ", MessageOf(result)));
  }
  const size_t* const ends = pcre2_get_ovector_pointer(found);
  // Only \K and lookbehind could violate this, and the translation refuses both.
  ZEROTH_CHECK(ends[0] >= from && ends[0] <= ends[1]);
  return Match{ends[0], ends[1], true};
}

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

absl::Status TextPattern::ForEachMatch(
    absl::string_view text, Regex::Scratch& scratch,
    absl::FunctionRef<absl::Status(size_t begin, size_t end)> visit) const {
  for (size_t from = 0; from <= text.size();) {
    Regex::Match match;
    if (regex_) {
      ZEROTH_ASSIGN_OR_RETURN(match, regex_->Find(text, from, scratch));
    } else if (const size_t begin = text.find(literal_, from); begin != text.npos) {
      match = {begin, begin + literal_.size(), true};
    }
    if (!match.found) break;
    ZEROTH_RETURN_IF_ERROR(visit(match.begin, match.end));
    from = match.end;
    if (match.end > match.begin) continue;
    from += from < text.size() ? DecodeUtf8(text.substr(from)).length : 1;
  }
  return absl::OkStatus();
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
  ZEROTH_RETURN_IF_ERROR(pattern_.ForEachMatch(text, scratch, [&](size_t begin, size_t end) {
    out->append(text.data() + done, begin - done);
    out->append(content_);
    done = end;
    return absl::OkStatus();
  }));
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
