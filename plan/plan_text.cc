// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Formats a plan as text for people, and as JSON for programs.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"

#include "zeroth/options/option_registry.h"
#include "zeroth/plan/plan.h"

namespace zeroth {
namespace {

// Returns the MFU relative to --peak_tflops, as in the trainer's metrics. Empty without one.
std::string MfuText(const Plan& plan, const TrainOptions& options) {
  if (options.peak_tflops <= 0) return "";
  return absl::StrFormat(", MFU %.1f %%",
                         100 * plan.flops_per_second_per_rank / (options.peak_tflops * 1e12));
}

}  // namespace

std::string PlanText(const Plan& plan, const TrainOptions& options, const Machine& machine) {
  constexpr double kMiB = 1024.0 * 1024.0;
  std::string text = absl::StrFormat(
      "plan      %s on %d %s of %s, %d x %d sequences of %d tokens a rank and step\n",
      options.strategy, options.world_size, options.world_size == 1 ? "rank" : "ranks",
      machine.name, options.grad_accum, options.batch_size, options.seq_len);
  absl::StrAppendFormat(&text, "memory    %.1f MiB at the peak",
                        static_cast<double>(plan.memory_peak_bytes) / kMiB);
  if (plan.memory_reserved_bytes > plan.memory_peak_bytes) {
    absl::StrAppendFormat(&text, ", %.1f reserved as %s would",
                          static_cast<double>(plan.memory_reserved_bytes) / kMiB,
                          OptionText("like", options));
  }
  absl::StrAppendFormat(&text, ", of %.1f: %s\n",
                        static_cast<double>(plan.memory_limit_bytes) / kMiB,
                        plan.fits ? "fits" : "does NOT fit");
  for (size_t i = 0; i < plan.memory.size(); ++i) {
    if (plan.memory[i] == 0) continue;
    absl::StrAppendFormat(
        &text, "  %10.1f MiB  %s\n", static_cast<double>(plan.memory[i]) / kMiB,
        absl::StrReplaceAll(MemoryCategoryName(static_cast<MemoryCategory>(i)), {{"_", " "}}));
  }
  absl::StrAppend(&text, "  at: ", plan.moment, "\n");
  absl::StrAppendFormat(&text,
                        "step      %.4g s: %.4g tokens/s a rank, %.4g in all; %.1f %% of the GEMM "
                        "rate%s\n"
                        "compute   %.4g s\n"
                        "exposed   %.4g s of communication",
                        plan.step_seconds, plan.tokens_per_second_per_rank,
                        plan.tokens_per_second_per_rank * options.world_size,
                        100 * plan.flop_utilization, MfuText(plan, options), plan.compute_seconds,
                        plan.exposed_communication_seconds);
  for (const auto& [kind, seconds] : plan.exposed) {
    absl::StrAppendFormat(&text, ", %s %.4g", kind, seconds);
  }
  const auto traffic = [](const std::map<std::string, int64_t>& of) {
    return absl::StrJoin(of, ", ", [](std::string* out, const auto& kind) {
      absl::StrAppendFormat(out, "%s %.1f MiB", kind.first,
                            static_cast<double>(kind.second) / kMiB);
    });
  };
  absl::StrAppend(&text, "\nsent      ", plan.bytes.empty() ? "nothing" : traffic(plan.bytes),
                  " a rank and step\n");
  if (!plan.bytes_across_nodes.empty()) {
    absl::StrAppend(&text, "network   ", traffic(plan.bytes_across_nodes),
                    " to other nodes, a rank and step\n");
  }
  if (options.epochs > 0) {
    absl::StrAppendFormat(&text, "run       %g epochs, of data that this plan does not read\n",
                          options.epochs);
    return text;
  }
  const double tokens =
      static_cast<double>(TokensPerStep(options)) * static_cast<double>(options.steps);
  absl::StrAppendFormat(&text,
                        "run       %d steps, %.4g tokens: %.4g hours, evaluations and checkpoints "
                        "not included\n",
                        options.steps, tokens,
                        plan.step_seconds * static_cast<double>(options.steps) / 3600);
  return text;
}

nlohmann::json PlanJson(const Plan& plan) {
  nlohmann::json memory = nlohmann::json::object();
  for (size_t i = 0; i < plan.memory.size(); ++i) {
    memory[std::string(MemoryCategoryName(static_cast<MemoryCategory>(i)))] = plan.memory[i];
  }
  nlohmann::json operations = nlohmann::json::object();
  for (const auto& [name, cost] : plan.operations) {
    operations[name] = {{"calls", cost.calls},
                        {"launches", cost.launches},
                        {"flops", cost.flops},
                        {"bytes", cost.bytes},
                        {"seconds", cost.seconds}};
  }
  return {{"memory_peak_bytes", plan.memory_peak_bytes},
          {"memory_reserved_bytes", plan.memory_reserved_bytes},
          {"memory", memory},
          {"fits", plan.fits},
          {"step_seconds", plan.step_seconds},
          {"tokens_per_second_per_rank", plan.tokens_per_second_per_rank},
          {"flop_utilization", plan.flop_utilization},
          {"compute_seconds", plan.compute_seconds},
          {"exposed_communication_seconds", plan.exposed_communication_seconds},
          {"bytes", nlohmann::json::object_t(plan.bytes.begin(), plan.bytes.end())},
          {"bytes_across_nodes", nlohmann::json::object_t(plan.bytes_across_nodes.begin(),
                                                          plan.bytes_across_nodes.end())},
          {"operations", operations}};
}

}  // namespace zeroth
