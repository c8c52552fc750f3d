// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/tokenizer/open_tokenizer.h"

#include <filesystem>
#include <utility>

#include "absl/strings/match.h"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/tokenizer/bpe_tokenizer.h"
#include "zeroth/formats/hf_added_tokens.h"

namespace zeroth {
namespace {

constexpr size_t kMaxBytes = size_t{64} << 20;

absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerOf(HfTokenizer files,
                                                       const TokenizerOptions& options) {
  BpeTokenizerParts parts;
  parts.parse_special = options.parse_special;
  ZEROTH_ASSIGN_OR_RETURN(parts.normalizer, Normalizer::FromJson(files.normalizer));
  ZEROTH_ASSIGN_OR_RETURN(parts.pre_tokenizer, PreTokenizer::FromJson(files.pre_tokenizer));
  ZEROTH_ASSIGN_OR_RETURN(parts.decoder, TokenDecoder::FromJson(files.decoder));
  ZEROTH_ASSIGN_OR_RETURN(parts.begin_of_text, files.BeginOfText());
  ZEROTH_ASSIGN_OR_RETURN(parts.end_of_text, files.EndOfText());
  parts.name = std::move(files.name);
  parts.added_tokens = std::move(files.added_tokens);
  parts.bpe = std::move(files.bpe);
  parts.prefix = std::move(files.prefix);
  parts.suffix = std::move(files.suffix);
  return BpeTokenizer::Create(std::move(parts));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerFromJson(const nlohmann::json& json,
                                                             const nlohmann::json& config,
                                                             const TokenizerOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(HfTokenizer files, ParseTokenizerJson(json, config));
  return TokenizerOf(std::move(files), options);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path,
                                                         const TokenizerOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string> paths, FindTokenizerFiles(path));
  const auto named = [&paths](absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer) {
    if (!tokenizer.ok()) tokenizer = Annotate(tokenizer.status(), paths[0]);
    return tokenizer;
  };
  if (absl::EndsWith(paths[0], ".model")) {
    if (!options.new_tokens.empty()) return NoNewTokens(paths[0]);
    ZEROTH_ASSIGN_OR_RETURN(const std::string model, ReadFile(paths[0], kMaxBytes));
    ZEROTH_ASSIGN_OR_RETURN(
        const nlohmann::json config,
        ReadTokenizerConfig(std::filesystem::path(paths[0]).parent_path().string()));
    return named(SentencePieceFromBytes(model, config, options.parse_special));
  }
  ZEROTH_ASSIGN_OR_RETURN(HfTokenizer files, ReadHfTokenizer(paths));
  ZEROTH_RETURN_IF_ERROR_WITH(AddNewTokens(options.new_tokens, &files), paths[0]);
  return named(TokenizerOf(std::move(files), options));
}

}  // namespace zeroth
