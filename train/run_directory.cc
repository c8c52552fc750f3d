// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "zeroth/checkpoint/sharded/checkpoint_directory.h"
#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/temporary_path.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"
#include "zeroth/core/comm/process/node.h"
#include "zeroth/data/data_files.h"
#include "zeroth/train/flight_record.h"
#include "zeroth/train/metrics.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

constexpr char kRunPrefix[] = "run-";
// Names of exported models; each may have the suffix "_adapter".
constexpr const char* kModels[] = {"final", "final_ema"};
constexpr char kAdapterSuffix[] = "_adapter";

bool IsModel(absl::string_view name) {
  name = absl::StripSuffix(name, kAdapterSuffix);
  return std::find(std::begin(kModels), std::end(kModels), name) != std::end(kModels);
}

// Prefix of the new names of checkpoints that are newer than the one that a run resumed from.
constexpr char kSetAside[] = "set-aside-step-";

// The entries of a directory that runs write.
struct Contents {
  std::vector<std::string> metrics, models, checkpoints, set_aside;

  bool empty() const { return metrics.empty() && models.empty() && checkpoints.empty(); }
  // The most informative entry, for messages.
  std::string Named() const {
    const std::vector<std::string>& found = !models.empty()        ? models
                                            : !checkpoints.empty() ? checkpoints
                                                                   : metrics;
    return found.back();
  }
};

absl::StatusOr<Contents> ContentsOf(const std::string& directory) {
  Contents contents;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name == kMetricsFile || absl::StartsWith(name, kEventFilePrefix)) {
      contents.metrics.push_back(name);
    }
    if (IsModel(name)) contents.models.push_back(name);
    if (ParseCheckpointName(name).has_value()) contents.checkpoints.push_back(name);
    if (absl::StartsWith(name, kSetAside) || absl::StartsWith(name, kFlightDirectory)) {
      contents.set_aside.push_back(name);
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return ErrnoStatus(error.value(), absl::StrCat("list directory ", directory));
  }
  return contents;
}

fs::path Canonical(const std::string& path) { return CanonicalPath(path).value_or(""); }

absl::Status CreateOutput(const std::string& out) {
  std::error_code error;
  fs::create_directories(out, error);
  if (error || !fs::is_directory(out)) {
    return absl::PermissionDeniedError(
        absl::StrCat("--out=", out, ": cannot create this directory: ",
                     error ? error.message() : "something else has this name"));
  }
  return absl::OkStatus();
}

absl::Status CheckOwnBase(const TrainOptions& options, const std::string& out) {
  const std::pair<const char*, std::string> sources[] = {{"--init_from=", options.init_from},
                                                         {"--init_adapter=", options.init_adapter},
                                                         {"--tokenizer=", options.tokenizer},
                                                         {"--reference=", options.reference_path()},
                                                         {"--teacher=", options.teacher}};
  for (const auto& [flag, source] : sources) {
    if (source.empty()) continue;
    // The model may also be a file in the directory of an exported one.
    const fs::path inside = Canonical(source).lexically_relative(Canonical(out));
    if (inside.empty() || !IsModel(inside.begin()->string())) continue;
    return InvalidArgument(
        flag, source, " lies in --out=", out,
        ": the run would replace this model, which it reads; name another directory by --out");
  }
  return absl::OkStatus();
}

// True if the run resumes from a checkpoint in `out`.
bool ResumesInPlace(const TrainOptions& options, const std::string& out) {
  if (options.resume.empty()) return false;
  if (options.resume == "auto") return true;
  const fs::path resumed = Canonical(options.resume);
  const fs::path here = Canonical(out);
  return resumed == here || resumed.parent_path() == here;
}

// The largest number of a run. Names with larger numbers are not runs, so that counting on from the
// highest cannot overflow.
constexpr int64_t kMostRuns = 1'000'000'000;

// Returns 7 for "run-7", and nullopt for names of another form.
std::optional<int64_t> RunNumber(absl::string_view name) {
  int64_t number = 0;
  if (!absl::ConsumePrefix(&name, kRunPrefix) || !absl::SimpleAtoi(name, &number)) return {};
  return number > 0 && number <= kMostRuns ? std::optional(number) : std::nullopt;
}

absl::Status WithAdvice(int error, const std::string& action) {
  return Annotate(ErrnoStatus(error, action),
                  "no directory for this run (--out=DIRECTORY names one of your own)");
}

// True if this machine sees a file `name` in `directory`. Opens the directory each time, so that
// NFS asks the server; a look-up alone may return a cached answer.
bool Sees(const std::string& directory, const std::string& name) {
  const FileDescriptor opened(
      TEMP_FAILURE_RETRY(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  return opened.is_open() && faccessat(opened.descriptor(), name.c_str(), F_OK, 0) == 0;
}

absl::StatusOr<FileDescriptor> Lock(const std::string& directory) {
  FileDescriptor lock(
      TEMP_FAILURE_RETRY(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  if (!lock.is_open()) return ErrnoStatus(errno, absl::StrCat("open directory ", directory));
  if (TryLock(lock.descriptor()) != LockResult::kHeld) return lock;
  return FailedPrecondition(
      "--out=", directory,
      ": another run that is alive writes there; end it first, or name another "
      "directory");
}

}  // namespace

absl::StatusOr<std::string> KnownRunDirectory(const TrainOptions& options) {
  if (!options.out.empty() || options.resume != "auto") return options.out;
  std::error_code error;
  const fs::path link = fs::path(kRunsDirectory) / kLatestRun;
  const fs::path target = fs::read_symlink(link, error);
  if (!error) return (link.parent_path() / target).string();
  if (error == std::errc::no_such_file_or_directory) return "";
  // The link may point to a run, so this must not start a new one.
  return Annotate(ErrnoStatus(error.value(), absl::StrCat("read the link ", link.string())),
                  "--resume=auto");
}

absl::StatusOr<std::string> NewRunDirectory() {
  std::error_code error;
  fs::create_directories(kRunsDirectory, error);
  if (error) return WithAdvice(error.value(), absl::StrCat("create directory ", kRunsDirectory));
  int64_t last = 0;
  for (fs::directory_iterator it(kRunsDirectory, error), end; !error && it != end;
       it.increment(error)) {
    last = std::max(last, RunNumber(it->path().filename().string()).value_or(0));
  }
  if (error) return WithAdvice(error.value(), absl::StrCat("list directory ", kRunsDirectory));
  while (++last <= kMostRuns) {
    const std::string name = absl::StrCat(kRunPrefix, last);
    const std::string path = absl::StrCat(kRunsDirectory, "/", name);
    if (mkdir(path.c_str(), 0777) == 0) return path;
    // Another run has just created this name.
    if (errno != EEXIST) return WithAdvice(errno, absl::StrCat("create directory ", path));
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(kRunsDirectory, " holds ", kRunPrefix, kMostRuns,
                   ", the last number of a run; remove or rename it, or name a directory by "
                   "--out=DIRECTORY"));
}

absl::Status UpdateLatestLink(const std::string& out) {
  const fs::path path = out;
  const std::string name = path.filename().string();
  if (path.parent_path() != kRunsDirectory || !RunNumber(name).has_value()) return absl::OkStatus();
  // rename() replaces an older link atomically.
  const std::string link = absl::StrCat(kRunsDirectory, "/", kLatestRun);
  const std::string temporary = TemporarySibling(link, "tmp");
  if (symlink(name.c_str(), temporary.c_str()) != 0) {
    return WithAdvice(errno, absl::StrCat("make the link ", temporary));
  }
  if (rename(temporary.c_str(), link.c_str()) == 0) return absl::OkStatus();
  const int error = errno;
  unlink(temporary.c_str());
  return WithAdvice(error, absl::StrCat("make the link ", link));
}

absl::Status CheckOutIsOutsideData(const TrainOptions& options) {
  const std::string& out = options.out.empty() ? kRunsDirectory : options.out;
  for (const auto& [flag, spec] :
       {std::pair("--data=", options.data), std::pair("--eval_data=", options.eval_data)}) {
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<WeightedSpec> parts, SplitWeights(spec));
    for (const WeightedSpec& part : parts) {
      for (const absl::string_view item : absl::StrSplit(part.spec, ',', absl::SkipEmpty())) {
        const fs::path directory = Canonical(std::string(item));
        const fs::path inside = Canonical(out).lexically_relative(directory);
        // The run is outside of the data (..), or hidden in it and so not read.
        const bool is_apart = std::any_of(inside.begin(), inside.end(), [](const fs::path& name) {
          return name != "." && absl::StartsWith(name.string(), ".");
        });
        std::error_code unreadable;  // is said where the data is opened
        if (is_apart || !fs::is_directory(directory, unreadable)) continue;
        return InvalidArgument(flag, item, " holds the directory of the run, ", out,
                               ", whose files would be data, too; name a directory elsewhere by "
                               "--out, or the data by a pattern, such as ",
                               flag, "'", (fs::path(std::string(item)) / "*.txt").string(), "'");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRunDirectory(const TrainOptions& options, const std::string& out) {
  ZEROTH_RETURN_IF_ERROR(CreateOutput(out));
  ZEROTH_RETURN_IF_ERROR(CheckOwnBase(options, out));
  if (options.overwrite) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const Contents contents, ContentsOf(out));
  if (ResumesInPlace(options, out)) {
    // A run that was killed before its first checkpoint starts again. A finished one has a model.
    const bool finished = !contents.models.empty() && contents.checkpoints.empty();
    if (options.resume != "auto" || !finished) return absl::OkStatus();
    return FailedPrecondition(
        "--resume=auto: ", out, " holds what an earlier run made (", contents.Named(),
        "), and no checkpoint to resume from; name another directory by --out, or, instead of "
        "--resume, say --overwrite to remove what is there");
  }
  if (contents.empty()) return absl::OkStatus();
  return FailedPrecondition(
      "--out=", out, " holds what an earlier run made (", contents.Named(),
      "): resume from its checkpoints with --resume=auto, name another directory by --out, or say "
      "--overwrite to remove what is there");
}

absl::Status RemoveEarlierRun(const std::string& directory) {
  // Each checkpoint is deleted completely or not at all, and the newest one last: after an
  // interruption, the newest checkpoint of the earlier run is still there.
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, ListCheckpoints(directory));
  for (const int64_t step : steps) {
    ZEROTH_RETURN_IF_ERROR_WITH(DeleteCheckpoint(directory, step), "--overwrite");
  }
  ZEROTH_ASSIGN_OR_RETURN(const Contents contents, ContentsOf(directory));
  for (const auto* names :
       {&contents.checkpoints, &contents.set_aside, &contents.metrics, &contents.models}) {
    for (const std::string& name : *names) {
      const std::string path = absl::StrCat(directory, "/", name);
      ZEROTH_RETURN_IF_ERROR_WITH(RemoveAll(path), "--overwrite");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<FileDescriptor> LockRunDirectory(const std::string& directory, Communicator& world,
                                                Device& device) {
  absl::StatusOr<FileDescriptor> lock = world.rank() == 0 ? Lock(directory) : FileDescriptor();
  ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(world, device, lock.status(), "lock the output directory"));
  return lock;
}

absl::Status CheckSharedDirectory(const std::string& directory, Communicator& world,
                                  Device& device) {
  constexpr absl::string_view kLabel = "look whether the directory is shared";
  constexpr absl::Duration kTime = absl::Seconds(5);
  const bool is_leader = world.rank() == 0;
  const std::string mine = TemporarySibling(absl::StrCat(directory, "/shared"), "probe");
  absl::Status status;
  if (is_leader) status = WriteFileDurably(mine, "");
  ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(world, device, status, kLabel));
  ZEROTH_ASSIGN_OR_RETURN(
      const std::string name,
      BroadcastText(world, device, 0, fs::path(mine).filename().string(), kLabel));
  ZEROTH_ASSIGN_OR_RETURN(const std::string leaders_host,
                          BroadcastText(world, device, 0, HostName(), kLabel));
  const absl::Time deadline = absl::Now() + kTime;
  bool sees = Sees(directory, name);
  while (!sees && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(100));
    sees = Sees(directory, name);
  }
  if (!sees) {
    std::error_code error;
    status = FailedPrecondition(
        "on ", HostName(), ", --out=", fs::absolute(directory, error).string(),
        " is not the directory of rank 0, which is on ", leaders_host,
        ": a file that rank 0 made there has not appeared within ", absl::FormatDuration(kTime),
        "; name a directory by --out that all machines share, such as one on NFS");
  }
  status = AgreeOnStatus(world, device, status, kLabel);
  if (is_leader) unlink(mine.c_str());
  return status;
}

}  // namespace zeroth
