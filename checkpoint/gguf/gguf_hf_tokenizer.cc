// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <map>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/checkpoint/gguf/gguf_vocabulary.h"
#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/formats/hf_added_tokens.h"
#include "zeroth/formats/hf_tokenizer.h"
#include "zeroth/formats/json_fields.h"

namespace zeroth {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxModelBytes = size_t{64} << 20;

// Splitting expressions as tokenizer.json spells them: Llama 3's; Qwen 2's, in which each digit is
// a word; and gpt-oss's, in which a capital begins a word.
constexpr char kLlama3Cuts[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen2Cuts[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                              R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// As Qwen 2's, but marks belong to words.
constexpr char kQwen35Cuts[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr char kGptOssCuts[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// llama.cpp's names of these expressions. A name also decides whether merges are skipped for a word
// that is in the vocabulary. In a tiktoken vocabulary, such as gpt-oss's, merges build every word,
// so "gpt-4o" stands for both settings. If two rules have one name, an import uses the first.
struct CuttingRule {
  const char* expression;
  bool ignore_merges;
  const char* pre;
  bool nfc;  // the tokenizer of the models with this rule normalises text
};
constexpr CuttingRule kCuttingRules[] = {
    {kLlama3Cuts, true, "llama-bpe", false}, {kLlama3Cuts, false, "dbrx", false},
    {kQwen2Cuts, false, "qwen2", true},      {kQwen35Cuts, false, "qwen35", true},
    {kGptOssCuts, true, "gpt-4o", false},    {kGptOssCuts, false, "gpt-4o", false}};

// llama.cpp's name of a tokenizer's rule; empty for an unknown rule.
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
  // The expressions match all of a text, so that these two are the same.
  const bool inverted = FieldOf(parts[0], "invert") == true;
  if (FieldOf(parts[0], "behavior") != (inverted ? "Removed" : "Isolated")) return std::nullopt;
  const Json& expression = FieldOf(FieldOf(parts[0], "pattern"), "Regex");
  for (const CuttingRule& known : kCuttingRules) {
    if (expression == known.expression && ignore_merges == known.ignore_merges) return known.pre;
  }
  return std::nullopt;
}

absl::StatusOr<GgufVocabulary> VocabularyOf(const HfTokenizer& files) {
  if (files.bpe.byte_fallback) return SentencePieceVocabulary(files);
  const auto rule = FindCuttingRule(files.pre_tokenizer, files.bpe.ignore_merges);
  if (!rule) {
    return Unimplemented(
        "its pre_tokenizer, with its ignore_merges, is neither GPT-2's nor Llama 3's nor Qwen 2's "
        "nor gpt-oss's");
  }
  // llama.cpp normalises nothing. Nearly all text is in the normal form NFC already.
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

absl::StatusOr<GgufVocabulary> VocabularyOfModel(const std::string& path,
                                                 const std::string& directory) {
  ZEROTH_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kMaxModelBytes));
  ZEROTH_ASSIGN_OR_RETURN(const SentencePieceModel model, ParseSentencePieceModel(bytes));
  ZEROTH_ASSIGN_OR_RETURN(Json config, ReadTokenizerConfig(directory));
  return SentencePieceVocabulary(model, std::move(config));
}

// Null for an unknown rule, and for GPT-2's, which is ByteLevel's own.
const CuttingRule* FindRule(const std::string& pre) {
  for (const CuttingRule& rule : kCuttingRules) {
    if (pre == rule.pre) return &rule;
  }
  return nullptr;
}

// The "pre_tokenizer" of tokenizer.json for llama.cpp's name of a rule; empty for an unknown one.
std::optional<Json> PreTokenizerOf(const std::string& pre) {
  const auto byte_level = [](bool cuts) {
    return Json{{"type", "ByteLevel"},
                {"add_prefix_space", false},
                {"trim_offsets", true},
                {"use_regex", cuts}};
  };
  if (pre == "gpt-2") return byte_level(true);
  const CuttingRule* const rule = FindRule(pre);
  if (rule == nullptr) return std::nullopt;
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", rule->expression}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return Json{{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level(false)})}};
}

// Returns the "post_processor" that adds the prefix and the suffix to each text.
Json PostProcessorOf(const GgufVocabulary& vocabulary) {
  if (vocabulary.prefix.empty() && vocabulary.suffix.empty()) return Json();
  Json special = Json::object();
  Json single = Json::array();
  Json pair = Json::array();
  const auto add = [&](const std::vector<int64_t>& ids) {
    for (const int64_t id : ids) {
      const std::string& token = vocabulary.tokens[static_cast<size_t>(id)];
      special[token] = {
          {"id", token}, {"ids", Json::array({id})}, {"tokens", Json::array({token})}};
      single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    }
  };
  add(vocabulary.prefix);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add(vocabulary.suffix);
  for (const char* text : {"A", "B"}) {
    for (Json item : single) {
      if (item.contains("Sequence")) item["Sequence"]["id"] = text;
      item.front()["type_id"] = text[0] - 'A';
      pair.push_back(std::move(item));
    }
  }
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", special}};
}

// Returns the JSON of a token that is found as it is spelled.
Json AddedTokenJson(const std::string& content, bool special) {
  return JsonOf({.content = content, .special = special});
}

bool IsSpecial(GgufTokenType type) {
  return type == GgufTokenType::kControl || type == GgufTokenType::kUnknown;
}

bool IsAdded(GgufTokenType type) { return IsSpecial(type) || type == GgufTokenType::kUserDefined; }

}  // namespace

void AddUnusedTokens(int64_t end, GgufVocabulary* vocabulary) {
  for (auto id = static_cast<int64_t>(vocabulary->tokens.size()); id < end; ++id) {
    vocabulary->tokens.push_back(absl::StrCat("[PAD", id, "]"));
    vocabulary->types.push_back(GgufTokenType::kUnused);
  }
}

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
    if (id < 0 || static_cast<size_t>(id) > 2 * tokens.size() + 1024) {
      return InvalidArgument("token ", Excerpt(token.first), " has id ", id,
                             ", far from the others");
    }
    AddUnusedTokens(id, result);
    result->tokens.emplace_back(token.first);
    result->types.push_back(token.second);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<GgufVocabulary>> ReadHfVocabulary(const std::string& directory) {
  const auto files = FindTokenizerFiles(directory);
  if (absl::IsNotFound(files.status())) return std::nullopt;
  ZEROTH_RETURN_IF_ERROR(files.status());
  const std::string& path = files->front();
  absl::Status refused;
  if (absl::EndsWith(path, ".model")) {
    auto vocabulary = VocabularyOfModel(path, directory);
    if (vocabulary.ok()) return *std::move(vocabulary);
    refused = Annotate(vocabulary.status(), path);
  } else {
    const auto tokenizer = ReadHfTokenizer(*files);
    auto vocabulary = tokenizer.ok() ? VocabularyOf(*tokenizer) : tokenizer.status();
    if (vocabulary.ok()) return *std::move(vocabulary);
    refused = tokenizer.ok() ? Annotate(vocabulary.status(), path) : tokenizer.status();
  }
  if (!absl::IsUnimplemented(refused)) return refused;
  return Unimplemented(refused.message(), "; convert without a vocabulary");
}

std::string DumpJson(const Json& json, int indent) {
  return absl::StrCat(json.dump(indent, ' ', false, Json::error_handler_t::replace), "\n");
}

Json TokenizerConfigOf(const GgufVocabulary& vocabulary, const char* tokenizer_class) {
  Json added = Json::object();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const GgufTokenType type = vocabulary.types[id];
    if (!IsAdded(type)) continue;
    added[absl::StrCat(id)] = AddedTokenJson(vocabulary.tokens[id], IsSpecial(type));
  }
  Json config = {{"tokenizer_class", tokenizer_class},
                 {"added_tokens_decoder", added},
                 {"clean_up_tokenization_spaces", false}};
  const auto name = [&](const char* key, const std::optional<int64_t>& id) {
    if (!id || *id >= static_cast<int64_t>(vocabulary.tokens.size())) return;
    config[key] = vocabulary.tokens[static_cast<size_t>(*id)];
  };
  name("bos_token", vocabulary.bos);
  name("eos_token", vocabulary.eos);
  name("unk_token", vocabulary.unknown);
  name("pad_token", vocabulary.padding);
  if (!vocabulary.chat_template.empty()) config["chat_template"] = vocabulary.chat_template;
  return config;
}

absl::StatusOr<std::map<std::string, std::string>> HfTokenizerFiles(
    const GgufVocabulary& vocabulary) {
  if (vocabulary.is_sentencepiece()) return SentencePieceFiles(vocabulary);
  const std::optional<Json> pre_tokenizer = PreTokenizerOf(vocabulary.pre);
  if (!pre_tokenizer) {
    return Unimplemented("how text is cut by the rule \"", vocabulary.pre,
                         "\" is not known; take tokenizer.json from the model that this file was "
                         "made of");
  }
  Json vocab = Json::object();
  Json added = Json::array();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const GgufTokenType type = vocabulary.types[id];
    if (type == GgufTokenType::kUnused) continue;
    const auto [place, inserted] = vocab.emplace(vocabulary.tokens[id], id);
    if (!inserted) {
      return InvalidArgument("tokens ", place->dump(), " and ", id, " are spelled alike");
    }
    if (!IsAdded(type)) continue;
    added.push_back(AddedTokenJson(vocabulary.tokens[id], IsSpecial(type)));
    added.back()["id"] = id;
  }
  Json merges = Json::array();
  for (const std::string& merge : vocabulary.merges) {
    const size_t space = merge.find(' ');
    if (space == std::string::npos) {
      return InvalidArgument("merge ", Excerpt(merge), ", expected two tokens and a space");
    }
    merges.push_back(Json::array({merge.substr(0, space), merge.substr(space + 1)}));
  }
  const CuttingRule* const rule = FindRule(vocabulary.pre);
  const bool nfc = rule != nullptr && rule->nfc;
  const Json tokenizer = {{"version", "1.0"},
                          {"truncation", nullptr},
                          {"padding", nullptr},
                          {"added_tokens", added},
                          {"normalizer", nfc ? Json{{"type", "NFC"}} : Json()},
                          {"pre_tokenizer", *pre_tokenizer},
                          {"post_processor", PostProcessorOf(vocabulary)},
                          {"decoder",
                           {{"type", "ByteLevel"},
                            {"add_prefix_space", true},
                            {"trim_offsets", true},
                            {"use_regex", true}}},
                          {"model",
                           {{"type", "BPE"},
                            {"dropout", nullptr},
                            {"unk_token", nullptr},
                            {"continuing_subword_prefix", nullptr},
                            {"end_of_word_suffix", nullptr},
                            {"fuse_unk", false},
                            {"byte_fallback", false},
                            {"ignore_merges", rule != nullptr && rule->ignore_merges},
                            {"vocab", vocab},
                            {"merges", merges}}}};
  const Json config = TokenizerConfigOf(vocabulary, "PreTrainedTokenizerFast");
  return std::map<std::string, std::string>{{"tokenizer.json", DumpJson(tokenizer, -1)},
                                            {"tokenizer_config.json", DumpJson(config, 2)}};
}

}  // namespace zeroth
