// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/options/trainer_options.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/shard_module.h"
#include "zeroth/strategies/quantized_collectives.h"
#include "zeroth/strategies/strategy.h"

namespace zeroth {
namespace {

// Splits a comma-separated list of names. Empty for an empty list.
std::vector<std::string> NamesIn(const std::string& list) {
  std::vector<std::string> names;
  for (const absl::string_view name : absl::StrSplit(list, ',', absl::SkipWhitespace())) {
    names.emplace_back(absl::StripAsciiWhitespace(name));
  }
  return names;
}

// Refuses quantized collectives for strategies without gathers and reduce-scatters, which are all
// that quantization changes.
absl::Status CheckQuantization(const TrainOptions& options, bool shards) {
  const char* const flag = options.quantized_weights     ? "quantized_weights"
                           : options.quantized_gradients ? "quantized_gradients"
                                                         : nullptr;
  if (flag == nullptr || shards || options.data_ranks() == 1) return absl::OkStatus();
  return InvalidArgument(
      "--", flag, ": under --strategy=", options.strategy,
      options.shard_size > 0 ? absl::StrCat(" --shard_size=", options.shard_size) : "",
      " every rank keeps all parameters and gradients, which all-reduce sums as they are; leave it "
      "out, or shard, as full_shard does");
}

}  // namespace

absl::Status CheckParallelism(const TrainOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<ShardingStrategy> strategy,
                          StrategyRegistry::Create(options.strategy, options.strategy_options()));
  const absl::StatusOr<int> shard_size =
      ShardSizeOf(*strategy, options.strategy_options(), options.data_ranks());
  if (options.tensor_parallel > 1) {
    ZEROTH_RETURN_IF_ERROR_WITH(
        shard_size.status(), absl::StrCat("--world_size=", options.world_size,
                                          " / --tensor_parallel=", options.tensor_parallel, " = ",
                                          options.data_ranks(), " ranks with data"));
  }
  ZEROTH_RETURN_IF_ERROR(shard_size.status());
  return CheckQuantization(options, *shard_size > 1 || options.shard_optimizer_over_world);
}

std::vector<std::string> TrainOptions::new_token_list() const { return NamesIn(new_tokens); }

absl::StatusOr<OffloadOptions> ParseOffload(absl::string_view text) {
  OffloadOptions offload;
  if (text == "none") return offload;
  if (text == "all") text = "parameters,gradients,optimizer";
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    bool* const kind = part == "parameters"  ? &offload.parameters
                       : part == "gradients" ? &offload.gradients
                       : part == "optimizer" ? &offload.optimizer
                                             : nullptr;
    if (kind == nullptr || *kind) {
      return InvalidArgument(
          "'", part, "' in '", text,
          "': expected parameters, gradients or optimizer, each once, or none or all");
    }
    *kind = true;
  }
  return offload;
}

OffloadOptions TrainOptions::offload_options() const {
  OffloadOptions options = *ParseOffload(offload);
  options.directory = offload_dir;
  return options;
}

LoraOptions TrainOptions::lora() const {
  LoraOptions lora;
  lora.rank = lora_rank;
  lora.alpha = lora_alpha;
  lora.rslora = lora_rslora;
  lora.dora = lora_dora;
  lora.dropout = lora_dropout;
  lora.experts = lora_targets != "all_but_experts";
  if (lora_targets != "all" && lora.experts) lora.targets = NamesIn(lora_targets);
  lora.modules_to_save = NamesIn(lora_modules_to_save);
  // The head of rewards is new, so adapters alone would learn to please a random one.
  if (objective == Objective::kReward && std::ranges::count(lora.modules_to_save, "score") == 0) {
    lora.modules_to_save.emplace_back("score");
  }
  if (base_dtype == BaseDtype::kInt8) lora.base_format = PackedFormat::kInt8;
  if (base_dtype == BaseDtype::kNf4) lora.base_format = PackedFormat::kNf4;
  return lora;
}

RouterOptions TrainOptions::router() const {
  return {.fp32 = router_dtype == RouterDtype::kFp32, .z_loss = router_z_loss};
}

TrainerOptions TrainerOptionsFor(const TrainOptions& options, Timeline* timeline) {
  TrainerOptions trainer;
  trainer.tensor = options.tensor();
  trainer.sharding.strategy = options.strategy;
  trainer.sharding.strategy_options = options.strategy_options();
  trainer.sharding.scheduler = options.scheduler_options();
  trainer.sharding.layout = options.layout;
  if (options.quantized_weights || options.quantized_gradients) {
    trainer.sharding.collectives = *QuantizedCollectives(
        {.weights = options.quantized_weights, .gradients = options.quantized_gradients});
  }
  trainer.sharding.scheduler.timeline = timeline;
  trainer.sharding.mixed_precision = options.mixed_precision();
  trainer.sharding.offload = options.offload_options();
  if (options.min_wrap_numel > 0) trainer.wrap = WrapByMinNumel(options.min_wrap_numel);
  trainer.fp32_norms = options.fp32_norms;
  trainer.activation_checkpointing = options.activation_checkpointing;
  trainer.optimizer = options.optimizer;
  trainer.optimizer_options = options.optimizer_options();
  if (options.lora_b_lr_scale != 1) {
    ParameterGroup& b_matrices = trainer.parameter_groups.emplace_back();
    b_matrices.pattern = "*.lora_B";
    b_matrices.lr_scale = options.lora_b_lr_scale;
  }
  trainer.clip_grad_norm = options.clip_grad_norm;
  trainer.loss_scaler = *options.loss_scaler();
  trainer.sync_every_micro_batch = options.grad_sync == GradSync::kEvery;
  trainer.record_steps = options.cuda_graphs;
  trainer.dropout_seed = options.seed;
  trainer.preference = options.preference();
  trainer.distillation = {
      static_cast<float>(options.distill_alpha), static_cast<float>(options.distill_temperature),
      options.distill_divergence == DistillDivergence::kReverse ? Divergence::kReverse
                                                                : Divergence::kForward};
  trainer.skip_loss_zscore = options.skip_loss_zscore;
  trainer.skip_grad_norm_zscore = options.skip_grad_norm_zscore;
  trainer.ema_decay = options.ema_decay;
  trainer.deterministic_batch = options.deterministic_batch;
  trainer.router_bias_rate = static_cast<float>(options.router_bias_rate);
  return trainer;
}

TrainerOptions FrozenTrainerOptionsFor(const TrainOptions& options, absl::string_view role,
                                       Timeline* timeline) {
  // Nothing is updated, so the optimizer below is one that accepts an empty list of parameters.
  TrainerOptions frozen = TrainerOptionsFor(options, timeline);
  frozen.unit_prefix = absl::StrCat(role, " ");
  // Quantised gathers would compute their codes from rounded weights, or from other shards.
  if (!options.quantized_weights) {
    if (options.param_dtype == DType::kBFloat16) {
      frozen.sharding.mixed_precision.master_dtype = DType::kBFloat16;
    }
    // Sharding masters over the world would gather slices across groups in each micro-batch, since
    // each one is a separate step of a teacher. It would save no memory: in the same dtype, masters
    // are no larger than those slices.
    frozen.sharding.strategy_options.shard_optimizer_over_world = false;
  }
  frozen.activation_checkpointing = ActivationCheckpointing::kNone;
  frozen.optimizer = "adamw";
  frozen.parameter_groups.clear();
  frozen.loss_scaler.reset();
  frozen.ema_decay = 0;
  frozen.router_bias_rate = 0;
  frozen.record_steps = false;
  return frozen;
}

}  // namespace zeroth
