// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The input and output of a rank's run: its directory, its state, checkpoints and models.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/sharded/checkpoint_directory.h"
#include "zeroth/checkpoint/sharded/training_state.h"
#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"
#include "zeroth/core/comm/process/process_environment.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/nn/layers/attention.h"
#include "zeroth/options/option_registry.h"
#include "zeroth/train/export.h"
#include "zeroth/train/flight_record.h"
#include "zeroth/train/interrupt.h"
#include "zeroth/train/progress.h"
#include "zeroth/train/resume.h"
#include "zeroth/train/run.h"

namespace zeroth {
namespace {

// The run ends after this many failed checkpoints in a row.
constexpr int kMostFailedSaves = 3;

// Warns that Open MPI's mpirun kills ranks one second after a signal, unless it was told to wait.
// Empty for other launchers.
std::string SignalsUnderMpirun() {
  const auto ranks = ProcessEnvironment::ReadRanks();
  if (!ranks.ok() || ranks->launcher != "mpirun") return "";
  // Open MPI 4 and 5 hand the options of mpirun to its ranks like this.
  for (const char* set :
       {"OMPI_MCA_odls_base_sigkill_timeout", "PRTE_MCA_odls_base_sigkill_timeout"}) {
    if (ProcessEnvironment::Variable(set).has_value()) return "";
  }
  return "mpirun kills its ranks a second after SIGTERM or Ctrl-C, perhaps before the checkpoint "
         "is complete: start it with --mca odls_base_sigkill_timeout 30, or send it SIGUSR1, "
         "which it only forwards";
}

RetentionOptions Retention(const TrainOptions& options) {
  return {.keep_last = options.keep_last, .keep_every = options.keep_every};
}

}  // namespace

absl::Status RankRun::AgreeOnOutput() {
  if (!options_.out.empty() || job_.only_evaluates) return absl::OkStatus();
  absl::StatusOr<std::string> made = "";
  if (world_.rank() == 0) made = NewRunDirectory();
  ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(world_, device(), made.status(), "make a directory"));
  ZEROTH_ASSIGN_OR_RETURN(job_.options.out,
                          BroadcastText(world_, device(), 0, *made, "name the directory"));
  return AgreeOnStatus(world_, device(), OpenOutput(job_), "open the directory");
}

absl::Status RankRun::CompareWithRankZero() {
  if (job_.ranks_are_threads) return absl::OkStatus();
  // In large data, some tokens from all over it, so that even a slow disk has them at once.
  constexpr int64_t kSmall = int64_t{1} << 20;
  constexpr int64_t kCompared = 256;
  const TrainOptions resolved = Resolved(options_);
  nlohmann::json facts;
  for (const Option& option : AllOptions()) facts[option.name] = OptionValue(option, resolved);
  // Options that may differ between machines.
  for (const char* own : {"threads_per_rank", "memory_limit", "cache_dir", "offload_dir"}) {
    facts.erase(own);
  }
  absl::Status mine;
  for (const auto& [name, data] : {std::pair("data", job_.data), {"eval_data", job_.eval_data}}) {
    facts[name] = "none";
    if (data == nullptr) continue;
    const absl::StatusOr<uint64_t> hash = data->Hash(data->tokens() > kSmall ? kCompared : kSmall);
    mine.Update(hash.status());
    facts[name] =
        absl::StrCat(data->tokens(), " tokens, checksum ", ChecksumText(hash.value_or(0)));
  }
  using nlohmann::json;
  // Paths need not be UTF-8.
  const std::string text = facts.dump(-1, ' ', false, json::error_handler_t::replace);
  ZEROTH_ASSIGN_OR_RETURN(const std::string first,
                          BroadcastText(world_, device(), 0, text, "compare flags and data"));
  const std::vector<std::string> others = Changed(json::parse(first), json::parse(text));
  if (!others.empty()) {
    mine.Update(
        InvalidArgument("has other flags or data than rank 0: ", absl::StrJoin(others, "; "),
                        "; give all ranks the same flags and the same files"));
  }
  return AgreeOnStatus(world_, device(), mine, "compare flags and data");
}

absl::Status RankRun::ClearOutput() {
  absl::Status status;
  if (world_.rank() == 0 && options_.overwrite) status = RemoveEarlierRun(options_.out);
  if (world_.rank() == 0) status.Update(SetFlightRecordAside(options_.out));
  if (world_.rank() == 0 && status.ok()) {
    status = WriteConfig(options_.out, AsTold(options_));
  }
  if (world_.rank() == 0 && status.ok()) status = PointLatestTo(options_.out);
  return AgreeOnStatus(world_, device(), status, "clear the directory");
}

absl::StatusOr<std::vector<std::string>> RankRun::FillOrResume() {
  Resumed resumed;
  if (!job_.only_evaluates) {
    absl::StatusOr<uint64_t> hash = uint64_t{0};
    if (world_.rank() == 0) hash = job_.data->Hash();
    ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(world_, device(), hash.status(), "hash the data"));
    ZEROTH_ASSIGN_OR_RETURN(
        const std::string text,
        BroadcastText(world_, device(), 0, ChecksumText(*hash), "hash the data"));
    ZEROTH_ASSIGN_OR_RETURN(content_, ParseChecksum(text));
  }
  if (!options_.resume.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(resumed,
                            Resume(options_, *trainer_, job_.source.Reader(options_.seed)));
  }
  LoaderOptions loader = LoaderOptionsFor(job_, world_.rank());
  if (!resumed.progress.has_value()) {
    ZEROTH_RETURN_IF_ERROR(trainer_->sharding().Load(job_.source.Reader(options_.seed)));
  } else {
    const RunProgress& progress = *resumed.progress;
    first_step_ = progress.steps;
    newest_ = progress.steps;
    skipped_steps_ = progress.skipped_steps;
    // A position has no meaning in other data or in another order.
    const std::vector<std::string> others = Order().Differences(progress.data);
    if (others.empty()) {
      first_sequence_ = progress.sequences;
    } else {
      resumed.notes.push_back(absl::StrCat(
          "resume    the data or their order have changed, so they are read from the beginning: ",
          absl::StrJoin(others, "; ")));
    }
    loader.first_window = first_sequence_ - first_step_ * SequencesPerStep(options_);
  }
  ZEROTH_ASSIGN_OR_RETURN(DataLoader batches, DataLoader::Create(job_.data, loader));
  batches_.emplace(std::move(batches), options_.grad_accum, first_step_, options_.steps);
  return resumed.notes;
}

absl::Status RankRun::SayAttention(std::vector<std::string>& notes) const {
  std::optional<AttentionShape> shape = FindAttentionShape(trainer_->model());
  if (!shape.has_value()) return absl::OkStatus();
  shape->batch = options_.batch_size;
  shape->seq = options_.seq_len;
  ZEROTH_ASSIGN_OR_RETURN(
      const std::string attention,
      kernels::DescribeAttention(trainer_->kernels(), *shape,
                                 options_.mixed_precision().param_dtype, job_.within_documents));
  if (!attention.empty()) notes.push_back(absl::StrCat("attention ", attention));
  return absl::OkStatus();
}

DataOrder RankRun::Order() const {
  return {job_.data->tokens(), content_, options_.seq_len, options_.seed, options_.shuffle};
}

absl::Status RankRun::OpenSaver(std::vector<std::string>& notes) {
  const absl::Status shared = CheckSharedDirectory(options_.out, world_, device());
  if (!shared.ok()) {
    ZEROTH_RETURN_IF_ERROR(world_.status());
    if (options_.checkpoint_every > 0) return Annotate(shared, "--checkpoint_every");
    notes.push_back(absl::StrCat("warning   ", shared.message(),
                                 "; a signal ends this run without a checkpoint"));
    return absl::OkStatus();
  }
  CheckpointSaverOptions saver;
  saver.directory = options_.out;
  saver.retention = Retention(options_);
  ZEROTH_ASSIGN_OR_RETURN(const ExportOptions options, ExportOptionsOf(job_));
  ZEROTH_ASSIGN_OR_RETURN(
      saver.files, ModelFiles(trainer_->model(), options_.mixed_precision().master_dtype, options));
  const std::string under_mpirun = SignalsUnderMpirun();
  if (!under_mpirun.empty()) notes.push_back(absl::StrCat("signals   ", under_mpirun));
  saver.async = options_.async_checkpoint;
  if (!saver.async) {
    // The other ranks wait for rank 0 in a collective, whose time limit would hide the saver's own.
    ZEROTH_ASSIGN_OR_RETURN(const absl::Duration limit, ParseTimeout(options_.comm_timeout));
    saver.timeout = std::min(saver.timeout, 0.8 * limit);
  }
  saver.skip_when_busy = options_.async_when_busy == "skip";
  ZEROTH_ASSIGN_OR_RETURN(saver_, CheckpointSaver::Create(world_, device(), saver));
  return absl::OkStatus();
}

absl::Status RankRun::SaveCheckpoint(int64_t steps, bool last) {
  if (!SavesAfter(steps, last) || saved_ == steps) return JudgeSaves(absl::OkStatus());
  RunProgress progress;
  progress.steps = steps;
  progress.skipped_steps = skipped_steps_;
  progress.sequences = first_sequence_ + (steps - first_step_) * SequencesPerStep(options_);
  progress.data = Order();
  progress.trainer = trainer_->counts();
  progress.flags = ResultFlags(options_);
  progress.model = trainer_->model().HfConfig();
  saved_ = steps;
  if (last) last_save_ = steps;
  const absl::StatusOr<std::vector<ShardState>> states = trainer_->states();
  if (!states.ok()) return JudgeSaves(states.status());
  // A run that continues from this checkpoint does not compute these lines again.
  if (reporter_ != nullptr) reporter_->SyncMetrics();
  const absl::StatusOr<bool> saved =
      saver_->Save(steps, progress.ToJson(), OwnedPieces(trainer_->sharding(), *states), last);
  return JudgeSaves(
      saved.status(),
      saved.value_or(true)
          ? ""
          : absl::StrCat("step ", steps, "  no checkpoint: earlier ones are still being written"));
}

absl::Status RankRun::JudgeSaves(const absl::Status& status, const std::string& note) {
  const std::vector<FailedSave> failed = saver_->TakeFailed();
  if (!status.ok()) ZEROTH_RETURN_IF_ERROR(world_.status());
  if (failed.empty()) ZEROTH_RETURN_IF_ERROR(status);
  for (const FailedSave& save : failed) {
    const absl::Status named =
        Annotate(save.status, absl::StrCat("the checkpoint of step ", save.step));
    if (save.step == last_save_) {
      EndWith(named);
    } else {
      Warn(named);
    }
  }
  if (failure_.ok() && saver_->failures_in_a_row() >= kMostFailedSaves) {
    EndWith(Annotate(failed.empty() ? status : failed.back().status,
                     absl::StrCat(saver_->failures_in_a_row(),
                                  " checkpoints in a row could not be saved; the last")));
  }
  if (!note.empty()) Say(note);
  const std::vector<CompletedSave> completed = saver_->TakeCompleted();
  for (const CompletedSave& save : completed) {
    Say(absl::StrFormat("step %d  checkpoint in %s, %s in %.2f s", save.step,
                        CheckpointPath(options_.out, save.step), FormatBytes(save.bytes),
                        save.seconds));
    newest_ = save.step;
  }
  for (const std::string& warning : saver_->TakeWarnings()) {
    Say(absl::StrCat("warning   ", warning));
  }
  if (completed.empty()) return absl::OkStatus();
  DeleteSetAside();
  AnnounceInterrupt();
  return absl::OkStatus();
}

void RankRun::DeleteSetAside() {
  const absl::StatusOr<std::vector<std::string>> deleted =
      DeleteSuperfluousSetAside(options_.out, Retention(options_));
  if (!deleted.ok()) return Say(absl::StrCat("warning: ", deleted.status().message()));
  for (const std::string& name : *deleted) {
    Say(absl::StrCat("deleted ", options_.out, "/", name, ", as --keep_last=", options_.keep_last,
                     " says"));
  }
}

absl::Status RankRun::Export() {
  ZEROTH_RETURN_IF_ERROR(ExportTo(job_.final_directories));
  if (trainer_->ema() == nullptr) return absl::OkStatus();
  ZEROTH_RETURN_IF_ERROR(trainer_->ema()->Swap());
  ZEROTH_RETURN_IF_ERROR(ExportTo(job_.ema_directories));
  return trainer_->ema()->Swap();
}

absl::Status RankRun::ExportTo(const ExportDirectories& directories) {
  ZEROTH_ASSIGN_OR_RETURN(ExportOptions options, ExportOptionsOf(job_));
  for (const auto& [kind, directory] : directories) {
    options.directory.kind = kind;
    const absl::Status status = ExportModel(*trainer_, directory, options);
    if (status.ok()) {
      exported_.push_back(directory);
      continue;
    }
    // After a success other ranks may have ended already, so that world_.status() would be an
    // error.
    ZEROTH_RETURN_IF_ERROR(world_.status());
    EndWith(Annotate(status, absl::StrCat("the model in ", directory)));
  }
  return absl::OkStatus();
}

void RankRun::AnnounceInterrupt() {
  if (reporter_ == nullptr) {
    // Ranks that are threads share the process with rank 0, whose text stays.
    if (!job_.ranks_are_threads) AnnounceOnInterrupt("", "");
    return;
  }
  const std::string lost = newest_
                               ? absl::StrCat("everything since the checkpoint of step ", *newest_)
                               : "the whole run, since there is no checkpoint yet";
  const std::string under_mpirun = SignalsUnderMpirun();
  AnnounceOnInterrupt(
      job_.only_evaluates
          ? "\ninterrupt: the evaluation ends after this batch, without a result\n"
          : absl::StrCat("\ninterrupt: the run ends after this step",
                         saver_ != nullptr
                             ? absl::StrCat(" and saves a checkpoint in ", options_.out)
                             : ", without a checkpoint",
                         ". A second interrupt ends it at once and loses ", lost, ".\n",
                         under_mpirun.empty() ? "" : absl::StrCat(under_mpirun, ".\n")),
      absl::StrCat("\ninterrupt: ended at once. Lost: ", job_.only_evaluates ? "nothing" : lost,
                   ".\n"));
}

void RankRun::EndWith(const absl::Status& status) {
  if (status.ok()) return;
  failure_ = failure_.ok()
                 ? status
                 : absl::Status(failure_.code(),
                                absl::StrCat(failure_.message(), "\n  and: ", status.message()));
}

}  // namespace zeroth
