// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/formats/hf_tokenizer.h"
#include "zeroth/formats/json_fields.h"

namespace zeroth {
namespace {

using Json = nlohmann::json;

constexpr char kEndOfText[] = "<|endoftext|>";
constexpr char kModelKey[] = "tokenizer.ggml.model";
constexpr char kPreKey[] = "tokenizer.ggml.pre";
constexpr char kTokensKey[] = "tokenizer.ggml.tokens";
constexpr char kTypesKey[] = "tokenizer.ggml.token_type";
constexpr char kMergesKey[] = "tokenizer.ggml.merges";
constexpr char kBosKey[] = "tokenizer.ggml.bos_token_id";
constexpr char kEosKey[] = "tokenizer.ggml.eos_token_id";
constexpr char kAddBosKey[] = "tokenizer.ggml.add_bos_token";
constexpr char kAddEosKey[] = "tokenizer.ggml.add_eos_token";
constexpr char kChatTemplateKey[] = "tokenizer.chat_template";

// Splitting expressions as tokenizer.json spells them: Llama 3's, and Qwen 2's, in which each digit
// is a word.
constexpr char kLlama3Cuts[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen2Cuts[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                              R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// llama.cpp's names for them, which also decide whether a word in the vocabulary needs no merges.
struct CuttingRule {
  const char* expression;
  bool ignore_merges;
  const char* pre;
};
constexpr CuttingRule kCuttingRules[] = {
    {kLlama3Cuts, true, "llama-bpe"}, {kLlama3Cuts, false, "dbrx"}, {kQwen2Cuts, false, "qwen2"}};

absl::Status Bad(absl::string_view path, absl::string_view what) {
  return InvalidArgument(path, ": ", what);
}

// Returns llama.cpp's name of a tokenizer's splitting rule; empty for an unknown rule.
std::optional<std::string> FindCuttingRule(const Json& rule, bool ignore_merges) {
  const auto is_byte_level = [](const Json& part, bool cuts) {
    const Json& use_regex = FieldOf(part, "use_regex");
    return FieldOf(part, "type") == "ByteLevel" && FieldOf(part, "add_prefix_space") == false &&
           (use_regex.is_null() ? cuts : use_regex == cuts);
  };
  if (!ignore_merges && is_byte_level(rule, true)) return "gpt-2";
  const Json& parts = FieldOf(rule, "pretokenizers");
  if (FieldOf(rule, "type") != "Sequence" || !parts.is_array() || parts.size() != 2 ||
      !is_byte_level(parts[1], false) || FieldOf(parts[0], "type") != "Split") {
    return std::nullopt;
  }
  // The expressions match all of a text, so Isolated and inverted Removed split it alike.
  const bool inverted = FieldOf(parts[0], "invert") == true;
  if (FieldOf(parts[0], "behavior") != (inverted ? "Removed" : "Isolated")) return std::nullopt;
  const Json& expression = FieldOf(FieldOf(parts[0], "pattern"), "Regex");
  for (const CuttingRule& known : kCuttingRules) {
    if (expression == known.expression && ignore_merges == known.ignore_merges) return known.pre;
  }
  return std::nullopt;
}

// Puts the tokens into the order of their ids.
absl::Status SetTokens(const HfTokenizer& files, GgufVocabulary* result) {
  std::map<int32_t, std::pair<absl::string_view, GgufTokenType>> tokens;
  const auto add = [&](absl::string_view token, int32_t id, GgufTokenType type) {
    auto& [known, known_type] = tokens.try_emplace(id, token, type).first->second;
    // An added token may also be in the vocabulary; the list of added tokens decides its type.
    known_type = type;
    if (known == token) return absl::OkStatus();
    return InvalidArgument("tokens \"", known, "\" and \"", token, "\" have the same id, ", id);
  };
  for (const auto& [token, id] : files.bpe.vocab) {
    ZEROTH_RETURN_IF_ERROR(add(token, id, GgufTokenType::kNormal));
  }
  for (const AddedToken& token : files.added_tokens) {
    ZEROTH_RETURN_IF_ERROR(
        add(token.content, token.id,
            token.special ? GgufTokenType::kControl : GgufTokenType::kUserDefined));
  }
  for (const auto& [id, token] : tokens) {
    const size_t next = result->tokens.size();
    if (static_cast<size_t>(id) != next) {
      return InvalidArgument("no token has the id ", next, ", but one has ", id);
    }
    result->tokens.emplace_back(token.first);
    result->types.push_back(token.second);
  }
  return absl::OkStatus();
}

absl::StatusOr<GgufVocabulary> VocabularyOf(const HfTokenizer& files) {
  if (files.bpe.byte_fallback) {
    return Unimplemented(
        "a tokenizer of type BPE after SentencePiece, expected byte-level byte-pair encoding");
  }
  const auto rule = FindCuttingRule(files.pre_tokenizer, files.bpe.ignore_merges);
  if (!rule) {
    return Unimplemented(
        "its pre_tokenizer, with its ignore_merges, is neither GPT-2's nor Llama 3's nor Qwen 2's");
  }
  // llama.cpp applies no normalizer. NFC is accepted because it leaves nearly all text unchanged.
  const Json& normalizer = files.normalizer;
  if (!normalizer.is_null() && FieldOf(normalizer, "type") != "NFC") {
    return Unimplemented("its normalizer is ", normalizer.dump(-1, ' ', true),
                         ", expected null or NFC, since llama.cpp does not change text before it "
                         "cuts it");
  }
  GgufVocabulary result;
  result.pre = *rule;
  ZEROTH_RETURN_IF_ERROR(SetTokens(files, &result));
  for (const auto& [left, right] : files.bpe.merges) {
    if (left.empty() || right.empty() || absl::StrContains(left + right, ' ')) {
      return InvalidArgument("merge of \"", left, "\" and \"", right,
                             "\", expected two tokens without spaces");
    }
    result.merges.push_back(absl::StrCat(left, " ", right));
  }
  ZEROTH_ASSIGN_OR_RETURN(result.bos, files.Named("bos_token"));
  ZEROTH_ASSIGN_OR_RETURN(result.eos, files.Named("eos_token"));
  result.prefix.assign(files.prefix.begin(), files.prefix.end());
  result.suffix.assign(files.suffix.begin(), files.suffix.end());
  return result;
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

// OK if llama.cpp, which can put only the token `id` before or after a text, would put `added`
// there. `name`: "bos" or "eos".
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

absl::StatusOr<std::optional<GgufVocabulary>> ReadHfVocabulary(const std::string& directory) {
  const auto files = FindTokenizerFiles(directory);
  if (absl::IsNotFound(files.status())) return std::nullopt;
  ZEROTH_RETURN_IF_ERROR(files.status());
  const std::string& path = files->front();
  absl::Status refused =
      Unimplemented(path, ": a SentencePiece vocabulary, expected byte-level byte-pair encoding");
  if (!absl::EndsWith(path, ".model")) {
    const auto tokenizer = ReadHfTokenizer(*files);
    auto vocabulary = tokenizer.ok() ? VocabularyOf(*tokenizer) : tokenizer.status();
    if (vocabulary.ok()) return *std::move(vocabulary);
    refused = tokenizer.ok() ? Annotate(vocabulary.status(), path) : tokenizer.status();
  }
  if (!absl::IsUnimplemented(refused)) return refused;
  return Unimplemented(refused.message(), "; convert without a vocabulary");
}

absl::Status SetVocabulary(GgufVocabulary vocabulary, int64_t vocab_size, GgufMetadata* metadata) {
  const auto tokens = static_cast<int64_t>(vocabulary.tokens.size());
  if (tokens > vocab_size) {
    return InvalidArgument("the tokenizer has ", tokens, " tokens, the model embeds ", vocab_size,
                           "; are they of the same model? The last token is ",
                           Excerpt(vocabulary.tokens.back()));
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
  for (int64_t id = tokens; id < vocab_size; ++id) {
    vocabulary.tokens.push_back(absl::StrCat("[PAD", id, "]"));
    vocabulary.types.push_back(GgufTokenType::kUnused);
  }
  std::vector<int32_t> types;
  for (const GgufTokenType type : vocabulary.types) types.push_back(static_cast<int32_t>(type));
  metadata->SetString(kModelKey, "gpt2");
  metadata->SetString(kPreKey, vocabulary.pre);
  metadata->Set(kTokensKey, GgufArray{std::move(vocabulary.tokens)});
  metadata->Set(kTypesKey, GgufArray{std::move(types)});
  metadata->Set(kMergesKey, GgufArray{std::move(vocabulary.merges)});
  if (vocabulary.bos) metadata->SetUint32(kBosKey, static_cast<uint32_t>(*vocabulary.bos));
  metadata->SetUint32(kEosKey, static_cast<uint32_t>(*vocabulary.eos));
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
  if (model != "gpt2") {
    return Unimplemented(metadata.where(), ": a tokenizer of type \"", model,
                         "\", expected \"gpt2\" (byte-level byte-pair encoding)");
  }
  GgufVocabulary vocabulary;
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string>* tokens, metadata.GetStrings(kTokensKey));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string>* merges, metadata.GetStrings(kMergesKey));
  vocabulary.tokens = *tokens;
  vocabulary.merges = *merges;
  vocabulary.types.assign(tokens->size(), GgufTokenType::kNormal);
  if (metadata.Has(kTypesKey)) {
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<int64_t> types, metadata.GetInts(kTypesKey));
    if (types.size() != tokens->size()) {
      return Bad(metadata.where(), absl::StrCat("key \"", kTypesKey, "\" has ", types.size(),
                                                " elements for ", tokens->size(), " tokens"));
    }
    std::transform(types.begin(), types.end(), vocabulary.types.begin(),
                   [](int64_t type) { return static_cast<GgufTokenType>(type); });
  }
  ZEROTH_ASSIGN_OR_RETURN(vocabulary.pre, metadata.GetStringOr(kPreKey, "default"));
  ZEROTH_ASSIGN_OR_RETURN(vocabulary.bos, TokenId(metadata, kBosKey, tokens->size()));
  ZEROTH_ASSIGN_OR_RETURN(vocabulary.eos, TokenId(metadata, kEosKey, tokens->size()));
  ZEROTH_ASSIGN_OR_RETURN(const bool begins, metadata.GetBoolOr(kAddBosKey, false));
  ZEROTH_ASSIGN_OR_RETURN(const bool ends, metadata.GetBoolOr(kAddEosKey, false));
  if (begins && vocabulary.bos) vocabulary.prefix = {*vocabulary.bos};
  if (ends && vocabulary.eos) vocabulary.suffix = {*vocabulary.eos};
  ZEROTH_ASSIGN_OR_RETURN(vocabulary.chat_template, metadata.GetStringOr(kChatTemplateKey, ""));
  return vocabulary;
}

absl::StatusOr<std::map<std::string, std::string>> HfTokenizerFiles(
    const GgufVocabulary& vocabulary) {
  if (vocabulary.pre != "gpt-2") {
    return Unimplemented("vocab.json and merges.txt cannot say that text is cut by the rule \"",
                         vocabulary.pre,
                         "\"; take tokenizer.json from the model that this file was made of");
  }
  if (!vocabulary.suffix.empty()) {
    return Unimplemented("vocab.json and merges.txt cannot say that a token follows each text");
  }
  Json vocab = Json::object();
  Json added = Json::object();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.types[id] == GgufTokenType::kUnused) continue;
    const auto [place, inserted] = vocab.emplace(vocabulary.tokens[id], id);
    if (!inserted) {
      return InvalidArgument("tokens ", place->dump(), " and ", id, " are spelled alike");
    }
    const bool special = vocabulary.types[id] == GgufTokenType::kControl;
    if (!special && vocabulary.types[id] != GgufTokenType::kUserDefined) continue;
    Json& token = added[absl::StrCat(id)] = {{"content", vocabulary.tokens[id]}};
    for (const char* flag : {"lstrip", "normalized", "rstrip", "single_word"}) token[flag] = false;
    token["special"] = special;
  }
  std::string merges = "#version: 0.2\n";
  for (const std::string& merge : vocabulary.merges) absl::StrAppend(&merges, merge, "\n");
  Json config = {{"tokenizer_class", "GPT2Tokenizer"},
                 {"add_bos_token", !vocabulary.prefix.empty()},
                 {"add_prefix_space", false},
                 {"added_tokens_decoder", added}};
  const auto name = [&](const char* key, const std::optional<int64_t>& id) {
    if (id) config[key] = vocabulary.tokens[static_cast<size_t>(*id)];
  };
  name("bos_token", vocabulary.bos);
  name("eos_token", vocabulary.eos);
  // GPT-2 has no other token for unknown text.
  name("unk_token", vocabulary.eos);
  if (!vocabulary.chat_template.empty()) config["chat_template"] = vocabulary.chat_template;
  const auto dump = [](const Json& json, int indent) {
    return absl::StrCat(json.dump(indent, ' ', false, Json::error_handler_t::replace), "\n");
  };
  return std::map<std::string, std::string>{{"vocab.json", dump(vocab, -1)},
                                            {"merges.txt", merges},
                                            {"tokenizer_config.json", dump(config, 2)}};
}

}  // namespace zeroth
