// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/formats/hf_added_tokens.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/formats/json_fields.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// In the order in which transformers adds them.
constexpr const char* kNamedTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
constexpr char kDecoder[] = "added_tokens_decoder";
constexpr char kExtra[] = "extra_special_tokens";
constexpr char kAdditional[] = "additional_special_tokens";

// Reads a special token, which the files spell as a string or as an object with flags.
absl::StatusOr<AddedToken> ReadSpecialToken(const Json& json, const std::string& key) {
  AddedToken token;
  if (json.is_string()) {
    token.content = json.get<std::string>();
  } else {
    auto read = ReadAddedToken(json, 0);
    if (!read.ok()) return Annotate(read.status(), key);
    token = *std::move(read);
  }
  token.special = true;
  return token;
}

// Returns the special tokens that a config names: "eos_token" and the like, and those of one model,
// such as "image_token".
absl::StatusOr<std::vector<AddedToken>> NamedTokens(const Json& config) {
  std::vector<std::string> keys(std::begin(kNamedTokens), std::end(kNamedTokens));
  for (const auto& [key, value] : config.items()) {
    const bool is_named = std::find(keys.begin(), keys.end(), key) != keys.end();
    const bool is_token = value.is_string() || value.is_object();
    if (absl::EndsWith(key, "_token") && is_token && !is_named) keys.push_back(key);
  }
  std::vector<AddedToken> tokens;
  const auto add = [&tokens](const Json& json, const std::string& key) -> absl::Status {
    if (json.is_null()) return absl::OkStatus();
    ZEROTH_ASSIGN_OR_RETURN(AddedToken token, ReadSpecialToken(json, key));
    tokens.push_back(std::move(token));
    return absl::OkStatus();
  };
  for (const std::string& key : keys)
    ZEROTH_RETURN_IF_ERROR(add(FieldOf(config, key.c_str()), key));
  const Json& extra = FieldOf(config, kExtra);
  if (extra.is_object()) {
    for (const auto& [key, json] : extra.items()) ZEROTH_RETURN_IF_ERROR(add(json, key));
  }
  return tokens;
}

// Returns the special tokens that have no name.
absl::StatusOr<std::vector<AddedToken>> ExtraTokens(const Json& config) {
  const Json& extra = FieldOf(config, kExtra);
  const char* const key = extra.empty() ? kAdditional : kExtra;
  const Json& list = FieldOf(config, key);
  std::vector<AddedToken> tokens;
  if (list.is_null() || list.is_object()) return tokens;
  if (!list.is_array()) {
    return InvalidArgument("\"", key, "\" is ", Shorten(list.dump(-1, ' ', true)),
                           ", expected a list of tokens");
  }
  for (const Json& each : list) {
    ZEROTH_ASSIGN_OR_RETURN(AddedToken token, ReadSpecialToken(each, key));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// Adds tokens and assigns their ids.
class TokenAdder {
 public:
  explicit TokenAdder(HfTokenizer* tokenizer) : tokens_(&tokenizer->added_tokens) {
    for (size_t i = 0; i < tokens_->size(); ++i) {
      place_.emplace((*tokens_)[i].content, i);
      most_ = std::max(most_, (*tokens_)[i].id);
    }
    for (const auto& [token, id] : tokenizer->bpe.vocab) vocab_.emplace(token, id);
  }

  // Null if `content` is not an added token.
  AddedToken* Find(absl::string_view content) {
    const auto found = place_.find(content);
    return found == place_.end() ? nullptr : &(*tokens_)[found->second];
  }

  // Adds a token. If it was added before, only replaces its flags. Otherwise it gets its id in the
  // vocabulary, or the next free id if it is not there; with `keeps_id` it keeps token.id.
  const AddedToken& Add(AddedToken token, bool keeps_id = false) {
    if (AddedToken* const known = Find(token.content)) {
      token.id = known->id;
      return *known = std::move(token);
    }
    const auto in_vocab = vocab_.find(token.content);
    const auto size = static_cast<int32_t>(vocab_.size());
    if (!keeps_id)
      token.id = in_vocab != vocab_.end() ? in_vocab->second : std::max(most_ + 1, size);
    most_ = std::max(most_, token.id);
    place_.emplace(token.content, tokens_->size());
    tokens_->push_back(std::move(token));
    return tokens_->back();
  }

 private:
  std::vector<AddedToken>* tokens_;
  int32_t most_ = -1;
  absl::flat_hash_map<std::string, size_t> place_;
  absl::flat_hash_map<absl::string_view, int32_t> vocab_;
};

// Reads "added_tokens_decoder"; the result is keyed by id.
absl::StatusOr<std::map<int32_t, AddedToken>> ReadDecoder(const Json& decoder) {
  std::map<int32_t, AddedToken> tokens;
  for (const auto& [id, json] : decoder.items()) {
    int32_t number = -1;
    if (!absl::SimpleAtoi(id, &number))
      return InvalidArgument("\"", kDecoder, "\" has the key ", Excerpt(id), ", expected an id");
    ZEROTH_ASSIGN_OR_RETURN(tokens[number], ReadAddedToken(json, number));
  }
  return tokens;
}

// Builds an "added_tokens_decoder" from added_tokens.json, which maps tokens to ids.
absl::StatusOr<Json> DecoderOf(const Json& ids, const Json& config) {
  if (!ids.is_object()) return absl::InvalidArgumentError("expected an object of tokens and ids");
  ZEROTH_ASSIGN_OR_RETURN(std::vector<AddedToken> special, NamedTokens(config));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<AddedToken> extra, ExtraTokens(config));
  special.insert(special.end(), extra.begin(), extra.end());
  Json decoder = Json::object();
  for (const auto& [token, id] : ids.items()) {
    if (!id.is_number_unsigned()) {
      return InvalidArgument("token ", Excerpt(token), " has id ", Shorten(id.dump(-1, ' ', true)),
                             ", expected a number");
    }
    const bool is_special =
        std::any_of(special.begin(), special.end(),
                    [&content = token](const AddedToken& each) { return each.content == content; });
    decoder[std::to_string(id.get<uint64_t>())] = {{"content", token}, {"special", is_special}};
  }
  return decoder;
}

}  // namespace

absl::StatusOr<AddedToken> ReadAddedToken(const Json& json, int64_t id) {
  AddedToken token;
  ZEROTH_ASSIGN_OR_RETURN(token.content, StringField(json, "content"));
  if (id < 0 || id >= std::numeric_limits<int32_t>::max()) {
    return InvalidArgument(Excerpt(token.content), " has id ", id,
                           ", expected an integer in [0, 2^31 - 1)");
  }
  token.id = static_cast<int32_t>(id);
  ZEROTH_ASSIGN_OR_RETURN(token.single_word, BoolField(json, "single_word", false));
  ZEROTH_ASSIGN_OR_RETURN(token.lstrip, BoolField(json, "lstrip", false));
  ZEROTH_ASSIGN_OR_RETURN(token.rstrip, BoolField(json, "rstrip", false));
  ZEROTH_ASSIGN_OR_RETURN(token.special, BoolField(json, "special", false));
  ZEROTH_ASSIGN_OR_RETURN(token.normalized, BoolField(json, "normalized", !token.special));
  return token;
}

nlohmann::ordered_json JsonOf(const AddedToken& token) {
  return {{"content", token.content},       {"single_word", token.single_word},
          {"lstrip", token.lstrip},         {"rstrip", token.rstrip},
          {"normalized", token.normalized}, {"special", token.special}};
}

absl::Status AddTokensOfConfig(HfTokenizer* tokenizer, bool keeps_ids) {
  const Json& config = tokenizer->config;
  ZEROTH_ASSIGN_OR_RETURN(auto decoder, ReadDecoder(FieldOf(config, kDecoder)));
  ZEROTH_ASSIGN_OR_RETURN(std::vector<AddedToken> named, NamedTokens(config));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<AddedToken> extra, ExtraTokens(config));
  TokenAdder adder(tokenizer);
  for (auto& [id, token] : decoder) {
    const AddedToken& added = adder.Add(std::move(token), keeps_ids);
    if (added.id == id) continue;
    return InvalidArgument("the files beside it give the token ", Excerpt(added.content),
                           " the id ", id, ", and transformers gives it ", added.id,
                           ", its own or the next free one; fix the id in tokenizer_config.json "
                           "or added_tokens.json");
  }
  for (AddedToken& token : named) {
    if (token.content.empty()) continue;
    if (AddedToken* const known = adder.Find(token.content)) {
      known->special = true;
    } else {
      adder.Add(std::move(token));
    }
  }
  for (const AddedToken& token : extra) {
    if (!token.content.empty() && adder.Find(token.content) == nullptr) adder.Add(token);
  }
  return absl::OkStatus();
}

absl::Status NoNewTokens(absl::string_view file) {
  return Unimplemented(file,
                       " cannot get new tokens, only a tokenizer.json can; save it with "
                       "transformers' AutoTokenizer, which writes one");
}

absl::Status AddNewTokens(absl::Span<const std::string> contents, HfTokenizer* tokenizer) {
  if (contents.empty()) return absl::OkStatus();
  if (tokenizer->name != kTokenizerFile) return NoNewTokens("vocab.json");
  TokenAdder adder(tokenizer);
  for (const std::string& content : contents) {
    if (ValidUtf8Length(content) != content.size()) {
      return InvalidArgument(Excerpt(content), " is not UTF-8");
    }
    if (const auto id = tokenizer->Find(content); id.has_value()) {
      return InvalidArgument(Excerpt(content), " is a token already, with the id ", *id,
                             "; leave it out");
    }
    AddedToken token;
    token.content = content;
    token.special = true;
    adder.Add(std::move(token));
  }
  return absl::OkStatus();
}

absl::Status WriteAddedTokens(const std::string& name, std::vector<AddedToken> tokens,
                              std::map<std::string, std::string>& files) {
  using OrderedJson = nlohmann::ordered_json;
  std::sort(tokens.begin(), tokens.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  ZEROTH_ASSIGN_OR_RETURN(OrderedJson json, ParseOrderedJson(files[name], name));
  OrderedJson& list = json["added_tokens"];
  if (list.is_null()) list = OrderedJson::array();
  std::set<std::string> known;
  for (const OrderedJson& token : list) known.insert(token.value("content", ""));
  for (const AddedToken& token : tokens) {
    if (known.count(token.content) > 0) continue;
    OrderedJson entry = {{"id", token.id}};
    entry.update(JsonOf(token));
    list.push_back(std::move(entry));
  }
  files[name] = json.dump(2);
  const auto config = files.find(kTokenizerConfigFile);
  if (config == files.end()) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(json, ParseOrderedJson(config->second, kTokenizerConfigFile));
  if (!json.contains(kDecoder)) return absl::OkStatus();
  OrderedJson& decoder = json[kDecoder];
  for (const AddedToken& token : tokens) {
    const std::string id = std::to_string(token.id);
    if (!decoder.contains(id)) decoder[id] = JsonOf(token);
  }
  config->second = json.dump(2);
  return absl::OkStatus();
}

absl::StatusOr<Json> ReadTokenizerConfig(const std::string& directory) {
  const auto read = [&directory](const char* name) -> absl::StatusOr<Json> {
    const std::string path = (fs::path(directory) / name).string();
    if (!IsFile(path)) return Json();
    ZEROTH_ASSIGN_OR_RETURN(Json json, ReadJsonFile(path));
    if (!json.is_object()) return InvalidArgument(path, ": expected a JSON object");
    return json;
  };
  ZEROTH_ASSIGN_OR_RETURN(Json config, read(kTokenizerConfigFile));
  // With an "added_tokens_decoder", transformers reads neither of the other files.
  if (config.contains(kDecoder)) return config;
  ZEROTH_ASSIGN_OR_RETURN(const Json map, read(kSpecialTokensMapFile));
  for (const auto& [key, value] : map.items()) {
    if (key == kAdditional && (config.contains(kExtra) || config.contains(kAdditional))) continue;
    // transformers joins the two lists of this name.
    if (key == kExtra && value.is_array() && config.contains(kExtra) && config[kExtra].is_array()) {
      Json& extra = config[kExtra];
      for (const Json& token : value) {
        if (std::find(extra.begin(), extra.end(), token) == extra.end()) extra.push_back(token);
      }
      continue;
    }
    config[key] = value;
  }
  ZEROTH_ASSIGN_OR_RETURN(const Json ids, read(kAddedTokensFile));
  if (ids.is_null()) return config;
  auto decoder = DecoderOf(ids, config);
  if (!decoder.ok())
    return Annotate(decoder.status(), (fs::path(directory) / kAddedTokensFile).string());
  config[kDecoder] = *std::move(decoder);
  return config;
}

}  // namespace zeroth
