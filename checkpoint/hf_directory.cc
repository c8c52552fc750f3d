// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/hf_directory.h"

#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/checkpoint/hf_weights.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

constexpr char kExpected[] =
    "expected a Hugging Face model directory: config.json with model.safetensors or "
    "model.safetensors.index.json";

}  // namespace

const std::vector<std::string>& HfTokenizerFileNames() {
  static const auto* const names =
      new std::vector<std::string>{"added_tokens.json", "chat_template.jinja",
                                   "merges.txt",        "special_tokens_map.json",
                                   "spiece.model",      "tokenizer.json",
                                   "tokenizer.model",   "tokenizer_config.json",
                                   "vocab.json",        "vocab.txt"};
  return *names;
}

absl::StatusOr<HfDirectory> HfDirectory::Open(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return absl::NotFoundError(
        absl::StrCat(path, ": ", error ? error.message() : "no such directory", "; ", kExpected));
  }
  if (!fs::is_directory(status)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a directory; ", kExpected));
  }
  const std::string config_path = (fs::path(path) / "config.json").string();
  if (!fs::exists(config_path, error)) {
    return absl::NotFoundError(absl::StrCat(path, ": has no config.json; ", kExpected));
  }
  ZEROTH_ASSIGN_OR_RETURN(HfConfig config, HfConfig::Load(config_path));
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<const WeightsSource> weights, HfWeights::Open(path));
  return HfDirectory(path, std::move(config), std::move(weights));
}

std::vector<std::string> HfDirectory::TokenizerFiles() const {
  std::vector<std::string> files;
  for (const std::string& name : HfTokenizerFileNames()) {
    const fs::path file = fs::path(path_) / name;
    std::error_code error;
    if (fs::is_regular_file(file, error)) files.push_back(file.string());
  }
  return files;
}

}  // namespace zeroth
