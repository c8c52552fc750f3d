// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/token_hash.h"

#include <algorithm>
#include <vector>

#include "absl/types/span.h"

#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr int64_t kPieces = 4096;
constexpr int64_t kTokensAtOnce = int64_t{1} << 16;

template <typename T>
absl::Span<const uint8_t> BytesOf(absl::Span<const T> values) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values.data()),
                             values.size() * sizeof(T));
}

absl::Status AddTokens(const TokenSource& source, int64_t begin, int64_t end,
                       std::vector<int32_t>& room, ChecksumStream& checksum) {
  while (begin < end) {
    room.resize(static_cast<size_t>(std::min(kTokensAtOnce, end - begin)));
    ZEROTH_RETURN_IF_ERROR(source.Read(begin, absl::MakeSpan(room)));
    checksum.Add(BytesOf(absl::MakeConstSpan(room)));
    begin += static_cast<int64_t>(room.size());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> HashTokens(const TokenSource& source, int64_t most) {
  ChecksumStream checksum;
  const int64_t facts[] = {source.size(), source.row_length()};
  checksum.Add(BytesOf(absl::MakeConstSpan(facts)));
  std::vector<int32_t> room;
  if (source.size() <= most) {
    ZEROTH_RETURN_IF_ERROR(AddTokens(source, 0, source.size(), room, checksum));
  } else {
    const int64_t pieces = std::min(kPieces, most);
    const int64_t length = most / pieces;
    // In two terms, since the product may overflow.
    const int64_t last = source.size() - length;
    const int64_t steps = std::max<int64_t>(pieces - 1, 1);
    for (int64_t i = 0; i < pieces; ++i) {
      const int64_t begin = last / steps * i + last % steps * i / steps;
      ZEROTH_RETURN_IF_ERROR(AddTokens(source, begin, begin + length, room, checksum));
    }
  }
  return std::max<uint64_t>(checksum.Value(), 1);
}

}  // namespace zeroth
