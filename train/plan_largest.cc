// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/plan_largest.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/language_model.h"

namespace zeroth {
namespace {

// Bounds of the search, since a plan fills a micro-batch with tokens and builds each layer.
constexpr int64_t kMostTokens = int64_t{1} << 26;
constexpr int64_t kMostLayers = int64_t{1} << 12;

// The quantity that grows.
struct Direction {
  const char* name;
  const char* flag;  // that sets it; empty: the model's configuration does
  int64_t step = 1;  // values are multiples of it
  int64_t most = 0;
  std::string bound;  // the reason for `most`
};

std::string Said(const Direction& direction, int64_t value) {
  if (*direction.flag != '\0') return absl::StrCat("--", direction.flag, "=", value);
  return absl::StrCat(value, value == 1 ? " layer" : " layers");
}

absl::StatusOr<Direction> DirectionOf(const std::string& what, const TrainOptions& options,
                                      const ModelSource& source) {
  const std::string asked = absl::StrCat("--largest=", what);
  if (what == "batch") {
    if (options.global_batch_size > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          asked, " with --global_batch_size=", options.global_batch_size,
          ": the sequences of a micro-batch follow from that; leave one of the two out"));
    }
    return Direction{"batch", "batch_size", 1, std::max<int64_t>(1, kMostTokens / options.seq_len),
                     "more are not tried"};
  }
  if (what == "sequence") {
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model, source.Build());
    const int64_t step = options.sequence_parallel ? options.tensor_parallel : 1;
    const int64_t positions = model->max_seq_len();
    const int64_t most = std::min(positions, kMostTokens / options.batch_size);
    return Direction{"sequence", "seq_len", step, most / step * step,
                     most == positions ? "the model has no more positions" : "more are not tried"};
  }
  if (what == "layers") {
    if (!options.init_from.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(asked, " with --init_from=", options.init_from,
                       ": its files have the layers that they have; name a --model"));
    }
    return Direction{"layers", "", 1, kMostLayers, "more are not tried"};
  }
  return absl::InvalidArgumentError(absl::StrCat(asked, ": expected batch, sequence or layers"));
}

// The plan with this value.
absl::StatusOr<LargestPlan> PlanWith(const Direction& direction, int64_t value,
                                     const TrainOptions& options, const Machine& machine,
                                     const ModelSource& source) {
  LargestPlan largest;
  largest.value = value;
  largest.change = Said(direction, value);
  largest.options = options;
  const std::string name = direction.name;
  if (name == "batch") largest.options.batch_size = value;
  if (name == "sequence") largest.options.seq_len = value;
  ZEROTH_RETURN_IF_ERROR(Validate(largest.options));
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model,
                          name == "layers" ? source.BuildWithLayers(value) : source.Build());
  for (const Parameter* parameter : model->Parameters()) {
    largest.parameters += parameter->global_shape().numel();
  }
  ZEROTH_ASSIGN_OR_RETURN(largest.plan, PlanRun(largest.options, machine, std::move(model)));
  return largest;
}

absl::Status NothingFits(const Direction& direction, const LargestPlan& least) {
  constexpr double kMiB = 1024.0 * 1024.0;
  return absl::ResourceExhaustedError(absl::StrFormat(
      "--largest=%s: not even %s fits: it takes %.1f MiB of a rank, which may have "
      "%.1f; without --largest the plan says what would make it fit",
      direction.name, least.change, static_cast<double>(least.plan.memory_reserved_bytes) / kMiB,
      static_cast<double>(least.plan.memory_limit_bytes) / kMiB));
}

}  // namespace

absl::StatusOr<LargestPlan> LargestThatFits(const std::string& what, const TrainOptions& options,
                                            const Machine& machine, const ModelSource& source) {
  ZEROTH_ASSIGN_OR_RETURN(const Direction direction, DirectionOf(what, options, source));
  const auto plan_with = [&](int64_t steps) {
    return PlanWith(direction, steps * direction.step, options, machine, source);
  };
  ZEROTH_ASSIGN_OR_RETURN(LargestPlan best, plan_with(1));
  if (!best.plan.fits) return NothingFits(direction, best);
  // In steps: `low` fits, and `high` does not.
  const int64_t most = std::max<int64_t>(1, direction.most / direction.step);
  int64_t low = 1;
  std::optional<int64_t> high;
  while (low < most && (!high.has_value() || *high - low > 1)) {
    const int64_t middle = high.has_value() ? low + (*high - low) / 2 : std::min(2 * low, most);
    ZEROTH_ASSIGN_OR_RETURN(LargestPlan tried, plan_with(middle));
    if (tried.plan.fits) {
      low = middle;
      best = std::move(tried);
    } else {
      high = middle;
    }
  }
  best.next = best.value + direction.step;
  if (!high.has_value()) best.bound = direction.bound;
  return best;
}

std::string LargestText(const LargestPlan& largest) {
  return absl::StrFormat(
      "largest   %s, a model of %.4g parameters: %s\n", largest.change,
      static_cast<double>(largest.parameters),
      largest.bound.empty() ? absl::StrCat(largest.next, " would not fit") : largest.bound);
}

}  // namespace zeroth
