// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/options/objective.h"

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/options/option_registry.h"

namespace zeroth {

std::optional<PreferenceOptions> TrainOptions::preference() const {
  PreferenceOptions options;
  switch (objective) {
    case Objective::kNextToken:
    case Objective::kDistill:
      return std::nullopt;
    case Objective::kDpo:
      options.kind = PreferenceKind::kDpo;
      break;
    case Objective::kIpo:
      options.kind = PreferenceKind::kIpo;
      break;
    case Objective::kSimpo:
      options.kind = PreferenceKind::kSimpo;
      break;
    case Objective::kOrpo:
      options.kind = PreferenceKind::kOrpo;
      break;
    case Objective::kKto:
      options.kind = PreferenceKind::kKto;
      options.desirable_weight = static_cast<float>(desirable_weight);
      options.undesirable_weight = static_cast<float>(undesirable_weight);
      break;
    case Objective::kReward:
      options.kind = PreferenceKind::kReward;
      options.beta = 1;
      options.center = static_cast<float>(center_rewards_coefficient);
      return options;
  }
  const float usual = objective == Objective::kSimpo ? 2.0f : 0.1f;
  options.beta = preference_beta > 0 ? static_cast<float>(preference_beta) : usual;
  options.label_smoothing = static_cast<float>(preference_label_smoothing);
  if (objective == Objective::kSimpo) options.gamma = static_cast<float>(simpo_gamma);
  return options;
}

bool TrainOptions::caches_reference() const {
  const std::optional<PreferenceOptions> options = preference();
  if (!options.has_value() || !UsesReference(options->kind)) return false;
  if (reference != "auto") return reference != "adapter_off";
  // Turning adapters off gives the initial model only if they are new and no module is trained in
  // full.
  return lora_rank == 0 || !lora_modules_to_save.empty() || !init_adapter.empty();
}

std::string TrainOptions::reference_path() const {
  const bool is_word = reference == "auto" || reference == "adapter_off" || reference == "cached";
  return is_word ? "" : reference;
}

absl::Status CheckObjective(const TrainOptions& o) {
  const TrainOptions defaults;
  const std::optional<PreferenceOptions> preference = o.preference();
  const auto refuse = [&o](const char* name, absl::string_view why) {
    return InvalidArgument("--", name, "=", OptionText(name, o),
                           ", --objective=", OptionText("objective", o), ": ", why);
  };
  const bool smooths = o.objective == Objective::kDpo || o.objective == Objective::kSimpo;
  const bool compares = preference.has_value() && UsesReference(preference->kind);
  const bool scores = o.objective == Objective::kReward;
  if ((!preference.has_value() || scores) && o.preference_beta != defaults.preference_beta) {
    return refuse("preference_beta", "only dpo, ipo, simpo, orpo and kto have it; leave it out");
  }
  if (!scores && o.center_rewards_coefficient != defaults.center_rewards_coefficient) {
    return refuse("center_rewards_coefficient", "only reward has it; leave it out");
  }
  if (!smooths && o.preference_label_smoothing != defaults.preference_label_smoothing) {
    return refuse("preference_label_smoothing", "only dpo and simpo have it; leave it out");
  }
  if (o.objective != Objective::kSimpo && o.simpo_gamma != defaults.simpo_gamma) {
    return refuse("simpo_gamma", "only simpo has it; leave it out");
  }
  if (!compares && o.reference != defaults.reference) {
    return refuse("reference", "only dpo, ipo and kto compare with a reference; leave it out");
  }
  if (o.reference.empty()) {
    return refuse("reference",
                  "it names no model; expected auto, cached, adapter_off or a model's path");
  }
  const bool judges = o.objective == Objective::kKto;
  if (!judges && o.desirable_weight != defaults.desirable_weight) {
    return refuse("desirable_weight", "only kto has it; leave it out");
  }
  if (!judges && o.undesirable_weight != defaults.undesirable_weight) {
    return refuse("undesirable_weight", "only kto has it; leave it out");
  }
  if (o.desirable_weight == 0 && o.undesirable_weight == 0) {
    return refuse("undesirable_weight",
                  "with --desirable_weight=0 nothing is learned; one must be above 0");
  }
  const bool distills = o.objective == Objective::kDistill;
  if (distills && o.teacher.empty() && o.teacher_topk.empty()) {
    return refuse("teacher",
                  "nothing says what the teacher finds likely; name its Hugging Face directory, or "
                  "by --teacher_topk a directory that evaluate --write_topk has written");
  }
  if (!o.teacher.empty() && !o.teacher_topk.empty()) {
    return refuse("teacher", absl::StrCat("--teacher_topk=", o.teacher_topk,
                                          " is another teacher; leave one of them out"));
  }
  if (!o.teacher_topk.empty() && o.distill_divergence != defaults.distill_divergence) {
    return refuse("distill_divergence",
                  "--teacher_topk does not say what the teacher thinks of the other tokens, which "
                  "the student may find likely; name the model by --teacher instead");
  }
  if (!o.teacher.empty() && o.cuda_graphs) {
    return refuse("cuda_graphs", "a graph records no teacher beside the student; leave it out");
  }
  if (!o.teacher_topk.empty() && o.eval_fraction > 0) {
    return refuse("eval_fraction",
                  "the teacher has read all of --data; hold data out by --eval_data instead");
  }
  if (!distills && o.teacher != defaults.teacher) {
    return refuse("teacher", "only distill has a teacher; leave it out");
  }
  if (!distills && o.distill_divergence != defaults.distill_divergence) {
    return refuse("distill_divergence", "only distill has it; leave it out");
  }
  if (!distills && o.teacher_topk != defaults.teacher_topk) {
    return refuse("teacher_topk", "only distill has a teacher; leave it out");
  }
  if (!distills && o.distill_alpha != defaults.distill_alpha) {
    return refuse("distill_alpha", "only distill has it; leave it out");
  }
  if (!distills && o.distill_temperature != defaults.distill_temperature) {
    return refuse("distill_temperature", "only distill has it; leave it out");
  }
  if (!preference.has_value()) return absl::OkStatus();
  if (o.loss_on == LossOn::kAll) {
    return refuse("loss_on", "of a pair only the answers are learned; leave --loss_on out");
  }
  if (o.on_long == OnLong::kSplit) {
    return refuse("on_long",
                  "both answers of a pair lie in one sequence, and are not split; take truncate, "
                  "drop or refuse");
  }
  if (o.attend_within == AttendWithin::kSequence) {
    return refuse("attend_within",
                  "the answers of a pair lie in one sequence, and must not attend to each other; "
                  "leave --attend_within out");
  }
  if (o.reference == "adapter_off") {
    if (o.lora_rank == 0 && o.init_adapter.empty()) {
      return refuse("reference", "there are no adapters; use cached, or give --lora_rank");
    }
    if (!o.lora_modules_to_save.empty()) {
      return refuse("reference",
                    "--lora_modules_to_save trains weights of the model itself, which turning the "
                    "adapters off does not undo; use cached");
    }
  }
  return absl::OkStatus();
}

}  // namespace zeroth
