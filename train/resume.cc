// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/resume.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/checkpoint/sharded/checkpoint_directory.h"
#include "zeroth/checkpoint/sharded/checkpoint_index.h"
#include "zeroth/checkpoint/sharded/checkpoint_reader.h"
#include "zeroth/checkpoint/sharded/training_state.h"
#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json_members.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"
#include "zeroth/options/option_registry.h"
#include "zeroth/train/run_input.h"

namespace zeroth {
namespace {

using Json = nlohmann::json;

// Upper bound of steps and other counts.
constexpr int64_t kMostCount = int64_t{1} << 62;

Json WindowJson(const OutlierDetector::State& state) {
  return {{"taken", state.taken}, {"window", state.window}};
}

std::string Text(const Json& json) {
  return json.is_string() ? json.get<std::string>()
                          : json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

OutlierDetector::State ReadWindow(JsonMembers members) {
  return {members.Integer("taken", 0, kMostCount), members.Numbers("window")};
}

namespace fs = std::filesystem;

constexpr char kAuto[] = "auto";

// Returns the checkpoints to try, in this order. --resume names one of them, or their directory.
absl::StatusOr<std::vector<std::string>> Candidates(const TrainOptions& options,
                                                    const std::string& out) {
  const bool is_auto = options.resume == kAuto;
  const std::string named = CanonicalPath(is_auto ? out : options.resume).value_or("");
  if (!is_auto && ParseCheckpointName(fs::path(named).filename().string()).has_value()) {
    ZEROTH_ASSIGN_OR_RETURN(const bool is_there, PathExists(named));
    if (is_there) return std::vector<std::string>{named};
    const std::string run = fs::path(named).parent_path().string();
    // The newest checkpoint is a hint only: a run that cannot be listed has none.
    const std::vector<int64_t> steps = ListCheckpoints(run).value_or(std::vector<int64_t>());
    return absl::NotFoundError(absl::StrCat(
        "--resume=", options.resume, ": there is no such checkpoint",
        steps.empty() ? ""
                      : absl::StrCat("; the newest there is ", CheckpointPath(run, steps.back()))));
  }
  // A checkpoint that the user has renamed.
  ZEROTH_ASSIGN_OR_RETURN(const bool is_checkpoint,
                          PathExists(absl::StrCat(named, "/", kCheckpointIndexName)));
  if (is_checkpoint) return std::vector<std::string>{named};
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, ListCheckpoints(named));
  std::vector<std::string> paths;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    paths.push_back(CheckpointPath(named, *step));
  }
  if (paths.empty() && !is_auto) {
    return absl::NotFoundError(
        absl::StrCat("--resume=", options.resume,
                     ": no checkpoint there; expected a directory step-N, "
                     "or a run's directory; --resume=auto takes the newest in --out"));
  }
  return paths;
}

// Adds to the error of a load that --base_dtype has changed, if it has: the parameters differ then.
absl::Status WithBaseDtype(const absl::Status& status, const TrainOptions& options,
                           const RunProgress& progress) {
  for (const std::string& line : ChangedFlags(progress.flags, ResultFlags(options))) {
    if (!absl::StartsWith(line, "--base_dtype ")) continue;
    return absl::Status(status.code(), absl::StrCat(status.message(), "; ", line,
                                                    ", and must stay: weights are quantized once"));
  }
  return status;
}

// The parts of a checkpoint that this rank reads before it loads the state.
struct OpenedCheckpoint {
  std::unique_ptr<CheckpointReader> reader;
  RunProgress progress;
  std::vector<ShardState> states;  // to load
};

absl::StatusOr<OpenedCheckpoint> OpenCheckpoint(const std::string& path, Trainer& trainer) {
  OpenedCheckpoint opened;
  ZEROTH_ASSIGN_OR_RETURN(opened.reader, CheckpointReader::Open(path));
  ZEROTH_ASSIGN_OR_RETURN(opened.progress,
                          RunProgress::FromJson(opened.reader->index().training,
                                                absl::StrCat(path, "/", kCheckpointIndexName)));
  ZEROTH_ASSIGN_OR_RETURN(opened.states, trainer.states());
  return opened;
}

// Loads a checkpoint. Collective; returns the same status on every rank.
absl::StatusOr<RunProgress> LoadCheckpoint(const std::string& path, const TrainOptions& options,
                                           Trainer& trainer, const ParameterReader& fill_missing,
                                           std::vector<std::string>& notes) {
  absl::StatusOr<OpenedCheckpoint> opened = OpenCheckpoint(path, trainer);
  ZEROTH_RETURN_IF_ERROR(
      AgreeOnStatus(trainer.world(), trainer.device(), opened.status(), "open the checkpoint"));
  auto& [reader, progress, states] = *opened;
  LoadStateOptions load;
  if (options.allow_partial) load.fill_missing = fill_missing;
  absl::StatusOr<LoadedState> state = LoadState(*reader, trainer.sharding(), states, load);
  if (!state.ok()) return WithBaseDtype(state.status(), options, progress);
  LoadedState loaded = *std::move(state);
  notes = std::move(loaded.notes);
  // An average with missing parts is useless.
  if (loaded.incomplete.count("ema") > 0) {
    progress.trainer.ema_updates = 0;
    notes.push_back("the average of the weights starts again");
  }
  loaded.incomplete.erase("ema");
  if (!loaded.incomplete.empty()) {
    notes.push_back(absl::StrCat("the optimizer's ", absl::StrJoin(loaded.incomplete, ", "),
                                 " of some parameters begin at zero: the checkpoint has none"));
  }
  // If --loss_scale has changed, the checkpoint's scale does not apply.
  const auto scale_flag = progress.flags.find("loss_scale");
  if (scale_flag == progress.flags.end() || *scale_flag != options.loss_scale) {
    progress.trainer.loss_scaler.reset();
  }
  const absl::Status restored = trainer.Restore(progress.trainer);
  ZEROTH_RETURN_IF_ERROR_WITH(
      AgreeOnStatus(trainer.world(), trainer.device(), restored, "restore the trainer"), path);
  return std::move(progress);
}

// Describes how this run differs from that of the checkpoint.
void AddDifferences(const TrainOptions& options, const LanguageModel& model,
                    const RunProgress& progress, std::vector<std::string>& notes) {
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
}

// Advice for a checkpoint that may be intact but could not be read.
std::string Advice(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kResourceExhausted:
      return "; this does not prove damage, so no older checkpoint was used and none was renamed: "
             "try "
             "again when the cause is gone, or name a checkpoint by --resume=DIRECTORY/step-N";
    default:
      return "";
  }
}

// On rank 0, renames checkpoints that are newer than `step`.
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

}  // namespace

std::vector<std::string> DataOrder::Differences(const DataOrder& before) const {
  std::vector<std::string> differences;
  const auto add = [&](absl::string_view name, const auto& now, const auto& then) {
    if (now != then) differences.push_back(absl::StrCat(name, " is ", now, ", was ", then));
  };
  if (tokens != before.tokens) {
    add("--data: the number of tokens", tokens, before.tokens);
  } else if (before.content != 0 && content != before.content) {
    differences.push_back("--data: as many tokens, but other ones");
  }
  add("--seq_len", seq_len, before.seq_len);
  add("--seed", seed, before.seed);
  add("--shuffle", shuffle ? "true" : "false", before.shuffle ? "true" : "false");
  return differences;
}

Json RunProgress::ToJson() const {
  Json json = {{"steps", steps},
               {"skipped_steps", skipped_steps},
               {"sequences", sequences},
               {"data",
                {{"tokens", data.tokens},
                 {"content", ChecksumText(data.content)},
                 {"seq_len", data.seq_len},
                 {"seed", data.seed},
                 {"shuffle", data.shuffle}}},
               {"optimizer_steps", trainer.optimizer_steps},
               {"ema_updates", trainer.ema_updates},
               {"losses", WindowJson(trainer.losses)},
               {"grad_norms", WindowJson(trainer.grad_norms)},
               {"flags", flags},
               {"model", model}};
  if (trainer.loss_scaler.has_value()) {
    json["loss_scaler"] = {{"scale", trainer.loss_scaler->scale},
                           {"finite_steps", trainer.loss_scaler->finite_steps}};
  }
  return json;
}

absl::StatusOr<RunProgress> RunProgress::FromJson(const Json& json, absl::string_view where) {
  RunProgress progress;
  absl::Status status;
  JsonMembers members(json, std::string(where), status);
  // The members of an inner object.
  const auto inner = [&](const char* key) {
    return JsonMembers(members.Object(key), absl::StrCat(where, ": \"", key, "\""), status);
  };
  progress.steps = members.Integer("steps", 0, kMostCount);
  progress.trainer.optimizer_steps = members.Integer("optimizer_steps", 0, kMostCount);
  progress.trainer.ema_updates = members.Integer("ema_updates", 0, kMostCount);
  progress.skipped_steps = members.Integer("skipped_steps", 0, kMostCount);
  progress.sequences = members.Integer("sequences", 0, kMostCount);
  progress.flags = members.Object("flags");
  JsonMembers data = inner("data");
  progress.data.tokens = data.Integer("tokens", 0, kMostCount);
  progress.data.seq_len = data.Integer("seq_len", 0, kMostCount);
  progress.data.seed = data.Unsigned("seed");
  progress.data.shuffle = data.Bool("shuffle");
  progress.trainer.losses = ReadWindow(inner("losses"));
  progress.trainer.grad_norms = ReadWindow(inner("grad_norms"));
  // Checkpoints of earlier versions do not have these two.
  if (data.Has("content")) progress.data.content = data.Checksum("content");
  if (members.Has("model")) progress.model = members.Object("model");
  if (members.Has("loss_scaler")) {
    JsonMembers scaler = inner("loss_scaler");
    progress.trainer.loss_scaler = {scaler.Number("scale"),
                                    scaler.Integer("finite_steps", 0, kMostCount)};
  }
  if (status.ok()) return progress;
  return absl::Status(status.code(), absl::StrCat(status.message(),
                                                  "; was this checkpoint written by the trainer?"));
}

Json ResultFlags(const TrainOptions& options) {
  TrainOptions resolved = options;
  resolved.threads_per_rank = ThreadsPerRank(options);
  resolved.global_batch_size = SequencesPerStep(options);
  resolved.lr = options.peak_lr();
  resolved.min_lr = options.final_lr();
  resolved.warmup_steps = WarmupSteps(options, options.steps);
  Json flags = Json::object();
  for (const Option& option : AllOptions()) {
    if (option.decides_results) flags[option.name] = OptionValue(option, resolved);
  }
  if (options.epochs > 0) flags.erase("steps");
  // The warm-up is known only once the data determine the steps of an epoch.
  const bool is_default = options.warmup_steps == TrainOptions().warmup_steps;
  if (options.warmup_ratio > 0 || (options.epochs > 0 && is_default)) flags.erase("warmup_steps");
  if (options.deterministic_batch > 0) {
    for (const char* changes_nothing :
         {"strategy", "world_size", "shard_size", "grad_accum", "threads_per_rank"}) {
      flags.erase(changes_nothing);
    }
  }
  if (options.deterministic_tensor > 0) flags.erase("tensor_parallel");
  return flags;
}

std::vector<std::string> Changed(const Json& before, const Json& now) {
  std::vector<std::string> changed;
  for (const auto& [name, value] : now.items()) {
    const auto found = before.find(name);
    if (found == before.end() || *found == value) continue;
    changed.push_back(absl::StrCat(name, " is ", Text(value), ", was ", Text(*found)));
  }
  return changed;
}

std::vector<std::string> ChangedFlags(Json before, const Json& now) {
  for (const Option& option : AllOptions()) {
    const auto found = before.find(option.name);
    if (option.allowed.old_word == nullptr || found == before.end()) continue;
    if (*found == option.allowed.old_word) *found = option.allowed.new_word;
  }
  std::vector<std::string> changed = Changed(before, now);
  for (std::string& line : changed) line = absl::StrCat("--", line);
  return changed;
}

absl::Status CheckCheckpointFlags(const TrainOptions& options) {
  if (options.resume.empty() || (options.resume == kAuto && options.out.empty())) {
    return absl::OkStatus();
  }
  return Candidates(options, options.out).status();
}

std::vector<RunProgress> SavedProgress(const TrainOptions& options, const std::string& out) {
  std::vector<RunProgress> saved;
  if (options.resume == kAuto && out.empty()) return saved;  // the run makes a new directory
  const absl::StatusOr<std::vector<std::string>> paths = Candidates(options, out);
  if (!paths.ok()) return saved;  // Resume says why
  for (const std::string& path : *paths) {
    const absl::StatusOr<std::unique_ptr<CheckpointReader>> reader = CheckpointReader::Open(path);
    if (!reader.ok()) continue;
    absl::StatusOr<RunProgress> progress = RunProgress::FromJson((*reader)->index().training, path);
    if (progress.ok()) saved.push_back(*std::move(progress));
  }
  return saved;
}

absl::StatusOr<Resumed> Resume(const TrainOptions& options, const std::string& out,
                               Trainer& trainer, const ParameterReader& fill_missing) {
  Communicator& world = trainer.world();
  Device& device = trainer.device();
  const bool is_leader = world.rank() == 0;
  absl::StatusOr<std::vector<std::string>> candidates = std::vector<std::string>();
  if (is_leader) candidates = Candidates(options, out);
  ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(world, device, candidates.status(), "look for checkpoints"));
  Resumed resumed;
  absl::Status damage;
  for (size_t i = 0;; ++i) {
    ZEROTH_ASSIGN_OR_RETURN(
        const std::string path,
        BroadcastText(world, device, 0, i < candidates->size() ? (*candidates)[i] : "", "resume"));
    if (path.empty()) break;
    std::vector<std::string> filled;
    absl::StatusOr<RunProgress> progress =
        LoadCheckpoint(path, options, trainer, fill_missing, filled);
    const absl::Status status = progress.status();
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
    AddDifferences(options, trainer.model(), *progress, resumed.notes);
    absl::Status aside;
    // A run that only evaluates writes no checkpoints.
    if (is_leader && options.steps > 0) {
      aside = SetNewerAside(out, progress->steps, resumed.notes);
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
  resumed.notes.push_back(absl::StrCat("resume    no checkpoint in ", out, " yet: from the start"));
  return resumed;
}

}  // namespace zeroth
