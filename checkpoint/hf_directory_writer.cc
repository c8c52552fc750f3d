// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/hf_directory_writer.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/hf_experts.h"
#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

bool IsTokenizerFile(const std::string& name) {
  const std::vector<std::string>& names = HfTokenizerFileNames();
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool IsFileOf(HfDirectoryKind kind, const std::string& name) {
  if (IsTokenizerFile(name)) return true;
  if (kind == HfDirectoryKind::kAdapter) {
    return name == "adapter_config.json" || name == "adapter_model.safetensors";
  }
  return name == "config.json" || name == kGenerationConfig ||
         name == "model.safetensors.index.json" ||
         (absl::StartsWith(name, "model") && absl::EndsWith(name, ".safetensors"));
}

// How MoveIntoPlace renames a model that it replaces, before the random digits.
constexpr char kPrevious[] = ".previous-";

// OK if `path` may be replaced: it does not exist, or is a directory with only a model's files.
absl::Status CheckReplaceable(const std::string& path, HfDirectoryKind kind) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return absl::OkStatus();
  if (!fs::is_directory(status)) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, ": exists and is not a directory; name another place"));
  }
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code ignored;
    if (!IsFileOf(kind, name) || it->is_directory(ignored)) {
      return absl::AlreadyExistsError(
          absl::StrCat(path, ": holds \"", name, "\", which is not part of ",
                       kind == HfDirectoryKind::kModel ? "a model" : "an adapter",
                       ", so it is not replaced; name another directory"));
    }
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("list directory ", path));
  return absl::OkStatus();
}

// Renames `temporary` to `path`. Returns the new path of the directory that had the name before, or
// an empty string if there was none. AlreadyExists as CheckReplaceable says.
absl::StatusOr<std::string> MoveIntoPlace(const std::string& temporary, const std::string& path,
                                          HfDirectoryKind kind) {
  ZEROTH_RETURN_IF_ERROR(CheckReplaceable(path, kind));
  if (rename(temporary.c_str(), path.c_str()) == 0) return std::string();
  if (errno != ENOTEMPTY && errno != EEXIST) {
    return ErrnoStatus(errno, absl::StrCat("rename ", temporary, " to ", path));
  }
  if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0)
    return temporary;
  // Some network file systems cannot exchange. Between these two renames `path` does not exist, but
  // no model is lost.
  const std::string previous = TemporarySibling(path, "previous");
  ZEROTH_RETURN_IF_ERROR(RenamePath(path, previous));
  const absl::Status renamed = RenamePath(temporary, path);
  if (renamed.ok()) return previous;
  if (RenamePath(previous, path).ok()) return renamed;
  return absl::Status(renamed.code(),
                      absl::StrCat(renamed.message(), " (the earlier model is in ", previous, ")"));
}

// "<path>.previous-<16 digits>", to which MoveIntoPlace renames a model.
bool IsPreviousName(absl::string_view name, absl::string_view base) {
  return absl::ConsumePrefix(&name, base) && absl::ConsumePrefix(&name, kPrevious) &&
         name.size() == 16 && std::all_of(name.begin(), name.end(), absl::ascii_isxdigit);
}

// Undoes or completes the renames of a process that was killed in MoveIntoPlace: if `path` is
// missing, the earlier model gets its name back, and otherwise the earlier model is removed. A
// process that is alive between its two renames then finds its name in use, and keeps both models.
void RecoverPrevious(const std::string& path, HfDirectoryKind kind) {
  const fs::path target(path);
  const std::string base = target.filename().string();
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator it(target.parent_path(), error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().string();
    std::error_code ignored;
    if (!IsPreviousName(it->path().filename().string(), base)) continue;
    if (!fs::is_directory(it->symlink_status(ignored)) || !CheckReplaceable(name, kind).ok()) {
      continue;
    }
    found.emplace_back(fs::last_write_time(name, ignored), name);
  }
  std::sort(found.rbegin(), found.rend());  // the newest first
  const char* const config =
      kind == HfDirectoryKind::kModel ? "config.json" : "adapter_config.json";
  for (const auto& [time, name] : found) {
    const absl::StatusOr<bool> exists = PathExists(path);
    if (exists.ok() && !*exists) {
      static_cast<void>(RenamePath(name, path));
    } else if (IsFile((target / config).string())) {
      static_cast<void>(RemoveAll(name));
    }
  }
}

absl::StatusOr<int64_t> BytesOf(const TensorDeclaration& tensor) {
  const auto bytes = SafetensorsBytes(ToSafetensorsDType(tensor.dtype), tensor.shape.dims());
  if (!bytes.ok()) return Annotate(bytes.status(), absl::StrCat("tensor \"", tensor.name, "\""));
  return *bytes;
}

// Fills one file after the other in the given order, so that a layer's tensors stay together.
absl::StatusOr<std::vector<std::vector<TensorDeclaration>>> DivideIntoFiles(
    std::vector<TensorDeclaration> tensors, int64_t max_bytes) {
  std::vector<std::vector<TensorDeclaration>> files(1);
  int64_t room = max_bytes;
  for (TensorDeclaration& tensor : tensors) {
    ZEROTH_ASSIGN_OR_RETURN(const int64_t bytes, BytesOf(tensor));
    if (max_bytes > 0 && bytes > room && !files.back().empty()) {
      files.emplace_back();
      room = max_bytes;
    }
    room = std::max<int64_t>(room - bytes, 0);
    files.back().push_back(std::move(tensor));
  }
  return files;
}

// "model.safetensors", or "model-00002-of-00003.safetensors" for `index` 1 of 3.
std::string WeightFileName(size_t index, size_t count) {
  if (count == 1) return "model.safetensors";
  return absl::StrFormat("model-%05d-of-%05d.safetensors", index + 1, count);
}

// Returns the content of model.safetensors.index.json.
absl::StatusOr<std::string> WeightIndex(const std::vector<std::vector<TensorDeclaration>>& files) {
  nlohmann::json map = nlohmann::json::object();
  int64_t total = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    for (const TensorDeclaration& tensor : files[i]) {
      ZEROTH_ASSIGN_OR_RETURN(const int64_t bytes, BytesOf(tensor));
      total += bytes;
      const auto [place, fresh] = map.emplace(tensor.name, WeightFileName(i, files.size()));
      if (!fresh) {
        return InvalidArgument("tensor \"", tensor.name,
                               "\" is declared twice; expected each once");
      }
    }
  }
  const nlohmann::json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  return index.dump(2) + "\n";
}

}  // namespace

HfDirectoryWriter::HfDirectoryWriter(std::string path, TemporaryPath temporary,
                                     HfDirectoryKind kind)
    : path_(std::move(path)),
      temporary_(std::move(temporary.path)),
      lock_(std::move(temporary.file)),
      kind_(kind) {}

HfDirectoryWriter::~HfDirectoryWriter() {
  files_.clear();
  std::error_code ignored;
  if (!finished_) fs::remove_all(temporary_, ignored);
}

absl::StatusOr<std::unique_ptr<HfDirectoryWriter>> HfDirectoryWriter::Create(
    const std::string& path, const HfConfig& config, std::vector<TensorDeclaration> tensors,
    const HfDirectoryOptions& options) {
  const bool divided = options.max_shard_bytes != 0;
  if (options.max_shard_bytes < 0 || (divided && options.kind == HfDirectoryKind::kAdapter)) {
    return InvalidArgument("weight files of at most ", options.max_shard_bytes,
                           " bytes; expected 0, or for a model a positive limit");
  }
  const bool stacks = options.kind == HfDirectoryKind::kModel && StacksExperts(config);
  if (path.empty()) return absl::InvalidArgumentError("the path of a model directory is empty");
  // Renaming must move the directory, not a link to it.
  ZEROTH_ASSIGN_OR_RETURN(std::string resolved, CanonicalPath(path));
  ZEROTH_RETURN_IF_ERROR(CheckReplaceable(resolved, options.kind));
  std::error_code error;
  fs::create_directories(fs::path(resolved).parent_path(), error);
  if (error)
    return ErrnoStatus(error.value(), absl::StrCat("create directory ",
                                                   fs::path(resolved).parent_path().string()));
  RecoverPrevious(resolved, options.kind);
  RemoveDeadTemporaries(resolved);
  ZEROTH_ASSIGN_OR_RETURN(TemporaryPath temporary, CreateTemporaryDirectory(resolved));
  std::unique_ptr<HfDirectoryWriter> writer(
      new HfDirectoryWriter(std::move(resolved), std::move(temporary), options.kind));
  const fs::path base(writer->temporary_);
  const char* const config_name =
      options.kind == HfDirectoryKind::kModel ? "config.json" : "adapter_config.json";
  ZEROTH_RETURN_IF_ERROR(WriteFileDurably((base / config_name).string(), config.ToString()));
  if (stacks) {
    ZEROTH_ASSIGN_OR_RETURN(writer->stacker_, ExpertStacker::Create(&tensors));
  }
  ZEROTH_ASSIGN_OR_RETURN(auto files, DivideIntoFiles(std::move(tensors), options.max_shard_bytes));
  ZEROTH_RETURN_IF_ERROR(writer->CreateWeights(std::move(files)));
  return writer;
}

absl::Status HfDirectoryWriter::CreateWeights(std::vector<std::vector<TensorDeclaration>> files) {
  const fs::path base(temporary_);
  if (files.size() > 1) {
    ZEROTH_ASSIGN_OR_RETURN(const std::string index, WeightIndex(files));
    ZEROTH_RETURN_IF_ERROR(
        WriteFileDurably((base / "model.safetensors.index.json").string(), index));
  }
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string name = kind_ == HfDirectoryKind::kAdapter ? "adapter_model.safetensors"
                                                                : WeightFileName(i, files.size());
    const std::vector<TensorDeclaration> tensors = files[i];
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<TensorFileWriter> writer,
                            SafetensorsWriter::Create((base / name).string(), std::move(files[i])));
    for (const TensorDeclaration& tensor : tensors) file_of_[tensor.name] = writer.get();
    files_.push_back(std::move(writer));
  }
  return absl::OkStatus();
}

absl::Status HfDirectoryWriter::Write(absl::string_view name, int64_t begin,
                                      absl::Span<const float> values) {
  if (stacker_ == nullptr || !stacker_->Takes(name)) return WriteStored(name, begin, values);
  return stacker_->Write(
      name, begin, values,
      [this](absl::string_view stack, int64_t from, absl::Span<const float> of_expert) {
        return WriteStored(stack, from, of_expert);
      });
}

absl::Status HfDirectoryWriter::WriteStored(absl::string_view name, int64_t begin,
                                            absl::Span<const float> values) {
  const auto found = file_of_.find(name);
  // An undeclared tensor is in no file; the error of the first file says so.
  return (found == file_of_.end() ? files_.front().get() : found->second)
      ->Write(name, begin, values);
}

absl::Status HfDirectoryWriter::WriteTokenizerFile(const std::string& name,
                                                   absl::string_view content) {
  const bool is_generation = kind_ == HfDirectoryKind::kModel && name == kGenerationConfig;
  if (!IsTokenizerFile(name) && !is_generation) {
    return InvalidArgument(path_, ": \"", name, "\" is not the name of a tokenizer file");
  }
  return WriteFileDurably((fs::path(temporary_) / name).string(), content);
}

absl::Status HfDirectoryWriter::Finish() {
  if (finished_) return FailedPrecondition(path_, ": finished twice");
  for (const auto& file : files_) ZEROTH_RETURN_IF_ERROR(file->Finish());
  ZEROTH_RETURN_IF_ERROR(SyncDirectory(temporary_));
  // The model is complete. From here on, hours of work must not be lost because the name is in use.
  finished_ = true;
  const absl::StatusOr<std::string> previous = MoveIntoPlace(temporary_, path_, kind_);
  if (!previous.ok()) {
    // Needs another name, because a later writer deletes temporary names as leftovers.
    const std::string complete = TemporarySibling(path_, "complete");
    const bool renamed = RenamePath(temporary_, complete).ok();
    const bool kept = renamed || KeepTemporary(temporary_).ok();
    return Annotate(previous.status(),
                    absl::StrCat("the model is complete in ", renamed ? complete : temporary_,
                                 ", but cannot be renamed",
                                 kept ? "" : "; move it, before the next writer removes it"));
  }
  // Syncs before the old files are removed: otherwise a power failure may undo the rename, but not
  // their removal.
  ZEROTH_RETURN_IF_ERROR(SyncDirectory(fs::path(path_).parent_path().string()));
  if (previous->empty()) return absl::OkStatus();
  ZEROTH_RETURN_IF_ERROR_WITH(RemoveAll(*previous), "the replaced model");
  return absl::OkStatus();
}

absl::StatusOr<HfConfig> WithDType(const HfConfig& config, DType dtype) {
  nlohmann::json json = config.json();
  // Newer versions of transformers read "dtype" first, older ones "torch_dtype" alone.
  if (config.Has("dtype")) json["dtype"] = TorchDTypeName(dtype);
  if (config.Has("torch_dtype") || !config.Has("dtype"))
    json["torch_dtype"] = TorchDTypeName(dtype);
  return HfConfig::Parse(json.dump(), config.where());
}

absl::Status WriteHfDirectory(const WeightsSource& source, HfConfig config,
                              std::vector<TensorCopy> copies,
                              const std::map<std::string, std::string>& tokenizer_files,
                              const std::string& directory, const HfConvertOptions& options) {
  for (TensorCopy& copy : copies) {
    std::optional<DType> dtype = options.dtype;
    if (dtype.has_value() && StaysFp32(copy.to)) dtype = DType::kFloat32;
    ZEROTH_ASSIGN_OR_RETURN(copy.dtype, CopiedDType(source, copy.from, dtype));
  }
  ZEROTH_ASSIGN_OR_RETURN(std::vector<TensorDeclaration> tensors, DeclareCopies(source, copies));
  // PEFT's adapter_config.json has no such key.
  if (options.dtype && options.directory.kind == HfDirectoryKind::kModel) {
    ZEROTH_ASSIGN_OR_RETURN(config, WithDType(config, *options.dtype));
  }
  ZEROTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<HfDirectoryWriter> writer,
      HfDirectoryWriter::Create(directory, config, std::move(tensors), options.directory));
  for (const auto& [name, content] : tokenizer_files) {
    ZEROTH_RETURN_IF_ERROR(writer->WriteTokenizerFile(name, content));
  }
  ZEROTH_RETURN_IF_ERROR(CopyTensors(
      source, copies, [&](absl::string_view name, int64_t begin, absl::Span<const float> values) {
        return writer->Write(name, begin, values);
      }));
  return writer->Finish();
}

absl::Status ConvertHfToHf(const HfDirectory& model, const std::string& directory,
                           const HfConvertOptions& options) {
  std::vector<TensorCopy> copies;
  for (const std::string& name : model.weights().names()) {
    TensorCopy& copy = copies.emplace_back();
    copy.from = name;
    copy.to = name;
  }
  ZEROTH_ASSIGN_OR_RETURN(auto files, model.ReadTokenizerFiles());
  ZEROTH_ASSIGN_OR_RETURN(const std::optional<std::string> generation,
                          model.ReadGenerationConfig());
  if (generation.has_value()) files[kGenerationConfig] = *generation;
  return WriteHfDirectory(model.weights(), model.config(), std::move(copies), files, directory,
                          options);
}

}  // namespace zeroth
