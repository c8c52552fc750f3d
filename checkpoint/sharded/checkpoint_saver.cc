// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/sharded/checkpoint_saver.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/thread.h"
#include "zeroth/core/comm/agree.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

std::string NewId() {
  std::random_device random;
  return ChecksumText(uint64_t{random()} << 32 | random());
}

absl::Status MakeDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0777) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("create directory ", path));
}

absl::Status ValidateOptions(const CheckpointSaverOptions& options) {
  ZEROTH_RETURN_IF_ERROR(ValidateRetention(options.retention));
  if (options.directory.empty()) {
    return absl::InvalidArgumentError("checkpoints: the directory has no name");
  }
  if (options.host_buffers < 1) {
    return InvalidArgument("checkpoints: host_buffers is ", options.host_buffers,
                           ", expected at least 1");
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
  if (status.ok() && options.async) {
    absl::StatusOr<std::thread> thread =
        StartThread("saving checkpoints", [&saver = *saver] { saver.RunBackground(); });
    if (thread.ok()) {
      saver->background_ = *std::move(thread);
    } else {
      status = thread.status();
    }
  }
  ZEROTH_RETURN_IF_ERROR(saver->Agree(status, "open checkpoints"));
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
  // Removes the files of a failed attempt.
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

absl::Status CheckpointSaver::AcquireBuffer(size_t size, PageBuffer& buffer) {
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

void CheckpointSaver::ReleaseBuffer(PageBuffer buffer) {
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
  // The buffer is acquired in any case, because the caller gives it back.
  ZEROTH_RETURN_IF_ERROR(AcquireBuffer(static_cast<size_t>(job.plan.file_bytes), job.buffer));
  ZEROTH_RETURN_IF_ERROR(planned);
  return CopyShard(device_, job.pieces, job.plan, job.buffer.data());
}

absl::Status CheckpointSaver::ReportFailedSaves() {
  while (true) {
    absl::Status mine;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!unreported_.empty()) {
        const FailedSave& first = unreported_.front();
        mine = absl::Status(first.status.code(),
                            absl::StrCat(first.step, " ", first.status.message()));
      }
    }
    const absl::Status reported = Agree(mine, "ask for failed saves");
    // An error of the communicator itself breaks it.
    ZEROTH_RETURN_IF_ERROR(world_.status());
    if (reported.ok()) return absl::OkStatus();
    // The words are "rank 2: ", the step, and the reason.
    const std::vector<std::string> words =
        absl::StrSplit(reported.message(), absl::MaxSplits(' ', 3));
    int64_t step = 0;
    ZEROTH_CHECK(words.size() == 4 && absl::SimpleAtoi(words[2], &step));
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto is_reported = [&](const FailedSave& save) { return save.step == step; };
    unreported_.erase(std::remove_if(unreported_.begin(), unreported_.end(), is_reported),
                      unreported_.end());
    for (Job& job : jobs_) {
      if (job.step != step || !is_leader()) continue;
      job.abandoned = absl::Status(reported.code(), absl::StrCat("rank ", words[1], " ", words[3]));
      changed_.notify_all();
    }
  }
}

absl::Status CheckpointSaver::ExchangeOutcomes() {
  ZEROTH_RETURN_IF_ERROR(ReportFailedSaves());
  nlohmann::json outcomes = nlohmann::json::array();
  if (is_leader()) {
    const std::lock_guard<std::mutex> lock(mutex_);
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
    // Rank 0's buffer becomes free when the others have written or failed. A rank that could not
    // write its failure into a manifest reports it in the exchange, so rank 0 must not wait before
    // that.
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
    ReleaseBuffer(std::move(job.buffer));
    return status;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
  return absl::OkStatus();
}

absl::Status CheckpointSaver::Wait() {
  const auto await_jobs = [this] {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return jobs_.empty(); });
  };
  // In the same order as Save: rank 0 learns of failures first, and does not wait for the manifests
  // of failed shards.
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
