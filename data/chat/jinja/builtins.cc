// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/jinja/builtins.h"

#include <utf8proc.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/unicode.h"
#include "zeroth/data/chat/jinja/text.h"

namespace zeroth {
namespace {

using Kind = JinjaValue::Kind;

JinjaValue Text(absl::string_view text) { return JinjaValue::String(std::string(text)); }

}  // namespace

std::optional<absl::string_view> TextAt(const JinjaArguments& arguments, size_t position,
                                        absl::string_view name, JinjaWork& work) {
  const JinjaValue* const value = arguments.Get(position, name);
  if (value == nullptr || value->Is(Kind::kNone)) return std::nullopt;
  if (value->Is(Kind::kString)) return *value->text;
  work.Fail(absl::StrCat("the argument ", name, " is ", value->KindName(), ", expected a string"));
  return std::nullopt;
}

namespace {

// Python's str.split: at each run of blanks, or at each separator.
JinjaValue Split(absl::string_view text, std::optional<absl::string_view> separator, int64_t most,
                 JinjaWork& work) {
  JinjaValue::List parts;
  const auto add = [&](absl::string_view part) {
    work.Count(part.size());
    parts.push_back(Text(part));
  };
  if (separator.has_value() && separator->empty()) work.Fail("split by an empty string");
  if (!separator.has_value()) text = StripPython(text, std::nullopt, true, false);
  for (; work.ok() && most != 0; --most) {
    size_t end = separator.has_value() ? text.find(*separator) : 0;
    if (!separator.has_value()) {
      while (end < text.size() && !IsPythonSpace(DecodeUtf8(text.substr(end)).code_point)) {
        end += DecodeUtf8(text.substr(end)).length;
      }
      if (end == text.size()) break;
    }
    if (end == absl::string_view::npos) break;
    add(text.substr(0, end));
    text.remove_prefix(end + (separator.has_value() ? separator->size() : 0));
    if (!separator.has_value()) text = StripPython(text, std::nullopt, true, false);
  }
  if (separator.has_value() || !text.empty()) add(text);
  return JinjaValue::Of(std::move(parts));
}

}  // namespace

JinjaValue Replace(absl::string_view text, absl::string_view from, absl::string_view to,
                   JinjaWork& work) {
  if (from.empty()) work.Fail("replace of an empty string is not known here");
  std::string result;
  while (work.ok()) {
    const size_t at = text.find(from);
    absl::StrAppend(&result, text.substr(0, at));
    work.Count(std::min(at, text.size()));
    if (at == absl::string_view::npos) break;
    absl::StrAppend(&result, to);
    work.Count(result.size() / 64 + to.size());
    text.remove_prefix(at + from.size());
  }
  return JinjaValue::String(std::move(result));
}

JinjaValue ChangeCase(absl::string_view text, JinjaCase to, JinjaWork& work) {
  using Case = JinjaCase;
  std::string result;
  bool begins = true;
  for (; work.ok() && !text.empty();) {
    const DecodedChar c = DecodeUtf8(text);
    text.remove_prefix(c.length);
    if (c.code_point >= 0x80) {
      // Python's rules for the others depend on the context, or make several characters of one.
      constexpr uint32_t kSigma = 0x3A3;
      constexpr uint32_t kDottedI = 0x130;
      if (to != Case::kLower || c.code_point == kSigma || c.code_point == kDottedI) {
        work.Fail("the case of these letters beyond ASCII is not known here");
        break;
      }
      AppendUtf8(static_cast<uint32_t>(utf8proc_tolower(static_cast<int32_t>(c.code_point))),
                 &result);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c.code_point);
    const bool upper = to == Case::kUpper || (begins && to != Case::kLower);
    result.push_back(upper ? absl::ascii_toupper(byte) : absl::ascii_tolower(byte));
    begins = (to == Case::kTitle && !absl::ascii_isalpha(byte)) ||
             (to == Case::kWords &&
              (IsPythonSpace(byte) || absl::string_view("-({[<").find(static_cast<char>(byte)) !=
                                          absl::string_view::npos));
  }
  return JinjaValue::String(std::move(result));
}

JinjaValue ToInteger(const JinjaValue& value, const JinjaValue& otherwise, JinjaWork& work) {
  if (value.is_number()) return JinjaValue::Integer(value.integer);
  if (!value.Is(Kind::kString) && !value.Is(Kind::kFloat)) return otherwise;
  const absl::string_view text = StripPython(*value.text);
  work.Count(text.size());
  std::string number;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto is_digit = [&](size_t at) {
      return at < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[at]));
    };
    if (!absl::ascii_isascii(static_cast<unsigned char>(text[i]))) {
      work.Fail("int of characters beyond ASCII, which may be digits, is not known here");
    }
    if (text[i] != '_') {
      number.push_back(text[i]);
    } else if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) {
      return otherwise;
    }
  }
  int64_t integer = 0;
  if (absl::SimpleAtoi(number, &integer)) return JinjaValue::Integer(integer);
  double real = 0;
  // Python's float() knows no hexadecimal numbers.
  if (number.find_first_of("xX") != std::string::npos || !absl::SimpleAtod(number, &real) ||
      !std::isfinite(real)) {
    return otherwise;
  }
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (real < -kLimit || real >= kLimit) {
    work.Fail("int of a number beyond 64 bits is not known here");
    return {};
  }
  return JinjaValue::Integer(static_cast<int64_t>(real));
}

JinjaValue Items(const JinjaValue& map, JinjaWork& work) {
  JinjaValue::List list;
  if (map.Is(Kind::kMap)) {
    for (const auto& [name, value] : *map.map) {
      work.Count(name.size());
      list.push_back(JinjaValue::Of(JinjaValue::List{Text(name), value}));
    }
  } else if (!map.Is(Kind::kUndefined)) {
    work.Fail(absl::StrCat("items of ", map.KindName()));
  }
  return JinjaValue::Of(std::move(list));
}

JinjaValue::List SplitLines(absl::string_view text, JinjaWork& work) {
  JinjaValue::List lines;
  while (work.ok() && !text.empty()) {
    size_t end = 0;
    size_t length = 0;
    while (end < text.size() && length == 0) {
      const DecodedChar c = DecodeUtf8(text.substr(end));
      const bool ends = (c.code_point >= 0x0A && c.code_point <= 0x0D) ||
                        (c.code_point >= 0x1C && c.code_point <= 0x1E) || c.code_point == 0x85 ||
                        c.code_point == 0x2028 || c.code_point == 0x2029;
      ends ? length = c.length : end += c.length;
    }
    if (absl::StartsWith(text.substr(end), "\r\n")) length = 2;
    work.Count(end);
    lines.push_back(Text(text.substr(0, end)));
    text.remove_prefix(end + length);
  }
  return lines;
}

JinjaValue Join(const JinjaValue& value, absl::string_view separator, JinjaWork& work) {
  std::string text;
  bool begins = true;
  for (const JinjaValue& each : ToList(value, work)) {
    work.Count(separator.size());
    if (!work.ok()) break;
    absl::StrAppend(&text, begins ? "" : separator, ToText(each, work));
    begins = false;
  }
  work.Count(text.size());
  return JinjaValue::String(std::move(text));
}

bool IsMapMethod(absl::string_view name) {
  static constexpr absl::string_view kMethods[] = {"clear",      "copy",   "fromkeys", "get",
                                                   "items",      "keys",   "pop",      "popitem",
                                                   "setdefault", "update", "values"};
  return std::find(std::begin(kMethods), std::end(kMethods), name) != std::end(kMethods);
}

namespace {

// Python's str.format with {}, {0} and {name}.
JinjaValue Format(absl::string_view text, const JinjaArguments& arguments, JinjaWork& work) {
  std::string result;
  size_t next = 0;
  while (work.ok() && !text.empty()) {
    const size_t at = std::min(text.find_first_of("{}"), text.size());
    absl::StrAppend(&result, text.substr(0, at));
    text.remove_prefix(at);
    if (text.empty()) break;
    if (text.size() > 1 && text[0] == text[1]) {
      result += text[0];
      text.remove_prefix(2);
      continue;
    }
    const size_t end = text.find('}');
    const absl::string_view name = text.substr(1, end == 0 ? 0 : end - 1);
    size_t place = arguments.positional.size();
    const bool is_place = name.empty() || absl::SimpleAtoi(name, &place);
    if (name.empty()) place = next++;
    const JinjaValue* const value =
        is_place ? arguments.Get(place, "") : arguments.Get(arguments.positional.size(), name);
    if (text[0] == '}' || end == absl::string_view::npos || value == nullptr) {
      work.Fail(absl::StrCat("format by ", Excerpt(text.substr(0, end))));
      break;
    }
    absl::StrAppend(&result, ToText(*value, work));
    work.Count(result.size() / 64);
    text.remove_prefix(end + 1);
  }
  return JinjaValue::String(std::move(result));
}

}  // namespace

JinjaValue CallMethod(const JinjaValue& object, absl::string_view name,
                      const JinjaArguments& arguments, JinjaWork& work) {
  const size_t given = arguments.positional.size() + arguments.named.size();
  const auto text_at = [&](size_t position) {
    return TextAt(arguments, position, position == 0 ? "first" : "second", work);
  };
  if (object.Is(Kind::kMap) && arguments.named.empty()) {
    if (name == "items" && given == 0) return Items(object, work);
    if (name == "keys" && given == 0) return JinjaValue::Of(ToList(object, work));
    if (name == "values" && given == 0) {
      JinjaValue::List list;
      work.Count(object.map->size());
      for (const auto& [key, value] : *object.map) list.push_back(value);
      return JinjaValue::Of(std::move(list));
    }
    if (name == "get" && (given == 1 || given == 2)) {
      const auto key = text_at(0);
      const JinjaValue* const found = key.has_value() ? object.Find(*key) : nullptr;
      if (found != nullptr) return *found;
      return given == 2 ? arguments.positional[1] : JinjaValue::None();
    }
  } else if (object.Is(Kind::kString) && name == "format") {
    return Format(*object.text, arguments, work);
  } else if (object.Is(Kind::kString) && arguments.named.empty()) {
    const absl::string_view text = *object.text;
    work.Count(text.size());
    if ((name == "strip" || name == "lstrip" || name == "rstrip") && given <= 1) {
      return Text(StripPython(text, text_at(0), name != "rstrip", name != "lstrip"));
    }
    if (name == "split" && given <= 2) {
      int64_t most = -1;
      if (given == 2 && arguments.positional[1].is_number()) most = arguments.positional[1].integer;
      if (given == 2 && !arguments.positional[1].is_number()) work.Fail("split by this count");
      return Split(text, text_at(0), most, work);
    }
    if ((name == "startswith" || name == "endswith") && given == 1) {
      const auto part = text_at(0);
      if (!part.has_value()) work.Fail(absl::StrCat(name, " of none"));
      const absl::string_view asked = part.value_or("");
      return JinjaValue::Bool(name == "startswith" ? absl::StartsWith(text, asked)
                                                   : absl::EndsWith(text, asked));
    }
    if (name == "replace" && given == 2) {
      return Replace(text, text_at(0).value_or(""), text_at(1).value_or(""), work);
    }
    if ((name == "removeprefix" || name == "removesuffix") && given == 1) {
      const absl::string_view part = text_at(0).value_or("");
      return Text(name == "removeprefix" ? absl::StripPrefix(text, part)
                                         : absl::StripSuffix(text, part));
    }
    if (name == "splitlines" && given == 0) return JinjaValue::Of(SplitLines(text, work));
    if (name == "find" && given == 1) {
      const size_t at = text.find(text_at(0).value_or(""));
      if (at == absl::string_view::npos) return JinjaValue::Integer(-1);
      return JinjaValue::Integer(LengthOf(Text(text.substr(0, at)), work));
    }
    if (name == "join" && given == 1) return Join(arguments.positional[0], text, work);
    if (given == 0 && name == "upper") return ChangeCase(text, JinjaCase::kUpper, work);
    if (given == 0 && name == "lower") return ChangeCase(text, JinjaCase::kLower, work);
    if (given == 0 && name == "title") return ChangeCase(text, JinjaCase::kTitle, work);
    if (given == 0 && name == "capitalize") return ChangeCase(text, JinjaCase::kCapital, work);
  }
  work.Fail(absl::StrCat("the method ", name, " of ", object.KindName(), ", with ", given,
                         " arguments, is not known here"));
  return {};
}

}  // namespace zeroth
