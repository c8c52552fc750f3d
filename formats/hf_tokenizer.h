// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Reads Hugging Face's byte-pair tokenizers, which the trainer encodes with and GGUF export embeds.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace zeroth {

// An entry of "added_tokens".
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // not found next to a letter or digit
  bool lstrip = false;       // includes the spaces before it
  bool rstrip = false;       // includes the spaces after it
  bool normalized = false;   // found in normalised text; otherwise in the original text
  bool special = false;
};

// A byte-pair model as read from a file: vocabulary, merges and options.
struct BpeParts {
  std::vector<std::pair<std::string, int32_t>> vocab;
  // In order of rank: earlier merges take precedence.
  std::vector<std::pair<std::string, std::string>> merges;
  // True: tokens are spelled in GPT-2's byte alphabet, and symbols are bytes. False: symbols are
  // characters. The user of this struct sets it from the pre-tokenizer; the readers below do not.
  bool byte_level = false;
  std::optional<std::string> unk_token;
  bool fuse_unk = false;
  // A character outside the vocabulary becomes the tokens <0x00> to <0xFF> of its bytes.
  bool byte_fallback = false;
  // A word that is in the vocabulary becomes that token, without merges.
  bool ignore_merges = false;
};

struct HfTokenizer {
  std::string name;  // kTokenizerFile or "gpt2"
  std::vector<AddedToken> added_tokens;
  BpeParts bpe;
  // The fields of tokenizer.json of these names: null or objects.
  nlohmann::json normalizer;
  nlohmann::json pre_tokenizer;
  nlohmann::json decoder;
  // Ids that are added before and after each text.
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;
  // The result of ReadTokenizerConfig; null without any of these files.
  nlohmann::json config;

  std::optional<int32_t> Find(absl::string_view token) const;
  // Returns the id of the token that the config has under `key`, such as "bos_token"; std::nullopt
  // if it has none. InvalidArgument if that token is not in the vocabulary.
  absl::StatusOr<std::optional<int32_t>> Named(const char* key) const;
  // Returns the id of the config's "bos_token", or else of the first token of `prefix`.
  absl::StatusOr<std::optional<int32_t>> BeginOfText() const;
  // Returns the id of the config's "eos_token", or else of the first of the usual spellings that is
  // a token. InvalidArgument if there is none.
  absl::StatusOr<int32_t> EndOfText() const;
};

// Finds the files of the tokenizer at `path`, a file or a directory. In a directory these are
// tokenizer.json, otherwise tokenizer.model, otherwise vocab.json and merges.txt; and those of
// ReadTokenizerConfig that exist. A file is a tokenizer.json if its name ends in
// .json, and SentencePiece's if it ends in .model. NotFound names the files that it looked for.
absl::StatusOr<std::vector<std::string>> FindTokenizerFiles(const std::string& path);

// Reads the files that FindTokenizerFiles found, other than a .model. Unimplemented names an
// unknown part, and InvalidArgument a malformed one; `normalizer`, `pre_tokenizer` and `decoder`
// are not checked. Converts vocab.json and merges.txt as transformers does; Unimplemented if the
// config names a class other than GPT2Tokenizer.
absl::StatusOr<HfTokenizer> ReadHfTokenizer(const std::vector<std::string>& files);

// Reads tokenizer_config.json in `directory`. If it has no "added_tokens_decoder",
// special_tokens_map.json overrides its special tokens, and added_tokens.json becomes that decoder,
// as in transformers 5. Null if none of the three exists. InvalidArgument names the malformed file.
absl::StatusOr<nlohmann::json> ReadTokenizerConfig(const std::string& directory);

inline constexpr char kTokenizerFile[] = "tokenizer.json";
inline constexpr char kTokenizerConfigFile[] = "tokenizer_config.json";
inline constexpr char kSpecialTokensMapFile[] = "special_tokens_map.json";
inline constexpr char kAddedTokensFile[] = "added_tokens.json";

// Reads the content of a tokenizer.json, and adds the tokens of `config` (see ReadTokenizerConfig)
// as AutoTokenizer does.
absl::StatusOr<HfTokenizer> ParseTokenizerJson(const nlohmann::json& json, nlohmann::json config);

}  // namespace zeroth
