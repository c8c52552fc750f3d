// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/api/rank.h"
#include "zeroth/api/trainer.h"
#include "zeroth/checkpoint/sharded/checkpoint_saver.h"
#include "zeroth/core/base/file/file_descriptor.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/options/options.h"
#include "zeroth/train/job.h"
#include "zeroth/train/metrics.h"
#include "zeroth/train/reporter.h"
#include "zeroth/train/resume.h"
#include "zeroth/train/run_directory.h"
#include "zeroth/train/step_trace.h"

namespace zeroth {

enum class RunEnd {
  kFinished,
  // A signal ended the run early (Interrupted). A checkpoint has all steps so far, and a run with
  // --resume=auto continues from it.
  kInterrupted,
};

// The trainer's exit code for kInterrupted: EX_TEMPFAIL of sysexits.h, "try again later". Neither
// 0, which means a finished job to schedulers, nor 1, which means an error.
inline constexpr int kExitInterrupted = 75;

// Makes a whole training run: opens data and model, starts the ranks, trains, reports, and saves to
// options.out. Errors of options and files show before any rank starts. Prints to stdout.
absl::StatusOr<RunEnd> RunTraining(const TrainOptions& options);

// One rank's run. run.cc sets it up and ends it, rank_run_step.cc has its steps and evaluations,
// and rank_run_state.cc has its input and output: directory, state, checkpoints and models.
class RankRun {
 public:
  RankRun(Job& job, Communicator& world) : job_(job), options_(job.options), world_(world) {}

  // Runs to the end. Writes a flight record if a communication error ended the run.
  absl::Status Run();
  // How a run without an error ended; the same on every rank.
  RunEnd end() const { return end_; }

 private:
  using Clock = std::chrono::steady_clock;

  absl::Status SetUpAndTrain();
  // Waits for the other ranks, and returns failure_.
  absl::Status MeetAtEnd();
  // Prepares everything that the first step needs.
  absl::Status SetUp();
  // If ranks are processes and --out is empty, rank 0 makes a directory for all.
  absl::Status AgreeOnOutput();
  // If ranks are processes, refuses those that have other flags or other data than rank 0.
  absl::Status CompareWithRankZero();
  // Called when only training remains. Rank 0 deletes the files that --overwrite gives up, writes
  // config.toml, and points zeroth_out/latest to this run.
  absl::Status ClearOutput();
  // Initializes or loads the state, and opens the data at the right position. Returns lines to
  // print.
  absl::StatusOr<std::vector<std::string>> FillOrResume();
  // Adds to `notes` which kernel computes attention at the shape of training, if there is a choice.
  // Fails if the requested kernel cannot.
  absl::Status SayAttention(std::vector<std::string>& notes) const;
  DataOrder Order() const;

  // Steps and evaluations. Step and the handlers return true if the run is to end. Step reports
  // and saves a step before it evaluates it, so that no error or signal of an evaluation loses it.
  absl::StatusOr<bool> Step(int64_t step, Clock::time_point start);
  bool EvaluatesAfter(int64_t steps, bool last) const {
    return eval_loader_.has_value() &&
           (last || (options_.eval_every > 0 && steps % options_.eval_every == 0));
  }
  // True, on all ranks, if the run that this one resumes ended before its evaluation of
  // first_step_.
  absl::StatusOr<bool> MissesEvaluation();
  // Compares replicas before each checkpoint, and every --check_replicas_every steps if that is
  // above 0; never if it is below 0.
  absl::Status CheckReplicasAfter(int64_t steps, bool last);
  absl::StatusOr<bool> HandleSkipped(int64_t step, const StepResult& result,
                                     const std::vector<Batch>& micro_batches);
  absl::StatusOr<bool> HandleNonFinite(int64_t step, const StepResult& result,
                                       const std::vector<Batch>& micro_batches);
  // Evaluates the weights after `steps` steps, and their average if any, and reports the losses.
  // False, without a report, if a signal has ended it.
  absl::StatusOr<bool> EvaluateAll(int64_t steps);
  absl::StatusOr<std::optional<float>> Evaluate();
  // Says how much of the held-out data an evaluation reads, unless it is all of it.
  void SayEvaluation(std::vector<std::string>& notes) const;
  // Names options of a fine-tuning run that have the defaults of training from scratch.
  void AddFineTuningNotes(std::vector<std::string>& notes) const;
  // An error becomes a warning, unless the ranks cannot go on together.
  absl::Status ShowSample(int64_t step);

  // Checkpoints and exports.
  // Sets saver_, unless the ranks do not share --out, which is an error with --checkpoint_every.
  // Checkpoints have files that make them self-describing.
  absl::Status OpenSaver(std::vector<std::string>& notes);
  // True if there is to be a checkpoint after `steps` steps. `last`: the run ends there.
  bool SavesAfter(int64_t steps, bool last) const {
    const int64_t every = options_.checkpoint_every;
    return saver_ != nullptr && (interrupted_ || (every > 0 && (last || steps % every == 0)));
  }
  // Saves a checkpoint after `steps` steps, if one is due and there is none yet. The `last` one is
  // never skipped.
  absl::Status SaveCheckpoint(int64_t steps, bool last);
  // Looks for failed saves after a call of saver_ that returned `status`. A failed save is a
  // warning. It ends the run if it was the last one, or if several in a row have failed. Prints
  // `note`, if any, and the checkpoints saved and deleted since the last call. Returns errors of
  // anything but a save.
  absl::Status JudgeSaves(const absl::Status& status, const std::string& note = "");
  // Deletes checkpoints that were set aside and that retention does not keep. An error is a
  // warning.
  void DeleteSetAside();
  // Writes the weights, and their average if any, each as a model.
  absl::Status Export();
  // A failure ends the run after the other exports.
  absl::Status ExportTo(const ExportDirectories& directories);

  // Output of rank 0, and the end of the run.
  // Sets the text that an interrupt prints from now on.
  void AnnounceInterrupt();
  // Writes the trace after the last traced step, or at the end of the run.
  void SayTraced();
  // Ends the run with an error, the same on all ranks, after everything that can be saved is saved.
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
  std::optional<StepTrace> trace_;  // outlives the trainer, which writes to its timeline
  std::unique_ptr<Trainer> trainer_;
  FileDescriptor lock_;                     // outlives everything that writes to --out
  std::unique_ptr<CheckpointSaver> saver_;  // null: none can be saved
  std::unique_ptr<Reporter> reporter_;
  uint64_t content_ = 0;        // hash of the data
  int64_t first_step_ = 0;      // steps that earlier runs have made
  int64_t first_sequence_ = 0;  // sequences that earlier runs have read
  int64_t skipped_steps_ = 0;
  int64_t nonfinite_in_a_row_ = 0;     // skipped steps in a row that were not finite
  std::optional<int64_t> newest_;      // step of the newest checkpoint, or of the one resumed from
  std::optional<int64_t> saved_;       // step of the latest checkpoint that was begun
  std::optional<int64_t> last_save_;   // step of the run's last checkpoint, once it is begun
  std::vector<std::string> exported_;  // directories of exported models
  bool interrupted_ = false;           // some rank got a signal, as all ranks know
  RunEnd end_ = RunEnd::kFinished;
  absl::Status failure_;  // ends the run after everything good is saved
};

}  // namespace zeroth
