// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_RANK_RUN_H_
#define ZEROTH_TRAIN_RANK_RUN_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/api/rank.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/batches_ahead.h"
#include "zeroth/data/loader.h"
#include "zeroth/train/job.h"
#include "zeroth/train/metrics.h"
#include "zeroth/train/reporter.h"
#include "zeroth/train/run_checkpoints.h"
#include "zeroth/train/run_directory.h"
#include "zeroth/train/run_progress.h"
#include "zeroth/train/step_trace.h"
#include "zeroth/train/trainer.h"

namespace zeroth {

// One rank's run. Its life is in run.cc, its steps in rank_run_step.cc, and what it reads and
// writes around them in rank_run_state.cc.
class RankRun {
 public:
  RankRun(Job& job, Communicator& world) : job_(job), options_(job.options), world_(world) {}

  // Leaves a flight record if it was communication that ended it.
  absl::Status Run();

 private:
  using Clock = std::chrono::steady_clock;

  absl::Status SetUpAndTrain();
  // What the first step needs: state, data, and what watches and saves.
  absl::Status SetUp();
  // Where ranks are processes and --out is left to us, rank 0 makes the directory for all.
  absl::Status AgreeOnOutput();
  // Rank 0, once nothing but training is to come: what --overwrite gives up, what this run is told,
  // and which run is the newest.
  absl::Status ClearOutput();
  // The state to begin with, and the loader's place; what there is to say about it.
  absl::StatusOr<std::vector<std::string>> FillOrResume();
  // Where kernels have a choice, at the shape of training; an error if it cannot be as asked for.
  absl::Status SayAttention(std::vector<std::string>& notes) const;
  DataOrder Order() const;

  // Steps, and what is computed in between.
  // True if the run is to end.
  absl::StatusOr<bool> Step(int64_t step, Clock::time_point start);
  // As --check_replicas_every says, and before each checkpoint.
  absl::Status CheckReplicasAfter(int64_t steps, bool last);
  // True if the run is to end because of it.
  absl::StatusOr<bool> HandleSkipped(int64_t step, const StepResult& result,
                                     const std::vector<Batch>& micro_batches);
  absl::StatusOr<bool> HandleNonFinite(int64_t step, const StepResult& result,
                                       const std::vector<Batch>& micro_batches);
  absl::Status EvaluateAll(StepMetrics& metrics);
  absl::Status EvaluateOnly();
  absl::StatusOr<float> Evaluate();
  // An error is a warning, unless the ranks cannot go on together.
  absl::Status ShowSample(int64_t step);

  // What is saved.
  absl::StatusOr<std::unique_ptr<RunCheckpoints>> OpenCheckpoints();
  // After `steps` steps.
  absl::Status SaveCheckpoint(int64_t steps, bool last);
  // What has become of checkpoints, after a call of theirs that returned `status`. One that fails
  // costs no more than itself, unless there is none to come after it, or none of many works. An
  // error of anything but a save is returned.
  absl::Status JudgeSaves(const absl::Status& status);
  // The weights, and their average if there is one, each as a model of its own.
  absl::Status Export();
  absl::Status ExportTo(const ExportDirectories& directories);
  // One that fails ends the run, and keeps no other from being written.
  absl::Status Exported(const absl::Status& status, const std::string& directory);

  // What is said, by rank 0, and how the run ends.
  // What an interrupt would say now.
  void AnnounceInterrupt();
  // Once the last step to trace has been made, or the run ends before.
  void SayTraced();
  void SayNotes(const std::vector<std::string>& notes);
  // An error, the same on all ranks, that ends the run once all that can be saved is.
  void EndWith(const absl::Status& status);

  void Say(const std::string& line) {
    if (reporter_ != nullptr) reporter_->Say(line);
  }
  void Warn(const absl::Status& status) {
    if (reporter_ != nullptr) reporter_->Warn(status);
  }
  Device& device() { return rank_->device(); }

  Job& job_;
  const TrainOptions& options_;
  Communicator& world_;
  std::unique_ptr<Rank> rank_;
  std::optional<BatchesAhead> batches_;  // of the steps
  std::optional<DataLoader> eval_loader_;
  std::optional<StepTrace> trace_;  // before the trainer, which marks it
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<RunLock> lock_;  // outlives what writes
  std::unique_ptr<RunCheckpoints> checkpoints_;
  std::unique_ptr<Reporter> reporter_;
  uint64_t content_ = 0;        // of the data
  int64_t first_step_ = 0;      // steps that earlier runs have made
  int64_t first_sequence_ = 0;  // sequences of the data that they have read
  int64_t skipped_steps_ = 0;
  int64_t nonfinite_in_a_row_ = 0;       // of them, up to now
  std::optional<int64_t> resumed_step_;  // of the checkpoint that it went on from
  std::optional<int64_t> last_save_;     // the step after which no checkpoint follows, once saved
  std::vector<std::string> exported_;    // directories
  absl::Status failure_;                 // that ends the run, with everything saved that is good
};

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_RANK_RUN_H_
