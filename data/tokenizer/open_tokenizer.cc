// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/tokenizer/open_tokenizer.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/tokenizer/sentencepiece_tokenizer.h"

namespace zeroth {
namespace {

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

absl::StatusOr<std::vector<std::string>> FindTokenizerFiles(const std::string& path) {
  const fs::path base(path);
  std::error_code ignored;
  if (!fs::is_directory(base, ignored)) {
    if (absl::EndsWith(path, ".model")) return std::vector<std::string>{path};
    if (absl::EndsWith(path, ".json")) return WithConfig(base);
    if (!fs::exists(base, ignored))
      return absl::NotFoundError(absl::StrCat(path, ": there is no such file or directory"));
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a directory, a tokenizer.json or a SentencePiece .model"));
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
