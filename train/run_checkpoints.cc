// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run_checkpoints.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "zeroth/checkpoint/sharded/checkpoint_directory.h"
#include "zeroth/checkpoint/sharded/checkpoint_index.h"
#include "zeroth/checkpoint/sharded/checkpoint_reader.h"
#include "zeroth/checkpoint/sharded/training_state.h"
#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"
#include "zeroth/train/progress.h"
#include "zeroth/train/run_progress.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

constexpr char kAuto[] = "auto";

// The place that --resume names: one checkpoint, or a directory of checkpoints.
struct ResumePlace {
  std::string directory;        // of the checkpoints
  std::optional<int64_t> step;  // of the one checkpoint that is meant
};

ResumePlace PlaceOf(const TrainOptions& options) {
  if (options.resume == kAuto) return {CanonicalPath(options.out).value_or(""), std::nullopt};
  const fs::path path = CanonicalPath(options.resume).value_or("");
  if (const auto step = ParseCheckpointName(path.filename().string())) {
    return {path.parent_path().string(), step};
  }
  return {path.string(), std::nullopt};
}

// An error of the file system (EIO, ESTALE) is not "no": the path may be the newest checkpoint.
absl::StatusOr<bool> Exists(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::status_known(status)) return fs::exists(status);
  return ErrnoStatus(error.value(), absl::StrCat("look for ", path));
}

// Returns the checkpoints to try, in this order.
absl::StatusOr<std::vector<std::string>> Candidates(const TrainOptions& options) {
  const ResumePlace place = PlaceOf(options);
  if (place.step.has_value()) {
    const std::string path = CheckpointPath(place.directory, *place.step);
    ZEROTH_ASSIGN_OR_RETURN(const bool is_there, Exists(path));
    if (is_there) return std::vector<std::string>{path};
    return absl::NotFoundError(
        absl::StrCat("--resume=", options.resume, ": there is no such checkpoint"));
  }
  // A checkpoint that the user has renamed.
  ZEROTH_ASSIGN_OR_RETURN(const bool is_checkpoint,
                          Exists(absl::StrCat(place.directory, "/", kCheckpointIndexName)));
  if (is_checkpoint) return std::vector<std::string>{place.directory};
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, ListCheckpoints(place.directory));
  std::vector<std::string> paths;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    paths.push_back(CheckpointPath(place.directory, *step));
  }
  if (paths.empty() && options.resume != kAuto) {
    return absl::NotFoundError(absl::StrCat("--resume=", options.resume,
                                            ": no checkpoint there; expected a directory step-N, "
                                            "or one that holds such"));
  }
  return paths;
}

// Loads this rank's part, without communication.
absl::StatusOr<RunProgress> LoadCheckpoint(const std::string& path, const TrainOptions& options,
                                           Trainer& trainer, const ParameterReader& fill_missing,
                                           std::vector<std::string>& notes) {
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader,
                          CheckpointReader::Open(path));
  ZEROTH_ASSIGN_OR_RETURN(RunProgress progress,
                          RunProgress::FromJson(reader->index().training,
                                                absl::StrCat(path, "/", kCheckpointIndexName)));
  LoadStateOptions load;
  if (options.allow_partial) load.fill_missing = fill_missing;
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<ShardState> states, trainer.states());
  ZEROTH_ASSIGN_OR_RETURN(LoadedState loaded, LoadState(*reader, trainer.sharding(), states, load));
  notes = std::move(loaded.notes);
  // An average of which parts are missing is useless.
  if (loaded.incomplete.count("ema") > 0) {
    progress.trainer.ema_updates = 0;
    notes.push_back("the average of the weights starts again");
  }
  loaded.incomplete.erase("ema");
  if (!loaded.incomplete.empty()) {
    notes.push_back(absl::StrCat("resume    the optimizer's ",
                                 absl::StrJoin(loaded.incomplete, ", "),
                                 " of some parameters begin at zero: the checkpoint has none"));
  }
  // If --loss_scale has changed, the checkpoint's scale does not apply.
  const auto scale_flag = progress.flags.find("loss_scale");
  if (scale_flag == progress.flags.end() || *scale_flag != options.loss_scale) {
    progress.trainer.loss_scaler.reset();
  }
  ZEROTH_RETURN_IF_ERROR_WITH(trainer.Restore(progress.trainer), path);
  return progress;
}

// Describes how this run differs from that of the checkpoint.
std::vector<std::string> Differences(const TrainOptions& options, const LanguageModel& model,
                                     const RunProgress& progress) {
  std::vector<std::string> notes;
  const nlohmann::json now = ResultFlags(options);
  const std::vector<std::string> changed = ChangedFlags(progress.flags, now);
  if (!changed.empty()) {
    notes.push_back(absl::StrCat("resume    with other flags: ", absl::StrJoin(changed, "; ")));
  }
  const auto before = progress.flags.find(kGlobalBatchSize);
  if (before != progress.flags.end() && *before != now[kGlobalBatchSize]) {
    notes.push_back(absl::StrCat("resume    the global batch is ", now[kGlobalBatchSize].dump(),
                                 " sequences a step, was ", before->dump(), "; --",
                                 kGlobalBatchSize, "=", before->dump(), " keeps it"));
  }
  const std::vector<std::string> config = Changed(progress.model, model.HfConfig());
  if (!config.empty()) {
    notes.push_back(
        absl::StrCat("resume    with another config of the model: ", absl::StrJoin(config, "; ")));
  }
  return notes;
}

// Advice for a checkpoint that may be intact but could not be read.
std::string Advice(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kResourceExhausted:
      return "; this is no damage, so no older checkpoint was taken and none was renamed: try "
             "again when the cause is gone, or name a checkpoint by --resume=DIRECTORY/step-N";
    default:
      return "";
  }
}

// Rank 0: renames checkpoints that are newer than `step`.
absl::Status SetNewerAside(const std::string& out, int64_t step, std::vector<std::string>& notes) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, ListCheckpoints(out));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string> earlier, ListSetAside(out));
  for (const int64_t other : steps) {
    if (other <= step) continue;
    ZEROTH_ASSIGN_OR_RETURN(const std::string path, SetCheckpointAside(out, other));
    notes.push_back(
        absl::StrCat("resume    the checkpoint of step ", other, " is newer; it is now ", path));
  }
  if (!earlier.empty()) {
    notes.push_back(absl::StrCat("resume    set aside by earlier runs in ", out, ": ",
                                 absl::StrJoin(earlier, ", ")));
  }
  return absl::OkStatus();
}

RetentionOptions Retention(const TrainOptions& options) {
  RetentionOptions retention;
  retention.keep_last = options.keep_last;
  retention.keep_every = options.keep_every;
  return retention;
}

}  // namespace

absl::Status CheckCheckpointFlags(const TrainOptions& options) {
  return options.resume.empty() ? absl::OkStatus() : Candidates(options).status();
}

absl::StatusOr<uint64_t> AgreedContent(const Mixture& data, Communicator& world, Device& device) {
  absl::StatusOr<uint64_t> hash = uint64_t{0};
  if (world.rank() == 0) hash = data.Hash();
  ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(world, device, hash.status(), "hash the data"));
  ZEROTH_ASSIGN_OR_RETURN(const std::string text,
                          BroadcastText(world, device, 0, ChecksumText(*hash), "hash the data"));
  return ParseChecksum(text);
}

absl::StatusOr<Resumed> Resume(const TrainOptions& options, Trainer& trainer,
                               const ParameterReader& fill_missing) {
  Communicator& world = trainer.world();
  Device& device = trainer.device();
  const bool is_leader = world.rank() == 0;
  std::vector<std::string> candidates;
  absl::Status listed;
  if (is_leader) {
    absl::StatusOr<std::vector<std::string>> found = Candidates(options);
    if (found.ok()) candidates = *std::move(found);
    listed = found.status();
  }
  ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(world, device, listed, "look for checkpoints"));
  Resumed resumed;
  absl::Status damage;
  for (size_t i = 0;; ++i) {
    ZEROTH_ASSIGN_OR_RETURN(
        const std::string path,
        BroadcastText(world, device, 0, i < candidates.size() ? candidates[i] : "", "resume"));
    if (path.empty()) break;
    std::vector<std::string> filled;
    absl::StatusOr<RunProgress> progress =
        LoadCheckpoint(path, options, trainer, fill_missing, filled);
    const absl::Status status = AgreeOnStatus(world, device, progress.status(), "load");
    if (absl::IsDataLoss(status)) {
      damage = status;
      resumed.notes.push_back(
          absl::StrCat("resume    passing over ", path, ": ", status.message()));
      continue;
    }
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat("--resume=", options.resume, ": ",
                                                      status.message(), Advice(status)));
    }
    resumed.notes.push_back(
        absl::StrCat("resume    from ", path, ", after step ", progress->steps));
    for (const std::string& line : filled)
      resumed.notes.push_back(absl::StrCat("resume    ", line));
    for (std::string& line : Differences(options, trainer.model(), *progress)) {
      resumed.notes.push_back(std::move(line));
    }
    absl::Status aside;
    if (is_leader && options.checkpoint_every > 0) {
      aside = SetNewerAside(options.out, progress->steps, resumed.notes);
    }
    ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(world, device, aside, "set checkpoints aside"));
    resumed.progress = *std::move(progress);
    return resumed;
  }
  if (!damage.ok()) {
    return absl::DataLossError(absl::StrCat("--resume=", options.resume,
                                            ": no checkpoint is intact\n  ",
                                            absl::StrJoin(resumed.notes, "\n  ")));
  }
  resumed.notes.push_back(
      absl::StrCat("resume    no checkpoint in ", options.out, " yet: from the start"));
  return resumed;
}

absl::StatusOr<std::unique_ptr<RunCheckpoints>> RunCheckpoints::Create(
    const TrainOptions& options, Trainer& trainer, std::map<std::string, std::string> files) {
  if (options.checkpoint_every == 0) return nullptr;
  CheckpointSaverOptions saver_options;
  saver_options.directory = options.out;
  saver_options.retention = Retention(options);
  saver_options.files = std::move(files);
  saver_options.async = options.async_checkpoint;
  saver_options.skip_when_busy = options.async_when_busy == "skip";
  ZEROTH_ASSIGN_OR_RETURN(
      std::unique_ptr<CheckpointSaver> saver,
      CheckpointSaver::Create(trainer.world(), trainer.device(), saver_options));
  return std::unique_ptr<RunCheckpoints>(new RunCheckpoints(options, trainer, std::move(saver)));
}

bool RunCheckpoints::IsDue(int64_t steps, bool last) const {
  return last || steps % options_.checkpoint_every == 0;
}

absl::Status RunCheckpoints::Save(RunProgress progress, bool last) {
  progress.trainer = trainer_.counts();
  progress.flags = ResultFlags(options_);
  progress.model = trainer_.model().HfConfig();
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<ShardState> states, trainer_.states());
  ZEROTH_ASSIGN_OR_RETURN(const bool saved,
                          saver_->Save(progress.steps, progress.ToJson(),
                                       OwnedPieces(trainer_.sharding(), states), last));
  if (!saved) {
    notes_.push_back(absl::StrCat("step ", progress.steps,
                                  "  no checkpoint: earlier ones are still being written"));
  }
  return absl::OkStatus();
}

std::optional<double> RunCheckpoints::saving() const {
  if (saver_->IsDone()) return std::nullopt;
  return saver_->progress();
}

std::vector<std::string> RunCheckpoints::TakeNotes() {
  const std::vector<CompletedSave> completed = saver_->TakeCompleted();
  for (const CompletedSave& save : completed) {
    notes_.push_back(absl::StrFormat("step %d  checkpoint in %s, %s in %.2f s", save.step,
                                     CheckpointPath(options_.out, save.step),
                                     FormatBytes(save.bytes), save.seconds));
    newest_ = save.step;
  }
  for (const std::string& warning : saver_->TakeWarnings()) {
    notes_.push_back(absl::StrCat("warning   ", warning));
  }
  if (!completed.empty()) DeleteSetAside();
  return std::exchange(notes_, {});
}

void RunCheckpoints::DeleteSetAside() {
  const absl::StatusOr<std::vector<std::string>> deleted =
      DeleteSuperfluousSetAside(options_.out, Retention(options_));
  if (!deleted.ok()) {
    notes_.push_back(absl::StrCat("warning: ", deleted.status().message()));
    return;
  }
  for (const std::string& name : *deleted) {
    notes_.push_back(absl::StrCat("deleted ", options_.out, "/", name,
                                  ", as --keep_last=", options_.keep_last, " says"));
  }
}

}  // namespace zeroth
