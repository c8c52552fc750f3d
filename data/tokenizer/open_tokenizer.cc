// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/tokenizer/open_tokenizer.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/tokenizer/bpe_tokenizer.h"
#include "zeroth/data/tokenizer/json_fields.h"

namespace zeroth {
namespace {

constexpr const char* kEndSpellings[] = {kEndOfTextSpelling, "<|end_of_text|>", "</s>", "<eos>",
                                         "<|eot_id|>",       "<|im_end|>"};

absl::Status ReadVocab(const nlohmann::json& vocab, BpeParts* parts) {
  if (!vocab.is_object())
    return absl::InvalidArgumentError("\"vocab\" is no object that maps tokens to ids");
  parts->vocab.reserve(vocab.size());
  for (const auto& [token, id] : vocab.items()) {
    constexpr auto kMost = std::numeric_limits<int32_t>::max();
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > kMost) {
      return InvalidArgument("token \"", token, "\" has id ", id.dump(-1, ' ', true),
                             ", expected a whole number of 31 bits");
    }
    parts->vocab.emplace_back(token, id.get<int32_t>());
  }
  return absl::OkStatus();
}

// Splits "a b"; empty unless there are two tokens.
std::optional<std::pair<std::string, std::string>> SplitMerge(absl::string_view text) {
  const std::vector<absl::string_view> tokens = absl::StrSplit(text, ' ');
  if (tokens.size() != 2) return std::nullopt;
  return std::make_pair(std::string(tokens[0]), std::string(tokens[1]));
}

absl::Status ReadMerges(const nlohmann::json& merges, BpeParts* parts) {
  parts->merges.reserve(merges.size());
  for (const nlohmann::json& merge : merges) {
    std::optional<std::pair<std::string, std::string>> pair;
    if (merge.is_string()) {
      pair = SplitMerge(merge.get_ref<const std::string&>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      pair = std::make_pair(merge[0].get<std::string>(), merge[1].get<std::string>());
    }
    if (!pair) {
      return InvalidArgument("merge ", parts->merges.size() + 1,
                             " is no \"left right\" and no [\"left\", \"right\"]");
    }
    parts->merges.push_back(*std::move(pair));
  }
  return absl::OkStatus();
}

// Refuses a field that is set to another value than its default.
absl::Status RefuseUnless(bool is_absent, const char* name) {
  if (is_absent) return absl::OkStatus();
  return Unimplemented("\"", name, "\" is set, which Zeroth does not know");
}

absl::Status ReadModel(const nlohmann::json& model, BpeParts* parts) {
  // Files of old versions do not name the type.
  std::string type = "BPE";
  if (!FieldOf(model, "type").is_null()) {
    ZEROTH_ASSIGN_OR_RETURN(type, TypeOf(model));
  }
  if (type != "BPE") return UnknownKind("model", type, "BPE");
  const nlohmann::json& dropout = FieldOf(model, "dropout");
  ZEROTH_RETURN_IF_ERROR(RefuseUnless(dropout.is_null() || dropout == 0, "dropout"));
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const nlohmann::json& field = FieldOf(model, name);
    ZEROTH_RETURN_IF_ERROR(RefuseUnless(field.is_null() || field == "", name));
  }
  if (!FieldOf(model, "unk_token").is_null()) {
    ZEROTH_ASSIGN_OR_RETURN(parts->unk_token, StringField(model, "unk_token"));
  }
  ZEROTH_ASSIGN_OR_RETURN(parts->fuse_unk, BoolField(model, "fuse_unk", false));
  ZEROTH_ASSIGN_OR_RETURN(parts->byte_fallback, BoolField(model, "byte_fallback", false));
  ZEROTH_ASSIGN_OR_RETURN(parts->ignore_merges, BoolField(model, "ignore_merges", false));
  ZEROTH_RETURN_IF_ERROR(ReadVocab(FieldOf(model, "vocab"), parts));
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json* merges, ArrayField(model, "merges"));
  return ReadMerges(*merges, parts);
}

absl::Status AppendTemplateIds(const nlohmann::json& special, const std::string& name,
                               std::vector<int32_t>* ids) {
  const nlohmann::json& token = FieldOf(special, name.c_str());
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json* list, ArrayField(token, "ids"));
  for (const nlohmann::json& id : *list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= (uint64_t{1} << 31)) {
      return InvalidArgument("the special token \"", name,
                             "\" has an id that is no number of 31 bits");
    }
    ids->push_back(id.get<int32_t>());
  }
  return absl::OkStatus();
}

absl::Status ReadTemplate(const nlohmann::json& json, BpeTokenizerParts* parts) {
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json* items, ArrayField(json, "single"));
  bool behind = false;
  for (const nlohmann::json& item : *items) {
    if (!FieldOf(item, "Sequence").is_null()) {
      if (behind) return absl::UnimplementedError("\"single\" has a text twice");
      behind = true;
      continue;
    }
    ZEROTH_ASSIGN_OR_RETURN(const std::string name,
                            StringField(FieldOf(item, "SpecialToken"), "id"));
    ZEROTH_RETURN_IF_ERROR(AppendTemplateIds(FieldOf(json, "special_tokens"), name,
                                             behind ? &parts->suffix : &parts->prefix));
  }
  if (!behind) return absl::InvalidArgumentError("\"single\" has no text");
  return absl::OkStatus();
}

absl::Status ReadPostProcessor(const std::string& type, const nlohmann::json& json,
                               BpeTokenizerParts* parts) {
  // ByteLevel changes the offsets of tokens, but no id.
  if (type == "ByteLevel") return absl::OkStatus();
  if (type != "TemplateProcessing")
    return UnknownKind("post-processor", type, "ByteLevel, TemplateProcessing, Sequence");
  if (!parts->prefix.empty() || !parts->suffix.empty())
    return absl::UnimplementedError("two templates, of which Zeroth knows one");
  return ReadTemplate(json, parts);
}

std::optional<int32_t> IdOf(const BpeTokenizerParts& parts, absl::string_view spelling) {
  for (const AddedToken& token : parts.added_tokens) {
    if (token.content == spelling) return token.id;
  }
  for (const auto& [token, id] : parts.bpe.vocab) {
    if (token == spelling) return id;
  }
  return std::nullopt;
}

absl::StatusOr<int32_t> EndOfText(const BpeTokenizerParts& parts, const nlohmann::json& config) {
  const nlohmann::json& field = FieldOf(config, "eos_token");
  const nlohmann::json& eos = field.is_object() ? FieldOf(field, "content") : field;
  if (eos.is_string()) {
    const auto& spelling = eos.get_ref<const std::string&>();
    if (const auto id = IdOf(parts, spelling)) return *id;
    return InvalidArgument("tokenizer_config.json has eos_token \"", spelling,
                           "\", which is not in the vocabulary");
  }
  for (const char* spelling : kEndSpellings) {
    if (const auto id = IdOf(parts, spelling)) return *id;
  }
  return InvalidArgument(
      "no token that ends a text: there is no tokenizer_config.json with an "
      "\"eos_token\", and none of ",
      absl::StrJoin(kEndSpellings, ", "), " is in the vocabulary");
}

namespace fs = std::filesystem;

constexpr size_t kMaxBytes = size_t{64} << 20;

// `file`, and a tokenizer_config.json beside it.
std::vector<std::string> WithConfig(const fs::path& file) {
  std::vector<std::string> files = {file.string()};
  const fs::path config = file.parent_path() / "tokenizer_config.json";
  if (IsFile(config)) files.push_back(config.string());
  return files;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerFromJson(const nlohmann::json& json,
                                                             const nlohmann::json& config,
                                                             const TokenizerOptions& options) {
  if (!json.is_object()) return absl::InvalidArgumentError("expected a JSON object");
  BpeTokenizerParts parts;
  parts.name = "tokenizer.json";
  parts.parse_special = options.parse_special;
  if (const nlohmann::json& added = FieldOf(json, "added_tokens"); !added.is_null()) {
    if (!added.is_array()) return absl::InvalidArgumentError("\"added_tokens\" is no array");
    for (const nlohmann::json& each : added) {
      ZEROTH_ASSIGN_OR_RETURN(AddedToken token, AddedToken::FromJson(each));
      parts.added_tokens.push_back(std::move(token));
    }
  }
  ZEROTH_ASSIGN_OR_RETURN(parts.normalizer, Normalizer::FromJson(FieldOf(json, "normalizer")));
  ZEROTH_ASSIGN_OR_RETURN(parts.pre_tokenizer,
                          PreTokenizer::FromJson(FieldOf(json, "pre_tokenizer")));
  ZEROTH_RETURN_IF_ERROR_WITH(ReadModel(FieldOf(json, "model"), &parts.bpe), "model");
  ZEROTH_RETURN_IF_ERROR(ForEachPart(FieldOf(json, "post_processor"), "post_processor",
                                     "processors",
                                     [&parts](const std::string& type, const nlohmann::json& part) {
                                       return ReadPostProcessor(type, part, &parts);
                                     }));
  ZEROTH_ASSIGN_OR_RETURN(parts.decoder, TokenDecoder::FromJson(FieldOf(json, "decoder")));
  ZEROTH_ASSIGN_OR_RETURN(parts.end_of_text, EndOfText(parts, config));
  return BpeTokenizer::Create(std::move(parts));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerFromGpt2Files(const nlohmann::json& vocab,
                                                                  const std::string& merges,
                                                                  const TokenizerOptions& options) {
  BpeTokenizerParts parts;
  parts.name = "gpt2";
  parts.parse_special = options.parse_special;
  ZEROTH_RETURN_IF_ERROR_WITH(ReadVocab(vocab, &parts.bpe), "vocab.json");
  int64_t line_number = 0;
  for (absl::string_view line : absl::StrSplit(merges, '\n')) {
    ++line_number;
    if (absl::EndsWith(line, "\r")) line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && absl::StartsWith(line, "#version"))) continue;
    auto pair = SplitMerge(line);
    if (!pair) {
      return InvalidArgument("merges.txt line ", line_number, ": \"", line,
                             "\": expected two tokens separated by one space");
    }
    parts.bpe.merges.push_back(*std::move(pair));
  }
  const auto id = IdOf(parts, kEndOfTextSpelling);
  if (!id) return InvalidArgument("vocab.json: no token \"", kEndOfTextSpelling, "\"");
  parts.end_of_text = *id;
  parts.added_tokens.push_back({.id = *id, .content = kEndOfTextSpelling, .special = true});
  ZEROTH_ASSIGN_OR_RETURN(parts.pre_tokenizer, PreTokenizer::Gpt2());
  parts.decoder = TokenDecoder::ByteLevel();
  return BpeTokenizer::Create(std::move(parts));
}

absl::StatusOr<std::vector<std::string>> FindTokenizerFiles(const std::string& path) {
  const fs::path base(path);
  std::error_code ignored;
  if (!fs::is_directory(base, ignored)) {
    if (absl::EndsWith(path, ".model")) return std::vector<std::string>{path};
    if (absl::EndsWith(path, ".json")) return WithConfig(base);
    if (!fs::exists(base, ignored))
      return absl::NotFoundError(absl::StrCat(path, ": there is no such file or directory"));
    return InvalidArgument(path,
                           ": expected a directory, a tokenizer.json or a SentencePiece .model");
  }
  if (IsFile(base / "tokenizer.json")) return WithConfig(base / "tokenizer.json");
  if (IsFile(base / "tokenizer.model"))
    return std::vector<std::string>{(base / "tokenizer.model").string()};
  const fs::path vocab = base / "vocab.json";
  const fs::path merges = base / "merges.txt";
  if (IsFile(vocab) && IsFile(merges))
    return std::vector<std::string>{vocab.string(), merges.string()};
  return absl::NotFoundError(
      absl::StrCat(path, ": no tokenizer there: neither tokenizer.json, nor tokenizer.model, nor ",
                   IsFile(vocab) ? "merges.txt beside vocab.json" : "vocab.json with merges.txt"));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path,
                                                         const TokenizerOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string> files, FindTokenizerFiles(path));
  const auto named = [&files](absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer) {
    if (!tokenizer.ok()) tokenizer = Annotate(tokenizer.status(), files[0]);
    return tokenizer;
  };
  if (absl::EndsWith(files[0], ".model")) {
    ZEROTH_ASSIGN_OR_RETURN(const std::string model, ReadFile(files[0], kMaxBytes));
    return named(SentencePieceFromBytes(model, options.parse_special));
  }
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonFile(files[0]));
  if (files.size() == 2 && absl::EndsWith(files[1], "merges.txt")) {
    ZEROTH_ASSIGN_OR_RETURN(const std::string merges, ReadFile(files[1], kMaxBytes));
    return named(TokenizerFromGpt2Files(json, merges, options));
  }
  nlohmann::json config;
  if (files.size() == 2) {
    ZEROTH_ASSIGN_OR_RETURN(config, ReadJsonFile(files[1]));
  }
  return named(TokenizerFromJson(json, config, options));
}

}  // namespace zeroth
