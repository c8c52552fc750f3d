// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/hf_directory.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/hf_experts.h"
#include "zeroth/checkpoint/hf_text_model.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/file/temporary_path.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/formats/hugging_face.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

// The maximum size of a file beside the weights, as in ReadJsonFile and the tokenizers' readers.
constexpr size_t kMostBytes = size_t{64} << 20;

constexpr char kExpected[] =
    "expected a Hugging Face model directory: config.json with model.safetensors or "
    "model.safetensors.index.json";

}  // namespace

bool StaysFp32(absl::string_view tensor) {
  return absl::EndsWith(tensor, ".e_score_correction_bias");
}

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
    return absl::NotFoundError(absl::StrCat(
        path, ": ", error ? error.message() : "no such directory", "; ", kExpected, HubHint(path)));
  }
  if (!fs::is_directory(status)) {
    return InvalidArgument(path, ": not a directory; ", kExpected);
  }
  const std::string config_path = (fs::path(path) / "config.json").string();
  if (!fs::exists(config_path, error)) {
    const std::string final_model = (fs::path(path) / "final").string();
    const bool is_run = fs::exists(fs::path(final_model) / "config.json", error);
    return absl::NotFoundError(
        absl::StrCat(path, ": has no config.json; ",
                     is_run ? absl::StrCat("did you mean ", final_model, "? ") : "", kExpected));
  }
  ZEROTH_ASSIGN_OR_RETURN(HfConfig config, HfConfig::Load(config_path));
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<const HfWeights> weights, HfWeights::Open(path));
  if (StacksExperts(config)) {
    ZEROTH_ASSIGN_OR_RETURN(HfSeparateExperts experts, SeparateExperts(config, std::move(weights)));
    return HfDirectory(path, std::move(experts.config), std::move(experts.weights));
  }
  if (!HasTextModel(config)) return HfDirectory(path, std::move(config), std::move(weights));
  ZEROTH_ASSIGN_OR_RETURN(HfTextModel text, ExtractTextModel(config, std::move(weights)));
  HfDirectory directory(path, std::move(text.config), std::move(text.weights));
  directory.left_out_ = std::move(text.left_out);
  return directory;
}

absl::Status HfDirectory::SetTokenizerFiles(const std::map<std::string, std::string>& files) {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  if (error) return absl::InternalError(absl::StrCat("TMPDIR: ", error.message()));
  const std::string of = (parent / "zeroth-tokenizer").string();
  RemoveDeadTemporaries(of);
  ZEROTH_ASSIGN_OR_RETURN(TemporaryPath created, CreateTemporaryDirectory(of));
  // The lock tells others that the directory is in use.
  const auto directory = std::shared_ptr<const TemporaryPath>(
      new TemporaryPath(std::move(created)), [](const TemporaryPath* temporary) {
        RemoveAll(temporary->path).IgnoreError();
        delete temporary;
      });
  for (const auto& [name, content] : files) {
    ZEROTH_RETURN_IF_ERROR(ReplaceFile((fs::path(directory->path) / name).string(), content));
  }
  tokenizer_path_ = directory->path;
  tokenizer_owner_ = path_;
  tokenizer_files_ = directory;
  return absl::OkStatus();
}

absl::Status HfDirectory::UseTokenizerOf(const std::string& directory) {
  const std::string own = std::exchange(tokenizer_path_, directory);
  const std::vector<std::string> files = TokenizerFiles();
  for (const char* name : {"tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model"}) {
    if (!IsFile((fs::path(directory) / name).string())) continue;
    tokenizer_owner_.clear();
    return absl::OkStatus();
  }
  tokenizer_path_ = own;
  if (files.empty()) return absl::OkStatus();
  std::error_code ignored;
  return InvalidArgument(files[0], ": is there without a tokenizer; copy that of the model",
                         tokenizer_owner_.empty() && fs::is_directory(own, ignored)
                             ? absl::StrCat(", ", own, ",")
                             : " (tools/convert writes it)",
                         " into this directory, or remove the file to have all of the model's");
}

std::vector<std::string> HfDirectory::TokenizerFiles() const {
  std::vector<std::string> files;
  for (const std::string& name : HfTokenizerFileNames()) {
    const std::string file = (fs::path(tokenizer_path_) / name).string();
    if (IsFile(file)) files.push_back(file);
  }
  return files;
}

absl::StatusOr<std::map<std::string, std::string>> HfDirectory::ReadTokenizerFiles() const {
  std::map<std::string, std::string> contents;
  for (const std::string& path : TokenizerFiles()) {
    ZEROTH_ASSIGN_OR_RETURN(contents[fs::path(path).filename().string()],
                            ReadFile(path, kMostBytes));
  }
  ZEROTH_RETURN_IF_ERROR(FoldToolUseTemplate(tokenizer_path_, contents));
  return contents;
}

absl::StatusOr<std::optional<std::string>> HfDirectory::ReadGenerationConfig() const {
  const std::string file = (fs::path(path_) / kGenerationConfig).string();
  if (!IsFile(file)) return std::nullopt;
  return ReadFile(file, kMostBytes);
}

namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

// Lists weight files of other formats, which are the usual reason why there are no safetensors.
std::vector<std::string> OtherWeightFiles(const std::string& directory) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (absl::EndsWith(name, ".bin") || absl::EndsWith(name, ".safetensors") ||
        absl::EndsWith(name, ".pt") || absl::EndsWith(name, ".pth") ||
        absl::EndsWith(name, ".h5") || absl::EndsWith(name, ".gguf")) {
      found.push_back(name);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Maps tensor names to file names, as the index does.
absl::StatusOr<std::map<std::string, std::string>> ReadWeightMap(const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json index, ReadJsonFile(path));
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object() || map->empty()) {
    return InvalidArgument(
        path, ": expected an object \"weight_map\" that maps tensor names to file names");
  }
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !IsPlainFileName(file.get_ref<const std::string&>())) {
      return InvalidArgument(path, ": tensor \"", tensor,
                             "\": expected the name of a file in the same directory, found ",
                             file.dump(-1, ' ', true));
    }
    files.emplace(tensor, file.get<std::string>());
  }
  return files;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HfWeights>> HfWeights::Open(const std::string& directory) {
  std::unique_ptr<HfWeights> weights(new HfWeights(directory));
  const fs::path base(directory);
  std::error_code ignored;
  if (fs::exists(base / kSingleFile, ignored)) {
    ZEROTH_RETURN_IF_ERROR(weights->AddFile(kSingleFile));
    return weights;
  }
  const std::string index = (base / kIndexFile).string();
  if (fs::exists(index, ignored)) {
    ZEROTH_RETURN_IF_ERROR(weights->OpenSharded(index));
    return weights;
  }
  if (fs::exists(base / "adapter_config.json", ignored)) {
    return absl::NotFoundError(
        absl::StrCat(directory, ": is an adapter, but has a config.json as whole models have, and ",
                     "no ", kSingleFile, "; remove its config.json to have it read as an adapter"));
  }
  const std::vector<std::string> others = OtherWeightFiles(directory);
  return absl::NotFoundError(absl::StrCat(
      directory, ": expected ", kSingleFile, " or ", kIndexFile, ", found ",
      others.empty() ? "no weights" : absl::StrJoin(others, ", "),
      others.empty() ? "" : "; save the model with safe serialization to get safetensors"));
}

absl::Status HfWeights::AddFile(const std::string& file_name) {
  ZEROTH_ASSIGN_OR_RETURN(auto file,
                          SafetensorsFile::Open((fs::path(description()) / file_name).string()));
  for (const auto& [name, entry] : file->tensors()) {
    const auto [place, inserted] = file_of_.emplace(name, file.get());
    if (!inserted) {
      return InvalidArgument("tensor \"", name, "\" is both in ", place->second->description(),
                             " and in ", file->description());
    }
    tensors_.emplace(name, entry);
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status HfWeights::OpenSharded(const std::string& index_path) {
  ZEROTH_ASSIGN_OR_RETURN(const auto weight_map, ReadWeightMap(index_path));
  std::set<std::string> file_names;
  for (const auto& [tensor, file] : weight_map) file_names.insert(file);
  for (const std::string& file_name : file_names) {
    ZEROTH_RETURN_IF_ERROR_WITH(AddFile(file_name), absl::StrCat(index_path, " lists ", file_name));
  }
  for (const auto& [tensor, file_name] : weight_map) {
    const auto found = file_of_.find(tensor);
    const std::string expected = (fs::path(description()) / file_name).string();
    if (found == file_of_.end() || found->second->description() != expected) {
      return InvalidArgument(
          index_path, ": tensor \"", tensor, "\" should be in ", file_name, ", but ",
          found == file_of_.end() ? "is in no file"
                                  : absl::StrCat("is in ", found->second->description()));
    }
  }
  for (const auto& [tensor, file] : file_of_) {
    if (weight_map.count(tensor) == 0) {
      return InvalidArgument(index_path, ": does not list tensor \"", tensor, "\" of ",
                             file->description());
    }
  }
  return absl::OkStatus();
}

absl::Status HfWeights::ReadElements(absl::string_view name, int64_t begin,
                                     absl::Span<float> out) const {
  const auto found = file_of_.find(name);
  if (found == file_of_.end()) return MissingTensor(name);
  return found->second->ReadElements(name, begin, out);
}

absl::StatusOr<std::vector<uint8_t>> HfWeights::RawBytes(absl::string_view name, int64_t begin,
                                                         int64_t end) const {
  const auto found = file_of_.find(name);
  if (found == file_of_.end()) return MissingTensor(name);
  return found->second->RawBytes(name, begin, end);
}

}  // namespace zeroth
