// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/sharded/checkpoint_directory.h"
#include "zeroth/checkpoint/sharded/checkpoint_index.h"
#include "zeroth/checkpoint/sharded/shard_writer.h"
#include "zeroth/core/base/file/direct_file.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"

namespace zeroth {

struct CheckpointSaverOptions {
  // The directory of checkpoints, on a file system that all ranks share. Created if its parent
  // exists.
  std::string directory;
  RetentionOptions retention;
  // Files that every checkpoint carries, content by name; those of rank 0 are used. The index lists
  // them with a checksum of the whole.
  std::map<std::string, std::string> files;
  // false: Save returns when the checkpoint is complete. true: Save returns when the state has been
  // copied to host memory; a thread of each rank writes it from there, at the lowest priority.
  bool async = false;
  // With async, the limit on copies of the state in host memory. Each is allocated when first
  // needed, and kept. With one copy, a save waits for the save before it.
  int host_buffers = 2;
  // When all copies are in use, a save waits for one (false) or is skipped (true).
  bool skip_when_busy = false;
  // How long rank 0 waits for the other ranks' shards after it has written its own.
  absl::Duration timeout = absl::Minutes(30);
};

struct CompletedSave {
  int64_t step = 0;
  int64_t bytes = 0;   // of all files
  double seconds = 0;  // from Save to completion
};

struct FailedSave {
  int64_t step = 0;
  absl::Status status;
};

// Saves sharded checkpoints of a run. Each rank writes its pieces into a separate file. When all
// files are on stable storage, rank 0 writes the index, flushes, and renames the directory to its
// final name. So a checkpoint exists whole or not at all, whichever process is killed at any time.
// Only then are older checkpoints deleted, by the retention options. Ranks report to rank 0 by
// manifests, files beside their shards, so only Save and Wait use the communicator.
//
// After a failed save earlier checkpoints are unchanged, and the saver is ready for the next one.
// An error while an old checkpoint is deleted is a warning, not a failure of the new one.
//
// Collective: every rank creates a saver and makes the same calls of Save and Wait, from one
// thread.
class CheckpointSaver {
 public:
  // `world` and `device` must outlive the saver. Removes unfinished checkpoints of earlier runs; a
  // failure to do so is a warning. The same error on every rank: InvalidArgument for an option out
  // of range; errors of the file system.
  static absl::StatusOr<std::unique_ptr<CheckpointSaver>> Create(
      Communicator& world, Device& device, const CheckpointSaverOptions& options);
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;
  // Finishes the shards that are being written, but rank 0 no longer waits for other ranks. Call
  // Wait before, to learn whether saves succeeded.
  ~CheckpointSaver();

  // Saves `pieces` as of `step`; the pieces of all ranks tile every state. Rank 0's `training` goes
  // into the index. On return the memory of `pieces` may be reused. False: all ranks skipped the
  // save, because earlier ones are still being written; the `last` save waits for them instead. The
  // same error on every rank: AlreadyExists if there is a checkpoint of this step;
  // ResourceExhausted if the disk is full or host memory is exhausted; others of the file system.
  // TakeFailed() returns saves that fail in the background.
  absl::StatusOr<bool> Save(int64_t step, const nlohmann::json& training,
                            std::vector<StatePiece> pieces, bool last = false);
  // Waits for all saves. Returns, on every rank, the error of the first save that failed in the
  // background and that neither Wait nor TakeFailed has reported.
  absl::Status Wait();

  // Returns the saves that failed since the last call, in the background or not; and the number of
  // failures since the last completed save. Both are as of the last Save or Wait, and the same on
  // every rank.
  std::vector<FailedSave> TakeFailed();
  int failures_in_a_row() const { return failures_in_a_row_; }
  // On rank 0, returns the errors since the last call that did not make a save fail.
  std::vector<std::string> TakeWarnings();

  // For this rank alone, without waiting: true if nothing is being written; and the fraction in [0,
  // 1] of the oldest unfinished save that is written.
  bool IsDone() const;
  double progress() const;
  // On rank 0: the saves that have been completed since the last call.
  std::vector<CompletedSave> TakeCompleted();

 private:
  using Clock = std::chrono::steady_clock;
  // How a save ended: OK, or why it failed.
  using Outcome = FailedSave;
  struct Job {
    int64_t step = 0;
    std::string id;
    nlohmann::json training;
    std::vector<StatePiece> pieces;  // async: without data, which is in `buffer`
    ShardPlan plan;
    PageBuffer buffer;  // async: the image of the file
    Clock::time_point start;
    absl::Status abandoned;  // guarded; why rank 0 no longer waits for its manifests
  };

  CheckpointSaver(Communicator& world, Device& device, const CheckpointSaverOptions& options)
      : world_(world), device_(device), options_(options) {}

  absl::Status Agree(const absl::Status& mine, absl::string_view what) const;
  bool is_leader() const { return world_.rank() == 0; }
  absl::Status PrepareDirectory(int64_t step) const;
  // Prepares the directory on rank 0. Returns the id of the save on every rank.
  absl::StatusOr<std::string> Begin(int64_t step);
  // With async: broadcasts the outcomes that rank 0 knows. Before that, ReportFailedSaves tells
  // rank 0 of failures that a rank could not write into a manifest, so that rank 0 stops waiting
  // for them.
  absl::Status ExchangeOutcomes();
  absl::Status ReportFailedSaves();
  void Count(Outcome outcome);
  // Sets job.plan, the layout of this rank's file.
  absl::Status Plan(Job& job) const;
  absl::Status SaveNow(Job& job);
  absl::Status SaveInBackground(Job& job);
  // True, on all ranks, if every buffer of some rank is in use.
  absl::StatusOr<bool> AnyRankIsBusy();
  void AwaitFreeBuffer();
  // Acquires a free buffer, which counts as in use also after an error.
  absl::Status AcquireBuffer(size_t size, PageBuffer& buffer);
  void ReleaseBuffer(PageBuffer buffer);
  absl::Status CopyToHost(Job& job);

  std::string ManifestPath(const Job& job, int rank) const;
  absl::Status WriteMyShard(const Job& job);
  absl::StatusOr<std::string> AwaitManifest(const Job& job, int rank);
  // Rank 0: merges all ranks' manifests. `mine` is the outcome of rank 0's own shard. Waits for
  // every rank, also after a failure, so that no rank still writes when the caller cleans up.
  absl::StatusOr<CheckpointIndex> GatherManifests(const Job& job, const absl::Status& mine);
  // Rank 0: makes a checkpoint out of the ranks' shards and manifests.
  absl::Status Complete(const Job& job, const absl::Status& mine);
  void DeleteSuperfluous(int64_t step);
  void Warn(const absl::Status& status);
  void Discard(int64_t step) const;

  void RunBackground();
  void RunJob(Job& job);

  Communicator& world_;
  Device& device_;
  const CheckpointSaverOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;                  // guarded; the first job is being written
  std::vector<PageBuffer> free_buffers_;  // guarded
  int buffers_in_use_ = 0;                // guarded
  std::vector<CompletedSave> completed_;  // guarded
  std::vector<std::string> warnings_;     // guarded
  std::vector<Outcome> outcomes_;         // guarded; on rank 0, not yet broadcast
  std::vector<FailedSave> unreported_;    // guarded; of this rank, not written into a manifest
  bool closing_ = false;                  // guarded
  // The same on all ranks.
  std::vector<FailedSave> failed_;
  absl::Status first_unreported_;  // of the saves in the background
  int failures_in_a_row_ = 0;
  std::atomic<int64_t> written_{0};  // bytes of the first job
  std::thread background_;
};

}  // namespace zeroth
