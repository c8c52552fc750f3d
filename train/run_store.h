// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/api/rank.h"
#include "zeroth/api/trainer.h"
#include "zeroth/checkpoint/sharded/checkpoint_saver.h"
#include "zeroth/core/base/file/file_descriptor.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/train/resume.h"
#include "zeroth/train/run_input.h"
#include "zeroth/train/run_spec.h"

namespace zeroth {

// Returns an error with both messages, and the code of the first; one of them if the other is OK.
absl::Status Joined(const absl::Status& first, const absl::Status& second);

// Checks that a run may use `directory`, and that its models can be written there, so that a run
// fails before its start and not at its end. Creates the directory, unless it exists. Errors of
// CheckRunDirectory and CheckExport.
absl::Status CheckOutput(const RunSpec& spec, const RunInput& input, const LanguageModel& model,
                         const std::string& directory);

// The directory of a run: its configuration, checkpoints and models. Each rank has one, and the
// ranks call Open, Begin, Save, Wait and Export together. Holds the directory's lock.
class RunStore {
 public:
  // The checkpoints and models written or deleted since the last call, and their errors.
  struct Report {
    std::vector<std::string> lines;  // to print: what was written or deleted, and warnings
    absl::Status failure;            // ends the run once everything that can be saved is saved
    bool has_checkpoint = false;     // newest() has changed, on rank 0
  };

  // Opens the directory of --out. Without one, rank 0 makes a directory under kRunsDirectory for
  // all. Everything that is passed but the model must outlive the store. Errors of CheckOutput and
  // LockRunDirectory, the same on every rank. So is the error of ranks that do not share the
  // directory (CheckSharedDirectory), with --resume=auto, --checkpoint_every or --max_seconds.
  static absl::StatusOr<std::unique_ptr<RunStore>> Open(const RunSpec& spec, const RunInput& input,
                                                        Rank& rank, const LanguageModel& model);

  const std::string& directory() const { return directory_; }
  // The path of the first model that Export writes.
  std::string final_model() const;

  // Called when only training remains. Rank 0 deletes an earlier run's files if --overwrite says
  // so, writes config.toml, and points zeroth_out/latest to this run. Then checkpoints can be
  // saved, unless the ranks do not share the directory. `trainer`, which must outlive the store,
  // has what is saved and exported. `resumed`: the step of the checkpoint that the run resumes
  // from. Returns lines to print.
  absl::StatusOr<std::vector<std::string>> Begin(Trainer& trainer, std::optional<int64_t> resumed);

  bool can_save() const { return saver_ != nullptr; }
  // The fraction of the oldest unfinished checkpoint that this rank has written; nullopt: none is
  // being written.
  std::optional<double> saving() const;
  // The step of the newest complete checkpoint, or of the one that the run resumed from; on rank 0.
  std::optional<int64_t> newest() const { return newest_; }
  // Saves a checkpoint after progress.steps steps, unless one is complete or being written already.
  // The `last` one of a run is never skipped. A failed save is a warning; it ends the run if it was
  // the last one, or if several in a row have failed. Returns errors of anything but a save.
  absl::StatusOr<Report> Save(const RunProgress& progress, bool last);
  // Report on the saves in flight without starting one; Wait waits for their end.
  absl::StatusOr<Report> Poll() { return ReportSaves(absl::OkStatus()); }
  absl::StatusOr<Report> Wait();

  // Writes the weights, and their average if there is one, each as a model. A model that cannot be
  // written becomes the report's failure; the others are still written.
  absl::StatusOr<Report> Export();
  // The directories of the models that Export has written.
  const std::vector<std::string>& exported() const { return exported_; }

 private:
  RunStore(const RunSpec& spec, const RunInput& input, Rank& rank)
      : spec_(spec), input_(input), world_(rank.world()), device_(rank.device()) {}

  absl::Status CheckShared();
  absl::Status Clear();
  absl::StatusOr<Report> ReportSaves(const absl::Status& status, const std::string& note = "");
  // Deletes checkpoints that were set aside and that retention does not keep. An error is a
  // warning.
  void DeleteSetAside(Report& report);
  absl::Status ExportTo(absl::string_view name, Report& report);

  const RunSpec& spec_;
  const RunInput& input_;
  Communicator& world_;
  Device& device_;
  Trainer* trainer_ = nullptr;  // null before Begin
  std::string directory_;
  FileDescriptor lock_;                     // outlives everything that writes to the directory
  absl::Status shared_;                     // result of CheckSharedDirectory
  std::unique_ptr<CheckpointSaver> saver_;  // null: none can be saved
  std::optional<int64_t> newest_;
  std::optional<int64_t> saved_;      // step of the latest save neither skipped nor failed at once
  std::optional<int64_t> last_save_;  // step of the run's last checkpoint, once it is begun
  bool gave_up_ = false;              // too many saves in a row have failed
  std::vector<std::string> exported_;
};

}  // namespace zeroth
