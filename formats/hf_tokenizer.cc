// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/formats/hf_tokenizer.h"

#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/formats/hf_added_tokens.h"
#include "zeroth/formats/hugging_face.h"
#include "zeroth/formats/json_fields.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kEndSpellings[] = {"<|endoftext|>", "<|end_of_text|>", "</s>",
                                         "<eos>",         "<|eot_id|>",      "<|im_end|>"};
constexpr size_t kMaxMergesBytes = size_t{64} << 20;

absl::Status ReadVocab(const Json& vocab, BpeParts* parts) {
  if (!vocab.is_object())
    return absl::InvalidArgumentError("\"vocab\" is not an object that maps tokens to ids");
  parts->vocab.reserve(vocab.size());
  for (const auto& [token, id] : vocab.items()) {
    constexpr auto kMost = std::numeric_limits<int32_t>::max();
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > kMost) {
      return InvalidArgument("token ", Excerpt(token), " has id ", Shorten(id.dump(-1, ' ', true)),
                             ", expected an integer in [0, 2^31)");
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

absl::Status ReadMerges(const Json& merges, BpeParts* parts) {
  parts->merges.reserve(merges.size());
  for (const Json& merge : merges) {
    std::optional<std::pair<std::string, std::string>> pair;
    if (merge.is_string()) {
      pair = SplitMerge(merge.get_ref<const std::string&>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      pair = std::make_pair(merge[0].get<std::string>(), merge[1].get<std::string>());
    }
    if (!pair) {
      return InvalidArgument("merge ", parts->merges.size() + 1,
                             " is neither \"left right\" nor [\"left\", \"right\"]");
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

absl::Status ReadModel(const Json& model, BpeParts* parts) {
  // Files of old versions do not name the type.
  std::string type = "BPE";
  if (!FieldOf(model, "type").is_null()) {
    ZEROTH_ASSIGN_OR_RETURN(type, TypeOf(model));
  }
  if (type != "BPE") return UnknownKind("model", type, "BPE");
  const Json& dropout = FieldOf(model, "dropout");
  ZEROTH_RETURN_IF_ERROR(RefuseUnless(dropout.is_null() || dropout == 0, "dropout"));
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json& field = FieldOf(model, name);
    ZEROTH_RETURN_IF_ERROR(RefuseUnless(field.is_null() || field == "", name));
  }
  if (!FieldOf(model, "unk_token").is_null()) {
    ZEROTH_ASSIGN_OR_RETURN(parts->unk_token, StringField(model, "unk_token"));
  }
  ZEROTH_ASSIGN_OR_RETURN(parts->fuse_unk, BoolField(model, "fuse_unk", false));
  ZEROTH_ASSIGN_OR_RETURN(parts->byte_fallback, BoolField(model, "byte_fallback", false));
  ZEROTH_ASSIGN_OR_RETURN(parts->ignore_merges, BoolField(model, "ignore_merges", false));
  ZEROTH_RETURN_IF_ERROR(ReadVocab(FieldOf(model, "vocab"), parts));
  ZEROTH_ASSIGN_OR_RETURN(const Json* merges, ArrayField(model, "merges"));
  return ReadMerges(*merges, parts);
}

absl::Status AppendTemplateIds(const Json& special, const std::string& name,
                               std::vector<int32_t>* ids) {
  const Json& token = FieldOf(special, name.c_str());
  ZEROTH_ASSIGN_OR_RETURN(const Json* list, ArrayField(token, "ids"));
  for (const Json& id : *list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= (uint64_t{1} << 31)) {
      return InvalidArgument("the special token ", Excerpt(name),
                             " has an id that is not an integer in [0, 2^31)");
    }
    ids->push_back(id.get<int32_t>());
  }
  return absl::OkStatus();
}

absl::Status ReadTemplate(const Json& json, HfTokenizer* result) {
  ZEROTH_ASSIGN_OR_RETURN(const Json* items, ArrayField(json, "single"));
  bool behind = false;
  for (const Json& item : *items) {
    if (!FieldOf(item, "Sequence").is_null()) {
      if (behind) return absl::UnimplementedError("\"single\" has a text twice");
      behind = true;
      continue;
    }
    ZEROTH_ASSIGN_OR_RETURN(const std::string name,
                            StringField(FieldOf(item, "SpecialToken"), "id"));
    ZEROTH_RETURN_IF_ERROR(AppendTemplateIds(FieldOf(json, "special_tokens"), name,
                                             behind ? &result->suffix : &result->prefix));
  }
  if (!behind)
    return absl::InvalidArgumentError(
        "\"single\" has no place for the text, expected a Sequence with the id A");
  return absl::OkStatus();
}

absl::Status ReadPostProcessor(const std::string& type, const Json& json, HfTokenizer* result) {
  // ByteLevel changes the offsets of tokens, but no id.
  if (type == "ByteLevel") return absl::OkStatus();
  if (type != "TemplateProcessing")
    return UnknownKind("post-processor", type, "ByteLevel, TemplateProcessing, Sequence");
  if (!result->prefix.empty() || !result->suffix.empty())
    return absl::UnimplementedError("two templates, of which Zeroth knows one");
  return ReadTemplate(json, result);
}

absl::Status ReadMergeLines(absl::string_view merges, BpeParts* parts) {
  int64_t line_number = 0;
  for (absl::string_view line : absl::StrSplit(merges, '\n')) {
    ++line_number;
    if (absl::EndsWith(line, "\r")) line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && absl::StartsWith(line, "#version"))) continue;
    auto pair = SplitMerge(line);
    if (!pair) {
      return InvalidArgument("merges.txt line ", line_number, ": ", Excerpt(line),
                             ": expected two tokens separated by one space");
    }
    parts->merges.push_back(*std::move(pair));
  }
  return absl::OkStatus();
}

// Applies the config beside vocab.json and merges.txt, with the defaults of GPT2Tokenizer.
absl::Status ReadGpt2Config(HfTokenizer* result) {
  const Json& of_class = FieldOf(result->config, "tokenizer_class");
  if (!of_class.is_null() && of_class != "GPT2Tokenizer" && of_class != "GPT2TokenizerFast") {
    return Unimplemented("tokenizer_config.json has the tokenizer_class ",
                         Shorten(of_class.dump(-1, ' ', true)),
                         ", expected GPT2Tokenizer; save it with transformers' AutoTokenizer, "
                         "which writes a tokenizer.json");
  }
  ZEROTH_ASSIGN_OR_RETURN(const bool blank, BoolField(result->config, "add_prefix_space", false));
  result->pre_tokenizer = {{"type", "ByteLevel"}, {"add_prefix_space", blank}};
  result->decoder = {{"type", "ByteLevel"}};
  // The defaults of the class.
  if (!result->config.contains("eos_token") && result->Find(kEndSpellings[0]).has_value())
    result->config["eos_token"] = kEndSpellings[0];
  ZEROTH_RETURN_IF_ERROR(AddTokensOfConfig(result));
  ZEROTH_ASSIGN_OR_RETURN(const int32_t end, result->EndOfText());
  ZEROTH_ASSIGN_OR_RETURN(const bool begins, BoolField(result->config, "add_bos_token", false));
  if (begins) {
    ZEROTH_ASSIGN_OR_RETURN(const auto bos, result->Named("bos_token"));
    result->prefix = {bos.value_or(end)};
  }
  return absl::OkStatus();
}

// Returns `files`, and the config files that exist beside the first one.
std::vector<std::string> WithConfig(std::vector<std::string> files) {
  for (const char* name : {kTokenizerConfigFile, kSpecialTokensMapFile, kAddedTokensFile}) {
    const fs::path path = fs::path(files[0]).parent_path() / name;
    if (IsFile(path)) files.push_back(path.string());
  }
  return files;
}

}  // namespace

std::optional<int32_t> HfTokenizer::Find(absl::string_view token) const {
  for (const AddedToken& added : added_tokens) {
    if (added.content == token) return added.id;
  }
  for (const auto& [known, id] : bpe.vocab) {
    if (known == token) return id;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<int32_t>> HfTokenizer::Named(const char* key) const {
  const Json& field = FieldOf(config, key);
  const Json& token = field.is_object() ? FieldOf(field, "content") : field;
  if (!token.is_string()) return std::nullopt;
  const auto& spelling = token.get_ref<const std::string&>();
  if (spelling.empty()) return std::nullopt;  // no token, as in transformers
  if (const auto id = Find(spelling)) return id;
  return InvalidArgument("tokenizer_config.json has ", key, " ", Excerpt(spelling),
                         ", which is not in the vocabulary");
}

absl::StatusOr<std::optional<int32_t>> HfTokenizer::BeginOfText() const {
  ZEROTH_ASSIGN_OR_RETURN(auto begin, Named("bos_token"));
  if (!begin && !prefix.empty()) begin = prefix.front();
  return begin;
}

absl::StatusOr<int32_t> HfTokenizer::EndOfText() const {
  ZEROTH_ASSIGN_OR_RETURN(const auto named, Named("eos_token"));
  if (named) return *named;
  for (const char* spelling : kEndSpellings) {
    if (const auto id = Find(spelling)) return *id;
  }
  return InvalidArgument(
      "no token that ends a text: there is no tokenizer_config.json with an "
      "\"eos_token\", and none of ",
      absl::StrJoin(kEndSpellings, ", "), " is in the vocabulary");
}

absl::StatusOr<HfTokenizer> ParseTokenizerJson(const Json& json, Json config) {
  if (!json.is_object()) return absl::InvalidArgumentError("expected a JSON object");
  HfTokenizer result;
  result.name = kTokenizerFile;
  result.config = std::move(config);
  if (const Json& added = FieldOf(json, "added_tokens"); !added.is_null()) {
    if (!added.is_array()) return absl::InvalidArgumentError("\"added_tokens\" is not an array");
    for (const Json& each : added) {
      ZEROTH_ASSIGN_OR_RETURN(const int64_t id, IntField(each, "id"));
      ZEROTH_ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(each, id));
      result.added_tokens.push_back(std::move(token));
    }
  }
  ZEROTH_RETURN_IF_ERROR_WITH(ReadModel(FieldOf(json, "model"), &result.bpe), "model");
  ZEROTH_RETURN_IF_ERROR(ForEachPart(FieldOf(json, "post_processor"), "post_processor",
                                     "processors", [&](const std::string& type, const Json& part) {
                                       return ReadPostProcessor(type, part, &result);
                                     }));
  result.normalizer = FieldOf(json, "normalizer");
  result.pre_tokenizer = FieldOf(json, "pre_tokenizer");
  result.decoder = FieldOf(json, "decoder");
  ZEROTH_RETURN_IF_ERROR(AddTokensOfConfig(&result));
  return result;
}

absl::StatusOr<HfTokenizer> ReadHfTokenizer(const std::vector<std::string>& files) {
  ZEROTH_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(files[0]));
  const bool has_merges = files.size() > 1 && absl::EndsWith(files[1], "merges.txt");
  ZEROTH_ASSIGN_OR_RETURN(Json config, ReadTokenizerConfig(fs::path(files[0]).parent_path()));
  if (!has_merges) {
    auto result = ParseTokenizerJson(json, std::move(config));
    return result.ok() ? std::move(result) : Annotate(result.status(), files[0]);
  }
  HfTokenizer result;
  result.name = "gpt2";
  result.config = std::move(config);
  ZEROTH_RETURN_IF_ERROR_WITH(ReadVocab(json, &result.bpe), files[0]);
  ZEROTH_ASSIGN_OR_RETURN(const std::string merges, ReadFile(files[1], kMaxMergesBytes));
  ZEROTH_RETURN_IF_ERROR_WITH(ReadMergeLines(merges, &result.bpe), files[0]);
  ZEROTH_RETURN_IF_ERROR_WITH(ReadGpt2Config(&result), files[0]);
  return result;
}

absl::StatusOr<std::vector<std::string>> FindTokenizerFiles(const std::string& path) {
  const fs::path base(path);
  std::error_code ignored;
  if (!fs::is_directory(base, ignored)) {
    if (absl::EndsWith(path, ".model")) return WithConfig({path});
    if (absl::EndsWith(path, ".json")) return WithConfig({path});
    if (!fs::exists(base, ignored))
      return absl::NotFoundError(
          absl::StrCat(path, ": there is no such file or directory", HubHint(path)));
    return InvalidArgument(path,
                           ": expected a directory, a tokenizer.json or a SentencePiece .model");
  }
  if (IsFile(base / kTokenizerFile)) return WithConfig({(base / kTokenizerFile).string()});
  if (IsFile(base / "tokenizer.model")) return WithConfig({(base / "tokenizer.model").string()});
  const fs::path vocab = base / "vocab.json";
  const fs::path merges = base / "merges.txt";
  if (IsFile(vocab) && IsFile(merges)) return WithConfig({vocab.string(), merges.string()});
  return absl::NotFoundError(
      absl::StrCat(path, ": no tokenizer there: neither tokenizer.json, nor tokenizer.model, nor ",
                   IsFile(vocab) ? "merges.txt beside vocab.json" : "vocab.json with merges.txt"));
}

}  // namespace zeroth
