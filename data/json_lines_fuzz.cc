// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <string>
#include <vector>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/fuzz/fuzz_target.h"
#include "zeroth/data/documents.h"

namespace zeroth {
namespace {

bool Run(absl::Span<const uint8_t> bytes) {
  const MemoryFile in_memory(bytes);
  const bool is_array = !bytes.empty() && bytes[0] == '[';
  auto reader = DocumentReader::Open(
      {in_memory.path(), is_array ? DataFileKind::kJsonArray : DataFileKind::kJsonLines}, true);
  if (!reader.ok()) return false;
  size_t before = 0;
  for (TextPart part;;) {
    const auto more = reader->Next(&part);
    if (!more.ok()) return false;
    ZEROTH_CHECK(reader->position() >= before && reader->position() <= bytes.size());
    before = reader->position();
    if (!*more) break;
    ZEROTH_CHECK(part.begins && part.ends && part.text.size() <= bytes.size());
  }
  ZEROTH_CHECK(reader->position() == bytes.size());
  return true;
}

std::vector<std::string> Seeds() {
  return {"{\"text\": \"one\"}\n{\"id\": 3, \"text\": \"two\\n\\u00e9\"}\n\n",
          "[{\"text\": \"one\\\"]}\"}, {\"text\": \"two\", \"id\": [3]}]\n",
          "{\"text\": \"\", \"meta\": {\"a\": [1, 2.5, null]}}"};
}

}  // namespace

ZEROTH_FUZZ_TARGET(JsonLines) { return {Run, Seeds, nullptr, 64, 256}; }

}  // namespace zeroth
