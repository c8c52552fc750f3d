// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A rank's steps, and what is computed between them.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"
#include "zeroth/train/interrupt.h"
#include "zeroth/train/rank_run.h"
#include "zeroth/train/sampler.h"

namespace zeroth {
namespace {

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Micro-batches `first`, and so on, of this rank.
absl::StatusOr<std::vector<Batch>> LoadMicroBatches(const DataLoader& loader, int64_t first,
                                                    int64_t count) {
  std::vector<Batch> micro_batches;
  for (int64_t i = 0; i < count; ++i) {
    ZEROTH_ASSIGN_OR_RETURN(Batch batch, loader.Load(first + i));
    micro_batches.push_back(std::move(batch));
  }
  return micro_batches;
}

}  // namespace

absl::StatusOr<bool> RankRun::Step(int64_t step, Clock::time_point start) {
  const Clock::time_point step_start = Clock::now();
  const int64_t count = options_.grad_accum;
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<Batch> micro_batches,
                          LoadMicroBatches(*loader_, step * count, count));
  const double lr = job_.schedule.At(step);
  trace_->BeforeStep(step - first_step_);
  ZEROTH_ASSIGN_OR_RETURN(const StepResult result,
                          trainer_->Step(micro_batches, lr, Interrupted()));
  SayTraced(trace_->AfterStep(step - first_step_));
  StepMetrics metrics;
  metrics.step = step + 1;
  metrics.loss = result.loss;
  metrics.grad_norm = result.grad_norm;
  if (trainer_->loss_scaler() != nullptr) metrics.loss_scale = result.loss_scale;
  metrics.loss_zscore = result.loss_zscore;
  metrics.grad_norm_zscore = result.grad_norm_zscore;
  const bool failed = result.skipped && HandleSkipped(step + 1, result);
  metrics.skipped_steps = skipped_steps_;
  metrics.lr = lr;
  const double tokens = static_cast<double>(TokensPerStep(options_));
  metrics.tokens_per_second = tokens / std::max(SecondsSince(step_start), 1e-9);
  metrics.memory_peak_bytes = device().allocator().stats().total.peak_bytes;
  const bool last = step + 1 == options_.steps || result.stop || failed;
  if (eval_loader_.has_value() &&
      (last || (options_.eval_every > 0 && (step + 1) % options_.eval_every == 0))) {
    ZEROTH_RETURN_IF_ERROR(EvaluateAll(metrics));
  }
  if (reporter_ != nullptr) {
    if (checkpoints_ != nullptr) metrics.saving = checkpoints_->saving();
    const double left = SecondsSince(start) / static_cast<double>(step + 1 - first_step_) *
                        static_cast<double>(options_.steps - step - 1);
    reporter_->Step(metrics, left);
  }
  if (checkpoints_ != nullptr && !failed) {
    ZEROTH_RETURN_IF_ERROR(SaveCheckpoint(step + 1, last));
  }
  if (!last && options_.sample_every > 0 && (step + 1) % options_.sample_every == 0) {
    ZEROTH_RETURN_IF_ERROR(ShowSample(step + 1));
  }
  return result.stop || !failure_.ok();
}

bool RankRun::HandleSkipped(int64_t step, const StepResult& result) {
  ++skipped_steps_;
  const double norm = result.grad_norm;
  if (result.overflowed) {
    Say(absl::StrFormat(
        "step %d  skipped: gradients overflow at loss scale %g; it is %g from here on", step,
        result.loss_scale, trainer_->loss_scaler()->scale()));
    return false;
  }
  if (result.outlier) {
    Say(absl::StrFormat(
        "step %d  skipped: an outlier; z-scores are %.1f of loss %.4f, %.1f of norm %.3f", step,
        result.loss_zscore.value_or(0), result.loss, result.grad_norm_zscore.value_or(0), norm));
    return false;
  }
  if (options_.on_nonfinite == "skip") {
    Say(absl::StrFormat("step %d  skipped: the gradient norm is %g", step, norm));
    return false;
  }
  EndWith(absl::OutOfRangeError(absl::StrFormat(
      "step %d: the gradient norm is %g, so the weights were not updated; %s has those of step "
      "%d. "
      "A lower --lr, a longer --warmup_steps, bf16 or fp32 may help; --on_nonfinite=skip goes on",
      step, norm, job_.final_directories.shown(), step - 1)));
  return true;
}

absl::Status RankRun::EvaluateAll(StepMetrics& metrics) {
  ZEROTH_ASSIGN_OR_RETURN(metrics.eval_loss, Evaluate());
  if (trainer_->ema() == nullptr) return absl::OkStatus();
  ZEROTH_RETURN_IF_ERROR(trainer_->ema()->Swap());
  ZEROTH_ASSIGN_OR_RETURN(metrics.ema_eval_loss, Evaluate());
  return trainer_->ema()->Swap();
}

absl::Status RankRun::EvaluateOnly() {
  StepMetrics metrics;
  metrics.step = first_step_;
  ZEROTH_RETURN_IF_ERROR(EvaluateAll(metrics));
  if (reporter_ != nullptr) reporter_->SayEvaluation(metrics);
  return absl::OkStatus();
}

absl::StatusOr<float> RankRun::Evaluate() {
  // A deterministic batch is one in evaluation, too: its text must not depend on the ranks.
  const int64_t count = options_.deterministic_batch > 0 ? options_.grad_accum : 1;
  double sum = 0;
  for (int64_t i = 0; i < options_.eval_batches; ++i) {
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<Batch> micro_batches,
                            LoadMicroBatches(*eval_loader_, i * count, count));
    ZEROTH_ASSIGN_OR_RETURN(const float loss, trainer_->Evaluate(micro_batches));
    sum += loss;
  }
  ZEROTH_RETURN_IF_ERROR(trainer_->sharding().scheduler().EndStep());
  return static_cast<float>(sum / static_cast<double>(options_.eval_batches));
}

absl::Status RankRun::ShowSample(int64_t step) {
  if (options_.sample_tokens == 0 || job_.tokenizer == nullptr) return absl::OkStatus();
  SampleOptions sample;
  sample.prompt = options_.prompt;
  sample.tokens = options_.sample_tokens;
  sample.temperature = options_.temperature;
  sample.seed = options_.seed;
  const absl::StatusOr<std::string> text = Sample(*trainer_, *job_.tokenizer, sample);
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

void RankRun::SayTraced(const absl::StatusOr<bool>& traced) {
  if (!traced.ok()) return Warn(traced.status());
  if (*traced) Say(absl::StrCat("trace     of the last steps in ", options_.trace));
}

}  // namespace zeroth
