// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A rank's steps, and the computations between them.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/nn/generate.h"
#include "zeroth/optim/replica_check.h"
#include "zeroth/train/progress.h"
#include "zeroth/train/rank_run.h"
#include "zeroth/train/text_generation.h"

namespace zeroth {
namespace {

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Returns the prompt and its continuation by the current model. Collective, with the same text on
// every rank. Never picks ids that the tokenizer does not have.
absl::StatusOr<std::string> Sample(Trainer& trainer, const Tokenizer& tokenizer,
                                   absl::string_view prompt, GenerateOptions options) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, PromptTokens(tokenizer, prompt));
  options.vocab_size = tokenizer.vocab_size();
  ZEROTH_ASSIGN_OR_RETURN(
      const std::vector<int32_t> tokens,
      Generate(trainer.model(), ids, options,
               [&](absl::Span<const int32_t> window, int64_t from, KeyValueCache* cache) {
                 return trainer.Logits(window, from, cache);
               }));
  ZEROTH_RETURN_IF_ERROR(trainer.sharding().scheduler().EndStep());
  ZEROTH_ASSIGN_OR_RETURN(const std::string text, DecodeContinuation(tokenizer, ids, tokens));
  return absl::StrCat(prompt, text);
}

// Returns the tokens that end a sample: the same as in //tools/generate with the exported model.
absl::StatusOr<std::vector<int32_t>> SampleStopTokens(const RunInput& input) {
  std::vector<int32_t> stop = StopTokens(input.source.config(), *input.tokenizer);
  if (input.end_of_turn.has_value()) stop.push_back(*input.end_of_turn);
  const auto generation = input.tokenizer_files.find(kGenerationConfig);
  if (generation == input.tokenizer_files.end()) return stop;
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json config,
                          ParseJson(generation->second, kGenerationConfig));
  const std::vector<int32_t> more = StopTokens(config, *input.tokenizer);
  stop.insert(stop.end(), more.begin(), more.end());
  return stop;
}

}  // namespace

absl::StatusOr<bool> RankRun::Step(int64_t step, Clock::time_point start) {
  const Clock::time_point step_start = Clock::now();
  ZEROTH_RETURN_IF_ERROR(trace_->BeforeStep(step + 1));
  // The timeline shows loading on the compute stream, which is idle meanwhile.
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<Batch> micro_batches,
                          Timed(trace_->timeline(), device().compute_stream(), "load", "data",
                                [&] { return batches_->Next(); }));
  const double data_seconds = SecondsSince(step_start);
  const double lr = length_.schedule.At(step);
  ZEROTH_ASSIGN_OR_RETURN(const StepResult result,
                          trainer_->Step(micro_batches, lr, WantsToStop()));
  ZEROTH_RETURN_IF_ERROR(trace_->AfterStep(step + 1));
  if (trace_->IsComplete(step + 1)) WriteTrace();
  StepMetrics metrics;
  metrics.step = step + 1;
  metrics.loss = result.loss;
  metrics.grad_norm = result.grad_norm;
  if (trainer_->loss_scaler() != nullptr) metrics.loss_scale = result.loss_scale;
  metrics.preference = result.preference;
  metrics.experts = result.experts;
  metrics.loss_zscore = result.loss_zscore;
  metrics.grad_norm_zscore = result.grad_norm_zscore;
  bool failed = false;
  if (result.skipped) {
    ZEROTH_ASSIGN_OR_RETURN(failed, HandleSkipped(step + 1, result, micro_batches));
  } else {
    nonfinite_in_a_row_ = 0;
    updated_step_ = step + 1;
  }
  metrics.skipped_steps = skipped_steps_;
  metrics.lr = lr;
  const double tokens = static_cast<double>(TokensPerStep(options_));
  metrics.tokens_per_second = tokens / std::max(SecondsSince(step_start), 1e-9);
  metrics.wall_seconds = SecondsSince(start);
  metrics.tokens = SequencesAfter(step + 1) * options_.seq_len;
  metrics.data_seconds = data_seconds;
  metrics.communication_seconds = result.waited;
  metrics.memory_peak_bytes = device().allocator().stats().total.peak_bytes;
  interrupted_ = result.stop && !failed && step + 1 < length_.steps;
  if (interrupted_ && !Interrupted() && IsTimeUp()) {
    Say(absl::StrCat("time      --max_seconds=", options_.max_seconds,
                     " have passed: the run ends after this step"));
  }
  const bool last = step + 1 == length_.steps || interrupted_ || failed;
  if (reporter_ != nullptr) {
    metrics.saving = store_->saving();
    const double left = SecondsSince(start) / static_cast<double>(step + 1 - first_step_) *
                        static_cast<double>(length_.steps - step - 1);
    reporter_->Step(metrics, result.waited_before, left);
  }
  if (!failed) ZEROTH_RETURN_IF_ERROR(CheckReplicasAfter(step + 1, last));
  if (!failed) ZEROTH_RETURN_IF_ERROR(SaveCheckpoint(step + 1, last));
  if (!interrupted_ && EvaluatesAfter(step + 1, last)) {
    ZEROTH_ASSIGN_OR_RETURN(const bool evaluated, Evaluate(step + 1));
    if (!evaluated) {
      if (failed) return true;
      // The signal makes this a step that is saved.
      ZEROTH_RETURN_IF_ERROR(CheckReplicasAfter(step + 1, true));
      ZEROTH_RETURN_IF_ERROR(SaveCheckpoint(step + 1, true));
      return true;
    }
  }
  if (!last && options_.sample_every > 0 && (step + 1) % options_.sample_every == 0) {
    ZEROTH_RETURN_IF_ERROR(ShowSample(step + 1));
  }
  return interrupted_ || !failure_.ok();
}

absl::Status RankRun::SaveCheckpoint(int64_t steps, bool last) {
  if (!store_->can_save()) return absl::OkStatus();
  if (!SavesAfter(steps, last)) return HandleReport(store_->Poll());
  // A run that continues from this checkpoint does not compute these lines again.
  if (reporter_ != nullptr) reporter_->SyncMetrics();
  RunProgress progress;
  progress.steps = steps;
  progress.skipped_steps = skipped_steps_;
  progress.sequences = SequencesAfter(steps);
  progress.data = Order();
  progress.trainer = trainer_->counts();
  progress.flags = ResultFlags(options_);
  progress.model = trainer_->model().HfConfig();
  return HandleReport(store_->Save(progress, last));
}

absl::Status RankRun::HandleReport(absl::StatusOr<RunStore::Report> report) {
  ZEROTH_RETURN_IF_ERROR(report.status());
  for (const std::string& line : report->lines) Say(line);
  RecordFailure(report->failure);
  if (report->has_checkpoint) AnnounceInterrupt();
  return absl::OkStatus();
}

absl::Status RankRun::CheckReplicasAfter(int64_t steps, bool last) {
  const int64_t every = options_.check_replicas_every;
  const bool is_due = SavesAfter(steps, last) || (every > 0 && steps % every == 0);
  if (every < 0 || !is_due) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<ShardState> states, trainer_->states());
  const absl::Status status = CheckReplicas(trainer_->sharding(), states);
  if (!absl::IsDataLoss(status)) return status;
  // The next steps spread one rank's wrong values to all: write neither a checkpoint nor a model.
  return Annotate(status, absl::StrCat("step ", steps,
                                       ": no checkpoint and no model are written; resume from "
                                       "an earlier checkpoint, without that machine"));
}

absl::StatusOr<bool> RankRun::HandleSkipped(int64_t step, const StepResult& result,
                                            const std::vector<Batch>& micro_batches) {
  ++skipped_steps_;
  if (result.overflowed) {
    Say(absl::StrFormat(
        "step %d  skipped: gradients overflow at loss scale %g; it is %g from here on", step,
        result.loss_scale, trainer_->loss_scaler()->scale()));
    return false;
  }
  if (result.outlier) {
    nonfinite_in_a_row_ = 0;
    Say(absl::StrFormat(
        "step %d  skipped: an outlier; z-scores are %.1f of loss %.4f, %.1f of norm %.3f", step,
        result.loss_zscore.value_or(0), result.loss, result.grad_norm_zscore.value_or(0),
        result.grad_norm));
    return false;
  }
  return HandleNonFinite(step, result, micro_batches);
}

absl::StatusOr<bool> RankRun::HandleNonFinite(int64_t step, const StepResult& result,
                                              const std::vector<Batch>& micro_batches) {
  // In a series of skipped steps, only the first one explains why; the weights are still the same.
  std::string why;
  if (nonfinite_in_a_row_++ == 0) {
    const absl::StatusOr<std::string> found = trainer_->FindNonFinite(micro_batches);
    ZEROTH_RETURN_IF_ERROR(world_.status());
    why =
        absl::StrCat("\n  ", found.ok() ? *found
                                        : absl::StrCat("looking for the first such value failed: ",
                                                       found.status().message()));
  }
  const int64_t most = options_.max_nonfinite_steps;
  const bool too_many = most > 0 && nonfinite_in_a_row_ >= most;
  if (options_.on_nonfinite == OnNonfinite::kSkip && !too_many) {
    Say(absl::StrFormat("step %d  skipped: the gradient norm is %g%s", step, result.grad_norm,
                        why));
    return false;
  }
  RecordFailure(absl::OutOfRangeError(absl::StrFormat(
      "step %d: the gradient norm is %g%s, so the weights were not updated; %s has those of step "
      "%d. A lower --lr, a longer --warmup_steps, bf16 or fp32 may help; %s%s",
      step, result.grad_norm, too_many ? absl::StrFormat(" %d times in a row", most) : "",
      store_->final_model(), updated_step_,
      too_many ? "with a higher --max_nonfinite_steps the run continues"
               : "with --on_nonfinite=skip the run continues",
      why)));
  return true;
}

absl::StatusOr<bool> RankRun::Evaluate(int64_t steps) {
  ZEROTH_ASSIGN_OR_RETURN(const std::optional<EvaluationMetrics> metrics,
                          evaluator_->Evaluate(*trainer_, steps, [this] { return WantsToStop(); }));
  interrupted_ = !metrics.has_value();
  if (metrics.has_value() && reporter_ != nullptr) reporter_->Evaluation(*metrics);
  return metrics.has_value();
}

absl::StatusOr<bool> RankRun::ResumedBeforeEvaluation() {
  const bool last = first_step_ == length_.steps;
  if (first_step_ == 0 || !EvaluatesAfter(first_step_, last)) return false;
  const bool misses = reporter_ != nullptr && reporter_->lacks_evaluation();
  ZEROTH_ASSIGN_OR_RETURN(
      const std::string text,
      BroadcastText(world_, device(), 0, misses ? "yes" : "no", "look for an evaluation"));
  return text == "yes";
}

absl::Status RankRun::ShowSample(int64_t step) {
  const bool scores = options_.objective == Objective::kReward;  // and predicts no tokens
  if (options_.sample_tokens == 0 || input_.tokenizer == nullptr || scores) return absl::OkStatus();
  GenerateOptions generate;
  generate.max_tokens = options_.sample_tokens;
  generate.sampling.temperature = options_.temperature;
  generate.seed = options_.seed;
  ZEROTH_ASSIGN_OR_RETURN(generate.stop_tokens, SampleStopTokens(input_));
  const absl::StatusOr<std::string> text =
      Sample(*trainer_, *input_.tokenizer, options_.prompt, std::move(generate));
  const absl::Status agreed = AgreeOnStatus(world_, device(), text.status(), "sample");
  if (!agreed.ok()) {
    ZEROTH_RETURN_IF_ERROR(world_.status());
    trainer_->AgreedOnError();
    trainer_->sharding().scheduler().EndStep().IgnoreError();
    Warn(Annotate(agreed, "no sample"));
  } else if (reporter_ != nullptr) {
    reporter_->Sample(step, *text);
  }
  return absl::OkStatus();
}

void RankRun::WriteTrace() {
  const absl::StatusOr<std::string> traced = trace_->Write(store_->directory());
  if (!traced.ok()) return Warn(traced.status());
  if (!traced->empty()) Say(absl::StrCat("trace     ", *traced));
}

}  // namespace zeroth
