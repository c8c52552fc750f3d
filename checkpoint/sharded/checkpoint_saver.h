// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_SHARDED_CHECKPOINT_SAVER_H_
#define ZEROTH_CHECKPOINT_SHARDED_CHECKPOINT_SAVER_H_

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
  // Where checkpoints go; on a file system that all ranks share. Created if its parent exists.
  std::string directory;
  RetentionOptions retention;
  // What every checkpoint carries besides, by name and content: rank 0's. Listed in the index with
  // the checksum of the whole.
  std::map<std::string, std::string> files;
  // false: Save returns when the checkpoint is complete. true: when the state has been copied to
  // host memory; a thread of each rank writes it from there, at the lowest priority, in the time
  // that training leaves.
  bool async = false;
  // Copies of the state in host memory at most (async): being written, or waiting for it. Allocated
  // when first needed, and kept. With one, a save waits for the one before it.
  int host_buffers = 2;
  // What a save does when all of them are in use: false: wait for one; true: nothing.
  bool skip_when_busy = false;
  // How long rank 0 waits for the others' shards once its own is written.
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

// Saves sharded checkpoints of a run. Each rank writes what it is given into a file of its own;
// when all are on stable storage, rank 0 writes the index, flushes, and renames the directory to
// its final name: whatever is killed whenever, a checkpoint is there whole or not at all. Only then
// are older ones deleted, as the retention says. Ranks tell rank 0 that they are done by files
// beside their shards, so that nothing but Save and Wait talks to other ranks.
//
// A save that fails leaves earlier checkpoints as they are, and the saver ready for the next one.
// An error while an old checkpoint is deleted is no failure of the new one: it is a warning.
//
// Collective: every rank creates one and makes the same calls of Save and Wait. From one thread.
class CheckpointSaver {
 public:
  // `world` and `device` outlive the saver. Removes what earlier runs left unfinished, with a
  // warning where that fails. The same error on every rank: InvalidArgument for an option out of
  // its range; errors of the file system.
  static absl::StatusOr<std::unique_ptr<CheckpointSaver>> Create(
      Communicator& world, Device& device, const CheckpointSaverOptions& options);
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;
  // Finishes what is being written, without asking whether it succeeded; rank 0 does not wait for
  // the other ranks any more. Call Wait before.
  ~CheckpointSaver();

  // Saves `pieces`, which together with those of all ranks tile every state, as of `step`; rank 0's
  // `training` goes into the index. The memory of `pieces` is the caller's again on return. False:
  // it was skipped, on all ranks, because earlier ones are still being written; the `last` one
  // waits for them instead. The same error on
  // every rank: AlreadyExists if there is a checkpoint of this step; ResourceExhausted if the disk
  // is full or there is no host memory; others of the file system. Saves that fail in the
  // background are no error of a later one: TakeFailed() has them.
  absl::StatusOr<bool> Save(int64_t step, const nlohmann::json& training,
                            std::vector<StatePiece> pieces, bool last = false);
  // Waits for all saves; the error of the first that failed in the background and that neither Wait
  // nor TakeFailed has told of, on every rank.
  absl::Status Wait();

  // As of the last Save or Wait, and the same on every rank: the saves, in the background or not,
  // that had failed since the last call; and how many have failed since one was completed.
  std::vector<FailedSave> TakeFailed();
  int failures_in_a_row() const { return failures_in_a_row_; }
  // On rank 0: what went wrong since the last call that costs no checkpoint.
  std::vector<std::string> TakeWarnings();

  // Without waiting, and of this rank alone: whether nothing is being written; the part in [0, 1]
  // of the oldest unfinished save that is written.
  bool IsDone() const;
  double progress() const;
  // On rank 0: the saves that were completed since the last call.
  std::vector<CompletedSave> TakeCompleted();

 private:
  using Clock = std::chrono::steady_clock;
  // How a save ended: OK, or why it failed.
  using Outcome = FailedSave;
  struct Job {
    int64_t step = 0;
    std::string id;
    nlohmann::json training;
    std::vector<StatePiece> pieces;  // async: their shards only describe
    ShardPlan plan;
    PageBuffer buffer;  // async: the image of the file
    Clock::time_point start;
    absl::Status abandoned;  // guarded; why rank 0 waits for no more manifests of it
  };

  CheckpointSaver(Communicator& world, Device& device, const CheckpointSaverOptions& options)
      : world_(world), device_(device), options_(options) {}

  absl::Status Agree(const absl::Status& mine, absl::string_view what) const;
  bool is_leader() const { return world_.rank() == 0; }
  absl::Status PrepareDirectory(int64_t step) const;
  // Makes room; the id of the save.
  absl::StatusOr<std::string> Begin(int64_t step);
  // async: tells all ranks how the saves ended that rank 0 knows the end of; before that, rank 0 of
  // failures that could not be written down for it to read, so that it waits no more for those.
  absl::Status ExchangeOutcomes();
  absl::Status ExchangeUntold();
  void Count(Outcome outcome);
  // In job.plan, what this rank is to write.
  absl::Status Plan(Job& job) const;
  absl::Status SaveNow(Job& job);
  absl::Status SaveInBackground(Job& job);
  // Whether on any rank every buffer is in use.
  absl::StatusOr<bool> AnyRankIsBusy();
  void AwaitFreeBuffer();
  // Takes the free one; it is in use then, also after an error.
  absl::Status TakeBuffer(size_t size, PageBuffer& buffer);
  void GiveBuffer(PageBuffer buffer);
  absl::Status CopyToHost(Job& job);

  std::string ManifestPath(const Job& job, int rank) const;
  absl::Status WriteMyShard(const Job& job);
  absl::StatusOr<std::string> AwaitManifest(const Job& job, int rank);
  // Rank 0, whose own part has ended with `mine`: what all ranks have written. Waits for each of
  // them, also once one has failed, so that nobody writes any more where the caller clears up.
  absl::StatusOr<CheckpointIndex> GatherManifests(const Job& job, const absl::Status& mine);
  // Rank 0: the ranks' manifests in, a checkpoint out.
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
  std::deque<Job> jobs_;                  // guarded; the first is being written
  std::vector<PageBuffer> free_buffers_;  // guarded
  int buffers_in_use_ = 0;                // guarded
  std::vector<CompletedSave> completed_;  // guarded
  std::vector<std::string> warnings_;     // guarded
  std::vector<Outcome> outcomes_;         // guarded; on rank 0, those that others have not heard of
  std::vector<FailedSave> untold_;        // guarded; of this rank, which rank 0 cannot read
  bool closing_ = false;                  // guarded
  // As all ranks have agreed.
  std::vector<FailedSave> failed_;
  absl::Status first_unreported_;  // of those in the background
  int failures_in_a_row_ = 0;
  std::atomic<int64_t> written_{0};  // bytes of the first job
  std::thread background_;
};

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_SHARDED_CHECKPOINT_SAVER_H_
