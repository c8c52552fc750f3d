// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/result_flags.h"

#include "absl/strings/str_cat.h"

#include "zeroth/train/option_registry.h"

namespace zeroth {
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
