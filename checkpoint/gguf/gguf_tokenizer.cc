// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kEndOfText[] = "<|endoftext|>";
constexpr size_t kMaxMergesBytes = size_t{64} << 20;
// More than any published vocabulary has. Bounds what an id in a file can make this allocate.
constexpr int64_t kMaxVocabulary = int64_t{1} << 24;

constexpr char kModelKey[] = "tokenizer.ggml.model";
constexpr char kPreKey[] = "tokenizer.ggml.pre";
constexpr char kTokensKey[] = "tokenizer.ggml.tokens";
constexpr char kTypesKey[] = "tokenizer.ggml.token_type";
constexpr char kMergesKey[] = "tokenizer.ggml.merges";
constexpr char kBosKey[] = "tokenizer.ggml.bos_token_id";
constexpr char kEosKey[] = "tokenizer.ggml.eos_token_id";
constexpr char kChatTemplateKey[] = "tokenizer.chat_template";

// Splitting expressions as tokenizer.json spells them, and llama.cpp's names for them: Llama 3's,
// and Qwen 2's, in which each digit is a word.
struct CuttingExpression {
  const char* expression;
  const char* pre;
};
constexpr CuttingExpression kCuttingExpressions[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     "llama-bpe"},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     "qwen2"}};

absl::Status Bad(absl::string_view path, absl::string_view what) {
  return InvalidArgument(path, ": ", what);
}

bool Says(const Json& json, const char* key, const Json& value) {
  const auto found = json.find(key);
  return found != json.end() && *found == value;
}

// Collects tokens by id from the several lists of a tokenizer's files.
class VocabularyBuilder {
 public:
  explicit VocabularyBuilder(std::string path) : path_(std::move(path)) {}

  absl::Status AddVocabulary(const Json& vocab) {
    if (!vocab.is_object()) return Bad(path_, "expected an object from tokens to ids");
    for (const auto& [token, id] : vocab.items()) {
      ZEROTH_RETURN_IF_ERROR(Add(token, id, GgufTokenType::kNormal));
    }
    return absl::OkStatus();
  }

  absl::Status AddAddedTokens(const Json& added) {
    for (const Json& token : added) {
      const auto content = token.find("content");
      const auto id = token.find("id");
      if (!token.is_object() || content == token.end() || id == token.end() ||
          !content->is_string()) {
        return Bad(path_, "added_tokens: expected objects with \"id\" and \"content\"");
      }
      const bool special = Says(token, "special", true);
      ZEROTH_RETURN_IF_ERROR(Add(content->get<std::string>(), *id,
                                 special ? GgufTokenType::kControl : GgufTokenType::kUserDefined));
    }
    return absl::OkStatus();
  }

  absl::Status AddMerge(std::string merge) {
    const size_t space = merge.find(' ');
    if (space == 0 || space == std::string::npos || space + 1 == merge.size() ||
        merge.find(' ', space + 1) != std::string::npos) {
      return Bad(path_, absl::StrCat("merge \"", merge,
                                     "\", expected two tokens with a space between them"));
    }
    result_.merges.push_back(std::move(merge));
    return absl::OkStatus();
  }

  absl::StatusOr<GgufVocabulary> Build() && {
    int64_t next = 0;
    for (auto& [id, token] : tokens_) {
      if (id != next++) {
        return Bad(path_, absl::StrCat("no token has the id ", next - 1, ", but one has ", id));
      }
      if (token.first == kEndOfText) {
        token.second = GgufTokenType::kControl;
        result_.bos = result_.eos = id;
      }
      result_.tokens.push_back(std::move(token.first));
      result_.types.push_back(token.second);
    }
    return std::move(result_);
  }

  GgufVocabulary& result() { return result_; }

 private:
  absl::Status Add(const std::string& token, const Json& id, GgufTokenType type) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= kMaxVocabulary) {
      return Bad(path_, absl::StrCat("token \"", token, "\" has the id ", id.dump(),
                                     ", expected a whole number below ", kMaxVocabulary));
    }
    const auto [place, inserted] = tokens_.try_emplace(id.get<int64_t>(), token, type);
    if (inserted) return absl::OkStatus();
    if (place->second.first != token) {
      return Bad(path_, absl::StrCat("tokens \"", place->second.first, "\" and \"", token,
                                     "\" have the same id, ", id.dump()));
    }
    // An added token may also be in the vocabulary; the list of added tokens decides its type.
    place->second.second = type;
    return absl::OkStatus();
  }

  const std::string path_;
  GgufVocabulary result_;
  std::map<int64_t, std::pair<std::string, GgufTokenType>> tokens_;
};

// llama.cpp's name of the splitting rule in a tokenizer.json; empty for an unknown rule.
std::optional<std::string> CuttingRule(const Json& pre_tokenizer) {
  if (Says(pre_tokenizer, "type", "ByteLevel") && !Says(pre_tokenizer, "use_regex", false)) {
    return "gpt-2";
  }
  const auto list = pre_tokenizer.find("pretokenizers");
  if (!Says(pre_tokenizer, "type", "Sequence") || list == pre_tokenizer.end()) return std::nullopt;
  if (!list->is_array() || list->size() != 2) return std::nullopt;
  const auto pattern = (*list)[0].find("pattern");
  if (pattern == (*list)[0].end()) return std::nullopt;
  for (const CuttingExpression& known : kCuttingExpressions) {
    if (Says(*pattern, "Regex", known.expression)) return known.pre;
  }
  return std::nullopt;
}

absl::Status AddJsonMerges(const Json& merges, const std::string& path,
                           VocabularyBuilder* builder) {
  if (!merges.is_array()) return Bad(path, "model.merges: expected an array");
  for (const Json& merge : merges) {
    const bool pair =
        merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    if (!pair && !merge.is_string()) return Bad(path, "model.merges: expected strings or pairs");
    ZEROTH_RETURN_IF_ERROR(builder->AddMerge(
        pair ? absl::StrCat(merge[0].get<std::string>(), " ", merge[1].get<std::string>())
             : merge.get<std::string>()));
  }
  return absl::OkStatus();
}

absl::StatusOr<GgufVocabulary> ReadTokenizerJson(const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(path));
  const auto model = json.is_object() ? json.find("model") : json.end();
  if (model == json.end() || !model->is_object()) return Bad(path, "expected an object \"model\"");
  const Json type = model->value("type", Json("BPE"));
  if (type != Json("BPE") || Says(*model, "byte_fallback", true)) {
    return Unimplemented(path, ": a tokenizer of type ", type.dump(),
                         type == Json("BPE") ? " after SentencePiece" : "",
                         ", expected byte-level byte-pair encoding; convert without a vocabulary");
  }
  const auto rule = CuttingRule(json.value("pre_tokenizer", Json()));
  if (!rule) {
    return Unimplemented(
        path,
        ": its pre_tokenizer is neither GPT-2's nor Llama 3's nor Qwen 2's; convert without a "
        "vocabulary");
  }
  // llama.cpp normalises nothing. Nearly all text is in the normal form NFC already.
  const Json normalizer = json.value("normalizer", Json());
  if (!normalizer.is_null() && !Says(normalizer, "type", "NFC")) {
    const Json form = normalizer.is_object() ? normalizer.value("type", normalizer) : normalizer;
    return Unimplemented(
        path, ": its normalizer is ", form.dump(),
        ", expected null or NFC, since llama.cpp does not change text before it cuts "
        "it; convert without a vocabulary");
  }
  VocabularyBuilder builder(path);
  builder.result().pre = *rule;
  ZEROTH_RETURN_IF_ERROR(builder.AddVocabulary(model->value("vocab", Json())));
  ZEROTH_RETURN_IF_ERROR(builder.AddAddedTokens(json.value("added_tokens", Json::array())));
  ZEROTH_RETURN_IF_ERROR(AddJsonMerges(model->value("merges", Json::array()), path, &builder));
  return std::move(builder).Build();
}

absl::StatusOr<GgufVocabulary> ReadVocabAndMerges(const std::string& vocab_path,
                                                  const std::string& merges_path) {
  VocabularyBuilder builder(vocab_path);
  ZEROTH_ASSIGN_OR_RETURN(const Json vocab, ReadJsonFile(vocab_path));
  ZEROTH_RETURN_IF_ERROR(builder.AddVocabulary(vocab));
  ZEROTH_ASSIGN_OR_RETURN(const std::string merges, ReadFile(merges_path, kMaxMergesBytes));
  bool first = true;
  for (absl::string_view line : absl::StrSplit(merges, '\n')) {
    const bool version = std::exchange(first, false) && absl::StartsWith(line, "#version");
    if (absl::EndsWith(line, "\r")) line.remove_suffix(1);
    if (line.empty() || version) continue;
    ZEROTH_RETURN_IF_ERROR_WITH(builder.AddMerge(std::string(line)), merges_path);
  }
  return std::move(builder).Build();
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

}  // namespace

GgufVocabulary ByteVocabulary() {
  GgufVocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.push_back(BytesToAlphabet(std::string(1, static_cast<char>(byte))));
  }
  vocabulary.types.assign(256, GgufTokenType::kNormal);
  vocabulary.tokens.push_back(kEndOfText);
  vocabulary.types.push_back(GgufTokenType::kControl);
  vocabulary.bos = vocabulary.eos = 256;
  return vocabulary;
}

absl::StatusOr<std::optional<GgufVocabulary>> ReadHfVocabulary(const std::string& directory) {
  const fs::path base(directory);
  if (IsFile(base / "tokenizer.json")) {
    return ReadTokenizerJson((base / "tokenizer.json").string());
  }
  if (IsFile(base / "vocab.json") && IsFile(base / "merges.txt")) {
    return ReadVocabAndMerges((base / "vocab.json").string(), (base / "merges.txt").string());
  }
  if (IsFile(base / "tokenizer.model")) {
    return Unimplemented(
        (base / "tokenizer.model").string(),
        ": a SentencePiece vocabulary, expected byte-level byte-pair encoding; convert "
        "without a vocabulary");
  }
  return std::nullopt;
}

absl::Status SetVocabulary(GgufVocabulary vocabulary, int64_t vocab_size, GgufMetadata* metadata) {
  const auto tokens = static_cast<int64_t>(vocabulary.tokens.size());
  if (tokens > vocab_size) {
    return InvalidArgument("the tokenizer has ", tokens, " tokens, the model embeds ", vocab_size,
                           "; are they of the same model?");
  }
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
  if (vocabulary.eos) metadata->SetUint32(kEosKey, static_cast<uint32_t>(*vocabulary.eos));
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
  Json vocab = Json::object();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.types[id] == GgufTokenType::kUnused) continue;
    const auto [place, inserted] = vocab.emplace(vocabulary.tokens[id], id);
    if (!inserted) {
      return InvalidArgument("tokens ", place->dump(), " and ", id, " are spelled alike");
    }
  }
  std::string merges = "#version: 0.2\n";
  for (const std::string& merge : vocabulary.merges) absl::StrAppend(&merges, merge, "\n");
  Json config = {{"tokenizer_class", "GPT2Tokenizer"}, {"add_prefix_space", false}};
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
