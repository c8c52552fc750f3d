// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The steps of one save: each rank writes its shard, and rank 0 completes the checkpoint.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "zeroth/checkpoint/sharded/checkpoint_index.h"
#include "zeroth/checkpoint/sharded/checkpoint_saver.h"
#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

constexpr char kManifestSuffix[] = ".manifest";
// Marks a failure that a rank reports instead of its manifest.
constexpr char kFailure[] = "failed: ";
// The first and the longest pause between rank 0's looks for a manifest.
constexpr std::chrono::milliseconds kFirstPause{1};
constexpr std::chrono::milliseconds kLongestPause{50};

// Priority of the thread that writes in the background, from -20 (highest) to 19.
constexpr int kBackgroundNice = 19;

// Lowers the priority of the calling thread alone, as Linux counts it. Ignores failure.
void LowerPriority() { setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kBackgroundNice); }

// Writes a file that appears with all of `text` or not at all.
absl::Status WriteWhole(const std::string& path, const std::string& text) {
  const std::string temporary = TemporarySibling(path, "tmp");
  ZEROTH_RETURN_IF_ERROR(WriteFileDurably(temporary, text));
  return RenamePath(temporary, path);
}

// Parses the failure that a rank wrote instead of its manifest: a code and a message.
absl::Status FailureOf(int rank, absl::string_view word) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(word, absl::MaxSplits(' ', 1));
  int code = 0;
  if (!absl::SimpleAtoi(parts.first, &code)) code = static_cast<int>(absl::StatusCode::kAborted);
  return absl::Status(static_cast<absl::StatusCode>(code),
                      absl::StrCat("rank ", rank, ": ", parts.second));
}

}  // namespace

std::string CheckpointSaver::ManifestPath(const Job& job, int rank) const {
  return absl::StrCat(UnfinishedCheckpointPath(options_.directory, job.step), "/",
                      ShardFileName(rank, world_.size()), kManifestSuffix);
}

absl::Status CheckpointSaver::WriteMyShard(const Job& job) {
  const ShardWriterOptions options = {
      .directory = UnfinishedCheckpointPath(options_.directory, job.step),
      .file = ShardFileName(world_.rank(), world_.size()),
      .progress = &written_};
  const absl::StatusOr<CheckpointIndex> shard =
      options_.async ? WriteShardImage(options, job.pieces, job.plan, job.buffer.data())
                     : WriteShard(options, device_, job.pieces, job.plan);
  ZEROTH_RETURN_IF_ERROR(shard.status());
  return WriteWhole(ManifestPath(job, world_.rank()), shard->ToText());
}

absl::StatusOr<std::string> CheckpointSaver::AwaitManifest(const Job& job, int rank) {
  const std::string path = ManifestPath(job, rank);
  const auto begin = std::chrono::steady_clock::now();
  std::chrono::milliseconds pause = kFirstPause;
  while (true) {
    absl::StatusOr<std::string> text = ReadFile(path, kMaxIndexBytes);
    if (!absl::IsNotFound(text.status())) return text;
    std::unique_lock<std::mutex> lock(mutex_);
    if (!job.abandoned.ok()) return job.abandoned;
    if (absl::FromChrono(std::chrono::steady_clock::now() - begin) > options_.timeout) {
      return absl::DeadlineExceededError(
          absl::StrCat(path, ": rank ", rank, " has not written its shard within ",
                       absl::FormatDuration(options_.timeout), "; is ", options_.directory,
                       " on a file system that all ranks share?"));
    }
    if (changed_.wait_for(lock, pause, [&] { return closing_ || !job.abandoned.ok(); }) &&
        closing_) {
      return absl::CancelledError("the run ended before all ranks had written their shards");
    }
    pause = std::min(pause * 2, kLongestPause);
  }
}

absl::StatusOr<CheckpointIndex> CheckpointSaver::GatherManifests(const Job& job,
                                                                 const absl::Status& mine) {
  CheckpointIndex index;
  index.id = job.id;
  index.step = job.step;
  index.training = job.training;
  absl::Status first_error = mine;
  for (int rank = mine.ok() ? 0 : 1; rank < world_.size(); ++rank) {
    const absl::Status status = [&]() -> absl::Status {
      ZEROTH_ASSIGN_OR_RETURN(const std::string text, AwaitManifest(job, rank));
      absl::string_view failure = text;
      if (absl::ConsumePrefix(&failure, kFailure)) return FailureOf(rank, failure);
      const std::string path = ManifestPath(job, rank);
      ZEROTH_ASSIGN_OR_RETURN(CheckpointIndex shard, CheckpointIndex::Parse(text, path));
      ZEROTH_RETURN_IF_ERROR_WITH(index.Merge(std::move(shard)), path);
      return absl::OkStatus();
    }();
    first_error.Update(status);
  }
  ZEROTH_RETURN_IF_ERROR(first_error);
  for (const auto& [name, content] : options_.files) {
    const auto bytes = static_cast<int64_t>(content.size());
    index.files.push_back({name, bytes, bytes, ChecksumOf(content)});
  }
  return index;
}

absl::Status CheckpointSaver::Complete(const Job& job, const absl::Status& mine) {
  const std::string unfinished = UnfinishedCheckpointPath(options_.directory, job.step);
  ZEROTH_ASSIGN_OR_RETURN(const CheckpointIndex index, GatherManifests(job, mine));
  ZEROTH_RETURN_IF_ERROR_WITH(index.CheckComplete(), unfinished);
  ZEROTH_RETURN_IF_ERROR(
      WriteFileDurably(absl::StrCat(unfinished, "/", kCheckpointIndexName), index.ToText()));
  for (int rank = 0; rank < world_.size(); ++rank) {
    ZEROTH_RETURN_IF_ERROR(RemoveAll(ManifestPath(job, rank)));
  }
  ZEROTH_RETURN_IF_ERROR(SyncDirectory(unfinished));
  const std::string path = CheckpointPath(options_.directory, job.step);
  ZEROTH_RETURN_IF_ERROR(RenamePath(unfinished, path));
  if (const absl::Status status = SyncDirectory(options_.directory); !status.ok()) {
    // A failed save must not keep the name of a complete checkpoint.
    if (RenamePath(path, unfinished).ok()) return status;
    return Annotate(status, absl::StrCat("and ", path, " cannot be renamed again"));
  }
  CompletedSave completed = {
      .step = job.step, .seconds = std::chrono::duration<double>(Clock::now() - job.start).count()};
  for (const CheckpointFile& file : index.files) completed.bytes += file.bytes;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    completed_.push_back(completed);
  }
  DeleteSuperfluous(job.step);
  return absl::OkStatus();
}

void CheckpointSaver::DeleteSuperfluous(int64_t step) {
  absl::StatusOr<std::vector<int64_t>> steps = ListCheckpoints(options_.directory);
  if (!steps.ok()) return Warn(steps.status());
  // Later checkpoints do not belong to this run's past, and must not displace the one just written.
  steps->erase(std::upper_bound(steps->begin(), steps->end(), step), steps->end());
  for (const int64_t old : SuperfluousCheckpoints(*steps, options_.retention)) {
    const absl::Status status = DeleteCheckpoint(options_.directory, old);
    // NotFound: another process was quicker.
    if (!absl::IsNotFound(status)) Warn(status);
  }
}

void CheckpointSaver::Warn(const absl::Status& status) {
  if (status.ok()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  warnings_.push_back(
      absl::StrCat("could not remove old checkpoints or temporary files: ", status.message()));
}

void CheckpointSaver::Discard(int64_t step) const {
  // Frees the space of a full disk. The next run removes what cannot be removed now.
  std::error_code ignored;
  if (is_leader()) fs::remove_all(UnfinishedCheckpointPath(options_.directory, step), ignored);
}

void CheckpointSaver::RunJob(Job& job) {
  absl::Status status = WriteMyShard(job);
  if (is_leader()) {
    status = Complete(job, status);
    if (!status.ok()) Discard(job.step);
    const std::lock_guard<std::mutex> lock(mutex_);
    outcomes_.push_back({job.step, status});
    return;
  }
  if (status.ok()) return;
  // Frees the space of this rank's shard at once, so that a full disk has room for the report.
  const std::string shard = absl::StrCat(UnfinishedCheckpointPath(options_.directory, job.step),
                                         "/", ShardFileName(world_.rank(), world_.size()));
  unlink(shard.c_str());
  const std::string word = absl::StrCat(kFailure, status.raw_code(), " ", status.message());
  if (WriteWhole(ManifestPath(job, world_.rank()), word).ok()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  unreported_.push_back({job.step, status});
}

void CheckpointSaver::RunBackground() {
  // Hashing and writing must not use the cores of training's threads. A save that training waits
  // for has the cores to itself anyway.
  LowerPriority();
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    // A deque's first element stays in place while others are added behind it.
    Job& job = jobs_.front();
    written_ = 0;
    lock.unlock();
    RunJob(job);
    ReleaseBuffer(std::move(job.buffer));
    lock.lock();
    jobs_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace zeroth
