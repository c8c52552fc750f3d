// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/checkpoint/gguf/gguf_vocabulary.h"
#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"

namespace zeroth {
namespace {

constexpr char kEndOfText[] = "<|endoftext|>";
constexpr char kModelKey[] = "tokenizer.ggml.model";
constexpr char kPreKey[] = "tokenizer.ggml.pre";
constexpr char kTokensKey[] = "tokenizer.ggml.tokens";
constexpr char kTypesKey[] = "tokenizer.ggml.token_type";
constexpr char kMergesKey[] = "tokenizer.ggml.merges";
constexpr char kScoresKey[] = "tokenizer.ggml.scores";
constexpr char kBosKey[] = "tokenizer.ggml.bos_token_id";
constexpr char kEosKey[] = "tokenizer.ggml.eos_token_id";
constexpr char kUnknownKey[] = "tokenizer.ggml.unknown_token_id";
constexpr char kPaddingKey[] = "tokenizer.ggml.padding_token_id";
constexpr char kAddSpaceKey[] = "tokenizer.ggml.add_space_prefix";
constexpr char kAddBosKey[] = "tokenizer.ggml.add_bos_token";
constexpr char kAddEosKey[] = "tokenizer.ggml.add_eos_token";
constexpr char kChatTemplateKey[] = "tokenizer.chat_template";

absl::Status Bad(absl::string_view path, absl::string_view what) {
  return InvalidArgument(path, ": ", what);
}

absl::StatusOr<std::optional<int64_t>> TokenId(const GgufMetadata& metadata, absl::string_view key,
                                               size_t count) {
  if (!metadata.Has(key)) return std::nullopt;
  ZEROTH_ASSIGN_OR_RETURN(const int64_t id, metadata.GetInt(key));
  if (id < 0 || id >= static_cast<int64_t>(count)) {
    return Bad(metadata.where(),
               absl::StrCat("key \"", key, "\" is ", id, ", expected an id of ", count, " tokens"));
  }
  return id;
}

absl::Status CheckCount(const GgufMetadata& metadata, absl::string_view key, size_t found,
                        size_t tokens) {
  if (found == tokens) return absl::OkStatus();
  return Bad(metadata.where(),
             absl::StrCat("key \"", key, "\" has ", found, " elements for ", tokens, " tokens"));
}

absl::Status ReadTypes(const GgufMetadata& metadata, size_t count, GgufVocabulary* vocabulary) {
  vocabulary->types.assign(count, GgufTokenType::kNormal);
  if (!metadata.Has(kTypesKey)) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<int64_t> types, metadata.GetInts(kTypesKey));
  ZEROTH_RETURN_IF_ERROR(CheckCount(metadata, kTypesKey, types.size(), count));
  for (size_t id = 0; id < count; ++id) {
    if (types[id] < 0 || types[id] > 6) {
      return Bad(metadata.where(), absl::StrCat("key \"", kTypesKey, "\" has the type ", types[id],
                                                " for token ", id, ", expected 0 to 6"));
    }
    // 0 is of no type.
    if (types[id] != 0) vocabulary->types[id] = static_cast<GgufTokenType>(types[id]);
  }
  return absl::OkStatus();
}

// The scores, and how text is normalised.
absl::Status ReadScores(const GgufMetadata& metadata, size_t count, GgufVocabulary* vocabulary) {
  const auto value = metadata.values().find(kScoresKey);
  const GgufArray* const array =
      value == metadata.values().end() ? nullptr : std::get_if<GgufArray>(&value->second);
  const auto* const scores =
      array == nullptr ? nullptr : std::get_if<std::vector<float>>(&array->items);
  if (scores == nullptr) {
    return Bad(metadata.where(), absl::StrCat("key \"", kScoresKey,
                                              "\" is not an array of f32, which the tokenizer "
                                              "\"llama\" needs"));
  }
  ZEROTH_RETURN_IF_ERROR(CheckCount(metadata, kScoresKey, scores->size(), count));
  const auto bad = std::find_if_not(scores->begin(), scores->end(),
                                    [](float score) { return std::isfinite(score); });
  if (bad != scores->end()) {
    return Bad(metadata.where(), absl::StrCat("key \"", kScoresKey, "\" has the score ", *bad,
                                              ", expected finite numbers"));
  }
  vocabulary->scores = *scores;
  ZEROTH_ASSIGN_OR_RETURN(vocabulary->add_space_prefix, metadata.GetBoolOr(kAddSpaceKey, true));
  return absl::OkStatus();
}

// OK if `added` is what llama.cpp would add to a text: it can add only the token `id` before or
// after it. `name`: "bos" or "eos".
absl::Status CheckAddedTokens(const GgufVocabulary& vocabulary, const std::vector<int64_t>& added,
                              std::optional<int64_t> id, const char* name) {
  if (added.empty() || (id && added == std::vector<int64_t>{*id})) return absl::OkStatus();
  const auto show = [&vocabulary](std::string* out, int64_t token) {
    absl::StrAppend(out, token);
    const auto place = static_cast<size_t>(token);
    if (place < vocabulary.tokens.size()) {
      absl::StrAppend(out, " (\"", vocabulary.tokens[place], "\")");
    }
  };
  std::string other = "none";
  if (id) {
    other.clear();
    show(&other, *id);
  }
  const std::string repair =
      added.size() > 1
          ? ""
          : absl::StrCat("name that token as \"", name, "_token\" in tokenizer_config.json, or ");
  return Unimplemented("\"post_processor\" of tokenizer.json puts ",
                       absl::StrJoin(added, ", ", show), name[0] == 'b' ? " before" : " after",
                       " a text, and llama.cpp would put ", other, ", the ", name,
                       "_token of tokenizer_config.json or else the ", name,
                       "_token_id of config.json; ", repair, "convert with --vocabulary=none");
}

}  // namespace

GgufVocabulary ByteVocabulary() {
  GgufVocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.push_back(BytesToAlphabet(std::string(1, static_cast<char>(byte))));
  }
  vocabulary.types.assign(256, GgufTokenType::kNormal);
  vocabulary.tokens.push_back(kEndOfText);
  vocabulary.types.push_back(GgufTokenType::kControl);
  return vocabulary;
}

absl::Status SetVocabulary(GgufVocabulary vocabulary, int64_t vocab_size, GgufMetadata* metadata) {
  // Special tokens without a row, such as an image's in a model of text, are left out, as by
  // llama.cpp's converter.
  size_t count = vocabulary.tokens.size();
  while (static_cast<int64_t>(count) > vocab_size &&
         vocabulary.types[count - 1] == GgufTokenType::kControl) {
    --count;
  }
  if (static_cast<int64_t>(count) > vocab_size) {
    return InvalidArgument("the tokenizer has ", vocabulary.tokens.size(),
                           " tokens, the model embeds ", vocab_size,
                           "; are they of the same model? The last token that is not special is ",
                           Excerpt(vocabulary.tokens[count - 1]));
  }
  // GPT-2's files do not record that this token begins and ends a text.
  const auto end = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), kEndOfText);
  const auto is_a_token = end != vocabulary.tokens.end();
  for (auto* id : {&vocabulary.bos, &vocabulary.eos}) {
    if (!*id && is_a_token) *id = end - vocabulary.tokens.begin();
  }
  if (!vocabulary.bos && vocabulary.prefix.size() == 1) vocabulary.bos = vocabulary.prefix[0];
  // Without one, llama.cpp uses the token 11.
  if (!vocabulary.eos) {
    return InvalidArgument(
        "no token that ends a text; name it as \"eos_token_id\" in config.json, or convert "
        "without a vocabulary");
  }
  ZEROTH_RETURN_IF_ERROR(CheckAddedTokens(vocabulary, vocabulary.prefix, vocabulary.bos, "bos"));
  ZEROTH_RETURN_IF_ERROR(CheckAddedTokens(vocabulary, vocabulary.suffix, vocabulary.eos, "eos"));
  for (const auto& id : {vocabulary.bos, vocabulary.eos}) {
    if (id && (*id < 0 || *id >= vocab_size)) {
      return InvalidArgument("the token that begins or ends a text is ", *id,
                             ", expected one of the ", vocab_size, " that the model embeds");
    }
  }
  for (auto* id : {&vocabulary.unknown, &vocabulary.padding}) {
    if (*id && **id >= vocab_size) id->reset();
  }
  vocabulary.tokens.resize(count);
  vocabulary.types.resize(count);
  AddUnusedTokens(vocab_size, &vocabulary);
  std::vector<int32_t> types;
  for (const GgufTokenType type : vocabulary.types) types.push_back(static_cast<int32_t>(type));
  metadata->SetString(kModelKey, vocabulary.is_sentencepiece() ? "llama" : "gpt2");
  metadata->SetString(kPreKey, vocabulary.is_sentencepiece() ? "default" : vocabulary.pre);
  metadata->Set(kTokensKey, GgufArray{std::move(vocabulary.tokens)});
  metadata->Set(kTypesKey, GgufArray{std::move(types)});
  if (vocabulary.is_sentencepiece()) {
    vocabulary.scores.resize(static_cast<size_t>(vocab_size), 0.0f);
    metadata->Set(kScoresKey, GgufArray{std::move(vocabulary.scores)});
    metadata->Set(kAddSpaceKey, vocabulary.add_space_prefix);
  } else {
    metadata->Set(kMergesKey, GgufArray{std::move(vocabulary.merges)});
  }
  for (const auto& [key, id] :
       {std::pair(kBosKey, vocabulary.bos), std::pair(kEosKey, vocabulary.eos),
        std::pair(kUnknownKey, vocabulary.unknown), std::pair(kPaddingKey, vocabulary.padding)}) {
    if (id) metadata->SetUint32(key, static_cast<uint32_t>(*id));
  }
  metadata->Set(kAddBosKey, !vocabulary.prefix.empty());
  metadata->Set(kAddEosKey, !vocabulary.suffix.empty());
  if (!vocabulary.chat_template.empty()) {
    metadata->SetString(kChatTemplateKey, vocabulary.chat_template);
  }
  return absl::OkStatus();
}

void SetNoVocabulary(GgufMetadata* metadata) { metadata->SetString(kModelKey, "none"); }

absl::StatusOr<std::optional<GgufVocabulary>> VocabularyOf(const GgufMetadata& metadata) {
  ZEROTH_ASSIGN_OR_RETURN(const std::string model, metadata.GetStringOr(kModelKey, "none"));
  if (model == "none" || model == "no_vocab") return std::nullopt;
  if (model != "gpt2" && model != "llama") {
    return Unimplemented(metadata.where(), ": a tokenizer of type \"", model,
                         "\", expected \"gpt2\" (byte-level byte-pair encoding) or \"llama\" "
                         "(byte-pair encoding of SentencePiece)");
  }
  const bool is_sentencepiece = model == "llama";
  GgufVocabulary vocabulary;
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string>* tokens, metadata.GetStrings(kTokensKey));
  vocabulary.tokens = *tokens;
  if (is_sentencepiece) {
    ZEROTH_RETURN_IF_ERROR(ReadScores(metadata, tokens->size(), &vocabulary));
  } else {
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string>* merges,
                            metadata.GetStrings(kMergesKey));
    vocabulary.merges = *merges;
  }
  ZEROTH_RETURN_IF_ERROR(ReadTypes(metadata, tokens->size(), &vocabulary));
  ZEROTH_ASSIGN_OR_RETURN(vocabulary.pre, metadata.GetStringOr(kPreKey, "default"));
  for (const auto& [key, id] :
       {std::pair(kUnknownKey, &vocabulary.unknown), std::pair(kBosKey, &vocabulary.bos),
        std::pair(kEosKey, &vocabulary.eos), std::pair(kPaddingKey, &vocabulary.padding)}) {
    ZEROTH_ASSIGN_OR_RETURN(*id, TokenId(metadata, key, tokens->size()));
  }
  // llama.cpp's defaults without the keys.
  if (is_sentencepiece && tokens->size() > 2) {
    vocabulary.unknown = vocabulary.unknown.value_or(0);
    vocabulary.bos = vocabulary.bos.value_or(1);
    vocabulary.eos = vocabulary.eos.value_or(2);
  }
  const bool begins_by_default = is_sentencepiece || vocabulary.pre == "llama-bpe";
  ZEROTH_ASSIGN_OR_RETURN(const bool begins, metadata.GetBoolOr(kAddBosKey, begins_by_default));
  ZEROTH_ASSIGN_OR_RETURN(const bool ends, metadata.GetBoolOr(kAddEosKey, false));
  if (begins && vocabulary.bos) vocabulary.prefix = {*vocabulary.bos};
  if (ends && vocabulary.eos) vocabulary.suffix = {*vocabulary.eos};
  ZEROTH_ASSIGN_OR_RETURN(vocabulary.chat_template, metadata.GetStringOr(kChatTemplateKey, ""));
  return vocabulary;
}

}  // namespace zeroth
