// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/testing/source_filter.h"

#include <map>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace zeroth {
namespace {

// Targets name such sources. A case of another file would run in no target.
bool CanBeNamed(absl::string_view source) {
  return absl::EndsWith(source, "_test.cc") || absl::EndsWith(source, "_test.cu") ||
         absl::EndsWith(source, "_fuzz.cc");
}

// In a project that imports this one, the compiler sees paths below external/.
bool IsOf(absl::string_view path, absl::string_view source) {
  return path == source || absl::EndsWith(path, absl::StrCat("/", source));
}

}  // namespace

absl::StatusOr<std::string> FilterBySource(absl::string_view filter,
                                           absl::Span<const LinkedTestCase> cases,
                                           const std::vector<std::string>& sources) {
  std::set<std::string> found;
  std::set<std::string> kept_suites;
  std::set<std::string> kept;
  std::map<std::string, std::string> others;  // to their suites
  for (const LinkedTestCase& test : cases) {
    const std::string full_name = absl::StrCat(test.suite, ".", test.name);
    bool keep = false;
    for (const std::string& source : sources) {
      if (!IsOf(test.source, source)) continue;
      found.insert(source);
      keep = true;
    }
    if (keep) {
      kept.insert(full_name);
      kept_suites.insert(test.suite);
    } else {
      if (!CanBeNamed(test.source)) {
        return absl::InvalidArgumentError(
            absl::StrCat("the test case ", full_name, " is in ", test.source,
                         ", which no target names: link its test by itself"));
      }
      others.emplace(full_name, test.suite);
    }
  }
  for (const std::string& source : sources) {
    if (found.count(source) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("no test case of ", source,
                       " is linked in: add its target to `tests` of the zeroth_test_binary"));
    }
  }
  std::set<std::string> excluded;
  for (const auto& [full_name, suite] : others) {
    if (kept.count(full_name) != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("two sources define the test case ", full_name, ": rename one of them"));
    }
    excluded.insert(kept_suites.count(suite) == 0 ? absl::StrCat(suite, ".*") : full_name);
  }
  std::string result(filter);
  // What follows the first '-' is excluded.
  absl::string_view separator = absl::StrContains(filter, '-') ? ":" : "-";
  for (const std::string& pattern : excluded) {
    absl::StrAppend(&result, separator, pattern);
    separator = ":";
  }
  return result;
}

}  // namespace zeroth
