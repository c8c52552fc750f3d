// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/sharded/checkpoint_saver.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "zeroth/checkpoint/sharded/checkpoint_index.h"
#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

constexpr char kManifestSuffix[] = ".manifest";
// Before each failure that a rank reports in place of its manifest.
constexpr char kFailure[] = "failed: ";
// How often rank 0 looks for manifests, at the least and at the most.
constexpr std::chrono::milliseconds kFirstPause{1};
constexpr std::chrono::milliseconds kLongestPause{50};

// What the thread that writes behind training has, from -20 (runs first) to 19.
constexpr int kBackgroundNice = 19;

// Of the calling thread alone, as Linux counts. A thread that cannot is as good as it was.
void LowerPriority() { setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kBackgroundNice); }

std::string NewId() {
  std::random_device random;
  return ChecksumText(uint64_t{random()} << 32 | random());
}

absl::Status MakeDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0777) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("create directory ", path));
}

absl::Status RemoveAll(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? ErrnoStatus(error.value(), absl::StrCat("remove ", path)) : absl::OkStatus();
}

// Readers see all of `text` or no file.
absl::Status WriteWhole(const std::string& path, const std::string& text) {
  const std::string temporary = TemporarySibling(path, "tmp");
  ZEROTH_RETURN_IF_ERROR(WriteFileDurably(temporary, text));
  if (rename(temporary.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("rename ", temporary, " to ", path));
}

// What rank `rank` has said in place of its manifest: a code and a message.
absl::Status FailureOf(int rank, absl::string_view word) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(word, absl::MaxSplits(' ', 1));
  int code = 0;
  if (!absl::SimpleAtoi(parts.first, &code)) code = static_cast<int>(absl::StatusCode::kAborted);
  return absl::Status(static_cast<absl::StatusCode>(code),
                      absl::StrCat("rank ", rank, ": ", parts.second));
}

absl::Status ValidateOptions(const CheckpointSaverOptions& options) {
  ZEROTH_RETURN_IF_ERROR(ValidateRetention(options.retention));
  if (options.directory.empty()) {
    return absl::InvalidArgumentError("checkpoints: the directory has no name");
  }
  if (options.host_buffers < 1) {
    return absl::InvalidArgumentError(absl::StrCat("checkpoints: host_buffers is ",
                                                   options.host_buffers, ", expected at least 1"));
  }
  return absl::OkStatus();
}

absl::Status CreateDirectory(const std::string& directory) {
  const absl::Status status = MakeDirectory(directory);
  if (!absl::IsAlreadyExists(status)) return status;
  std::error_code error;
  return fs::is_directory(directory, error) ? absl::OkStatus() : status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointSaver>> CheckpointSaver::Create(
    Communicator& world, Device& device, const CheckpointSaverOptions& options) {
  std::unique_ptr<CheckpointSaver> saver(new CheckpointSaver(world, device, options));
  absl::Status status = ValidateOptions(options);
  if (status.ok() && saver->is_leader()) {
    status = CreateDirectory(options.directory);
    if (status.ok()) saver->Warn(RemoveCheckpointLeftovers(options.directory));
  }
  ZEROTH_RETURN_IF_ERROR(saver->Agree(status, "open checkpoints"));
  if (options.async) {
    saver->background_ = std::thread([&saver = *saver] { saver.RunBackground(); });
  }
  return saver;
}

CheckpointSaver::~CheckpointSaver() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (background_.joinable()) background_.join();
}

absl::Status CheckpointSaver::Agree(const absl::Status& mine, absl::string_view what) const {
  return AgreeOnStatus(world_, device_, mine, what);
}

absl::Status CheckpointSaver::PrepareDirectory(int64_t step) const {
  const std::string path = CheckpointPath(options_.directory, step);
  bool is_taken = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Job& job : jobs_) is_taken |= job.step == step;
  }
  std::error_code error;
  if (is_taken || fs::exists(path, error)) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, ": there is a checkpoint of this step; move or delete it first"));
  }
  const std::string unfinished = UnfinishedCheckpointPath(options_.directory, step);
  // Of an attempt that failed.
  ZEROTH_RETURN_IF_ERROR(RemoveAll(unfinished));
  ZEROTH_RETURN_IF_ERROR(MakeDirectory(unfinished));
  for (const auto& [name, content] : options_.files) {
    ZEROTH_RETURN_IF_ERROR(WriteFileDurably(absl::StrCat(unfinished, "/", name), content));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> CheckpointSaver::Begin(int64_t step) {
  ZEROTH_RETURN_IF_ERROR(
      Agree(is_leader() ? PrepareDirectory(step) : absl::OkStatus(), "begin a checkpoint"));
  return BroadcastText(world_, device_, 0, is_leader() ? NewId() : "", "name a checkpoint");
}

absl::StatusOr<bool> CheckpointSaver::AnyRankIsBusy() {
  bool busy = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    busy = buffers_in_use_ == options_.host_buffers;
  }
  const absl::Status mine = busy ? absl::UnavailableError("busy") : absl::OkStatus();
  const absl::Status agreed = Agree(mine, "save a checkpoint or skip it");
  // An error of the communicator itself breaks it.
  ZEROTH_RETURN_IF_ERROR(world_.status());
  return !agreed.ok();
}

void CheckpointSaver::AwaitFreeBuffer() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return buffers_in_use_ < options_.host_buffers; });
}

absl::Status CheckpointSaver::TakeBuffer(size_t size, PageBuffer& buffer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++buffers_in_use_;
  if (!free_buffers_.empty()) {
    buffer = std::move(free_buffers_.back());
    free_buffers_.pop_back();
  }
  if (buffer.size() >= size) return absl::OkStatus();
  buffer = PageBuffer();
  absl::StatusOr<PageBuffer> larger = PageBuffer::Allocate(size);
  if (!larger.ok()) {
    return absl::ResourceExhaustedError(absl::StrCat(larger.status().message(),
                                                     ", a copy of the state; save synchronously, "
                                                     "which needs none"));
  }
  buffer = *std::move(larger);
  return absl::OkStatus();
}

void CheckpointSaver::GiveBuffer(PageBuffer buffer) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_buffers_.push_back(std::move(buffer));
    --buffers_in_use_;
  }
  changed_.notify_all();
}

absl::Status CheckpointSaver::Plan(Job& job) const {
  ZEROTH_ASSIGN_OR_RETURN(job.plan, PlanShard(job.id, job.step, job.pieces));
  return absl::OkStatus();
}

absl::Status CheckpointSaver::CopyToHost(Job& job) {
  const absl::Status planned = Plan(job);
  // Taken in any case: the caller gives it back.
  ZEROTH_RETURN_IF_ERROR(TakeBuffer(static_cast<size_t>(job.plan.file_bytes), job.buffer));
  ZEROTH_RETURN_IF_ERROR(planned);
  return CopyShard(device_, job.pieces, job.plan, job.buffer.data());
}

absl::Status CheckpointSaver::ExchangeOutcomes() {
  absl::Status untold;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    untold = std::exchange(untold_, absl::OkStatus());
  }
  const absl::Status told = Agree(untold, "ask for failed saves");
  // An error of the communicator itself breaks it.
  ZEROTH_RETURN_IF_ERROR(world_.status());
  nlohmann::json outcomes = nlohmann::json::array();
  if (is_leader()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!told.ok()) {
      // Which save it was makes no difference: there are two at most, and the disk is full.
      for (Job& job : jobs_) job.abandoned = told;
      changed_.notify_all();
    }
    for (const Outcome& outcome : std::exchange(outcomes_, {})) {
      outcomes.push_back({outcome.step, outcome.status.raw_code(), outcome.status.message()});
    }
  }
  const std::string mine = outcomes.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  ZEROTH_ASSIGN_OR_RETURN(const std::string text,
                          BroadcastText(world_, device_, 0, mine, "tell how saves ended"));
  for (const nlohmann::json& outcome : nlohmann::json::parse(text)) {
    Outcome ended = {outcome[0].get<int64_t>(), absl::Status(outcome[1].get<absl::StatusCode>(),
                                                             outcome[2].get<std::string>())};
    first_unreported_.Update(
        Annotate(ended.status, absl::StrCat("saving the checkpoint of step ", ended.step)));
    Count(std::move(ended));
  }
  return absl::OkStatus();
}

void CheckpointSaver::Count(Outcome outcome) {
  failures_in_a_row_ = outcome.status.ok() ? 0 : failures_in_a_row_ + 1;
  if (!outcome.status.ok()) failed_.push_back(std::move(outcome));
}

absl::StatusOr<bool> CheckpointSaver::Save(int64_t step, const nlohmann::json& training,
                                           std::vector<StatePiece> pieces, bool last) {
  if (options_.async && options_.skip_when_busy && !last) {
    ZEROTH_ASSIGN_OR_RETURN(const bool busy, AnyRankIsBusy());
    if (busy) return false;
  }
  if (options_.async) {
    // Rank 0's buffer is free when the others have written, or failed to: whoever could not leave
    // word of that says so in the exchange, for which rank 0 must not wait.
    if (!is_leader()) AwaitFreeBuffer();
    ZEROTH_RETURN_IF_ERROR(ExchangeOutcomes());
    if (is_leader()) AwaitFreeBuffer();
  }
  Job job;
  job.step = step;
  job.start = Clock::now();
  job.pieces = std::move(pieces);
  if (is_leader()) job.training = training;
  absl::StatusOr<std::string> id = Begin(step);
  absl::Status status = id.status();
  if (status.ok()) {
    job.id = *std::move(id);
    status = options_.async ? SaveInBackground(job) : SaveNow(job);
    if (!status.ok()) Discard(step);
  }
  if (!status.ok() || !options_.async) Count({step, status});
  ZEROTH_RETURN_IF_ERROR(status);
  return true;
}

absl::Status CheckpointSaver::SaveNow(Job& job) {
  written_ = 0;
  absl::Status written = Plan(job);
  if (written.ok()) written = WriteMyShard(job);
  ZEROTH_RETURN_IF_ERROR(Agree(written, "write a checkpoint"));
  return Agree(is_leader() ? Complete(job, written) : absl::OkStatus(), "complete a checkpoint");
}

absl::Status CheckpointSaver::SaveInBackground(Job& job) {
  absl::Status status = Agree(CopyToHost(job), "copy a checkpoint");
  if (!status.ok()) {
    GiveBuffer(std::move(job.buffer));
    return status;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
  return absl::OkStatus();
}

std::string CheckpointSaver::ManifestPath(const Job& job, int rank) const {
  return absl::StrCat(UnfinishedCheckpointPath(options_.directory, job.step), "/",
                      ShardFileName(rank, world_.size()), kManifestSuffix);
}

absl::Status CheckpointSaver::WriteMyShard(const Job& job) {
  ShardWriterOptions options;
  options.directory = UnfinishedCheckpointPath(options_.directory, job.step);
  options.file = ShardFileName(world_.rank(), world_.size());
  options.progress = &written_;
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
    absl::StatusOr<std::string> text = ReadFile(path);
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
  if (rename(unfinished.c_str(), path.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("rename ", unfinished, " to ", path));
  }
  if (const absl::Status status = SyncDirectory(options_.directory); !status.ok()) {
    // What failed must not have a name by which it would count beside those that are complete.
    if (rename(path.c_str(), unfinished.c_str()) == 0) return status;
    return Annotate(status, absl::StrCat("and ", path, " cannot be renamed again"));
  }
  CompletedSave completed;
  completed.step = job.step;
  for (const CheckpointFile& file : index.files) completed.bytes += file.bytes;
  completed.seconds = std::chrono::duration<double>(Clock::now() - job.start).count();
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
  // Later ones are not of this run's past: the one just written must not go in favour of them.
  steps->erase(std::upper_bound(steps->begin(), steps->end(), step), steps->end());
  for (const int64_t old : SuperfluousCheckpoints(*steps, options_.retention)) {
    const absl::Status status = DeleteCheckpoint(options_.directory, old);
    // Somebody else was quicker.
    if (!absl::IsNotFound(status)) Warn(status);
  }
}

void CheckpointSaver::Warn(const absl::Status& status) {
  if (status.ok()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  warnings_.push_back(absl::StrCat("an old checkpoint is not removed whole: ", status.message()));
}

void CheckpointSaver::Discard(int64_t step) const {
  // A full disk gets its space back; what cannot be removed now is removed by the next run.
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
  // A full disk gets this rank's part back at once, so that there is room for the word of it.
  const std::string shard = absl::StrCat(UnfinishedCheckpointPath(options_.directory, job.step),
                                         "/", ShardFileName(world_.rank(), world_.size()));
  unlink(shard.c_str());
  const std::string word = absl::StrCat(kFailure, status.raw_code(), " ", status.message());
  if (WriteWhole(ManifestPath(job, world_.rank()), word).ok()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  untold_.Update(status);
}

void CheckpointSaver::RunBackground() {
  // Hashing and writing take the cores' time between training's threads, not from them. A save that
  // training waits for has the cores to itself.
  LowerPriority();
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    // A deque's first element stays where it is while others are added behind it.
    Job& job = jobs_.front();
    written_ = 0;
    lock.unlock();
    RunJob(job);
    GiveBuffer(std::move(job.buffer));
    lock.lock();
    jobs_.pop_front();
    changed_.notify_all();
  }
}

absl::Status CheckpointSaver::Wait() {
  const auto await_jobs = [this] {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return jobs_.empty(); });
  };
  // As in Save: rank 0 hears of failures before it waits for the manifests of those that failed.
  if (!is_leader()) await_jobs();
  ZEROTH_RETURN_IF_ERROR(ExchangeOutcomes());
  if (is_leader()) await_jobs();
  ZEROTH_RETURN_IF_ERROR(ExchangeOutcomes());
  return std::exchange(first_unreported_, absl::OkStatus());
}

bool CheckpointSaver::IsDone() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return jobs_.empty();
}

double CheckpointSaver::progress() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (jobs_.empty()) return 1;
  return static_cast<double>(written_.load()) / static_cast<double>(jobs_.front().plan.file_bytes);
}

std::vector<FailedSave> CheckpointSaver::TakeFailed() {
  first_unreported_ = absl::OkStatus();
  return std::exchange(failed_, {});
}

std::vector<std::string> CheckpointSaver::TakeWarnings() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(warnings_, {});
}

std::vector<CompletedSave> CheckpointSaver::TakeCompleted() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(completed_, {});
}

}  // namespace zeroth
