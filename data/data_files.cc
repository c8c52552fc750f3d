// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/data_files.h"

#include <glob.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/file_kind.h"
#include "zeroth/data/sequential_file.h"
#include "zeroth/data/token_file.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

bool IsMegatronIndex(const std::string& path) {
  const absl::StatusOr<RandomAccessFile> file = RandomAccessFile::Open(path);
  if (!file.ok()) return false;
  const absl::StatusOr<std::vector<uint8_t>> head = file->ReadHead(kFileHeadBytes);
  return head.ok() && HasMegatronMagic(*head);
}

absl::StatusOr<FileKind> ProbeCompressed(const std::string& path, Compression compression) {
  std::string head(kFileHeadBytes, '\0');
  const auto read = [&]() -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(SequentialFile file, SequentialFile::Open(path, compression));
    ZEROTH_ASSIGN_OR_RETURN(
        const size_t count,
        file.Read(absl::MakeSpan(reinterpret_cast<uint8_t*>(head.data()), head.size())));
    head.resize(count);
    return absl::OkStatus();
  };
  const absl::Status status = read();
  if (status.ok()) return CompressedFileKindOf(path, compression, head);
  if (!absl::IsInvalidArgument(status) && !absl::IsUnimplemented(status)) return status;
  return UnreadableFileKind(path, status.message());
}

absl::StatusOr<FileKind> ProbeFile(const std::string& path) {
  // Such a .bin file has no header, so the index alone tells.
  if (absl::EndsWith(path, ".bin") && IsMegatronIndex(MegatronIndexPath(path)))
    return FileKind{.kind = DataFileKind::kMegatron, .refusal = ""};
  ZEROTH_ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(path));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<uint8_t> head, file.ReadHead(kFileHeadBytes));
  const absl::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  const Compression compression = CompressionOf(text);
  return compression == Compression::kNone ? FileKindOf(path, text)
                                           : ProbeCompressed(path, compression);
}

// A Megatron-LM dataset goes by the name of its .bin file.
DataFile FileOfKind(const std::string& path, const FileKind& found) {
  const bool is_index = found.kind == DataFileKind::kMegatron && absl::EndsWith(path, ".idx");
  return {is_index ? MegatronTokensPath(path) : path, *found.kind, found.compression};
}

// Removes the .idx files whose .bin file is among the sorted paths.
void RemoveIndices(std::vector<std::string>& paths) {
  const std::vector<std::string> all = paths;
  std::erase_if(paths, [&all](const std::string& path) {
    return absl::EndsWith(path, ".idx") &&
           std::binary_search(all.begin(), all.end(), MegatronTokensPath(path)) &&
           IsMegatronIndex(path);
  });
}

absl::Status AddNamedFile(const std::string& path, std::vector<DataFile>* files) {
  ZEROTH_ASSIGN_OR_RETURN(const FileKind found, ProbeFile(path));
  if (!found.kind) return absl::InvalidArgumentError(found.refusal);
  files->push_back(FileOfKind(path, found));
  return absl::OkStatus();
}

bool IsHidden(const fs::path& path) { return absl::StartsWith(path.filename().string(), "."); }

// Links to directories are not entered, since they may lead back: they are added to `left_out`.
absl::StatusOr<std::vector<std::string>> ListFiles(const std::string& directory,
                                                   std::vector<std::string>& left_out) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (IsHidden(it->path())) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file(ignored)) {
      paths.push_back(it->path().string());
    } else if (it->is_symlink(ignored) && it->is_directory(ignored)) {
      left_out.push_back(it->path().string());
    }
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("list directory ", directory));
  std::sort(paths.begin(), paths.end());
  return paths;
}

using Skips = absl::FunctionRef<bool(const std::string& path)>;

absl::Status AddDirectory(const std::string& directory, Skips skips, std::vector<DataFile>* files,
                          std::vector<std::string>& left_out) {
  ZEROTH_ASSIGN_OR_RETURN(std::vector<std::string> paths, ListFiles(directory, left_out));
  std::erase_if(paths, skips);
  RemoveIndices(paths);
  const size_t before = files->size();
  std::string first_refusal;
  for (const std::string& path : paths) {
    ZEROTH_ASSIGN_OR_RETURN(const FileKind found, ProbeFile(path));
    if (found.kind) {
      files->push_back(FileOfKind(path, found));
    } else if (found.holds_data) {
      return absl::InvalidArgumentError(found.refusal);
    } else {
      left_out.push_back(path);
      if (first_refusal.empty()) first_refusal = absl::StrCat("; ", found.refusal);
    }
  }
  // Beside parquet, text describes the data: README.md, LICENSE.
  const auto first = files->begin() + static_cast<ptrdiff_t>(before);
  if (std::any_of(first, files->end(),
                  [](const DataFile& file) { return file.kind == DataFileKind::kParquet; })) {
    const auto kept = std::stable_partition(
        first, files->end(), [](const DataFile& file) { return file.kind != DataFileKind::kText; });
    for (auto file = kept; file != files->end(); ++file) left_out.push_back(file->path);
    files->erase(kept, files->end());
  }
  if (files->size() > before) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat(directory, ": ",
                   paths.empty() ? "no files, expected "
                                 : absl::StrCat(paths.size(), " files, none of which is "),
                   "text, JSON lines, parquet, a NumPy .npy file, an llm.c .bin "
                   "shard or a Megatron-LM .bin with its .idx",
                   first_refusal));
}

absl::StatusOr<std::vector<std::string>> MatchPattern(const std::string& pattern) {
  glob_t matches = {};
  const int result = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches);
  std::vector<std::string> paths;
  for (size_t i = 0; result == 0 && i < matches.gl_pathc; ++i) {
    // Directories among the matches of "corpus/*" are skipped.
    std::error_code ignored;
    if (!fs::is_directory(matches.gl_pathv[i], ignored)) paths.emplace_back(matches.gl_pathv[i]);
  }
  globfree(&matches);
  if (result == GLOB_NOSPACE)
    return absl::ResourceExhaustedError(absl::StrCat("no memory to match ", pattern));
  if (paths.empty()) return absl::NotFoundError(absl::StrCat(pattern, ": matches no file"));
  // glob's order depends on the locale.
  std::sort(paths.begin(), paths.end());
  RemoveIndices(paths);
  return paths;
}

absl::Status AddItem(const std::string& item, Skips skips, std::vector<DataFile>* files,
                     std::vector<std::string>& left_out) {
  std::error_code ignored;
  const fs::file_status status = fs::status(item, ignored);
  if (fs::is_directory(status)) return AddDirectory(item, skips, files, left_out);
  const bool exists = fs::exists(status);
  // Megatron-LM's own name for CORPUS.bin and CORPUS.idx.
  if (!exists && IsMegatronIndex(absl::StrCat(item, ".idx")))
    return AddNamedFile(absl::StrCat(item, ".bin"), files);
  if (exists || item.find_first_of("*?[") == std::string::npos) return AddNamedFile(item, files);
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string> paths, MatchPattern(item));
  for (const std::string& path : paths) {
    if (!skips(path)) ZEROTH_RETURN_IF_ERROR(AddNamedFile(path, files));
  }
  return absl::OkStatus();
}

}  // namespace

std::string DescribeFiles(const std::vector<DataFile>& files) {
  return files.size() == 1 ? files[0].path
                           : absl::StrCat(files[0].path, " and ", files.size() - 1, " more");
}

std::string DescribeLeftOut(const std::vector<std::string>& left_out) {
  constexpr size_t kShown = 3;
  const size_t shown = std::min(kShown, left_out.size());
  return absl::StrCat(
      "empty and binary files, JSON objects of several lines, text beside parquet and links to "
      "directories are left out: ",
      absl::StrJoin(left_out.begin(), left_out.begin() + static_cast<ptrdiff_t>(shown), ", "),
      shown < left_out.size() ? absl::StrCat(" and ", left_out.size() - shown, " more") : "");
}

absl::StatusOr<std::vector<WeightedSpec>> SplitWeights(const std::string& spec) {
  std::error_code ignored;
  if (fs::exists(spec, ignored)) return std::vector<WeightedSpec>{{spec, 1}};
  std::vector<WeightedSpec> parts;
  size_t weighted = 0;
  for (const absl::string_view item : absl::StrSplit(spec, ',')) {
    const size_t colon = item.rfind(':');
    double weight = 1;
    const bool has_weight = colon != absl::string_view::npos &&
                            !fs::exists(std::string(item), ignored) &&
                            absl::SimpleAtod(item.substr(colon + 1), &weight);
    if (has_weight && !(weight > 0 && std::isfinite(weight))) {
      return InvalidArgument("\"", item, "\": a weight of ", item.substr(colon + 1),
                             ", expected a number above 0; leave out what is not to be trained on");
    }
    weighted += has_weight ? 1 : 0;
    parts.push_back({std::string(has_weight ? item.substr(0, colon) : item), weight});
  }
  if (weighted == 0) return std::vector<WeightedSpec>{{spec, 1}};
  if (weighted == parts.size()) return parts;
  return InvalidArgument(
      "\"", spec,
      "\": some parts have a weight and others have none; expected NAME:WEIGHT for each, "
      "or for none");
}

absl::StatusOr<std::vector<DataFile>> FindDataFiles(const std::string& spec,
                                                    std::vector<std::string>* left_out,
                                                    Skips skips) {
  std::vector<std::string> items = {spec};
  std::error_code ignored;
  if (!fs::exists(spec, ignored)) items = absl::StrSplit(spec, ',');
  std::vector<DataFile> files;
  std::vector<std::string> not_read;
  for (const std::string& item : items) {
    if (item.empty()) {
      return InvalidArgument("\"", spec,
                             "\": expected paths separated by commas, found an empty one");
    }
    ZEROTH_RETURN_IF_ERROR(AddItem(item, skips, &files, not_read));
  }
  if (files.empty()) return absl::NotFoundError(absl::StrCat(spec, ": no file is left to read"));
  const bool text = IsText(files[0].kind);
  for (const DataFile& file : files) {
    if (IsText(file.kind) == text) continue;
    return InvalidArgument(
        "text and token files cannot be mixed: ", text ? files[0].path : file.path, " is text, ",
        text ? file.path : files[0].path,
        " holds tokens; give each a weight, as in a.txt:1,b.npy:1, to mix their sequences");
  }
  std::sort(not_read.begin(), not_read.end());
  if (left_out != nullptr) *left_out = std::move(not_read);
  return files;
}

}  // namespace zeroth
