// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/sharded/checkpoint_directory.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "step-";
constexpr char kUnfinished[] = ".unfinished-";
constexpr char kDeleted[] = ".deleted-";
constexpr char kAside[] = "set-aside-";

// Lists the names of the directories in `directory`; none if it does not exist.
absl::StatusOr<std::vector<std::string>> Subdirectories(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code unknown;
    if (it->is_directory(unknown)) names.push_back(it->path().filename().string());
    // An entry that cannot be read (ESTALE) may be the newest checkpoint; one that is gone is not.
    if (unknown && unknown != std::errc::no_such_file_or_directory) {
      return ErrnoStatus(unknown.value(), absl::StrCat("look at ", it->path().string()));
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return ErrnoStatus(error.value(), absl::StrCat("list directory ", directory));
  }
  return names;
}

// Renames `name` to a name that RemoveCheckpointLeftovers knows, then removes it.
absl::Status Delete(const std::string& directory, const std::string& name,
                    const std::string& dead) {
  const std::string doomed = TemporarySibling(absl::StrCat(directory, "/", kDeleted, dead), "tmp");
  ZEROTH_RETURN_IF_ERROR(RenamePath(absl::StrCat(directory, "/", name), doomed));
  // A power failure may otherwise undo the rename and not the removal.
  ZEROTH_RETURN_IF_ERROR(SyncDirectory(directory));
  return RemoveAll(doomed);
}

}  // namespace

std::string CheckpointName(int64_t step) { return absl::StrFormat("%s%08d", kPrefix, step); }

std::optional<int64_t> ParseCheckpointName(absl::string_view name) {
  absl::string_view digits = name;
  int64_t step = 0;
  if (!absl::ConsumePrefix(&digits, kPrefix) || !absl::SimpleAtoi(digits, &step)) return {};
  // Each step has one name, so signs, spaces and other numbers of zeros are refused.
  return step >= 0 && CheckpointName(step) == name ? std::optional(step) : std::nullopt;
}

std::string CheckpointPath(const std::string& directory, int64_t step) {
  return absl::StrCat(directory, "/", CheckpointName(step));
}

std::string UnfinishedCheckpointPath(const std::string& directory, int64_t step) {
  return absl::StrCat(directory, "/", kUnfinished, CheckpointName(step));
}

absl::StatusOr<std::vector<int64_t>> ListCheckpoints(const std::string& directory) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string> names, Subdirectories(directory));
  std::vector<int64_t> steps;
  for (const std::string& name : names) {
    if (const std::optional<int64_t> step = ParseCheckpointName(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

absl::Status ValidateRetention(const RetentionOptions& options) {
  if (options.keep_last >= 0 && options.keep_every >= 0) return absl::OkStatus();
  return InvalidArgument("retention of checkpoints: keep_last = ", options.keep_last,
                         ", keep_every = ", options.keep_every, "; expected at least 0");
}

std::vector<int64_t> SuperfluousCheckpoints(const std::vector<int64_t>& steps,
                                            const RetentionOptions& options) {
  std::vector<int64_t> superfluous;
  if (options.keep_last == 0) return superfluous;
  const auto keep = static_cast<size_t>(options.keep_last);
  for (size_t i = 0; i + keep < steps.size(); ++i) {
    const bool is_kept = options.keep_every > 0 && steps[i] % options.keep_every == 0;
    if (!is_kept) superfluous.push_back(steps[i]);
  }
  return superfluous;
}

absl::Status DeleteCheckpoint(const std::string& directory, int64_t step) {
  return Delete(directory, CheckpointName(step), CheckpointName(step));
}

absl::StatusOr<std::vector<std::string>> ListSetAside(const std::string& directory) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string> names, Subdirectories(directory));
  // ((step, number of the copy of that step), name).
  std::vector<std::pair<std::pair<int64_t, int64_t>, std::string>> found;
  for (const std::string& name : names) {
    absl::string_view rest = name;
    if (!absl::ConsumePrefix(&rest, kAside)) continue;
    int64_t time = 1;
    if (const size_t dash = rest.find('-', sizeof(kPrefix) - 1); dash != absl::string_view::npos) {
      if (!absl::SimpleAtoi(rest.substr(dash + 1), &time)) continue;
      rest = rest.substr(0, dash);
    }
    if (const auto step = ParseCheckpointName(rest)) found.push_back({{*step, time}, name});
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> sorted;
  for (auto& [age, name] : found) sorted.push_back(std::move(name));
  return sorted;
}

absl::StatusOr<std::vector<std::string>> DeleteSuperfluousSetAside(
    const std::string& directory, const RetentionOptions& options) {
  std::vector<std::string> deleted;
  if (options.keep_last == 0) return deleted;
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListSetAside(directory));
  for (size_t i = 0; i + static_cast<size_t>(options.keep_last) < names.size(); ++i) {
    ZEROTH_RETURN_IF_ERROR(Delete(directory, names[i], absl::StrCat(kPrefix, "aside")));
    deleted.push_back(names[i]);
  }
  return deleted;
}

absl::StatusOr<std::string> SetCheckpointAside(const std::string& directory, int64_t step) {
  const std::string base = absl::StrCat(directory, "/", kAside, CheckpointName(step));
  std::string path = base;
  std::error_code error;
  for (int i = 2; fs::exists(path, error); ++i) path = absl::StrCat(base, "-", i);
  ZEROTH_RETURN_IF_ERROR(RenamePath(CheckpointPath(directory, step), path));
  ZEROTH_RETURN_IF_ERROR(SyncDirectory(directory));
  return path;
}

absl::Status RemoveCheckpointLeftovers(const std::string& directory) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string> names, Subdirectories(directory));
  for (const std::string& name : names) {
    const bool is_leftover = absl::StartsWith(name, absl::StrCat(kUnfinished, kPrefix)) ||
                             absl::StartsWith(name, absl::StrCat(kDeleted, kPrefix));
    if (is_leftover) ZEROTH_RETURN_IF_ERROR(RemoveAll(absl::StrCat(directory, "/", name)));
  }
  return absl::OkStatus();
}

}  // namespace zeroth
