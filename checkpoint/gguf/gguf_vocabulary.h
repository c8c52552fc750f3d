// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The SentencePiece half of ReadHfVocabulary and HfTokenizerFiles.

#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/formats/hf_tokenizer.h"
#include "zeroth/formats/sentencepiece_model.h"

namespace zeroth {

// Appends unused tokens up to the id `end`, named as by llama.cpp's converter.
void AddUnusedTokens(int64_t end, GgufVocabulary* vocabulary);

// Puts the tokens into the order of their ids, with unused ones in the gaps. InvalidArgument for
// ids that repeat or are far from the others.
absl::Status SetTokens(const HfTokenizer& files, GgufVocabulary* result);

// The vocabulary of a tokenizer.json with byte fallback, which transformers makes of a
// SentencePiece model. Unimplemented for one that llama.cpp's "llama" would not follow.
absl::StatusOr<GgufVocabulary> SentencePieceVocabulary(const HfTokenizer& files);
// The vocabulary of a tokenizer.model, with the tokens that `config`, the result of
// ReadTokenizerConfig, adds to it.
absl::StatusOr<GgufVocabulary> SentencePieceVocabulary(const SentencePieceModel& model,
                                                       nlohmann::json config);

// Returns tokenizer.model and tokenizer_config.json by name.
absl::StatusOr<std::map<std::string, std::string>> SentencePieceFiles(
    const GgufVocabulary& vocabulary);

// Returns a tokenizer_config.json for transformers' `tokenizer_class`.
nlohmann::json TokenizerConfigOf(const GgufVocabulary& vocabulary, const char* tokenizer_class);
// The text of a JSON file.
std::string DumpJson(const nlohmann::json& json, int indent);

}  // namespace zeroth
