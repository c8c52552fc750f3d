// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_RUN_CHECKPOINTS_H_
#define ZEROTH_TRAIN_RUN_CHECKPOINTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/checkpoint/sharded/checkpoint_saver.h"
#include "zeroth/strategies/sharding.h"
#include "zeroth/train/options.h"
#include "zeroth/train/run_progress.h"
#include "zeroth/train/trainer.h"

namespace zeroth {

// Before any rank starts: FailedPrecondition if --out holds checkpoints that the run would neither
// go on from nor spare; NotFound if what --resume names is not there.
absl::Status CheckCheckpointFlags(const TrainOptions& options);

struct Resumed {
  // Nothing if there was nothing to resume from: the state is as it was.
  std::optional<RunProgress> progress;
  // What there is to say: which checkpoint it was, which ones were passed over and why, what is
  // different now. The same on every rank but for what was filled in.
  std::vector<std::string> notes;
};

// Brings the trainer to the state of the checkpoint that --resume asks for: weights, moments, the
// average of the weights, and Trainer::counts(). A damaged checkpoint is passed over for the newest
// intact one before it, where the choice is ours (auto, or a directory of several). With
// --allow_partial, what the checkpoint lacks comes from `fill_missing`. Checkpoints in --out that
// are newer than the one resumed are of a past that will not be, and are set aside if this run
// writes its own. Collective; the same error on every rank: DataLoss if every checkpoint is
// damaged, with each one's damage; those of LoadState.
absl::StatusOr<Resumed> Resume(const TrainOptions& options, Trainer& trainer,
                               const ParameterReader& fill_missing);

// Checkpoints of a run while it runs, by --checkpoint_every and its companions.
class RunCheckpoints {
 public:
  // Collective. Null if none are asked for.
  static absl::StatusOr<std::unique_ptr<RunCheckpoints>> Create(const TrainOptions& options,
                                                                Trainer& trainer);

  // Whether there is to be one after so many steps; `last`: the run ends there.
  bool IsDue(int64_t steps, bool last) const;
  // Collective. Saves the trainer's state with `progress`, to which it adds what the trainer knows.
  absl::Status Save(RunProgress progress);
  // Without waiting: an error that happened in the background since.
  absl::Status status() const { return saver_->status(); }
  // Of a checkpoint that is being written in the background: the part that is.
  std::optional<double> saving() const;
  // Collective: waits for all to be complete.
  absl::Status Wait() { return saver_->Wait(); }
  // One line for each checkpoint that was completed, on rank 0, or skipped, since the last call.
  std::vector<std::string> TakeNotes();

 private:
  RunCheckpoints(const TrainOptions& options, Trainer& trainer,
                 std::unique_ptr<CheckpointSaver> saver)
      : options_(options), trainer_(trainer), saver_(std::move(saver)) {}

  const TrainOptions& options_;
  Trainer& trainer_;
  std::unique_ptr<CheckpointSaver> saver_;
  std::vector<std::string> notes_;
};

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_RUN_CHECKPOINTS_H_
