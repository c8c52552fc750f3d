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

// Before any rank starts: NotFound if what --resume names is not there.
absl::Status CheckCheckpointFlags(const TrainOptions& options);

// Collective: HashTokens of the data, which rank 0 computes for all.
absl::StatusOr<uint64_t> AgreedContent(const Mixture& data, Communicator& world, Device& device);

struct Resumed {
  // Nothing if there was nothing to resume from: the state is as it was.
  std::optional<RunProgress> progress;
  // What there is to say: which checkpoint it was, which ones were passed over and why, what is
  // different now. The same on every rank but for what was filled in.
  std::vector<std::string> notes;
};

// Brings the trainer to the state of the checkpoint that --resume asks for: weights, moments, the
// average of the weights, and Trainer::counts(). A checkpoint that is proven damaged is passed over
// for the newest intact one before it, where the choice is ours (auto, or a directory of several);
// one that is of a newer format, or cannot be read now, is an error. With
// --allow_partial, what the checkpoint lacks comes from `fill_missing`. Checkpoints in --out that
// are newer than the one resumed are of a past that will not be, and are set aside if this run
// writes its own. Collective; the same error on every rank: DataLoss if every checkpoint is
// damaged, with each one's damage; those of LoadState.
absl::StatusOr<Resumed> Resume(const TrainOptions& options, Trainer& trainer,
                               const ParameterReader& fill_missing);

// Checkpoints of a run while it runs, by --checkpoint_every and its companions.
class RunCheckpoints {
 public:
  // Collective. Null if none are asked for. Each carries `files`, which make it self-describing.
  static absl::StatusOr<std::unique_ptr<RunCheckpoints>> Create(
      const TrainOptions& options, Trainer& trainer, std::map<std::string, std::string> files);

  // Whether there is to be one after so many steps; `last`: the run ends there.
  bool IsDue(int64_t steps, bool last) const;
  // Collective. Saves the trainer's state with `progress`, to which it adds what the trainer knows.
  // Afterwards, and after Wait, the saver's TakeFailed and failures_in_a_row say what has failed.
  // The `last` one is never skipped.
  absl::Status Save(RunProgress progress, bool last);
  std::vector<FailedSave> TakeFailed() { return saver_->TakeFailed(); }
  int failures_in_a_row() const { return saver_->failures_in_a_row(); }
  // Of a checkpoint that is being written in the background: the part that is.
  std::optional<double> saving() const;
  // Collective: waits for all to be complete.
  absl::Status Wait() { return saver_->Wait(); }
  // One line for each checkpoint that was completed, on rank 0, or skipped, since the last call,
  // and for each one that could not be deleted.
  std::vector<std::string> TakeNotes();
  // On rank 0: the step of the newest that TakeNotes has told of.
  std::optional<int64_t> newest() const { return newest_; }

 private:
  RunCheckpoints(const TrainOptions& options, Trainer& trainer,
                 std::unique_ptr<CheckpointSaver> saver)
      : options_(options), trainer_(trainer), saver_(std::move(saver)) {}
  // Those set aside that retention does not keep; what fails is a note.
  void DeleteSetAside();

  const TrainOptions& options_;
  Trainer& trainer_;
  std::unique_ptr<CheckpointSaver> saver_;
  std::vector<std::string> notes_;
  std::optional<int64_t> newest_;
};

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_RUN_CHECKPOINTS_H_
