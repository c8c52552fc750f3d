// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/byte_count.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace zeroth {

absl::StatusOr<int64_t> ParseByteCount(absl::string_view text) {
  const absl::string_view whole = text;
  double unit = 1;
  for (const auto& [suffix, size] :
       {std::pair("KiB", 1024.0), std::pair("MiB", 1048576.0), std::pair("GiB", 1073741824.0),
        std::pair("KB", 1e3), std::pair("MB", 1e6), std::pair("GB", 1e9)}) {
    if (absl::ConsumeSuffix(&text, suffix)) {
      unit = size;
      break;
    }
  }
  double number = 0;
  constexpr double kMost = 9e18;
  if (!absl::SimpleAtod(text, &number) || !(number >= 0) || number * unit > kMost) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", whole, "' is not a number of bytes; expected one like 1500, 64KiB, 2GiB or 5GB"));
  }
  return static_cast<int64_t>(number * unit);
}

}  // namespace zeroth
