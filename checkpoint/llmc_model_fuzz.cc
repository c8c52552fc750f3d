// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <string>
#include <vector>

#include "zeroth/checkpoint/llmc_model.h"
#include "zeroth/core/base/check.h"
#include "zeroth/core/base/fuzz/fuzz_target.h"

namespace zeroth {
namespace {

bool Run(absl::Span<const uint8_t> bytes) {
  const MemoryFile in_memory(bytes);
  const auto file = LlmcModelFile::Open(in_memory.path());
  if (!file.ok()) return false;
  ZEROTH_CHECK(HasLlmcModelMagic(bytes));
  for (const std::string& name : (*file)->names()) {
    const SafetensorsEntry& entry = *(*file)->Find(name);
    ZEROTH_CHECK(entry.begin >= 1024 && entry.end <= static_cast<int64_t>(bytes.size()));
    float value = 0;
    const int64_t numel = entry.shape.numel();
    ZEROTH_CHECK(numel > 0);
    ZEROTH_CHECK((*file)->ReadElements(name, 0, absl::MakeSpan(&value, 1)).ok());
    ZEROTH_CHECK((*file)->ReadElements(name, numel - 1, absl::MakeSpan(&value, 1)).ok());
    ZEROTH_CHECK(!(*file)->ReadElements(name, numel, absl::MakeSpan(&value, 1)).ok());
  }
  return true;
}

// llm.c writes these files and we do not: a header of 256 int32 and zeros.
std::string ModelOf(int32_t version, int32_t layers, int32_t width) {
  constexpr int32_t kPositions = 2;
  constexpr int32_t kVocabulary = 3;
  constexpr int32_t kPadded = 4;
  std::vector<int32_t> header(256);
  header[0] = 20240326;
  header[1] = version;
  header[2] = kPositions;
  header[3] = kVocabulary;
  header[4] = layers;
  header[5] = 1;
  header[6] = width;
  header[7] = kPadded;
  // Per block twelve square matrices' worth of weights and thirteen vectors' of biases and norms.
  const int32_t elements =
      (kPadded + kPositions + 2) * width + layers * (12 * width * width + 13 * width);
  const int32_t size = version == 3 ? 4 : 2;
  return std::string(reinterpret_cast<const char*>(header.data()), 1024) +
         std::string(static_cast<size_t>(elements * size), '\0');
}

std::vector<std::string> Seeds() { return {ModelOf(3, 1, 1), ModelOf(5, 1, 1), ModelOf(5, 2, 2)}; }

}  // namespace

ZEROTH_FUZZ_TARGET(LlmcModel) { return {Run, Seeds}; }

}  // namespace zeroth
