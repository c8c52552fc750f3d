// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Vocabularies of byte-pair encoders over GPT-2's byte alphabet, between Hugging Face's files and
// the tokenizer.ggml.* keys of GGUF.

#ifndef ZEROTH_CHECKPOINT_GGUF_GGUF_TOKENIZER_H_
#define ZEROTH_CHECKPOINT_GGUF_GGUF_TOKENIZER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/checkpoint/gguf/gguf_format.h"

namespace zeroth {

// llama.cpp's numbers for kinds of token.
enum class GgufTokenType : int32_t { kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5 };

struct GgufVocabulary {
  // By id, spelled in the byte alphabet (control tokens as they are).
  std::vector<std::string> tokens;
  std::vector<GgufTokenType> types;
  // "left right", the first to be applied first.
  std::vector<std::string> merges;
  // llama.cpp's name for the rule that cuts text into words: "gpt-2", "llama-bpe" (Llama 3's) or
  // "qwen2".
  std::string pre = "gpt-2";
  std::optional<int64_t> bos;
  std::optional<int64_t> eos;
};

// The trainer's byte tokenizer: a token for every byte, and "<|endoftext|>", which is 256.
GgufVocabulary ByteVocabulary();

// Reads tokenizer.json, or vocab.json and merges.txt, of a Hugging Face directory; nothing if it
// has neither. InvalidArgument, naming the file, for ids that repeat or leave gaps and merges that
// are malformed. Unimplemented for other encoders (SentencePiece, WordPiece), other rules of
// cutting, and normalizers other than NFC.
absl::StatusOr<std::optional<GgufVocabulary>> ReadHfVocabulary(const std::string& directory);

// Sets tokenizer.ggml.*, with as many tokens as the embedding has rows (`vocab_size`): padding rows
// get tokens that are marked unused. InvalidArgument if there are fewer rows than tokens, or
// if `bos` or `eos` is none of them.
absl::Status SetVocabulary(GgufVocabulary vocabulary, int64_t vocab_size, GgufMetadata* metadata);

// Says that there is no vocabulary: ids in, ids out.
void SetNoVocabulary(GgufMetadata* metadata);

// What metadata say; nothing if they say that there is none. Unimplemented for other encoders;
// InvalidArgument for lists of different lengths and ids outside the vocabulary.
absl::StatusOr<std::optional<GgufVocabulary>> VocabularyOf(const GgufMetadata& metadata);

// The contents of vocab.json, merges.txt and tokenizer_config.json by name. Unimplemented if `pre`
// is not "gpt-2": these files cannot express another rule, and a reader would silently cut words
// in the wrong places.
absl::StatusOr<std::map<std::string, std::string>> HfTokenizerFiles(
    const GgufVocabulary& vocabulary);

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_GGUF_GGUF_TOKENIZER_H_
