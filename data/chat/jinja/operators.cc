// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/data/chat/jinja/builtins.h"

namespace zeroth {
namespace {

using Kind = JinjaValue::Kind;

constexpr size_t kMaxTextBytes = size_t{8} << 20;
constexpr uint64_t kLeastSteps = 1 << 20;  // lower bound of the limit
constexpr uint64_t kMostSteps = 1 << 24;
// Some templates walk over all earlier messages for each message, or over each byte.
constexpr uint64_t kStepsOfAPair = 64;
constexpr uint64_t kStepsOfAByte = 16;
// Bytes whose copy costs about as much as a step.
constexpr size_t kBytesOfAStep = 64;

}  // namespace

JinjaWork::JinjaWork(const JinjaValue::Map& variables) {
  for (const auto& [name, value] : variables) {
    if (!value.Is(Kind::kList)) continue;
    max_steps_ += kStepsOfAPair * value.list->size() * value.list->size();
    for (const JinjaValue& element : *value.list) {
      const JinjaValue* const content = element.Find("content");
      if (content == nullptr || !content->Is(Kind::kString)) continue;
      max_steps_ += kStepsOfAByte * content->text->size();
    }
  }
  max_steps_ = std::clamp(max_steps_, kLeastSteps, kMostSteps);
}

void JinjaWork::Count(size_t size) {
  steps_ += 1 + size / kBytesOfAStep;
  if (steps_ > max_steps_ || size > kMaxTextBytes) {
    Fail(absl::ResourceExhaustedError(
        absl::StrCat("line ", line_, ": the template takes too long or writes too much")));
  }
}

void JinjaWork::Fail(absl::string_view what) { Fail(InvalidArgument("line ", line_, ": ", what)); }

const JinjaValue* JinjaArguments::Get(size_t position, absl::string_view name) const {
  if (position < positional.size()) return &positional[position];
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

bool IsTrue(const JinjaValue& value) {
  switch (value.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInteger:
      return value.integer != 0;
    case Kind::kFloat:
      return *value.text != "0.0" && *value.text != "-0.0";
    case Kind::kString:
      return !value.text->empty();
    case Kind::kList:
      return !value.list->empty();
    case Kind::kMap:
      return !value.map->empty();
    case Kind::kNamespace:
    case Kind::kMacro:
      return true;
  }
  return false;
}

bool AreEqual(const JinjaValue& a, const JinjaValue& b, JinjaWork& work) {
  work.Count();
  if (!work.ok()) return false;
  if (a.is_number() && b.is_number()) return a.integer == b.integer;
  const auto counts = [](const JinjaValue& value) {
    return value.is_number() || value.Is(Kind::kFloat);
  };
  if (a.kind != b.kind && counts(a) && counts(b)) work.Fail("compares a float with an integer");
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::kFloat:
      return *a.text == *b.text;
    case Kind::kString:
      work.Count(std::min(a.text->size(), b.text->size()));
      return *a.text == *b.text;
    case Kind::kList:
      return std::equal(a.list->begin(), a.list->end(), b.list->begin(), b.list->end(),
                        [&](const auto& x, const auto& y) { return AreEqual(x, y, work); });
    case Kind::kMap:
      return a.map->size() == b.map->size() &&
             std::all_of(a.map->begin(), a.map->end(), [&](const auto& member) {
               work.Count(a.map->size());
               const JinjaValue* const other = b.Find(member.first);
               return other != nullptr && AreEqual(member.second, *other, work);
             });
    case Kind::kNamespace:
      return a.map == b.map;
    case Kind::kMacro:
      return a.macro == b.macro;
    default:
      return true;
  }
}

bool IsIn(const JinjaValue& a, const JinjaValue& b, JinjaWork& work) {
  switch (b.kind) {
    case Kind::kString:
      if (!a.Is(Kind::kString)) break;
      work.Count(a.text->size() + b.text->size());
      return absl::StrContains(*b.text, *a.text);
    case Kind::kList:
      return std::any_of(b.list->begin(), b.list->end(),
                         [&](const JinjaValue& each) { return AreEqual(a, each, work); });
    case Kind::kMap:
      work.Count(b.map->size());
      return a.Is(Kind::kString) && b.Find(*a.text) != nullptr;
    case Kind::kUndefined:
      return false;
    default:
      break;
  }
  work.Fail(absl::StrCat("whether ", a.KindName(), " is in ", b.KindName()));
  return false;
}

std::string ToText(const JinjaValue& value, JinjaWork& work) {
  switch (value.kind) {
    case Kind::kUndefined:
      return "";
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.integer != 0 ? "True" : "False";
    case Kind::kInteger:
      return absl::StrCat(value.integer);
    case Kind::kFloat:
    case Kind::kString:
      work.Count(value.text->size());
      return work.ok() ? *value.text : "";
    default:
      work.Fail(absl::StrCat("writes ", value.KindName(), ", which is not known here"));
      return "";
  }
}

JinjaValue::List ToList(const JinjaValue& value, JinjaWork& work) {
  JinjaValue::List list;
  switch (value.kind) {
    case Kind::kUndefined:
      break;
    case Kind::kString: {
      work.Count(value.text->size() * kBytesOfAStep);
      for (absl::string_view rest = *value.text; work.ok() && !rest.empty();) {
        const size_t length = DecodeUtf8(rest).length;
        list.push_back(JinjaValue::String(std::string(rest.substr(0, length))));
        rest.remove_prefix(length);
      }
      break;
    }
    case Kind::kList:
      work.Count(value.list->size() * kBytesOfAStep);
      if (work.ok()) list = *value.list;
      break;
    case Kind::kMap:
      work.Count(value.map->size() * kBytesOfAStep);
      for (const auto& [name, each] : *value.map) list.push_back(JinjaValue::String(name));
      break;
    default:
      work.Fail(absl::StrCat("goes through ", value.KindName(), ", expected a list"));
  }
  return list;
}

int64_t LengthOf(const JinjaValue& value, JinjaWork& work) {
  if (value.Is(Kind::kList)) return static_cast<int64_t>(value.list->size());
  if (value.Is(Kind::kMap)) return static_cast<int64_t>(value.map->size());
  if (value.Is(Kind::kUndefined)) return 0;
  if (!value.Is(Kind::kString)) {
    work.Fail(absl::StrCat("the length of ", value.KindName()));
    return 0;
  }
  work.Count(value.text->size());
  return std::count_if(value.text->begin(), value.text->end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

JinjaValue ApplyOperator(absl::string_view sign, const JinjaValue& a, const JinjaValue& b,
                         JinjaWork& work) {
  work.Count();
  const auto both = [&](Kind kind) { return a.Is(kind) && b.Is(kind); };
  if (sign == "==") return JinjaValue::Bool(AreEqual(a, b, work));
  if (sign == "!=") return JinjaValue::Bool(!AreEqual(a, b, work));
  if (sign == "in") return JinjaValue::Bool(IsIn(a, b, work));
  if (sign == "not in") return JinjaValue::Bool(!IsIn(a, b, work));
  if (sign == "~" || (sign == "+" && both(Kind::kString))) {
    std::string text = ToText(a, work);
    text += ToText(b, work);
    work.Count(text.size());
    return JinjaValue::String(std::move(text));
  }
  if (sign == "+" && both(Kind::kList)) {
    JinjaValue::List list = ToList(a, work);
    const JinjaValue::List more = ToList(b, work);
    list.insert(list.end(), more.begin(), more.end());
    return JinjaValue::Of(std::move(list));
  }
  if (sign[0] == '<' || sign[0] == '>') {
    const bool comparable = (a.is_number() && b.is_number()) || both(Kind::kString);
    int order = a.integer < b.integer ? -1 : a.integer > b.integer ? 1 : 0;
    if (both(Kind::kString)) {
      work.Count(std::min(a.text->size(), b.text->size()));
      order = a.text->compare(*b.text);  // UTF-8 has the order of code points
    }
    const bool strict = sign[0] == '<' ? order < 0 : order > 0;
    if (comparable) return JinjaValue::Bool(strict || (sign.size() == 2 && order == 0));
  }
  if (sign == "*" && a.Is(Kind::kString) && b.is_number()) {
    std::string text;
    for (int64_t i = 0; i < b.integer && work.ok(); ++i) {
      work.Count(text.size() / kBytesOfAStep + a.text->size());
      absl::StrAppend(&text, *a.text);
    }
    return JinjaValue::String(std::move(text));
  }
  if (a.is_number() && b.is_number()) {
    // Python's integers have no bounds: results beyond these are refused.
    constexpr int64_t kBound = int64_t{1} << 31;
    const int64_t x = a.integer;
    const int64_t y = b.integer;
    const bool is_small = std::max(std::abs(x), std::abs(y)) < kBound;
    if (is_small && sign == "+") return JinjaValue::Integer(x + y);
    if (is_small && sign == "-") return JinjaValue::Integer(x - y);
    if (is_small && sign == "*") return JinjaValue::Integer(x * y);
    if (is_small && y != 0 && (sign == "//" || sign == "%")) {
      const int64_t rest = ((x % y) + y) % y;
      return JinjaValue::Integer(sign == "%" ? rest : (x - rest) / y);
    }
  }
  work.Fail(absl::StrCat(a.KindName(), " ", sign, " ", b.KindName(), " is not known here"));
  return {};
}

JinjaValue Slice(const JinjaValue& value, const JinjaValue& begin, const JinjaValue& end,
                 const JinjaValue& step, JinjaWork& work) {
  for (const JinjaValue* const each : {&begin, &end, &step}) {
    const bool is_known = each->is_number() || each->Is(Kind::kUndefined) || each->Is(Kind::kNone);
    if (!is_known) work.Fail(absl::StrCat("a slice by ", each->KindName()));
  }
  const int64_t stride = step.is_number() ? step.integer : 1;
  if (stride == 0 || (!value.Is(Kind::kString) && !value.Is(Kind::kList))) {
    work.Fail(absl::StrCat("a slice of ", value.KindName(), " by steps of ", stride));
  }
  const JinjaValue::List list = ToList(value, work);
  if (!work.ok()) return {};
  const auto size = static_cast<int64_t>(list.size());
  const auto at = [size, stride](const JinjaValue& bound, int64_t otherwise) {
    if (!bound.is_number()) return otherwise;
    const int64_t index = bound.integer < 0 ? bound.integer + size : bound.integer;
    return stride > 0 ? std::clamp<int64_t>(index, 0, size)
                      : std::clamp<int64_t>(index, -1, size - 1);
  };
  const int64_t last = at(end, stride > 0 ? size : -1);
  JinjaValue::List taken;
  std::string text;
  // Steps of at least the size end at once.
  const int64_t by = std::clamp<int64_t>(stride, -size - 1, size + 1);
  for (int64_t i = at(begin, stride > 0 ? 0 : size - 1); stride > 0 ? i < last : i > last;
       i += by) {
    const JinjaValue& each = list[static_cast<size_t>(i)];
    if (value.Is(Kind::kString)) {
      text += *each.text;
    } else {
      taken.push_back(each);
    }
  }
  if (value.Is(Kind::kString)) return JinjaValue::String(std::move(text));
  return JinjaValue::Of(std::move(taken));
}

JinjaValue Element(const JinjaValue& value, const JinjaValue& index, JinjaWork& work) {
  work.Count();
  if (value.Is(Kind::kUndefined)) {
    work.Fail("a member of a value that is undefined");
  } else if (value.Is(Kind::kMap) && index.Is(Kind::kString)) {
    work.Count(value.map->size());
    const JinjaValue* const found = value.Find(*index.text);
    return found != nullptr ? *found : JinjaValue::Undefined(*index.text);
  } else if ((value.Is(Kind::kList) || value.Is(Kind::kString)) && index.is_number()) {
    const JinjaValue::List list = ToList(value, work);
    const auto size = static_cast<int64_t>(list.size());
    const int64_t at = index.integer < 0 ? index.integer + size : index.integer;
    if (at >= 0 && at < size) return list[static_cast<size_t>(at)];
    return JinjaValue::Undefined(absl::StrCat(index.integer));
  } else if (!index.Is(Kind::kString) || IsMapMethod(*index.text)) {
    work.Fail(absl::StrCat("the member by ", index.KindName(), " of ", value.KindName()));
  }
  return JinjaValue::Undefined("a member");
}

JinjaValue Range(const JinjaArguments& arguments, JinjaWork& work) {
  const auto& given = arguments.positional;
  const bool numbers = std::all_of(given.begin(), given.end(),
                                   [](const JinjaValue& each) { return each.is_number(); });
  JinjaValue::List list;
  if (!numbers || given.empty() || given.size() > 3 || !arguments.named.empty() ||
      (given.size() == 3 && given[2].integer == 0)) {
    work.Fail("a range that is not known here");
    return {};
  }
  int64_t i = given.size() > 1 ? given[0].integer : 0;
  const int64_t end = given[given.size() > 1 ? 1 : 0].integer;
  const int64_t step = given.size() > 2 ? given[2].integer : 1;
  for (; work.ok() && (step > 0 ? i < end : i > end); i += step) {
    work.Count();
    list.push_back(JinjaValue::Integer(i));
  }
  return JinjaValue::Of(std::move(list));
}

JinjaValue LoopAt(const JinjaValue::List& items, size_t index) {
  const size_t count = items.size();
  const auto number = [](size_t n) { return JinjaValue::Integer(static_cast<int64_t>(n)); };
  const auto item = [&](bool exists, size_t at, absl::string_view name) {
    return exists ? items[at] : JinjaValue::Undefined(name);
  };
  return JinjaValue::Of(
      JinjaValue::Map{{"index", number(index + 1)},
                      {"index0", number(index)},
                      {"revindex", number(count - index)},
                      {"revindex0", number(count - index - 1)},
                      {"first", JinjaValue::Bool(index == 0)},
                      {"last", JinjaValue::Bool(index + 1 == count)},
                      {"length", number(count)},
                      {"previtem", item(index > 0, index - 1, "loop.previtem")},
                      {"nextitem", item(index + 1 < count, index + 1, "loop.nextitem")}});
}

JinjaValue StrftimeNow(absl::string_view format) {
  const absl::TimeZone utc = absl::UTCTimeZone();
  return JinjaValue::String(
      absl::FormatTime(format, absl::FromCivil(absl::CivilDay(2024, 7, 26), utc), utc));
}

}  // namespace zeroth
