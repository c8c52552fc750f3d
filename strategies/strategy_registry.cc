// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/did_you_mean.h"
#include "zeroth/core/base/registry.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/strategy.h"

namespace zeroth {
namespace {

struct Entry {
  std::vector<StrategyOption> own;
  StrategyRegistry::Factory factory;
};

using Strategies = Registry<StrategyRegistry, Entry>;

// The names of these strategies in ZeRO, FSDP, FSDP2, Megatron-FSDP and DDP.
constexpr NamedElsewhere kElsewhere[] = {
    {"full_shard (ZeRO-3)",
     "zero3 zero_3 stage3 stage_3 3 fsdp fsdp2 fsdp1 fully_shard fullyshard optim_grads_params"},
    {"shard_grad_op (ZeRO-2)", "zero2 zero_2 stage2 stage_2 2 optim_grads sdp"},
    {"shard_optimizer (ZeRO-1)",
     "zero1 zero_1 stage1 stage_1 1 optim zero zero_redundancy_optimizer"},
    {"no_shard (data parallel)",
     "ddp dp zero0 zero_0 stage0 stage_0 0 none replicate data_parallel distributed_data_parallel"},
    {"hybrid_shard", "hsdp hfsdp hybrid zero++ mics"},
    {"shard_grad_op with a shard size", "_hybrid_shard_zero2 hybrid_shard_zero2"},
};

bool Allows(const StrategyOption& option, absl::string_view value) {
  if (!option.choices.empty()) {
    return std::find(option.choices.begin(), option.choices.end(), value) != option.choices.end();
  }
  int64_t number = 0;
  return absl::SimpleAtoi(value, &number) && number >= option.least && number <= option.most;
}

std::string Allowed(const StrategyOption& option) {
  if (!option.choices.empty()) return absl::StrJoin(option.choices, ", ");
  return absl::StrCat("a number from ", option.least, " to ", option.most);
}

// Parses the text after the colon of a strategy's name. An empty text gives the defaults.
absl::StatusOr<std::map<std::string, std::string>> ParseOwn(
    absl::string_view name, absl::string_view text, const std::vector<StrategyOption>& options) {
  std::map<std::string, std::string> values;
  for (const absl::string_view pair : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(pair, absl::MaxSplits('=', 1));
    const auto option =
        std::find_if(options.begin(), options.end(),
                     [&](const StrategyOption& known) { return known.name == parts.first; });
    if (option == options.end()) {
      const auto append_name = [](std::string* out, const auto& known) { out->append(known.name); };
      return InvalidArgument(
          name, ": unknown option '", parts.first, "' of this strategy; ",
          options.empty() ? "it has no options"
                          : absl::StrCat("it has ", absl::StrJoin(options, ", ", append_name)));
    }
    if (!Allows(*option, parts.second)) {
      return InvalidArgument(name, ": option ", option->name, " is '", parts.second, "', expected ",
                             Allowed(*option));
    }
    if (!values.emplace(option->name, parts.second).second) {
      return InvalidArgument(name, ": option ", option->name, " is given twice");
    }
  }
  for (const StrategyOption& option : options) values.emplace(option.name, option.default_value);
  return values;
}

absl::Status CheckTreeSums(absl::string_view name, const StrategyOptions& options) {
  if (options.tree_micro_batches < 0) {
    return InvalidArgument(
        name, ": tree_micro_batches is ", options.tree_micro_batches,
        ", expected the micro-batches of a rank's step, or 0 for no tree over them");
  }
  if (options.gradient_op == ReduceOp::kSum && options.gradient_divide_factor == 0) {
    return absl::OkStatus();
  }
  return InvalidArgument(name,
                         ": tree_micro_batches goes with gradient_op kSum and no divide factor: "
                         "what gradients are divided by belongs into the loss");
}

// Refuses options that no strategy supports.
absl::Status CheckOptions(absl::string_view name, const StrategyOptions& options) {
  if (options.shard_size < 0) {
    return InvalidArgument(name, ": shard size ", options.shard_size,
                           " is negative; give the number of ranks in a shard group, "
                           "or 0 for the strategy's default");
  }
  if (options.gradient_op == ReduceOp::kMax) {
    return InvalidArgument(name, ": gradients combine by mean or sum, not by maximum");
  }
  if (!std::isfinite(options.gradient_divide_factor) || options.gradient_divide_factor < 0) {
    return InvalidArgument(name, ": gradient_divide_factor is ", options.gradient_divide_factor,
                           ", expected a finite number above 0 that sums of gradients are divided "
                           "by, or 0 for gradient_op to decide");
  }
  return options.tree_micro_batches == 0 ? absl::OkStatus() : CheckTreeSums(name, options);
}

// Refuses options that this strategy does not claim to support.
absl::Status CheckServed(absl::string_view name, const StrategyOptions& options,
                         const StrategyCapabilities& supported) {
  struct Request {
    bool is_made;
    bool is_served;
    std::string what;
  };
  const Request requests[] = {
      {options.shard_optimizer_over_world, supported.shard_optimizer_over_world,
       "shard_optimizer_over_world shards the optimizer's state beyond shard groups, which this "
       "strategy does not; leave it out, or use hybrid_shard"},
      {options.post_forward_shard_size != 0, supported.post_forward_shard_size,
       absl::StrCat("reshard_after_forward to groups of ", options.post_forward_shard_size,
                    " ranks (post_forward_shard_size), but parameters stay gathered after their "
                    "forward; use full_shard or hybrid_shard")},
      {options.gradient_divide_factor != 0, supported.gradient_divide_factor,
       "gradient_divide_factor is not supported by this strategy; leave it out, or use one that "
       "comes with the project"},
      {options.tree_micro_batches != 0, supported.tree_micro_batches,
       "this strategy does not sum micro-batches in a tree (tree_micro_batches); leave it out, or "
       "use a strategy that comes with the project"},
  };
  for (const Request& request : requests) {
    if (!request.is_made || request.is_served) continue;
    return InvalidArgument(name, ": ", request.what);
  }
  return absl::OkStatus();
}

}  // namespace

int64_t StrategyOptions::IntOption(const std::string& option) const {
  int64_t number = 0;
  const auto found = own.find(option);
  ZEROTH_CHECK(found != own.end() && absl::SimpleAtoi(found->second, &number));
  return number;
}

absl::StatusOr<int> ShardSizeOf(const ShardingStrategy& strategy, const StrategyOptions& options,
                                int world_size) {
  ZEROTH_ASSIGN_OR_RETURN(const int size, strategy.ShardSize(world_size));
  if (options.shard_size == 0 || options.shard_size == size) return size;
  return InvalidArgument(strategy.name(), " has shard groups of ", size,
                         " ranks here, but shard size ", options.shard_size,
                         " was asked for; leave the shard size out, or use hybrid_shard");
}

void StrategyRegistry::Register(absl::string_view name, std::vector<StrategyOption> own,
                                Factory factory) {
  for (const StrategyOption& option : own) ZEROTH_CHECK(Allows(option, option.default_value));
  Strategies::Global().Add(name, {std::move(own), std::move(factory)});
}

absl::StatusOr<std::unique_ptr<ShardingStrategy>> StrategyRegistry::Create(
    absl::string_view text, StrategyOptions options) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  const absl::string_view name = parts.first;
  const std::optional<Entry> entry = Strategies::Global().Find(name);
  if (!entry.has_value()) {
    return InvalidArgument("unknown sharding strategy '", name, "'",
                           Strategies::Global().Instead(name, kElsewhere));
  }
  ZEROTH_ASSIGN_OR_RETURN(options.own, ParseOwn(name, parts.second, entry->own));
  ZEROTH_RETURN_IF_ERROR(CheckOptions(name, options));
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<ShardingStrategy> strategy, entry->factory(options));
  if (strategy == nullptr) {
    return absl::InternalError(
        absl::StrCat("strategy '", name, "': its factory returned no strategy"));
  }
  strategy->name_ = std::string(name);
  ZEROTH_RETURN_IF_ERROR(CheckServed(name, options, strategy->capabilities()));
  return strategy;
}

std::vector<std::string> StrategyRegistry::Names() { return Strategies::Global().Names(); }

}  // namespace zeroth
