// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/fuzz/fuzz_target.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"

namespace zeroth {
namespace {

bool Run(absl::Span<const uint8_t> bytes) {
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto json = ParseJson(text, "tokenizer.json");
  if (!json.ok()) return false;
  const auto tokenizer = TokenizerFromJson(*json, nullptr, {.parse_special = true});
  if (!tokenizer.ok()) return false;
  for (const absl::string_view sample : {"a bc, abc</s>  bb\n1\u00e9e\u0301", "\xff\xc3 a"}) {
    const auto ids = (*tokenizer)->Encode(sample);
    if (!ids.ok()) continue;  // an expression that takes too long
    for (const int32_t id : *ids) ZEROTH_CHECK(id >= 0 && id < (*tokenizer)->vocab_size());
    const auto back = (*tokenizer)->DecodeUtf8Text(*ids);
    if (back.ok()) nlohmann::json(*back).dump();
  }
  return true;
}

constexpr char kCharacters[] = R"({
  "added_tokens": [{"id": 6, "content": "</s>", "special": true, "rstrip": true}],
  "normalizer": {"type": "Sequence", "normalizers": [
    {"type": "NFC"}, {"type": "Prepend", "prepend": "\u2581"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
  "pre_tokenizer": null,
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "</s>"}}, {"Sequence": {"id": "A"}}],
    "special_tokens": {"</s>": {"id": "</s>", "ids": [6]}}},
  "decoder": {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
    {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
  "model": {"type": "BPE", "unk_token": "?", "fuse_unk": true, "byte_fallback": true,
    "vocab": {"?": 0, "a": 1, "b": 2, "c": 3, "ab": 4, "\u2581": 5},
    "merges": [["a", "b"]]}
})";

constexpr char kBytes[] = R"({
  "added_tokens": [{"id": 258, "content": "</s>", "special": true, "lstrip": true},
                   {"id": 257, "content": "abc", "normalized": true, "single_word": true}],
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "behavior": "Isolated", "invert": false,
     "pattern": {"Regex": "\\p{N}{1,3}|\\s+(?!\\S)|[^\\s\\p{N}]+|\\s+"}},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "ignore_merges": true, "merges": ["a b", "ab c"]}
})";

std::vector<std::string> Seeds() {
  auto bytes = nlohmann::json::parse(kBytes);
  nlohmann::json& vocab = bytes["model"]["vocab"];
  for (int byte = 0; byte < 256; ++byte)
    vocab[BytesToAlphabet(std::string(1, static_cast<char>(byte)))] = byte;
  vocab["ab"] = 256;
  vocab["abc"] = 257;
  return {kCharacters, bytes.dump()};
}

}  // namespace

// JSON needs a node for each value, and a token is stored by its spelling, its bytes and its id.
ZEROTH_FUZZ_TARGET(TokenizerJson) { return {Run, Seeds, nullptr, 64, 512}; }

}  // namespace zeroth
