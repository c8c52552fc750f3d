// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/parameter_group.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr size_t kShownNames = 12;

std::string Listed(absl::Span<const std::string> names) {
  const absl::Span<const std::string> shown = names.subspan(0, std::min(kShownNames, names.size()));
  const size_t more = names.size() - shown.size();
  return absl::StrCat(absl::StrJoin(shown, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

absl::Status EmptyGroup(const ParameterGroup& group, absl::Span<const std::string> names) {
  const bool taken = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return MatchesPattern(group.pattern, name);
  });
  return InvalidArgument(
      "parameter group '", group.pattern, "' is empty: ",
      taken ? "groups before it have taken all parameters that it matches"
            : absl::StrCat("no trainable parameter has such a name; there are ", Listed(names)));
}

}  // namespace

bool MatchesPattern(absl::string_view pattern, absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(pattern, '*');
  if (parts.size() == 1) return pattern == name;
  if (!absl::ConsumePrefix(&name, parts.front())) return false;
  // Matching each middle part at its first occurrence leaves the most text to the parts after it.
  for (size_t i = 1; i + 1 < parts.size(); ++i) {
    const size_t at = name.find(parts[i]);
    if (at == absl::string_view::npos) return false;
    name.remove_prefix(at + parts[i].size());
  }
  return absl::EndsWith(name, parts.back());
}

absl::StatusOr<std::vector<int>> AssignGroups(absl::Span<const ParameterGroup> groups,
                                              absl::Span<const std::string> names) {
  std::vector<int> assigned(names.size(), -1);
  for (size_t g = 0; g < groups.size(); ++g) {
    bool empty = true;
    for (size_t i = 0; i < names.size(); ++i) {
      if (assigned[i] >= 0 || !MatchesPattern(groups[g].pattern, names[i])) continue;
      assigned[i] = static_cast<int>(g);
      empty = false;
    }
    if (empty) return EmptyGroup(groups[g], names);
  }
  return assigned;
}

}  // namespace zeroth
