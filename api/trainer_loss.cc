// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Computes the loss of a micro-batch, and checks that the micro-batch has the inputs of that loss.

#include <optional>
#include <utility>
#include <vector>

#include "zeroth/api/nonfinite_finder.h"
#include "zeroth/api/preference_objective.h"
#include "zeroth/api/trainer.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/distillation.h"

namespace zeroth {

absl::Status Trainer::ExpectOneShape(absl::Span<const Batch> micro_batches) const {
  if (micro_batches.empty()) {
    return absl::InvalidArgumentError("a step of no micro-batches, expected at least one");
  }
  const auto count = static_cast<int64_t>(micro_batches.size());
  if (is_deterministic() && count * data_ranks() != options_.deterministic_batch) {
    return InvalidArgument(count, " micro-batches on this rank of ", data_ranks(), ", expected ",
                           options_.deterministic_batch / data_ranks(),
                           ": the deterministic batch has ", options_.deterministic_batch);
  }
  for (const Batch& batch : micro_batches) {
    const auto tokens = static_cast<size_t>(batch.batch * batch.seq);
    if (batch.inputs.size() != tokens || batch.targets.size() != tokens) {
      return InvalidArgument("a micro-batch of ", batch.batch, " x ", batch.seq, " tokens with ",
                             batch.inputs.size(), " inputs and ", batch.targets.size(),
                             " targets, expected ", tokens, " of each");
    }
    if (batch.counted.has_value() != micro_batches[0].counted.has_value() ||
        batch.starts.size() != (micro_batches[0].starts.empty() ? 0 : tokens)) {
      return absl::InvalidArgumentError(
          "some micro-batches of a step say how many targets count, or where documents begin, and "
          "others do not; expected all or none");
    }
    ZEROTH_RETURN_IF_ERROR(ExpectPairs(batch));
    ZEROTH_RETURN_IF_ERROR(ExpectTeacher(batch, micro_batches[0]));
    if (batch.pairs.size() != micro_batches[0].pairs.size() ||
        batch.labels.size() != micro_batches[0].labels.size() ||
        batch.reference.size() != micro_batches[0].reference.size()) {
      return absl::InvalidArgumentError(
          "micro-batches of a step have room for different numbers of pairs, or not all have a "
          "reference; expected one number, and a reference for all or none");
    }
    if (batch.batch == micro_batches[0].batch && batch.seq == micro_batches[0].seq) continue;
    return InvalidArgument("micro-batches of ", micro_batches[0].batch, " x ", micro_batches[0].seq,
                           " and ", batch.batch, " x ", batch.seq,
                           " tokens, expected one shape: their means are averaged");
  }
  return absl::OkStatus();
}

absl::Status Trainer::ExpectPairs(const Batch& batch) const {
  if (!options_.preference.has_value()) {
    if (batch.pairs.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "a micro-batch of preference pairs, but TrainerOptions::preference is not set");
  }
  if ((options_.preference->kind == PreferenceKind::kReward) != model_->scores()) {
    return absl::InvalidArgumentError(
        model_->scores()
            ? "the model's head scores texts, expected PreferenceKind::kReward of scores"
            : "PreferenceKind::kReward for a model that predicts tokens, expected one with "
              "ModelOptions::scoring_head");
  }
  const auto tokens = static_cast<size_t>(batch.batch * batch.seq);
  if (batch.pairs.empty() || batch.pairs.size() % 3 != 0 || !batch.counted.has_value()) {
    return InvalidArgument("a micro-batch with ", batch.pairs.size(), " numbers of pairs",
                           batch.counted.has_value() ? "" : ", and without Batch::counted",
                           "; expected three for each, and the number of all pairs");
  }
  for (size_t i = 0; i < batch.pairs.size(); i += 3) {
    const int32_t* const range = &batch.pairs[i];
    if (0 <= range[0] && range[0] <= range[1] && range[1] <= range[2] &&
        static_cast<size_t>(range[2]) <= tokens) {
      continue;
    }
    return InvalidArgument("pair ", i / 3, " of a micro-batch is at {", range[0], ", ", range[1],
                           ", ", range[2], "}, expected ascending places of ", tokens);
  }
  const size_t labels =
      options_.preference->kind == PreferenceKind::kKto ? batch.pairs.size() / 3 : 0;
  if (batch.labels.size() != labels) {
    return InvalidArgument("a micro-batch with ", batch.labels.size(),
                           " labels of judged answers, expected ", labels);
  }
  const bool needs = UsesReference(options_.preference->kind) && !adapters_off_is_reference_;
  if (batch.reference.size() == tokens || (batch.reference.empty() && !needs)) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "a micro-batch with ", batch.reference.size(), " losses of a reference, expected ", tokens,
      needs ? ", since training changes more than adapters that could be turned off"
            : ", or none to turn the adapters off");
}

absl::Status Trainer::ExpectTeacher(const Batch& batch, const Batch& first) const {
  const size_t ids = batch.teacher_ids.size();
  const auto tokens = static_cast<size_t>(batch.batch * batch.seq);
  if (ids != first.teacher_ids.size() || ids != batch.teacher_log_probs.size() ||
      (ids > 0 && (tokens == 0 || ids % tokens != 0))) {
    return InvalidArgument("a micro-batch of ", tokens, " tokens with ", ids,
                           " tokens of a teacher and ", batch.teacher_log_probs.size(),
                           " log-probabilities; expected k of each for every token, in all "
                           "micro-batches of a step or in none");
  }
  if (ids > 0 && teacher_ != nullptr) {
    return absl::InvalidArgumentError(
        "a micro-batch with tokens of a teacher, but the trainer has a teacher (SetTeacher); "
        "expected one of them");
  }
  if (ids > 0 && options_.preference.has_value()) {
    return absl::InvalidArgumentError(
        "a micro-batch with tokens of a teacher, but TrainerOptions::preference is set; expected "
        "one of them");
  }
  return absl::OkStatus();
}

absl::StatusOr<Trainer::MicroBatchLoss> Trainer::Loss(const StepInputs& inputs, int64_t i,
                                                      NonFiniteFinder* finder) {
  if (finder != nullptr) finder->EnterPass("the forward", i);
  Context& context = sharded_->context();
  context.set_token_divisor(inputs.divisor());
  context.set_document_starts(inputs.starts(i));
  const auto loss_of_tokens = [&]() -> absl::StatusOr<MicroBatchLoss> {
    ZEROTH_ASSIGN_OR_RETURN(const Value loss,
                            model_->Loss(context, inputs.tokens(i), inputs.targets(i)));
    return MicroBatchLoss{loss, loss.data};
  };
  if (inputs.teacher_ids(i).defined()) {
    const Distillation teacher = {.ids = inputs.teacher_ids(i),
                                  .log_probs = inputs.teacher_log_probs(i),
                                  .options = options_.distillation};
    const auto with_teacher = context.UseDistillation(teacher);
    return loss_of_tokens();
  }
  if (teacher_ != nullptr && context.recording()) return LossWithTeacher(inputs, i, finder);
  if (!options_.preference.has_value()) return loss_of_tokens();
  Tensor reference = inputs.reference(i);
  if (UsesReference(options_.preference->kind) && !reference.defined()) {
    const auto without_adapters = context.DisableAdapters();
    ZEROTH_ASSIGN_OR_RETURN(reference, TokenLosses(inputs, i));
  }
  PreferenceObjective objective(
      *options_.preference, {inputs.pairs(i), std::move(reference), inputs.labels(i), inputs.kl()});
  const auto with_pairs = context.UseObjective(objective);
  ZEROTH_ASSIGN_OR_RETURN(const Value loss,
                          model_->Loss(context, inputs.tokens(i), inputs.targets(i)));
  return MicroBatchLoss{loss, objective.statistics()};
}

absl::StatusOr<Trainer::MicroBatchLoss> Trainer::LossWithTeacher(const StepInputs& inputs,
                                                                 int64_t i,
                                                                 NonFiniteFinder* finder) {
  if (finder != nullptr) finder->EnterPass("the teacher's forward", i);
  Context& context = sharded_->context();
  Context& of_teacher = teacher_->sharded_->context();
  of_teacher.set_document_starts(inputs.starts(i));
  MicroBatchLoss result;
  const absl::Status status = teacher_->model_->WithHeadInputs(
      of_teacher, inputs.tokens(i), [&](const HeadInputs& head) -> absl::Status {
        if (finder != nullptr) finder->EnterPass("the forward", i);
        const Distillation teacher = {.teacher = head, .options = options_.distillation};
        const auto with_teacher = context.UseDistillation(teacher);
        ZEROTH_ASSIGN_OR_RETURN(result.loss,
                                model_->Loss(context, inputs.tokens(i), inputs.targets(i)));
        result.numbers = result.loss.data;
        return absl::OkStatus();
      });
  of_teacher.set_document_starts(Tensor());
  ZEROTH_RETURN_IF_ERROR(status);
  // Frees what is gathered of the teacher before the student's backward.
  ZEROTH_RETURN_IF_ERROR(teacher_->sharding().scheduler().EndStep());
  return result;
}

absl::Status Trainer::ComputeKl(const StepInputs& inputs) {
  if (!inputs.kl().defined()) return absl::OkStatus();
  Context& context = sharded_->context();
  const NoGradient inference(sharded_->tape());
  const auto without_dropout = context.UseDraws(std::nullopt);
  context.set_token_divisor(inputs.divisor());
  ZEROTH_ASSIGN_OR_RETURN(const Tensor terms, inputs.MakeKlTerms());
  for (int64_t i = 0; i < inputs.micro_batches(); ++i) {
    context.set_document_starts(inputs.starts(i));
    if (!inputs.has_references()) {
      const auto without_adapters = context.DisableAdapters();
      ZEROTH_ASSIGN_OR_RETURN(const Tensor reference, TokenLosses(inputs, i));
      ZEROTH_RETURN_IF_ERROR(inputs.SetReference(i, reference));
    }
    PreferenceObjective objective(*options_.preference,
                                  {inputs.pairs(i), inputs.reference(i), inputs.labels(i)});
    const auto with_pairs = context.UseObjective(objective);
    ZEROTH_RETURN_IF_ERROR(model_->Loss(context, inputs.tokens(i), inputs.targets(i)).status());
    ZEROTH_RETURN_IF_ERROR(inputs.SetKlTerm(terms, i, objective.statistics()));
  }
  return inputs.ExchangeKl(terms);
}

absl::StatusOr<Tensor> Trainer::TokenLosses(const StepInputs& inputs, int64_t i) {
  Context& context = sharded_->context();
  const NoGradient inference(sharded_->tape());
  const auto without_dropout = context.UseDraws(std::nullopt);
  KeepTokenLosses kept;
  const auto keeps = context.UseObjective(kept);
  ZEROTH_RETURN_IF_ERROR(model_->Loss(context, inputs.tokens(i), inputs.targets(i)).status());
  return kept.losses();
}

absl::StatusOr<Tensor> Trainer::TokenLosses(const Batch& batch) {
  return Guarded([&]() -> absl::StatusOr<Tensor> {
    ZEROTH_ASSIGN_OR_RETURN(const StepInputs inputs, MakeInputs(absl::MakeConstSpan(&batch, 1)));
    sharded_->context().set_document_starts(inputs.starts(0));
    return TokenLosses(inputs, 0);
  });
}

}  // namespace zeroth
