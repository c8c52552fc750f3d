// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_RUN_CHECKPOINTS_H_
#define ZEROTH_TRAIN_RUN_CHECKPOINTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/checkpoint/sharded/checkpoint_saver.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/mixture.h"
#include "zeroth/strategies/sharding.h"
#include "zeroth/train/options.h"
#include "zeroth/train/run_progress.h"
#include "zeroth/train/trainer.h"

namespace zeroth {

// Checks before any rank starts: NotFound if there is no checkpoint where --resume says.
absl::Status CheckCheckpointFlags(const TrainOptions& options);

// Collective: returns HashTokens of the data, which rank 0 computes for all.
absl::StatusOr<uint64_t> AgreedContent(const Mixture& data, Communicator& world, Device& device);

struct Resumed {
  // nullopt if there was no checkpoint; the state is unchanged then.
  std::optional<RunProgress> progress;
  // Lines to print: which checkpoint was loaded, which were passed over and why, and what differs
  // now. The same on every rank, except for the names of values that were filled in.
  std::vector<std::string> notes;
};

// Loads the checkpoint that --resume names into the trainer: weights, moments, the average of the
// weights, and Trainer::counts(). If --resume is auto or a directory of several checkpoints,
// damaged ones are passed over for the newest intact one. A checkpoint with a newer format, or one
// that cannot be read now, is an error. With --allow_partial, `fill_missing` gives the values that
// the checkpoint lacks. Checkpoints in --out that are newer than the resumed one are renamed (set
// aside) if this run writes checkpoints of its own. Collective, with the same error on every rank:
// DataLoss if every checkpoint is damaged, with the damage of each; also the errors of LoadState.
absl::StatusOr<Resumed> Resume(const TrainOptions& options, Trainer& trainer,
                               const ParameterReader& fill_missing);

// Writes the checkpoints of a run, as --checkpoint_every and the options beside it say.
class RunCheckpoints {
 public:
  // Collective. Returns null without --checkpoint_every. `files` become part of each checkpoint and
  // make it self-describing.
  static absl::StatusOr<std::unique_ptr<RunCheckpoints>> Create(
      const TrainOptions& options, Trainer& trainer, std::map<std::string, std::string> files);

  // True if there is to be a checkpoint after `steps` steps. `last`: the run ends there.
  bool IsDue(int64_t steps, bool last) const;
  // Collective. Saves the trainer's state and `progress`, to which it adds the trainer's own
  // counts. Afterwards, and after Wait, TakeFailed and failures_in_a_row say what has failed. The
  // `last` checkpoint is never skipped.
  absl::Status Save(RunProgress progress, bool last);
  std::vector<FailedSave> TakeFailed() { return saver_->TakeFailed(); }
  int failures_in_a_row() const { return saver_->failures_in_a_row(); }
  // The fraction written so far of a checkpoint that is being written in the background.
  std::optional<double> saving() const;
  // Collective: waits until all checkpoints are complete.
  absl::Status Wait() { return saver_->Wait(); }
  // Returns a line for each checkpoint that was completed (on rank 0) or skipped since the last
  // call, and for each one that could not be deleted.
  std::vector<std::string> TakeNotes();
  // On rank 0: the step of the newest checkpoint that TakeNotes has reported.
  std::optional<int64_t> newest() const { return newest_; }

 private:
  RunCheckpoints(const TrainOptions& options, Trainer& trainer,
                 std::unique_ptr<CheckpointSaver> saver)
      : options_(options), trainer_(trainer), saver_(std::move(saver)) {}
  // Deletes checkpoints that were set aside and that retention does not keep. An error becomes a
  // note.
  void DeleteSetAside();

  const TrainOptions& options_;
  Trainer& trainer_;
  std::unique_ptr<CheckpointSaver> saver_;
  std::vector<std::string> notes_;
  std::optional<int64_t> newest_;
};

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_RUN_CHECKPOINTS_H_
