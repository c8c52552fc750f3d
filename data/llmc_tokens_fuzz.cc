// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/fuzz/fuzz_target.h"
#include "zeroth/data/test_token_files.h"
#include "zeroth/data/token_file.h"

namespace zeroth {
namespace {

bool Run(absl::Span<const uint8_t> bytes) {
  const auto header = ParseLlmcHeader(bytes, bytes.size());
  const MemoryFile in_memory(bytes);
  const auto file = OpenLlmcFile(in_memory.path(), std::numeric_limits<int32_t>::max());
  if (!file.ok()) return false;
  ZEROTH_CHECK(header.ok() && HasLlmcMagic(bytes));
  const int64_t size = (*file)->size();
  ZEROTH_CHECK(size == header->count);
  ZEROTH_CHECK(size <= static_cast<int64_t>(bytes.size() / header->token_bytes));
  // Ids may be out of the vocabulary, but are read from inside the file.
  int32_t token = 0;
  for (int64_t i = 0; i < size; ++i) {
    (*file)->Read(i, absl::MakeSpan(&token, 1)).IgnoreError();
  }
  ZEROTH_CHECK(!(*file)->Read(size, absl::MakeSpan(&token, 1)).ok());
  return true;
}

std::vector<std::string> Seeds() {
  return {LlmcBytes<uint16_t>({1, 2, 3, 4, 50256}), LlmcBytes<uint32_t>({1, 2, 128000})};
}

}  // namespace

ZEROTH_FUZZ_TARGET(LlmcTokens) { return {Run, Seeds}; }

}  // namespace zeroth
