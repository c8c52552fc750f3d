// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/result_flags.h"

#include "absl/strings/str_cat.h"

#include "zeroth/train/global_batch.h"

namespace zeroth {
namespace {

using Json = nlohmann::json;

constexpr OptionField Field(const char* name, bool decides, Json (*value)(const TrainOptions&)) {
  return {name, decides, value};
}

#define FIELD(name, decides) \
  Field(#name, decides, [](const TrainOptions& o) -> Json { return o.name; })
#define RESULT(name) FIELD(name, true)
#define OTHER(name) FIELD(name, false)

// In TrainOptions' order. docs/determinism.md says why the strategy, units and layouts seldom
// matter; they do where sums over micro-batches or int8 scales depend on them. What is evaluated,
// shown, written and waited for decides nothing, nor does where state lies or when it is gathered.
constexpr OptionField kFields[] = {
    OTHER(data),
    RESULT(model),
    RESULT(init_from),
    RESULT(init_adapter),
    RESULT(tokenizer),
    RESULT(device),
    OTHER(comm),
    RESULT(strategy),
    RESULT(world_size),
    OTHER(local_world_size),
    OTHER(comm_timeout),
    RESULT(reduction),
    OTHER(nccl_copy_engine),
    RESULT(shard_size),
    OTHER(memory_limit),
    OTHER(offload),
    OTHER(offload_dir),
    {"threads_per_rank", true, [](const TrainOptions& o) -> Json { return ThreadsPerRank(o); }},
    RESULT(param_dtype),
    RESULT(reduce_dtype),
    RESULT(grad_accum_dtype),
    RESULT(fp32_norms),
    RESULT(keep_low_precision_grads),
    RESULT(loss_scale),
    RESULT(loss_scale_growth_interval),
    RESULT(master_dtype),
    RESULT(optimizer_state_dtype),
    OTHER(reshard_after_forward),
    OTHER(prefetch),
    OTHER(backward_prefetch),
    OTHER(limit_all_gathers),
    RESULT(layout),
    RESULT(gradient_divide_factor),
    RESULT(quantized_weights),
    RESULT(quantized_gradients),
    OTHER(cuda_graphs),
    OTHER(activation_checkpointing),
    RESULT(min_wrap_numel),
    OTHER(shard_optimizer_over_world),
    RESULT(batch_size),
    {kGlobalBatchSize, true, [](const TrainOptions& o) -> Json { return GlobalBatchSize(o); }},
    RESULT(grad_accum),
    RESULT(grad_sync),
    RESULT(seq_len),
    RESULT(steps),
    RESULT(lr),
    {"min_lr", true, [](const TrainOptions& o) -> Json { return o.final_lr(); }},
    RESULT(lr_schedule),
    RESULT(warmup_steps),
    RESULT(beta1),
    RESULT(beta2),
    RESULT(eps),
    RESULT(weight_decay),
    RESULT(clip_grad_norm),
    RESULT(on_nonfinite),
    RESULT(seed),
    RESULT(shuffle),
    OTHER(eval_data),
    OTHER(eval_every),
    OTHER(eval_batches),
    OTHER(sample_every),
    OTHER(sample_tokens),
    OTHER(temperature),
    OTHER(prompt),
    OTHER(out),
    OTHER(overwrite),
    OTHER(log_every),
    OTHER(trace),
    RESULT(lora_rank),
    RESULT(lora_alpha),
    RESULT(lora_targets),
    RESULT(lora_b_lr_scale),
    RESULT(skip_loss_zscore),
    RESULT(skip_grad_norm_zscore),
    RESULT(ema_decay),
    OTHER(checkpoint_every),
    OTHER(keep_last),
    OTHER(keep_every),
    OTHER(resume),
    OTHER(allow_partial),
    OTHER(async_checkpoint),
    OTHER(async_when_busy),
    RESULT(deterministic_batch),
    OTHER(export_dtype),
    OTHER(max_shard_size),
    OTHER(lora_export),
    RESULT(fp32_precision),
    RESULT(fp8),
    RESULT(attention_backend),
    RESULT(allow_slow_kernels),
};

#undef OTHER
#undef RESULT
#undef FIELD

std::string Text(const Json& json) {
  return json.is_string() ? json.get<std::string>()
                          : json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

absl::Span<const OptionField> OptionFields() { return kFields; }

Json ResultFlags(const TrainOptions& options) {
  Json flags = Json::object();
  for (const OptionField& field : kFields) {
    if (field.decides_results) flags[field.name] = field.value(options);
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

std::vector<std::string> ChangedFlags(const Json& before, const Json& now) {
  std::vector<std::string> changed = Changed(before, now);
  for (std::string& line : changed) line = absl::StrCat("--", line);
  return changed;
}

}  // namespace zeroth
