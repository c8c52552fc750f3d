// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The filters and tests of Jinja, with the tojson of transformers.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "zeroth/data/chat/jinja/builtins.h"
#include "zeroth/data/chat/jinja/text.h"

namespace zeroth {
namespace {

using Kind = JinjaValue::Kind;

constexpr int64_t kMostIndent = 1024;

JinjaValue Text(absl::string_view text) { return JinjaValue::String(std::string(text)); }

// The options of json.dumps.
struct JsonStyle {
  std::optional<int64_t> indent;
  std::string between = ", ";
  std::string after_key = ": ";
  bool sort_keys = false;
};

// Appends json.dumps(value, ensure_ascii=False), at this depth.
void AppendJson(const JinjaValue& value, const JsonStyle& style, int64_t depth, std::string& out,
                JinjaWork& work) {
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
  const auto new_line = [&](int64_t at) {
    if (!style.indent.has_value()) return;
    const auto blanks =
        static_cast<size_t>(std::clamp<int64_t>(*style.indent * at, 0, kMostIndent));
    work.Count(blanks);
    absl::StrAppend(&out, "\n", std::string(blanks, ' '));
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
    case Kind::kFloat:
      absl::StrAppend(&out, *value.text);
      break;
    case Kind::kString:
      quote(*value.text);
      break;
    case Kind::kList:
      out += '[';
      for (const JinjaValue& each : *value.list) {
        absl::StrAppend(&out, between);
        between = style.between;
        new_line(depth + 1);
        AppendJson(each, style, depth + 1, out, work);
      }
      if (!value.list->empty()) new_line(depth);
      out += ']';
      break;
    case Kind::kMap: {
      JinjaValue::Map members = *value.map;
      if (style.sort_keys) {
        std::stable_sort(members.begin(), members.end(),
                         [](const auto& a, const auto& b) { return a.first < b.first; });
      }
      out += '{';
      for (const auto& [name, each] : members) {
        absl::StrAppend(&out, between);
        between = style.between;
        new_line(depth + 1);
        quote(name);
        out += style.after_key;
        AppendJson(each, style, depth + 1, out, work);
      }
      if (!members.empty()) new_line(depth);
      out += '}';
      break;
    }
    default:
      work.Fail(absl::StrCat("tojson of ", value.KindName()));
  }
}

JinjaValue ToJson(const JinjaValue& value, const JinjaArguments& arguments, JinjaWork& work) {
  JsonStyle style;
  if (const JinjaValue* const ascii = arguments.Get(0, "ensure_ascii");
      ascii != nullptr && IsTrue(*ascii)) {
    work.Fail("tojson with ensure_ascii is not known here");
  }
  if (const JinjaValue* const indent = arguments.Get(1, "indent");
      indent != nullptr && !indent->Is(Kind::kNone)) {
    if (!indent->is_number()) work.Fail("tojson with an indent that is not a number");
    style.indent = std::clamp<int64_t>(indent->integer, 0, kMostIndent);
    style.between = std::string(",");
  }
  if (const JinjaValue* const separators = arguments.Get(2, "separators");
      separators != nullptr && !separators->Is(Kind::kNone)) {
    const JinjaValue::List pair = ToList(*separators, work);
    if (pair.size() != 2) work.Fail("tojson by other separators than two");
    if (!work.ok()) return {};
    style.between = ToText(pair[0], work);
    style.after_key = ToText(pair[1], work);
  }
  const JinjaValue* const sort_keys = arguments.Get(3, "sort_keys");
  style.sort_keys = sort_keys != nullptr && IsTrue(*sort_keys);
  std::string json;
  AppendJson(value, style, 0, json, work);
  return JinjaValue::String(std::move(json));
}

// Jinja's selectattr (`keep`) and rejectattr.
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

// Jinja's select (`keep`) and reject.
JinjaValue Select(const JinjaValue& value, const JinjaArguments& arguments, bool keep,
                  JinjaWork& work) {
  const auto test = TextAt(arguments, 0, "test", work);
  JinjaArguments more = arguments;
  if (!more.positional.empty()) more.positional.erase(more.positional.begin());
  JinjaValue::List list;
  for (const JinjaValue& each : ToList(value, work)) {
    const bool passes = test.has_value() ? ApplyTest(*test, each, more, work) : IsTrue(each);
    if (!work.ok()) break;
    if (passes == keep) list.push_back(each);
  }
  return JinjaValue::Of(std::move(list));
}

// Jinja's map: an attribute of each member of a list, or the result of a filter.
JinjaValue Map(const JinjaValue& value, const JinjaArguments& arguments, JinjaWork& work) {
  const JinjaValue* const attribute = arguments.Get(arguments.positional.size(), "attribute");
  const JinjaValue* const otherwise = arguments.Get(arguments.positional.size(), "default");
  const auto filter = TextAt(arguments, 0, "filter", work);
  const bool by_name = attribute != nullptr && attribute->Is(Kind::kString) &&
                       !absl::StrContains(*attribute->text, '.');
  if (by_name == filter.has_value()) work.Fail("map by this attribute or filter");
  JinjaArguments more = arguments;
  if (!more.positional.empty()) more.positional.erase(more.positional.begin());
  JinjaValue::List list;
  for (const JinjaValue& each : ToList(value, work)) {
    if (!work.ok()) break;
    JinjaValue made =
        by_name ? Element(each, *attribute, work) : ApplyFilter(*filter, each, more, work);
    if (by_name && otherwise != nullptr && made.Is(Kind::kUndefined)) made = *otherwise;
    list.push_back(std::move(made));
  }
  return JinjaValue::Of(std::move(list));
}

// Returns the key by which Jinja's sort, dictsort and unique compare: strings without case.
JinjaValue KeyOf(const JinjaValue& value, const JinjaArguments& arguments, JinjaWork& work) {
  const JinjaValue* const attribute = arguments.Get(arguments.positional.size(), "attribute");
  const JinjaValue* const sensitive = arguments.Get(arguments.positional.size(), "case_sensitive");
  JinjaValue key = attribute != nullptr ? Element(value, *attribute, work) : value;
  if (sensitive != nullptr && IsTrue(*sensitive)) return key;
  return key.Is(Kind::kString) ? ChangeCase(*key.text, JinjaCase::kLower, work) : key;
}

JinjaValue Sort(const JinjaValue::List& list, const JinjaArguments& arguments, bool by_first,
                JinjaWork& work) {
  std::vector<std::pair<JinjaValue, JinjaValue>> keyed;
  for (const JinjaValue& each : list) {
    JinjaValue key = KeyOf(by_first ? each.list->front() : each, arguments, work);
    const bool is_known = (key.is_number() || key.Is(Kind::kString)) &&
                          (keyed.empty() || key.is_number() == keyed[0].first.is_number());
    if (!is_known) work.Fail(absl::StrCat("sorts ", key.KindName(), " among others"));
    work.Count(size_t{64} * 16);  // the comparisons of about 2^16 members
    if (!work.ok()) return {};
    keyed.emplace_back(std::move(key), each);
  }
  const JinjaValue* const reverse = arguments.Get(arguments.positional.size(), "reverse");
  const bool down = reverse != nullptr && IsTrue(*reverse);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& left, const auto& right) {
    const JinjaValue& a = down ? right.first : left.first;
    const JinjaValue& b = down ? left.first : right.first;
    return a.is_number() ? a.integer < b.integer : *a.text < *b.text;
  });
  JinjaValue::List sorted;
  for (auto& [key, each] : keyed) sorted.push_back(std::move(each));
  return JinjaValue::Of(std::move(sorted));
}

JinjaValue Unique(const JinjaValue& value, const JinjaArguments& arguments, JinjaWork& work) {
  JinjaValue::List keys;
  JinjaValue::List kept;
  for (const JinjaValue& each : ToList(value, work)) {
    JinjaValue key = KeyOf(each, arguments, work);
    if (std::any_of(keys.begin(), keys.end(),
                    [&](const auto& old) { return AreEqual(old, key, work); })) {
      continue;
    }
    keys.push_back(std::move(key));
    kept.push_back(each);
  }
  return JinjaValue::Of(std::move(kept));
}

// Jinja's indent: each line but the first and those that are empty.
JinjaValue Indent(absl::string_view text, const JinjaArguments& arguments, JinjaWork& work) {
  const JinjaValue* const width = arguments.Get(0, "width");
  const JinjaValue* const first = arguments.Get(1, "first");
  const JinjaValue* const blank = arguments.Get(2, "blank");
  std::string by(4, ' ');
  if (width != nullptr && width->Is(Kind::kString)) by = *width->text;
  if (width != nullptr && width->is_number()) {
    by.assign(static_cast<size_t>(std::clamp<int64_t>(width->integer, 0, kMostIndent)), ' ');
  }
  std::string result;
  bool begins = true;
  for (const JinjaValue& line : SplitLines(absl::StrCat(text, "\n"), work)) {
    const bool indents = begins ? first != nullptr && IsTrue(*first)
                                : !line.text->empty() || (blank != nullptr && IsTrue(*blank));
    work.Count(by.size());
    if (!work.ok()) break;
    absl::StrAppend(&result, begins ? "" : "\n", indents ? by : "", *line.text);
    begins = false;
  }
  work.Count(result.size());
  return JinjaValue::String(std::move(result));
}

}  // namespace

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
  if (name == "tojson") return ToJson(value, arguments, work);
  if (name == "join" && given <= 1 && arguments.Get(1, "attribute") == nullptr) {
    return Join(value, TextAt(arguments, 0, "d", work).value_or(""), work);
  }
  if (name == "string" && given == 0) return JinjaValue::String(text());
  if (name == "upper" && given == 0) return ChangeCase(text(), JinjaCase::kUpper, work);
  if (name == "lower" && given == 0) return ChangeCase(text(), JinjaCase::kLower, work);
  if (name == "title" && given == 0) return ChangeCase(text(), JinjaCase::kWords, work);
  if (name == "capitalize" && given == 0) return ChangeCase(text(), JinjaCase::kCapital, work);
  if ((name == "first" || name == "last") && given == 0) {
    const JinjaValue::List list = ToList(value, work);
    if (list.empty()) return JinjaValue::Undefined("an element of an empty list");
    return name == "first" ? list.front() : list.back();
  }
  if (name == "list" && given == 0) return JinjaValue::Of(ToList(value, work));
  if (name == "reverse" && given == 0) {
    JinjaValue::List list = ToList(value, work);
    std::reverse(list.begin(), list.end());
    if (!value.Is(Kind::kString)) return JinjaValue::Of(std::move(list));
    return Join(JinjaValue::Of(std::move(list)), "", work);
  }
  if (name == "items" && given == 0) return Items(value, work);
  if (name == "int" && given <= 1 && arguments.Get(1, "base") == nullptr &&
      !value.Is(Kind::kUndefined)) {
    const JinjaValue* const otherwise = arguments.Get(0, "default");
    return ToInteger(value, otherwise != nullptr ? *otherwise : JinjaValue::Integer(0), work);
  }
  if (name == "replace" && given == 2) {
    return Replace(text(), TextAt(arguments, 0, "old", work).value_or(""),
                   TextAt(arguments, 1, "new", work).value_or(""), work);
  }
  if (name == "selectattr" || name == "rejectattr") {
    return SelectByAttribute(value, arguments, name == "selectattr", work);
  }
  if (name == "select" || name == "reject") return Select(value, arguments, name == "select", work);
  if (name == "map") return Map(value, arguments, work);
  if (name == "sort" && arguments.positional.empty()) {
    return Sort(ToList(value, work), arguments, /*by_first=*/false, work);
  }
  if (name == "dictsort" && arguments.positional.empty() && arguments.Get(0, "by") == nullptr) {
    return Sort(*Items(value, work).list, arguments, /*by_first=*/true, work);
  }
  if (name == "unique" && arguments.positional.empty()) return Unique(value, arguments, work);
  if (name == "indent") return Indent(text(), arguments, work);
  if (name == "safe" && given == 0) return value;
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
        {"number", value.is_number() || value.Is(Kind::kFloat)},
        {"float", value.Is(Kind::kFloat)},
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
    static constexpr std::pair<absl::string_view, absl::string_view> kOrders[] = {
        {"lt", "<"}, {"lessthan", "<"},    {"le", "<="},
        {"gt", ">"}, {"greaterthan", ">"}, {"ge", ">="}};
    for (const auto& [order, sign] : kOrders) {
      if (name == order || name == sign) return IsTrue(ApplyOperator(sign, value, other, work));
    }
  }
  work.Fail(absl::StrCat("the test ", name, " with ", given, " arguments is not known here"));
  return false;
}

}  // namespace zeroth
