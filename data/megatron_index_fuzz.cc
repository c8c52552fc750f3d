// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <string>
#include <vector>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/core/base/fuzz/fuzz_target.h"
#include "zeroth/data/test_token_files.h"
#include "zeroth/data/token_file.h"

namespace zeroth {
namespace {

bool Run(absl::Span<const uint8_t> bytes) {
  const MemoryFile in_memory(bytes);
  const auto file = RandomAccessFile::Open(in_memory.path());
  ZEROTH_CHECK(file.ok());
  const auto index = ReadMegatronIndex(*file);
  if (!index.ok()) return false;
  ZEROTH_CHECK(HasMegatronMagic(bytes));
  ZEROTH_CHECK(index->token_bytes >= 1 && index->token_bytes <= 8);
  ZEROTH_CHECK(index->tokens >= 1 && index->documents >= 1 && index->sequences >= 1);
  ZEROTH_CHECK(12 * index->sequences + 8 * index->documents < static_cast<int64_t>(bytes.size()));
  ZEROTH_CHECK(index->tokens <= index->sequences * INT32_MAX);
  return true;
}

std::vector<std::string> Seeds() {
  return {MegatronIndexBytes(8, 2, {3, 1, 2}, {0, 2, 3}),
          MegatronIndexBytes(4, 4, {1, 0, 7}, {0, 1, 1, 3}, {0, 0, 0})};
}

}  // namespace

ZEROTH_FUZZ_TARGET(MegatronIndex) { return {Run, Seeds}; }

}  // namespace zeroth
