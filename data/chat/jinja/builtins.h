// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "zeroth/data/chat/jinja/value.h"

namespace zeroth {

// Counts the cost of a rendering against a limit, and keeps its first error. After an error,
// operations may return any value.
class JinjaWork {
 public:
  // The bound on the steps grows with the messages among the template's variables.
  explicit JinjaWork(const JinjaValue::Map& variables);
  // Counts a step, and bytes or elements that it copies or reads.
  void Count(size_t size = 0);
  // Keeps the first error, with the line.
  void Fail(absl::string_view what);
  void Fail(absl::Status status) { status_.Update(status); }
  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  void set_line(int line) { line_ = line; }

 private:
  uint64_t max_steps_ = 0;
  uint64_t steps_ = 0;
  int line_ = 0;
  absl::Status status_;
};

struct JinjaArguments {
  std::vector<JinjaValue> positional;
  JinjaValue::Map named;

  // The argument of this position or name, or null.
  const JinjaValue* Get(size_t position, absl::string_view name) const;
};

bool IsTrue(const JinjaValue& value);
bool AreEqual(const JinjaValue& a, const JinjaValue& b, JinjaWork& work);
// True if `a` is in the string, list or mapping `b`.
bool IsIn(const JinjaValue& a, const JinjaValue& b, JinjaWork& work);
// The text that {{ value }} writes.
std::string ToText(const JinjaValue& value, JinjaWork& work);
// Elements of a list, keys of a mapping, characters of a string.
JinjaValue::List ToList(const JinjaValue& value, JinjaWork& work);
int64_t LengthOf(const JinjaValue& value, JinjaWork& work);

// Returns the string argument of this position or name; nullopt if it is absent or None.
std::optional<absl::string_view> TextAt(const JinjaArguments& arguments, size_t position,
                                        absl::string_view name, JinjaWork& work);
JinjaValue Replace(absl::string_view text, absl::string_view from, absl::string_view to,
                   JinjaWork& work);
// kTitle is Python's str.title, where a word begins after anything but a letter. kWords is Jinja's
// filter title, where it begins after a blank, a hyphen or an opening bracket.
enum class JinjaCase { kUpper, kLower, kTitle, kWords, kCapital };
// Changes the case of ASCII letters. kLower also handles other letters, except those for which
// Python has a special rule.
JinjaValue ChangeCase(absl::string_view text, JinjaCase to, JinjaWork& work);
// Jinja's filter int: Python's int(value), or else int(float(value)), or else `otherwise`.
JinjaValue ToInteger(const JinjaValue& value, const JinjaValue& otherwise, JinjaWork& work);
// Pairs of names and values, as lists.
JinjaValue Items(const JinjaValue& map, JinjaWork& work);
JinjaValue Join(const JinjaValue& value, absl::string_view separator, JinjaWork& work);
// Python's str.splitlines.
JinjaValue::List SplitLines(absl::string_view text, JinjaWork& work);

JinjaValue CallMethod(const JinjaValue& object, absl::string_view name,
                      const JinjaArguments& arguments, JinjaWork& work);
// True for the name of a method of mappings, which hides a member of that name.
bool IsMapMethod(absl::string_view name);
JinjaValue ApplyFilter(absl::string_view name, const JinjaValue& value,
                       const JinjaArguments& arguments, JinjaWork& work);
bool ApplyTest(absl::string_view name, const JinjaValue& value, const JinjaArguments& arguments,
               JinjaWork& work);
JinjaValue ApplyOperator(absl::string_view sign, const JinjaValue& a, const JinjaValue& b,
                         JinjaWork& work);
// Python's value[begin:end:step]; undefined values mean none.
JinjaValue Slice(const JinjaValue& value, const JinjaValue& begin, const JinjaValue& end,
                 const JinjaValue& step, JinjaWork& work);
// Python's range, as a list.
JinjaValue Range(const JinjaArguments& arguments, JinjaWork& work);
// Returns the variable `loop` at element `index` of a loop over `items`.
JinjaValue LoopAt(const JinjaValue::List& items, size_t index);
// Python's strftime on 26 July 2024, 0:00.
JinjaValue StrftimeNow(absl::string_view format);
// value[index], or an undefined value.
JinjaValue Element(const JinjaValue& value, const JinjaValue& index, JinjaWork& work);

}  // namespace zeroth
