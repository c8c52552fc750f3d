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
  const auto header = ParseNpyHeader(bytes);
  if (header.ok()) ZEROTH_CHECK(header->data_begin <= bytes.size());
  const MemoryFile in_memory(bytes);
  const auto file = OpenNpyFile(in_memory.path(), std::numeric_limits<int32_t>::max());
  if (!file.ok()) return false;
  ZEROTH_CHECK(header.ok());
  const int64_t size = (*file)->size();
  ZEROTH_CHECK(size >= 0 && size <= static_cast<int64_t>(bytes.size()));
  const int64_t row = (*file)->row_length();
  ZEROTH_CHECK(row >= 0 && (row == 0 || size % row == 0));
  // Ids may be out of the vocabulary, but are read from inside the file.
  int32_t token = 0;
  for (int64_t i = 0; i < size; ++i) {
    (*file)->Read(i, absl::MakeSpan(&token, 1)).IgnoreError();
  }
  ZEROTH_CHECK(!(*file)->Read(size, absl::MakeSpan(&token, 1)).ok());
  return true;
}

std::vector<std::string> Seeds() {
  return {NpyBytes<uint16_t>("<u2", "(4,)", {1, 2, 3, 4}),
          NpyBytes<int32_t>("<i4", "(2, 3)", {1, 2, 3, 4, 5, 6}),
          NpyBytes<int64_t>("<i8", "(3, 1)", {7, 8, 9})};
}

}  // namespace

ZEROTH_FUZZ_TARGET(Npy) { return {Run, Seeds}; }

}  // namespace zeroth
