// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/jinja/builtins.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "zeroth/core/base/unicode.h"
#include "zeroth/data/chat/jinja/text.h"

namespace zeroth {
namespace {

using Kind = JinjaValue::Kind;

JinjaValue Text(absl::string_view text) { return JinjaValue::String(std::string(text)); }

// The string at this argument, or none if it is absent or none.
std::optional<absl::string_view> TextAt(const JinjaArguments& arguments, size_t position,
                                        absl::string_view name, JinjaWork& work) {
  const JinjaValue* const value = arguments.Get(position, name);
  if (value == nullptr || value->Is(Kind::kNone)) return std::nullopt;
  if (value->Is(Kind::kString)) return *value->text;
  work.Fail(absl::StrCat("the argument ", name, " is ", value->KindName(), ", expected a string"));
  return std::nullopt;
}

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

enum class Case { kUpper, kLower, kTitle, kCapital };

// Letters beyond ASCII have special rules, which are left to Python.
JinjaValue ChangeCase(absl::string_view text, Case to, JinjaWork& work) {
  std::string result;
  bool begins = true;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) {
      work.Fail("the case of letters beyond ASCII is not known here");
      break;
    }
    const bool upper = to == Case::kUpper || (begins && to != Case::kLower);
    result.push_back(upper ? absl::ascii_toupper(byte) : absl::ascii_tolower(byte));
    begins = to == Case::kTitle && !absl::ascii_isalpha(byte);
  }
  return JinjaValue::String(std::move(result));
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

// As json.dumps(value, ensure_ascii=False).
void AppendJson(const JinjaValue& value, std::string& out, JinjaWork& work) {
  work.Count(value.Is(Kind::kString) ? value.text->size() : 0);
  if (!work.ok()) return;
  const auto quote = [&](absl::string_view text) {
    out += '"';
    for (const char c : text) {
      static constexpr absl::string_view kEscaped = "\"\\\n\r\t\b\f";
      const size_t at = kEscaped.find(c);
      if (at != absl::string_view::npos) {
        absl::StrAppend(&out, "\\", absl::string_view("\"\\nrtbf").substr(at, 1));
      } else if (static_cast<unsigned char>(c) < 0x20) {
        absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned char>(c));
      } else {
        out += c;
      }
    }
    out += '"';
  };
  absl::string_view between;
  switch (value.kind) {
    case Kind::kNone:
      out += "null";
      break;
    case Kind::kBool:
      out += value.integer != 0 ? "true" : "false";
      break;
    case Kind::kInteger:
      absl::StrAppend(&out, value.integer);
      break;
    case Kind::kString:
      quote(*value.text);
      break;
    case Kind::kList:
      out += '[';
      for (const JinjaValue& each : *value.list) {
        absl::StrAppend(&out, between);
        between = ", ";
        AppendJson(each, out, work);
      }
      out += ']';
      break;
    case Kind::kMap:
      out += '{';
      for (const auto& [name, each] : *value.map) {
        absl::StrAppend(&out, between);
        between = ", ";
        quote(name);
        out += ": ";
        AppendJson(each, out, work);
      }
      out += '}';
      break;
    default:
      work.Fail(absl::StrCat("tojson of ", value.KindName()));
  }
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

// The members of a list whose attribute passes a test, or does not.
JinjaValue SelectByAttribute(const JinjaValue& value, const JinjaArguments& arguments, bool keep,
                             JinjaWork& work) {
  const auto name = TextAt(arguments, 0, "attribute", work);
  const auto test = TextAt(arguments, 1, "test", work);
  JinjaArguments more;
  for (size_t i = 2; i < arguments.positional.size(); ++i) {
    more.positional.push_back(arguments.positional[i]);
  }
  JinjaValue::List list;
  if (!name.has_value() || absl::StrContains(*name, '.')) {
    work.Fail("an attribute of this name is not known here");
    return {};
  }
  for (const JinjaValue& each : ToList(value, work)) {
    const JinjaValue member = Element(each, Text(*name), work);
    const bool passes = test.has_value() ? ApplyTest(*test, member, more, work) : IsTrue(member);
    if (!work.ok()) break;
    if (passes == keep) list.push_back(each);
  }
  return JinjaValue::Of(std::move(list));
}

}  // namespace

bool IsMapMethod(absl::string_view name) {
  static constexpr absl::string_view kMethods[] = {"clear",      "copy",   "fromkeys", "get",
                                                   "items",      "keys",   "pop",      "popitem",
                                                   "setdefault", "update", "values"};
  return std::find(std::begin(kMethods), std::end(kMethods), name) != std::end(kMethods);
}

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
    if (name == "find" && given == 1) {
      const size_t at = text.find(text_at(0).value_or(""));
      if (at == absl::string_view::npos) return JinjaValue::Integer(-1);
      return JinjaValue::Integer(LengthOf(Text(text.substr(0, at)), work));
    }
    if (name == "join" && given == 1) return Join(arguments.positional[0], text, work);
    if (given == 0 && name == "upper") return ChangeCase(text, Case::kUpper, work);
    if (given == 0 && name == "lower") return ChangeCase(text, Case::kLower, work);
    if (given == 0 && name == "title") return ChangeCase(text, Case::kTitle, work);
    if (given == 0 && name == "capitalize") return ChangeCase(text, Case::kCapital, work);
  }
  work.Fail(absl::StrCat("the method ", name, " of ", object.KindName(), ", with ", given,
                         " arguments, is not known here"));
  return {};
}

JinjaValue ApplyFilter(absl::string_view name, const JinjaValue& value,
                       const JinjaArguments& arguments, JinjaWork& work) {
  work.Count();
  const size_t given = arguments.positional.size() + arguments.named.size();
  const auto text = [&] { return ToText(value, work); };
  if (name == "trim" && given <= 1) {
    return Text(StripPython(text(), TextAt(arguments, 0, "chars", work), true, true));
  }
  if ((name == "length" || name == "count") && given == 0) {
    return JinjaValue::Integer(LengthOf(value, work));
  }
  if (name == "default" || name == "d") {
    const JinjaValue* const otherwise = arguments.Get(0, "default_value");
    const JinjaValue* const boolean = arguments.Get(1, "boolean");
    const bool by_truth = boolean != nullptr && IsTrue(*boolean);
    if (by_truth ? IsTrue(value) : !value.Is(Kind::kUndefined)) return value;
    return otherwise != nullptr ? *otherwise : Text("");
  }
  if (name == "tojson" && given == 0) {
    std::string json;
    AppendJson(value, json, work);
    return JinjaValue::String(std::move(json));
  }
  if (name == "join" && given <= 1 && arguments.Get(1, "attribute") == nullptr) {
    return Join(value, TextAt(arguments, 0, "d", work).value_or(""), work);
  }
  if (name == "string" && given == 0) return JinjaValue::String(text());
  if (name == "upper" && given == 0) return ChangeCase(text(), Case::kUpper, work);
  if (name == "lower" && given == 0) return ChangeCase(text(), Case::kLower, work);
  if (name == "title" && given == 0) return ChangeCase(text(), Case::kTitle, work);
  if (name == "capitalize" && given == 0) return ChangeCase(text(), Case::kCapital, work);
  if ((name == "first" || name == "last") && given == 0) {
    const JinjaValue::List list = ToList(value, work);
    if (list.empty()) return JinjaValue::Undefined("an element of an empty list");
    return name == "first" ? list.front() : list.back();
  }
  if (name == "list" && given == 0) return JinjaValue::Of(ToList(value, work));
  if (name == "reverse" && given == 0 && value.Is(Kind::kList)) {
    JinjaValue::List list = ToList(value, work);
    std::reverse(list.begin(), list.end());
    return JinjaValue::Of(std::move(list));
  }
  if (name == "items" && given == 0) return Items(value, work);
  if (name == "int" && given == 0 && value.is_number()) return JinjaValue::Integer(value.integer);
  if (name == "replace" && given == 2) {
    return Replace(text(), TextAt(arguments, 0, "old", work).value_or(""),
                   TextAt(arguments, 1, "new", work).value_or(""), work);
  }
  if (name == "selectattr" || name == "rejectattr") {
    return SelectByAttribute(value, arguments, name == "selectattr", work);
  }
  if (name == "map" && given == 1 && arguments.named.size() == 1) {
    JinjaValue::List list;
    const auto attribute = TextAt(arguments, 1, "attribute", work);
    if (attribute.has_value() && !absl::StrContains(*attribute, '.')) {
      for (const JinjaValue& each : ToList(value, work)) {
        list.push_back(Element(each, Text(*attribute), work));
      }
      return JinjaValue::Of(std::move(list));
    }
  }
  work.Fail(absl::StrCat("the filter ", name, " of ", value.KindName(), ", with ", given,
                         " arguments, is not known here"));
  return {};
}

bool ApplyTest(absl::string_view name, const JinjaValue& value, const JinjaArguments& arguments,
               JinjaWork& work) {
  work.Count();
  const size_t given = arguments.positional.size();
  if (given == 0) {
    const bool is_true = value.Is(Kind::kBool) && value.integer != 0;
    const std::pair<absl::string_view, bool> tests[] = {
        {"defined", !value.Is(Kind::kUndefined)},
        {"undefined", value.Is(Kind::kUndefined)},
        {"none", value.Is(Kind::kNone)},
        {"string", value.Is(Kind::kString)},
        {"mapping", value.Is(Kind::kMap)},
        {"number", value.is_number()},
        {"integer", value.Is(Kind::kInteger)},
        {"boolean", value.Is(Kind::kBool)},
        {"true", is_true},
        {"false", value.Is(Kind::kBool) && !is_true},
        {"callable", value.Is(Kind::kMacro)},
        {"odd", value.is_number() && value.integer % 2 != 0},
        {"even", value.is_number() && value.integer % 2 == 0},
        {"sequence", value.list != nullptr || value.Is(Kind::kString) || value.Is(Kind::kMap) ||
                         value.Is(Kind::kUndefined)},
        {"iterable", value.list != nullptr || value.Is(Kind::kString) || value.Is(Kind::kMap) ||
                         value.Is(Kind::kUndefined)}};
    for (const auto& [test, result] : tests) {
      if (test == name) return result;
    }
  } else if (given == 1) {
    const JinjaValue& other = arguments.positional[0];
    if (name == "equalto" || name == "eq" || name == "==") {
      return AreEqual(value, other, work);
    }
    if (name == "ne" || name == "!=") return !AreEqual(value, other, work);
    if (name == "in") return IsIn(value, other, work);
  }
  work.Fail(absl::StrCat("the test ", name, " with ", given, " arguments is not known here"));
  return false;
}

}  // namespace zeroth
