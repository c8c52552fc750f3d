// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/held_out.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr int64_t kTokensAtOnce = int64_t{1} << 16;

// Returns the first place at or after `from` where a document begins; otherwise the last such place
// before `from`, except the source's first token; otherwise `from`.
absl::StatusOr<int64_t> DocumentAt(const TokenSource& source, int64_t from, int32_t end_of_text) {
  std::vector<int32_t> room;
  // A document that begins at i follows the end-of-text token i - 1. No document begins at the end.
  for (int64_t begin = from - 1; begin < source.size() - 1;) {
    room.resize(static_cast<size_t>(std::min(kTokensAtOnce, source.size() - 1 - begin)));
    ZEROTH_RETURN_IF_ERROR(source.Read(begin, absl::MakeSpan(room)));
    const auto found = std::find(room.begin(), room.end(), end_of_text);
    if (found != room.end()) return begin + (found - room.begin()) + 1;
    begin += static_cast<int64_t>(room.size());
  }
  for (int64_t end = from - 1; end > 0;) {
    room.resize(static_cast<size_t>(std::min(kTokensAtOnce, end)));
    ZEROTH_RETURN_IF_ERROR(
        source.Read(end - static_cast<int64_t>(room.size()), absl::MakeSpan(room)));
    const auto found = std::find(room.rbegin(), room.rend(), end_of_text);
    if (found != room.rend()) return end - (found - room.rbegin());
    end -= static_cast<int64_t>(room.size());
  }
  return from;
}

}  // namespace

absl::StatusOr<SplitSource> SplitHeldOut(std::shared_ptr<const TokenSource> source, double fraction,
                                         int32_t end_of_text) {
  ZEROTH_CHECK(source != nullptr && fraction > 0 && fraction < 1);
  const int64_t row = std::max<int64_t>(source->row_length(), 1);
  const int64_t units = source->size() / row;
  if (units < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(source->description(), ": has ", units, row > 1 ? " row" : " token",
                     ", of which no part can be held out; expected 2 at least"));
  }
  const auto wanted = static_cast<int64_t>(std::llround(fraction * static_cast<double>(units)));
  int64_t begin = (units - std::clamp<int64_t>(wanted, 1, units - 1)) * row;
  if (source->row_length() == 0) {
    ZEROTH_ASSIGN_OR_RETURN(begin, DocumentAt(*source, begin, end_of_text));
  }
  TokenSource::Facts train = source->facts();
  train.size = begin;
  TokenSource::Facts held_out = source->facts();
  held_out.size = source->size() - begin;
  absl::StrAppend(&held_out.description, " (held out)");
  held_out.notes = {absl::StrCat("data      ", source->description(), ": the last ", held_out.size,
                                 " of ", source->size(), " tokens are held out, and evaluated on")};
  return SplitSource{ViewTokens(source, 0, std::move(train)),
                     ViewTokens(source, begin, std::move(held_out))};
}

}  // namespace zeroth
