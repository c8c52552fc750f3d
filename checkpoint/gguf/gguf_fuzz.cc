// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/gguf/gguf_fuzz.h"

#include <utility>
#include <vector>

#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/gguf/gguf_tokenizer.h"
#include "zeroth/core/base/check.h"

namespace zeroth {
namespace {

void CheckRanges(const GgufHeader& header, int64_t file_bytes) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const auto& [name, entry] : header.tensors) {
    const int64_t bytes = entry.shape.numel() * (BitsOf(entry.dtype) / 8);
    ZEROTH_CHECK(entry.begin >= 0 && entry.end - entry.begin == bytes);
    ZEROTH_CHECK(header.data_begin + entry.end <= file_bytes);
    for (const auto& [begin, end] : ranges) {
      ZEROTH_CHECK(bytes == 0 || begin == end || entry.end <= begin || end <= entry.begin);
    }
    ranges.emplace_back(entry.begin, entry.end);
  }
}

}  // namespace

bool FuzzGguf(absl::Span<const uint8_t> bytes) {
  const absl::StatusOr<GgufHeader> header = ParseGgufHeader(bytes, "fuzz");
  if (!header.ok()) return false;
  CheckRanges(*header, static_cast<int64_t>(bytes.size()));
  // What was read can be written, and says the same when it is read again.
  const absl::StatusOr<std::string> text = SerializeGgufHeader(header->metadata, {});
  ZEROTH_CHECK(text.ok());
  const auto again = ParseGgufHeader(
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text->data()), text->size()), "again");
  ZEROTH_CHECK(again.ok());
  ZEROTH_CHECK(again->metadata.values().size() == header->metadata.values().size());
  // These may refuse, but must return.
  HfConfigOf(header->metadata, {}).IgnoreError();
  const auto vocabulary = VocabularyOf(header->metadata);
  if (vocabulary.ok() && vocabulary->has_value()) HfTokenizerFiles(**vocabulary).IgnoreError();
  return true;
}

}  // namespace zeroth
