// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/api/rank.h"
#include "zeroth/api/trainer.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/train/cached_reference.h"
#include "zeroth/train/evaluator.h"
#include "zeroth/train/interrupt.h"
#include "zeroth/train/metrics.h"
#include "zeroth/train/reporter.h"
#include "zeroth/train/resume.h"
#include "zeroth/train/run.h"
#include "zeroth/train/run_input.h"
#include "zeroth/train/run_spec.h"
#include "zeroth/train/run_store.h"
#include "zeroth/train/step_trace.h"

namespace zeroth {

// One rank's run: set up and ended in rank_run.cc, its steps and evaluations in rank_run_step.cc.
class RankRun {
 public:
  using Clock = std::chrono::steady_clock;

  // The program's run began at `begin`.
  RankRun(const RunSpec& spec, const RunInput& input, Communicator& world, Clock::time_point begin)
      : spec_(spec),
        options_(spec.options),
        input_(input),
        world_(world),
        begin_(begin),
        length_(input.length) {}

  // Runs to the end. Writes a flight record if a communication error ended the run.
  absl::Status Run();
  // How a run without an error ended; the same on every rank.
  RunEnd end() const { return end_; }

 private:
  absl::Status SetUpAndTrain();
  // Prepares everything that the first step needs.
  absl::Status SetUp();
  // If ranks are processes, refuses those that have other flags or other data than rank 0.
  absl::Status CompareWithRankZero();
  // Initializes or loads the state, and opens the data at the right position. `reference` has the
  // reference's losses of the training pairs, or is null. Adds lines to print.
  absl::Status FillOrResume(std::shared_ptr<const ReferenceLosses> reference,
                            std::vector<std::string>& notes);
  // Computes the checksum of the data.
  absl::Status HashData();
  // Names options of a fine-tuning run that have the defaults of training from scratch.
  void AddFineTuningNotes(std::vector<std::string>& notes) const;
  // Says that the learning rate only rises, if the warm-up lasts to the end of the run.
  void AddWarmupNote(std::vector<std::string>& notes) const;
  // Waits for the other ranks, and returns failure_.
  absl::Status BarrierAtEnd();

  // Step and the handlers return true if the run is to end. Step reports and saves a step before it
  // evaluates it, so that no error or signal of an evaluation loses it.
  absl::StatusOr<bool> Step(int64_t step, Clock::time_point start);
  absl::StatusOr<bool> HandleSkipped(int64_t step, const StepResult& result,
                                     const std::vector<Batch>& micro_batches);
  absl::StatusOr<bool> HandleNonFinite(int64_t step, const StepResult& result,
                                       const std::vector<Batch>& micro_batches);
  // Compares replicas before each checkpoint, and every --check_replicas_every steps if that is
  // above 0; never if it is below 0.
  absl::Status CheckReplicasAfter(int64_t steps, bool last);
  // True if the run saves a checkpoint after `steps` steps. `last`: the run ends there.
  bool SavesAfter(int64_t steps, bool last) const {
    const int64_t every = options_.checkpoint_every;
    return store_ != nullptr && store_->can_save() &&
           (interrupted_ || (every > 0 && (last || steps % every == 0)));
  }
  absl::Status SaveCheckpoint(int64_t steps, bool last);

  bool EvaluatesAfter(int64_t steps, bool last) const {
    return evaluator_.has_value() &&
           (last || (options_.eval_every > 0 && steps % options_.eval_every == 0));
  }
  // True, on all ranks, if the run that this one resumes ended before its evaluation of
  // first_step_.
  absl::StatusOr<bool> ResumedBeforeEvaluation();
  // Evaluates the weights after `steps` steps, and reports the losses. Returns false, without a
  // report, and sets interrupted_, if a signal ended the evaluation.
  absl::StatusOr<bool> Evaluate(int64_t steps);
  // Prints a sample of text. An error becomes a warning, unless the communication is broken.
  absl::Status ShowSample(int64_t step);

  // True if --max_seconds have passed.
  bool IsTimeUp() const {
    return options_.max_seconds > 0 &&
           Clock::now() - begin_ >= std::chrono::seconds(options_.max_seconds);
  }
  // True if this rank wants the run to end early. The ranks agree on it with the next result.
  bool WantsToStop() const { return Interrupted() || IsTimeUp(); }
  // The run's directory; empty if it is not known yet, or if a run that only evaluates has none.
  const std::string& out() const { return store_ != nullptr ? store_->directory() : options_.out; }
  int64_t SequencesAfter(int64_t steps) const {
    return first_sequence_ + (steps - first_step_) * SequencesPerStep(options_);
  }
  DataOrder Order() const;
  // Prints the report's lines, and ends the run if the report has a failure.
  absl::Status HandleReport(absl::StatusOr<RunStore::Report> report);
  // Sets the text that an interrupt prints from now on.
  void AnnounceInterrupt();
  // Writes the trace after the last traced step, or at the end of the run.
  void WriteTrace();
  // Ends the run with an error, the same on all ranks, after everything that can be saved is saved.
  void RecordFailure(const absl::Status& status) { failure_ = Joined(failure_, status); }
  void Say(const std::string& line) {
    if (reporter_ != nullptr) reporter_->Say(line);
  }
  void Warn(const absl::Status& status) {
    if (reporter_ != nullptr) reporter_->Warn(status);
  }
  Device& device() { return rank_->device(); }

  const RunSpec& spec_;
  const TrainOptions& options_;
  const RunInput& input_;
  Communicator& world_;
  const Clock::time_point begin_;
  std::unique_ptr<Rank> rank_;
  std::optional<BatchPrefetcher> batches_;  // for training steps
  std::optional<Evaluator> evaluator_;      // nullopt: there are no held-out data
  std::optional<StepTrace> trace_;          // outlives the trainer, which writes to its timeline
  std::unique_ptr<Trainer> trainer_;        // of the reference while its losses are computed
  std::unique_ptr<RunStore> store_;         // null: the run only evaluates
  std::unique_ptr<Reporter> reporter_;      // null except on rank 0
  uint64_t content_ = 0;                    // hash of the data
  RunLength length_;
  int64_t first_step_ = 0;      // steps that earlier runs have made
  int64_t first_sequence_ = 0;  // sequences that earlier runs have read
  int64_t skipped_steps_ = 0;
  int64_t updated_step_ = 0;        // the last one that was not skipped, or first_step_
  int64_t nonfinite_in_a_row_ = 0;  // skipped steps in a row that were not finite
  bool interrupted_ = false;        // some rank wanted to stop; the same on all ranks
  RunEnd end_ = RunEnd::kFinished;
  absl::Status failure_;  // ends the run once everything that can be saved is saved
};

}  // namespace zeroth
