// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run_progress.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/file/json_members.h"
#include "zeroth/train/option_registry.h"

namespace zeroth {
namespace {

using Json = nlohmann::json;

// Upper bound of steps and other counts.
constexpr int64_t kMostCount = int64_t{1} << 62;

Json WindowJson(const OutlierDetector::State& state) {
  return {{"taken", state.taken}, {"window", state.window}};
}

OutlierDetector::State ReadWindow(JsonMembers members) {
  return {members.Integer("taken", 0, kMostCount), members.Numbers("window")};
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

namespace {

using Json = nlohmann::json;

std::string Text(const Json& json) {
  return json.is_string() ? json.get<std::string>()
                          : json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

TrainOptions Resolved(TrainOptions options) {
  options.threads_per_rank = ThreadsPerRank(options);
  options.global_batch_size = SequencesPerStep(options);
  options.min_lr = options.final_lr();
  return options;
}

TrainOptions AsTold(TrainOptions options) {
  const TrainOptions defaults;
  options.threads_per_rank = ThreadsPerRank(options);
  if (options.global_batch_size > 0) options.batch_size = defaults.batch_size;
  if (options.deterministic_batch > 0) options.grad_accum = defaults.grad_accum;
  // Who repeats a run by its config.toml must not remove another run, or this one, without saying
  // so.
  options.overwrite = false;
  return options;
}

Json ResultFlags(const TrainOptions& options) {
  const TrainOptions resolved = Resolved(options);
  Json flags = Json::object();
  for (const Option& option : AllOptions()) {
    if (option.decides_results) flags[option.name] = OptionValue(option, resolved);
  }
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

}  // namespace zeroth
