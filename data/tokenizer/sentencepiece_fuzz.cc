// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/fuzz/fuzz_target.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"

namespace zeroth {
namespace {

bool Run(absl::Span<const uint8_t> bytes) {
  const absl::string_view model(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto tokenizer = SentencePieceFromBytes(model, nullptr, false);
  if (!tokenizer.ok()) return false;
  const auto ids = (*tokenizer)->Encode("words, and \u00e9 \xff");
  if (!ids.ok()) return true;
  for (const int32_t id : *ids) ZEROTH_CHECK(id >= 0 && id < (*tokenizer)->vocab_size());
  (*tokenizer)->DecodeUtf8Text(*ids).IgnoreError();
  return true;
}

std::vector<std::string> Seeds() {
  const auto model = ReadFile("tests/testdata/tokenizers/sentencepiece/tokenizer.model");
  ZEROTH_CHECK(model.ok());
  return {*model};
}

}  // namespace

ZEROTH_FUZZ_TARGET(SentencePiece) { return {Run, Seeds, nullptr, 64, 1024}; }

}  // namespace zeroth
