// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The tokenizer of a model, and the files that are exported with it.

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "zeroth/checkpoint/gguf/gguf_model.h"
#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"
#include "zeroth/formats/hf_added_tokens.h"
#include "zeroth/formats/hugging_face.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/train/model_source.h"

namespace zeroth {

absl::StatusOr<std::vector<AddedToken>> NewTokensOf(const TrainOptions& options,
                                                    const std::string& path) {
  const std::vector<std::string> tokens = options.new_token_list();
  if (tokens.empty()) return std::vector<AddedToken>();
  const auto add = [&]() -> absl::StatusOr<std::vector<AddedToken>> {
    if (path.empty()) {
      return absl::InvalidArgumentError(
          "there is no tokenizer to add them to; name one by --tokenizer=PATH");
    }
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string> files, FindTokenizerFiles(path));
    if (absl::EndsWith(files[0], ".model")) {
      return NoNewTokens(IsGgufPath(options.init_from) ? options.init_from : files[0]);
    }
    ZEROTH_ASSIGN_OR_RETURN(HfTokenizer tokenizer, ReadHfTokenizer(files));
    ZEROTH_RETURN_IF_ERROR(AddNewTokens(tokens, &tokenizer));
    return std::move(tokenizer.added_tokens);
  };
  absl::StatusOr<std::vector<AddedToken>> added = add();
  return added.ok() ? std::move(added) : Annotate(added.status(), "--new_tokens");
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ModelSource::OpenTokenizer(const TrainOptions& options,
                                                                      bool has_text) const {
  const TokenizerOptions how = {options.parse_special, options.new_token_list()};
  if (options.tokenizer == "byte") return std::make_unique<ByteTokenizer>();
  if (options.tokenizer != "auto") {
    auto tokenizer = zeroth::OpenTokenizer(options.tokenizer, how);
    if (!tokenizer.ok()) return Annotate(tokenizer.status(), "--tokenizer");
    return tokenizer;
  }
  const std::vector<std::string> files = TokenizerFiles("auto");
  if (!files.empty()) {
    auto tokenizer = zeroth::OpenTokenizer(directory_->tokenizer_path(), how);
    // Token files do not need the tokenizer, so one that cannot be read is not an error.
    if (!tokenizer.ok() && !has_text) return nullptr;
    if (!tokenizer.ok()) {
      return Annotate(
          tokenizer.status(),
          absl::StrCat("no tokenizer for ", name_, " (--tokenizer names another one, or byte)"));
    }
    return tokenizer;
  }
  if (!has_text) return nullptr;
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model, Build());
  // Exports of models that were trained with --tokenizer=byte have no tokenizer files.
  if (model->vocab_size() == ByteTokenizer::kVocabSize) return std::make_unique<ByteTokenizer>();
  std::string reason;
  if (directory_.has_value()) {
    reason = directory_->tokenizer_problem().empty()
                 ? ", which has no tokenizer files"
                 : absl::StrCat(" (", directory_->tokenizer_problem(), ")");
  } else if (absl::EndsWith(options.model, ".json")) {
    const std::filesystem::path parent = std::filesystem::path(options.model).parent_path();
    const std::string beside = parent.empty() ? "." : parent.string();
    if (!FindTokenizerFiles(beside).value_or(std::vector<std::string>()).empty()) {
      reason = absl::StrCat(" (--tokenizer=", beside, " is the one beside it)");
    }
  }
  return InvalidArgument(
      "no tokenizer for ", name_, reason, ": text cannot become ids of its vocabulary of ",
      model->vocab_size(),
      ". Give --tokenizer=PATH, a directory with a tokenizer.json, a tokenizer.model, or a "
      "vocab.json and a merges.txt, or --data as token files (.npy, .bin) that the model's own "
      "tokenizer has made. To train on bytes all the same, say so: --tokenizer=byte");
}

std::vector<std::string> ModelSource::TokenizerFiles(const std::string& choice) const {
  if (choice == "byte") return {};
  if (choice == "auto") {
    return directory_.has_value() ? directory_->TokenizerFiles() : std::vector<std::string>();
  }
  std::vector<std::string> files = FindTokenizerFiles(choice).value_or(std::vector<std::string>());
  if (files.empty()) return files;
  // The chat template is not part of the tokenizer, but is exported with it; so are all other files
  // of a directory for it.
  const std::filesystem::path beside = std::filesystem::path(files[0]).parent_path();
  std::error_code ignored;
  const std::vector<std::string> more =
      std::filesystem::is_directory(choice, ignored)
          ? HfTokenizerFileNames()
          : std::vector<std::string>{"tokenizer_config.json", "chat_template.jinja"};
  for (const std::string& name : more) {
    const std::string path = (beside / name).string();
    if (IsFile(path) && std::find(files.begin(), files.end(), path) == files.end()) {
      files.push_back(path);
    }
  }
  return files;
}

absl::StatusOr<TokenizerContent> ModelSource::ReadTokenizer(const TrainOptions& options) const {
  constexpr size_t kMostBytes = size_t{64} << 20;
  TokenizerContent content;
  const std::vector<std::string> paths = TokenizerFiles(options.tokenizer);
  for (const std::string& path : paths) {
    ZEROTH_ASSIGN_OR_RETURN(content.files[path.substr(path.rfind('/') + 1)],
                            ReadFile(path, kMostBytes));
  }
  if (!paths.empty()) {
    ZEROTH_RETURN_IF_ERROR(
        FoldToolUseTemplate(std::filesystem::path(paths[0]).parent_path().string(), content.files));
  }
  if (!new_tokens_.empty()) {
    const std::string name = std::filesystem::path(paths.at(0)).filename().string();
    ZEROTH_RETURN_IF_ERROR(WriteAddedTokens(name, new_tokens_, content.files));
  }
  content.identity = absl::StrCat(options.parse_special);
  for (const auto& [name, bytes] : content.files)
    absl::StrAppend(&content.identity, " ", name, " ", ChecksumText(ChecksumOf(bytes)));
  return content;
}

nlohmann::json ModelSource::TokenIds(const Tokenizer* tokenizer) const {
  // A model that is trained from scratch gets the special tokens' ids from the tokenizer. Those of
  // the configuration that it borrowed belong to another tokenizer.
  if (!directory_.has_value() && tokenizer != nullptr) {
    return zeroth::TokenIds(nlohmann::json::object(), tokenizer);
  }
  return zeroth::TokenIds(config_, tokenizer);
}

absl::StatusOr<std::optional<std::string>> ModelSource::ReadGenerationConfig(
    const Tokenizer* tokenizer) const {
  const bool is_bytes = dynamic_cast<const ByteTokenizer*>(tokenizer) != nullptr;
  if (is_bytes || !directory_.has_value()) return std::nullopt;
  return directory_->ReadGenerationConfig();
}

nlohmann::json TokenIds(const nlohmann::json& source, const Tokenizer* tokenizer) {
  const bool is_bytes = dynamic_cast<const ByteTokenizer*>(tokenizer) != nullptr;
  nlohmann::json ids;
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    const auto found = source.find(key);
    if (!is_bytes && found != source.end()) {
      ids[key] = *found;
    } else if (tokenizer != nullptr) {
      // A tokenizer without a separate beginning token has one token for the beginning and the end.
      const int32_t end = tokenizer->end_of_text();
      ids[key] =
          key == absl::string_view("bos_token_id") ? tokenizer->begin_of_text().value_or(end) : end;
    } else {
      ids[key] = nullptr;
    }
  }
  const auto padding = source.find("pad_token_id");
  if (!is_bytes && padding != source.end()) ids["pad_token_id"] = *padding;
  return ids;
}

void AddEndOfTurn(int32_t end_of_turn, nlohmann::json& config) {
  nlohmann::json ends = {end_of_turn};
  const nlohmann::json known = config.value("eos_token_id", nlohmann::json());
  for (const nlohmann::json& id : known.is_array() ? known : nlohmann::json::array({known})) {
    if (id.is_number() && id != end_of_turn) ends.push_back(id);
  }
  config["eos_token_id"] = ends.size() == 1 ? ends[0] : ends;
}

}  // namespace zeroth
