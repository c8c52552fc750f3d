// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/core/base/check.h"
#include "zeroth/core/base/fuzz/fuzz_target.h"

namespace zeroth {
namespace {

// Blocks have other sizes than their elements' type says.
void CheckRanges(const GgufHeader& header, int64_t file_bytes) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const auto& [name, entry] : header.tensors) {
    const int64_t bytes = entry.end - entry.begin;
    ZEROTH_CHECK(entry.begin >= 0 && bytes >= 0);
    ZEROTH_CHECK(header.quantized.contains(name) ||
                 bytes == entry.shape.numel() * (BitsOf(entry.dtype) / 8));
    ZEROTH_CHECK(header.data_begin + entry.end <= file_bytes);
    for (const auto& [begin, end] : ranges) {
      ZEROTH_CHECK(bytes == 0 || begin == end || entry.end <= begin || end <= entry.begin);
    }
    ranges.emplace_back(entry.begin, entry.end);
  }
}

bool Run(absl::Span<const uint8_t> bytes) {
  const auto all = ParseGgufHeader(bytes, bytes.size(), "fuzz", GgufTypes::kAll);
  if (all.ok()) CheckRanges(*all, static_cast<int64_t>(bytes.size()));
  const absl::StatusOr<GgufHeader> header = ParseGgufHeader(bytes, bytes.size(), "fuzz");
  if (!header.ok()) return false;
  CheckRanges(*header, static_cast<int64_t>(bytes.size()));
  // A file that was read can be written, and reads back the same.
  const absl::StatusOr<std::string> text = SerializeGgufHeader(header->metadata, {});
  ZEROTH_CHECK(text.ok());
  const auto again = ParseGgufHeader(BytesOfText(*text), text->size(), "again");
  ZEROTH_CHECK(again.ok());
  ZEROTH_CHECK(again->metadata.values().size() == header->metadata.values().size());
  // These may refuse, but must return.
  HfConfigOf(header->metadata, {}).IgnoreError();
  const auto vocabulary = VocabularyOf(header->metadata);
  if (vocabulary.ok() && vocabulary->has_value()) HfTokenizerFiles(**vocabulary).IgnoreError();
  return true;
}

// A file with everything in it: every type of value, a vocabulary, tensors of three types.
std::string Seed(bool small) {
  GgufMetadata metadata;
  metadata.SetString("general.architecture", "llama");
  for (const char* key : {"context_length", "embedding_length", "feed_forward_length",
                          "block_count", "attention.head_count", "vocab_size"}) {
    metadata.SetUint32(absl::StrCat("llama.", key), 4);
  }
  metadata.SetFloat("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  metadata.Set("a", uint8_t{1});
  metadata.Set("b", GgufArray{std::vector<GgufArray>{{std::vector<double>{1, 2}},
                                                     {std::vector<bool>{true}}}});
  metadata.Set("c", GgufArray{std::vector<uint64_t>{1, 2, 3}});
  GgufVocabulary vocabulary = ByteVocabulary();
  if (small) {
    vocabulary.tokens = {"<unk>", "<s>", "</s>", "a"};
    vocabulary.types = {GgufTokenType::kUnknown, GgufTokenType::kControl, GgufTokenType::kControl,
                        GgufTokenType::kNormal};
    vocabulary.scores = {0, 0, 0, -1};
    vocabulary.bos = 1;
    vocabulary.eos = 2;
    vocabulary.unknown = 0;
    vocabulary.prefix = {1};
  }
  const auto tokens = static_cast<int64_t>(vocabulary.tokens.size());
  ZEROTH_CHECK(SetVocabulary(std::move(vocabulary), tokens, &metadata).ok());
  std::vector<std::pair<std::string, SafetensorsEntry>> tensors(3);
  int64_t offset = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].first = absl::StrCat("t", i);
    SafetensorsEntry& entry = tensors[i].second;
    entry.dtype = i == 0 ? SafetensorsDType::kF32 : SafetensorsDType::kBF16;
    entry.shape = Shape({2, 3});
    entry.begin = offset;
    entry.end = offset + 6 * BitsOf(entry.dtype) / 8;
    offset += 32;
  }
  const auto header = SerializeGgufHeader(metadata, tensors);
  ZEROTH_CHECK(header.ok());
  return *header + std::string(static_cast<size_t>(offset), 'x');
}

std::vector<std::string> Seeds() { return {Seed(/*small=*/true), Seed(/*small=*/false)}; }

}  // namespace

ZEROTH_FUZZ_TARGET(Gguf) { return {Run, Seeds}; }

}  // namespace zeroth
