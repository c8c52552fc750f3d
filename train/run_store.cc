// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/checkpoint/sharded/checkpoint_directory.h"
#include "zeroth/checkpoint/sharded/training_state.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"
#include "zeroth/options/option_registry.h"
#include "zeroth/train/export.h"
#include "zeroth/train/flight_record.h"
#include "zeroth/train/progress.h"
#include "zeroth/train/run_directory.h"

namespace zeroth {
namespace {

constexpr char kFinal[] = "final";
constexpr char kFinalAverage[] = "final_ema";

// The run ends after this many failed checkpoints in a row.
constexpr int kMostFailedSaves = 3;

// Directories that weights are written to: the whole model first, or the adapters alone.
using ExportDirectories = std::vector<std::pair<HfDirectoryKind, std::string>>;

ExportDirectories DirectoriesOf(const TrainOptions& options, const std::string& out,
                                absl::string_view name) {
  const std::string path = absl::StrCat(out, "/", name);
  ExportDirectories directories;
  if (options.lora_export != LoraExport::kAdapter)
    directories.emplace_back(HfDirectoryKind::kModel, path);
  if (options.lora_export != LoraExport::kMerged) {
    directories.emplace_back(HfDirectoryKind::kAdapter, absl::StrCat(path, "_adapter"));
  }
  return directories;
}

RetentionOptions Retention(const TrainOptions& options) {
  return {.keep_last = options.keep_last, .keep_every = options.keep_every};
}

std::string Warning(const absl::Status& status) {
  return absl::StrCat("warning   ", status.message());
}

}  // namespace

absl::Status Joined(const absl::Status& first, const absl::Status& second) {
  if (first.ok()) return second;
  if (second.ok()) return first;
  return absl::Status(first.code(), absl::StrCat(first.message(), "\n  and: ", second.message()));
}

absl::Status CheckOutput(const RunSpec& spec, const RunInput& input, const LanguageModel& model,
                         const std::string& directory) {
  ZEROTH_RETURN_IF_ERROR(CheckRunDirectory(spec.options, directory));
  std::vector<const char*> names = {kFinal};
  if (spec.options.ema_decay > 0) names.push_back(kFinalAverage);
  for (const char* const name : names) {
    for (const auto& [kind, path] : DirectoriesOf(spec.options, directory, name)) {
      ZEROTH_ASSIGN_OR_RETURN(const ExportOptions options, ExportOptionsOf(spec, input, kind));
      ZEROTH_RETURN_IF_ERROR(CheckExport(model, path, options));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RunStore>> RunStore::Open(const RunSpec& spec, const RunInput& input,
                                                         Rank& rank, const LanguageModel& model) {
  Communicator& world = rank.world();
  Device& device = rank.device();
  std::unique_ptr<RunStore> store(new RunStore(spec, input, rank));
  store->directory_ = spec.options.out;
  if (store->directory_.empty()) {
    absl::StatusOr<std::string> made = "";
    if (world.rank() == 0) made = NewRunDirectory();
    ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(world, device, made.status(), "make a directory"));
    ZEROTH_ASSIGN_OR_RETURN(store->directory_,
                            BroadcastText(world, device, 0, *made, "name the directory"));
  }
  ZEROTH_ASSIGN_OR_RETURN(store->lock_, LockRunDirectory(store->directory_, world, device));
  // Another run may have used the directory since it was checked before the ranks started.
  ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(
      world, device,
      world.rank() == 0 ? CheckOutput(spec, input, model, store->directory_) : absl::OkStatus(),
      "look into the directory"));
  ZEROTH_RETURN_IF_ERROR(store->CheckShared());
  return store;
}

// Call it before a checkpoint is read, which would seem damaged if some of its files were
// elsewhere.
absl::Status RunStore::CheckShared() {
  const TrainOptions& options = spec_.options;
  shared_ = CheckSharedDirectory(directory_, world_, device_);
  if (shared_.ok()) return absl::OkStatus();
  ZEROTH_RETURN_IF_ERROR(world_.status());
  if (options.resume == "auto") return Annotate(shared_, "--resume=auto");
  if (options.checkpoint_every > 0) return Annotate(shared_, "--checkpoint_every");
  if (options.max_seconds > 0) return Annotate(shared_, "--max_seconds");
  return absl::OkStatus();
}

std::string RunStore::final_model() const {
  return DirectoriesOf(spec_.options, directory_, kFinal).front().second;
}

std::optional<double> RunStore::saving() const {
  if (saver_ == nullptr || saver_->IsDone()) return std::nullopt;
  return saver_->progress();
}

absl::Status RunStore::Clear() {
  absl::Status status;
  if (world_.rank() == 0) {
    if (spec_.options.overwrite) status = RemoveEarlierRun(directory_);
    status.Update(SetFlightRecordAside(directory_));
    TrainOptions config = spec_.config;
    config.out = directory_;
    if (status.ok()) status = WriteConfig(directory_, config);
    if (status.ok()) status = UpdateLatestLink(directory_);
  }
  return AgreeOnStatus(world_, device_, status, "clear the directory");
}

absl::StatusOr<std::vector<std::string>> RunStore::Begin(Trainer& trainer,
                                                         std::optional<int64_t> resumed) {
  const TrainOptions& options = spec_.options;
  trainer_ = &trainer;
  newest_ = resumed;
  ZEROTH_RETURN_IF_ERROR(Clear());
  if (!shared_.ok()) {
    return std::vector<std::string>{
        absl::StrCat(Warning(shared_), "; a signal ends this run without a checkpoint")};
  }
  CheckpointSaverOptions saver;
  saver.directory = directory_;
  saver.retention = Retention(options);
  ZEROTH_ASSIGN_OR_RETURN(const ExportOptions files, ExportOptionsOf(spec_, input_));
  ZEROTH_ASSIGN_OR_RETURN(
      saver.files, ModelFiles(trainer.model(), options.mixed_precision().master_dtype, files));
  saver.async = options.async_checkpoint;
  if (!saver.async) {
    // The other ranks wait for rank 0 in a collective, whose time limit would hide the saver's own.
    ZEROTH_ASSIGN_OR_RETURN(const absl::Duration limit, ParseTimeout(options.comm_timeout));
    saver.timeout = std::min(saver.timeout, 0.8 * limit);
  }
  saver.skip_when_busy = options.async_when_busy == AsyncWhenBusy::kSkip;
  ZEROTH_ASSIGN_OR_RETURN(saver_, CheckpointSaver::Create(world_, device_, saver));
  return std::vector<std::string>();
}

absl::StatusOr<RunStore::Report> RunStore::Save(const RunProgress& progress, bool last) {
  const int64_t steps = progress.steps;
  // The failure of a save that is still being written then ends the run, too.
  if (last) last_save_ = steps;
  if (saved_ == steps) return ReportSaves(absl::OkStatus());
  const absl::StatusOr<std::vector<ShardState>> states = trainer_->states();
  if (!states.ok()) return ReportSaves(states.status());
  const absl::StatusOr<bool> saved =
      saver_->Save(steps, progress.ToJson(), OwnedPieces(trainer_->sharding(), *states), last);
  if (saved.ok() && *saved) saved_ = steps;
  return ReportSaves(
      saved.status(),
      saved.value_or(true)
          ? ""
          : absl::StrCat("step ", steps, "  no checkpoint: earlier ones are still being written"));
}

absl::StatusOr<RunStore::Report> RunStore::Wait() { return ReportSaves(saver_->Wait()); }

absl::StatusOr<RunStore::Report> RunStore::ReportSaves(const absl::Status& status,
                                                       const std::string& note) {
  const std::vector<FailedSave> failed = saver_->TakeFailed();
  if (!status.ok()) ZEROTH_RETURN_IF_ERROR(world_.status());
  if (failed.empty()) ZEROTH_RETURN_IF_ERROR(status);
  Report report;
  for (const FailedSave& save : failed) {
    const absl::Status named =
        Annotate(save.status, absl::StrCat("the checkpoint of step ", save.step));
    if (save.step == last_save_) {
      report.failure = Joined(report.failure, named);
    } else {
      report.lines.push_back(Warning(named));
    }
  }
  if (report.failure.ok() && !gave_up_ && saver_->failures_in_a_row() >= kMostFailedSaves) {
    gave_up_ = true;
    report.failure = Annotate(failed.empty() ? status : failed.back().status,
                              absl::StrCat(saver_->failures_in_a_row(),
                                           " checkpoints in a row could not be saved; the last"));
  }
  if (!note.empty()) report.lines.push_back(note);
  const std::vector<CompletedSave> completed = saver_->TakeCompleted();
  for (const CompletedSave& save : completed) {
    report.lines.push_back(absl::StrFormat("step %d  checkpoint in %s, %s in %.2f s", save.step,
                                           CheckpointPath(directory_, save.step),
                                           FormatBytes(save.bytes), save.seconds));
    newest_ = save.step;
  }
  for (const std::string& warning : saver_->TakeWarnings()) {
    report.lines.push_back(absl::StrCat("warning   ", warning));
  }
  report.has_checkpoint = !completed.empty();
  if (report.has_checkpoint) DeleteSetAside(report);
  return report;
}

void RunStore::DeleteSetAside(Report& report) {
  const absl::StatusOr<std::vector<std::string>> deleted =
      DeleteSuperfluousSetAside(directory_, Retention(spec_.options));
  if (!deleted.ok()) return report.lines.push_back(Warning(deleted.status()));
  for (const std::string& name : *deleted) {
    report.lines.push_back(absl::StrCat("deleted ", directory_, "/", name,
                                        ", as --keep_last=", spec_.options.keep_last, " says"));
  }
}

absl::StatusOr<RunStore::Report> RunStore::Export() {
  Report report;
  ZEROTH_RETURN_IF_ERROR(ExportTo(kFinal, report));
  if (trainer_->ema() == nullptr) return report;
  ZEROTH_RETURN_IF_ERROR(trainer_->ema()->Swap());
  ZEROTH_RETURN_IF_ERROR(ExportTo(kFinalAverage, report));
  ZEROTH_RETURN_IF_ERROR(trainer_->ema()->Swap());
  return report;
}

absl::Status RunStore::ExportTo(absl::string_view name, Report& report) {
  for (const auto& [kind, directory] : DirectoriesOf(spec_.options, directory_, name)) {
    ZEROTH_ASSIGN_OR_RETURN(const ExportOptions options, ExportOptionsOf(spec_, input_, kind));
    const absl::Status status = ExportModel(*trainer_, directory, options);
    if (status.ok()) {
      exported_.push_back(directory);
      continue;
    }
    // The world's status is read only after a failure. After a success other ranks may have left
    // already, which it would report as an error.
    ZEROTH_RETURN_IF_ERROR(world_.status());
    report.failure =
        Joined(report.failure, Annotate(status, absl::StrCat("the model in ", directory)));
  }
  return absl::OkStatus();
}

}  // namespace zeroth
