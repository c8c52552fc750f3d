// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Converts vocabularies of byte-pair encoders over GPT-2's byte alphabet between Hugging Face's
// files and the tokenizer.ggml.* keys of GGUF.

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
  // By id, spelled in the byte alphabet; control tokens are spelled as they are.
  std::vector<std::string> tokens;
  std::vector<GgufTokenType> types;
  // "left right", in the order of application.
  std::vector<std::string> merges;
  // llama.cpp's name of the rule that splits text into words: "gpt-2", "llama-bpe" (Llama 3's) or
  // "qwen2".
  std::string pre = "gpt-2";
  std::optional<int64_t> bos;
  std::optional<int64_t> eos;
  // The template of conversations, in Jinja; empty if there is none.
  std::string chat_template;
};

// The trainer's byte tokenizer: a token for every byte, and "<|endoftext|>", which is 256.
GgufVocabulary ByteVocabulary();

// Reads tokenizer.json, or vocab.json and merges.txt, of a Hugging Face directory; empty if it has
// neither. InvalidArgument, naming the file, for ids that repeat or leave gaps and for malformed
// merges. Unimplemented for other encoders (SentencePiece, WordPiece), other splitting rules, and
// normalizers other than NFC.
absl::StatusOr<std::optional<GgufVocabulary>> ReadHfVocabulary(const std::string& directory);

// Sets tokenizer.ggml.* and tokenizer.chat_template, with as many tokens as the embedding has rows
// (`vocab_size`). Padding rows get tokens that are marked unused. InvalidArgument if there are
// fewer rows than tokens, or if `bos` or `eos` is not below `vocab_size`.
absl::Status SetVocabulary(GgufVocabulary vocabulary, int64_t vocab_size, GgufMetadata* metadata);

// Marks the model as one without vocabulary: programs take and give ids.
void SetNoVocabulary(GgufMetadata* metadata);

// Reads the vocabulary of metadata; empty if they declare none. Unimplemented for other encoders;
// InvalidArgument for lists of different lengths and ids outside the vocabulary.
absl::StatusOr<std::optional<GgufVocabulary>> VocabularyOf(const GgufMetadata& metadata);

// Returns vocab.json, merges.txt and tokenizer_config.json: contents by name. Unimplemented if
// `pre` is not "gpt-2": these files cannot express another rule, and a reader would silently split
// words in the wrong places.
absl::StatusOr<std::map<std::string, std::string>> HfTokenizerFiles(
    const GgufVocabulary& vocabulary);

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_GGUF_GGUF_TOKENIZER_H_
