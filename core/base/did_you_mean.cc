// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/did_you_mean.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace zeroth {
namespace {

// Returns the least number of insertions, deletions, replacements and swaps of neighbours that turn
// `a` into `b`.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] =
          std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        now[j] = std::min(now[j], before[j - 2] + 1);
      }
    }
    before = last;
    last = now;
  }
  return last[b.size()];
}

// Returns the form in which names are compared.
std::string Plain(absl::string_view name) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"-", "_"}, {".", "_"}});
}

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

// Removes digits, and "_" as well, which not all names of model sizes have in the same places.
std::string WithoutNumbers(absl::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (!IsDigit(c) && c != '_') letters += c;
  }
  return letters;
}

// Returns the names of `ours` that differ from `name` only in numbers, as sizes of a model do. The
// most similar come first.
std::vector<std::string> NamesWithOtherNumbers(absl::string_view name,
                                               absl::Span<const std::string> ours) {
  std::vector<std::string> alike;
  if (std::none_of(name.begin(), name.end(), IsDigit)) return alike;
  const std::string letters = WithoutNumbers(name);
  for (const std::string& our : ours) {
    if (!letters.empty() && WithoutNumbers(Plain(our)) == letters) alike.push_back(our);
  }
  std::stable_sort(alike.begin(), alike.end(), [&](const std::string& a, const std::string& b) {
    return EditDistance(name, Plain(a)) < EditDistance(name, Plain(b));
  });
  return alike;
}

// Returns the names of `ours` that `name` may be a misspelling of.
std::vector<std::string> SimilarNames(absl::string_view name, absl::Span<const std::string> ours) {
  // Allows one edit for each four letters, and at least one. With more edits it is a different
  // word.
  size_t nearest = std::max<size_t>(1, name.size() / 4);
  std::vector<std::string> alike;
  for (const std::string& our : ours) {
    const size_t distance = EditDistance(name, Plain(our));
    if (distance < nearest) alike.clear();
    if (distance > nearest) continue;
    nearest = distance;
    alike.push_back(our);
  }
  return alike;
}

std::vector<std::string> Hints(absl::string_view unknown,
                               absl::Span<const NamedElsewhere> elsewhere,
                               absl::Span<const std::string> ours, absl::string_view prefix) {
  const std::string name = Plain(unknown);
  // Some programs write the section before a name, as in parallelism.tensor_parallel_degree.
  for (const std::string& spelled : {name, Plain(unknown.substr(unknown.rfind('.') + 1))}) {
    for (const NamedElsewhere& known : elsewhere) {
      const std::vector<absl::string_view> names = absl::StrSplit(known.names, ' ');
      if (std::find(names.begin(), names.end(), spelled) != names.end()) return {known.ours};
    }
  }
  std::vector<std::string> hints = NamesWithOtherNumbers(name, ours);
  if (hints.empty()) hints = SimilarNames(name, ours);
  if (hints.size() > 3) hints.resize(3);
  for (std::string& hint : hints) hint = absl::StrCat(prefix, hint);
  return hints;
}

}  // namespace

std::string DidYouMean(absl::string_view unknown, absl::Span<const NamedElsewhere> elsewhere,
                       absl::Span<const std::string> ours, absl::string_view prefix) {
  const std::vector<std::string> hints = Hints(unknown, elsewhere, ours, prefix);
  return hints.empty() ? "" : absl::StrCat("; did you mean ", absl::StrJoin(hints, " or "), "?");
}

std::string InsteadOf(absl::string_view unknown, absl::Span<const NamedElsewhere> elsewhere,
                      absl::Span<const std::string> ours) {
  const std::string hint = DidYouMean(unknown, elsewhere, ours);
  return absl::StrCat(hint.empty() ? "; this" : absl::StrCat(hint, " This"), " program has: ",
                      ours.empty() ? "none; its deps lack them" : absl::StrJoin(ours, ", "));
}

}  // namespace zeroth
