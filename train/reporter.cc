// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/reporter.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/comm_stats.h"
#include "zeroth/nn/layers/linear.h"
#include "zeroth/nn/layers/lora_linear.h"
#include "zeroth/options/option_registry.h"
#include "zeroth/strategies/sharding.h"
#include "zeroth/strategies/unit.h"
#include "zeroth/train/model_source.h"
#include "zeroth/train/text_generation.h"

namespace zeroth {
namespace {

// Counts the elements of parameters as stored in model files: a packed weight counts unpacked.
int64_t ParameterCount(const LanguageModel& model) {
  int64_t numel = 0;
  for (const Parameter* parameter : StoredParameters(model)) numel += parameter->global_numel();
  return numel;
}

// Counts those that this rank keeps between steps. A piece of a packed weight's codes counts the
// weights that it encodes, and scales count nothing.
int64_t LocalParameterCount(Trainer& trainer) {
  std::map<const Parameter*, const PackedWeight*> packed_of;
  for (const PackedWeight* packed : PackedWeights(trainer.model())) {
    packed_of[packed->codes] = packed;
    if (packed->scales != nullptr) packed_of[packed->scales] = packed;
  }
  double numel = 0;
  for (const Unit* unit : trainer.sharding().units()) {
    for (int i = 0; i < unit->layout().parameter_count(); ++i) {
      const Parameter& parameter = unit->parameter(i);
      const auto piece = static_cast<double>(unit->PieceOf(i).numel());
      const auto found = packed_of.find(&parameter);
      if (found == packed_of.end()) {
        numel += piece;
      } else if (found->second->codes == &parameter) {
        numel += piece * static_cast<double>(found->second->weight->global_numel()) /
                 static_cast<double>(parameter.global_numel());
      }
    }
  }
  return static_cast<int64_t>(std::llround(numel));
}

double LocalRatio(Trainer& trainer) {
  return static_cast<double>(LocalParameterCount(trainer)) /
         static_cast<double>(ParameterCount(trainer.model()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Reporter>> Reporter::Create(const RunSpec& spec,
                                                           const RunInput& input, Trainer& trainer,
                                                           const std::string& out, double gemm_rate,
                                                           int64_t first_step, int64_t steps) {
  const TrainOptions& options = spec.options;
  std::optional<MetricsWriter> metrics;
  if (!spec.only_evaluates()) {
    const std::string path = absl::StrCat(out, "/", kMetricsFile);
    ZEROTH_ASSIGN_OR_RETURN(MetricsWriter writer, first_step > 0
                                                      ? MetricsWriter::Resume(path, first_step)
                                                      : MetricsWriter::Create(path));
    metrics.emplace(std::move(writer));
  }
  ProgressOptions progress;
  progress.steps = steps;
  progress.log_every = options.log_every;
  progress.flops_per_token = trainer.model().FlopsPerToken(options.seq_len);
  progress.gemm_rate = gemm_rate;
  std::unique_ptr<Reporter> reporter(
      new Reporter(spec, input, trainer, out, std::move(metrics), progress, first_step));
  if (reporter->metrics_.has_value() && options.tensorboard) {
    ZEROTH_ASSIGN_OR_RETURN(EventFile events, EventFile::Create(out, first_step));
    reporter->events_.emplace(std::move(events));
  }
  reporter->PrintHeader(gemm_rate, steps);
  return reporter;
}

void Reporter::Step(const StepMetrics& metrics, absl::Span<const double> waited,
                    double seconds_left) {
  // The first step makes one-time allocations and is unlike the others.
  if (!waited.empty() && last_.step > first_step_ + 1) {
    late_.Add(last_.step, waited,
              static_cast<double>(TokensPerStep(options_)) / last_.tokens_per_second);
  }
  PrintSlowMatmuls();
  progress_.Step(metrics, seconds_left);
  last_ = Completed(metrics);
  const absl::Status written = metrics_->Write(last_);
  const absl::Status events = WriteEvents(last_);
  Written(written.ok() ? events : written);
}

StepMetrics Reporter::Completed(StepMetrics metrics) const {
  metrics.late = late_.now();
  metrics.gemm_utilization = progress_.Utilization(metrics);
  const double peak = options_.peak_tflops * 1e12 * options_.world_size;
  if (peak > 0) {
    metrics.mfu =
        metrics.tokens_per_second * trainer_.model().FlopsPerToken(options_.seq_len) / peak;
  }
  return metrics;
}

absl::Status Reporter::WriteEvents(const StepMetrics& metrics) {
  if (!events_.has_value()) return absl::OkStatus();
  constexpr double kMiB = 1024.0 * 1024.0;
  std::vector<EventFile::Scalar> scalars = {
      {"train/skipped_steps", static_cast<double>(metrics.skipped_steps)},
      {"memory/peak_MiB", static_cast<double>(metrics.memory_peak_bytes) / kMiB}};
  for (const StepNumber& number : NumbersOf(metrics)) {
    if (*number.tag != '\0') scalars.push_back({number.tag, number.value});
  }
  if (metrics.late.has_value()) {
    scalars.push_back({"speed/late_rank", static_cast<double>(metrics.late->rank)});
    scalars.push_back({"speed/seconds_late", metrics.late->seconds});
  }
  const ShardingStats stats = trainer_.sharding().stats();
  for (int i = 0; i < kMemoryCategoryCount; ++i) {
    const MemoryCategory category = static_cast<MemoryCategory>(i);
    scalars.push_back({absl::StrCat("memory/peak_MiB_of_", MemoryCategoryName(category)),
                       static_cast<double>(stats.memory[category].peak_bytes) / kMiB});
  }
  return events_->WriteScalars(metrics.step, scalars);
}

void Reporter::Evaluation(const EvaluationMetrics& metrics) {
  Say(absl::StrFormat("step %d  evaluation loss %.4f%s", metrics.step, metrics.loss,
                      FormatPreference(metrics.preference)));
  if (metrics.ema_loss.has_value()) {
    Say(absl::StrFormat("step %d  evaluation loss %.4f of the averaged weights", metrics.step,
                        *metrics.ema_loss));
  }
  if (!metrics_.has_value()) return;
  const absl::Status written = metrics_->Write(metrics);
  const absl::Status events = WriteEvents(metrics);
  Written(written.ok() ? events : written);
}

absl::Status Reporter::WriteEvents(const EvaluationMetrics& metrics) {
  if (!events_.has_value()) return absl::OkStatus();
  std::vector<EventFile::Scalar> scalars;
  for (const StepNumber& number : NumbersOf(metrics)) {
    if (*number.tag != '\0') scalars.push_back({number.tag, number.value});
  }
  return events_->WriteScalars(metrics.step, scalars);
}

void Reporter::Sample(int64_t step, const std::string& text) {
  Say(absl::StrFormat("step %d  sample: %s", step, Printable(text)));
  // Markdown shows indented text unchanged.
  if (events_.has_value()) {
    Written(events_->WriteText(step, "sample",
                               "    " + absl::StrReplaceAll(Printable(text), {{"\n", "\n    "}})));
  }
}

void Reporter::Warn(const absl::Status& status) {
  if (!status.ok()) Say(absl::StrCat("warning   ", status.message()));
}

void Reporter::SyncMetrics() { Written(metrics_->Sync()); }

void Reporter::WriteSummary(bool interrupted, bool failed, int64_t skipped_steps, double seconds) {
  progress_.Finish();
  const bool has_steps = last_.step > first_step_;
  // A run that made its steps before keeps their summary, but may end in another way.
  if (nlohmann::json earlier = metrics_->earlier_summary(); !has_steps && earlier.is_object()) {
    earlier["interrupted"] = interrupted;
    earlier["failed"] = failed;
    return Written(metrics_->WriteSummary(earlier));
  }
  const ShardingStats stats = trainer_.sharding().stats();
  nlohmann::json memory;
  for (int i = 0; i < kMemoryCategoryCount; ++i) {
    const MemoryCategory category = static_cast<MemoryCategory>(i);
    memory[std::string(MemoryCategoryName(category))] = stats.memory[category].peak_bytes;
  }
  nlohmann::json collectives;
  for (int i = 0; i < kCollectiveOpCount; ++i) {
    const CommStats::Counter& counter = stats.collectives[static_cast<size_t>(i)];
    collectives[std::string(CollectiveOpName(static_cast<CollectiveOp>(i)))] = {
        {"calls", counter.calls}, {"bytes", counter.bytes}};
  }
  const double tokens = static_cast<double>((last_.step - first_step_) * TokensPerStep(options_));
  const std::optional<Straggler> late = late_.worst();
  Written(metrics_->WriteSummary({{"steps", last_.step},
                                  {"interrupted", interrupted},
                                  {"failed", failed},
                                  {"skipped_steps", skipped_steps},
                                  {"loss", has_steps ? nlohmann::json(last_.loss) : nullptr},
                                  {"seconds", seconds},
                                  {"tokens", tokens},
                                  {"tokens_per_second", seconds > 0 ? tokens / seconds : 0.0},
                                  {"parameters", ParameterCount(trainer_.model())},
                                  {"parameters_local", LocalParameterCount(trainer_)},
                                  {"sharding_ratio", LocalRatio(trainer_)},
                                  {"strategy", options_.strategy},
                                  {"world_size", options_.world_size},
                                  {"memory_peak_bytes", stats.memory.total.peak_bytes},
                                  {"memory_peak_bytes_by_category", memory},
                                  {"late", late.has_value() ? StragglerJson(*late) : nullptr},
                                  {"offload",
                                   {{"reserved_bytes", stats.offload.reserved_bytes},
                                    {"bytes_read", stats.offload.bytes_read},
                                    {"bytes_written", stats.offload.bytes_written}}},
                                  {"collectives", collectives}}));
}

void Reporter::PrintEnd(const std::string& how, double seconds,
                        const std::vector<std::string>& saved, const std::string& advice) {
  if (const std::optional<Straggler> late = late_.worst()) {
    Say(absl::StrCat("late      ", StragglerText(*late)));
  }
  std::vector<std::string> places = saved;
  places.push_back(absl::StrCat("metrics in ", out_, "/", kMetricsFile));
  Say(absl::StrFormat("%s after %d steps in %s: %s%s", how, last_.step, FormatDuration(seconds),
                      absl::StrJoin(places, ", "), advice.empty() ? "" : "; " + advice));
}

Reporter::Reporter(const RunSpec& spec, const RunInput& input, Trainer& trainer, std::string out,
                   std::optional<MetricsWriter> metrics, const ProgressOptions& progress,
                   int64_t first_step)
    : options_(spec.options),
      input_(input),
      trainer_(trainer),
      out_(std::move(out)),
      metrics_(std::move(metrics)),
      progress_(progress),
      first_step_(first_step),
      late_(spec.options.world_size) {
  last_.step = first_step;
}

void Reporter::Written(const absl::Status& status) {
  if (metrics_are_written_ && !status.ok()) Warn(status);
  if (!metrics_are_written_ && status.ok()) Say("          metrics can be written again");
  metrics_are_written_ = status.ok();
}

void Reporter::PrintHeader(double gemm_rate, int64_t steps) {
  const TrainOptions& options = options_;
  const ShardingStats stats = trainer_.sharding().stats();
  const std::string name = !options.init_from.empty() ? options.init_from
                           : options.model.empty()    ? kDefaultModel
                                                      : options.model;
  // zeroth.train (tools/python) reads this line to find the directory of a run without --out.
  if (metrics_.has_value()) Say(absl::StrCat("out       ", out_));
  Say(absl::StrFormat("model     %s, %.2fM parameters, vocabulary %d, tokenizer %s", name,
                      static_cast<double>(ParameterCount(trainer_.model())) / 1e6,
                      trainer_.model().vocab_size(),
                      input_.tokenizer == nullptr ? "none" : input_.tokenizer->name()));
  if (const HfDirectory* const files = input_.source.directory();
      files != nullptr && !files->left_out().empty()) {
    Say(absl::StrCat("          the language model alone: ", files->left_out(),
                     ", are neither trained nor exported"));
  } else if (input_.source.ignored_mtp_tensors() > 0) {
    Say(absl::StrCat("          its layers that predict further tokens (mtp), ",
                     input_.source.ignored_mtp_tensors(),
                     " tensors, are neither trained nor exported"));
  }
  PrintAdapters();
  PrintFp8();
  // Notes on the data count the tokens before a part is held out, and without padding.
  Say(absl::StrFormat("data      %s, %d tokens%s%s", input_.data->description(),
                      input_.data->tokens(), options.eval_fraction > 0 ? " to train on" : "",
                      input_.data->has_marks() ? ", padding included" : ""));
  if (steps > 0) {
    Say(absl::StrFormat("          %.4g steps an epoch; the run ends after step %d",
                        static_cast<double>(input_.sequences_per_epoch) /
                            static_cast<double>(SequencesPerStep(options)),
                        steps));
  }
  Say(absl::StrFormat(
      "strategy  %s over %d ranks x %d threads (%s, %s), %.1f%% of the parameters per rank",
      options.strategy, options.world_size, ThreadsPerRank(options), options.device, options.comm,
      100 * LocalRatio(trainer_)));
  if (options.tensor_parallel > 1) {
    Say(absl::StrFormat(
        "          each layer is divided among %d ranks%s; %d such groups read different data",
        options.tensor_parallel,
        options.sequence_parallel ? ", which also divide the sequence between layers" : "",
        options.data_ranks()));
  }
  if (stats.offload.reserved_bytes > 0) {
    Say(absl::StrFormat("offload   %s: %.1f MiB per rank outside its memory", options.offload,
                        static_cast<double>(stats.offload.reserved_bytes) / (1 << 20)));
  }
  Say(absl::StrFormat(
      "batch     %d sequences of %d tokens a step; %s, reduced in %s; %s GEMM rate %s",
      SequencesPerStep(options), options.seq_len, DTypeName(options.param_dtype),
      DTypeName(options.reduce_dtype),
      OptionText(options.fp32_precision == Fp32Precision::kTf32 ? "fp32_precision" : "param_dtype",
                 options),
      gemm_rate > 0 ? absl::StrFormat("%.0f GFLOP/s", gemm_rate / 1e9)
                    : "unknown: there is no memory to measure it in"));
  if (options.deterministic_batch > 0) {
    Say(absl::StrFormat(
        "          in %d micro-batches, %d on each rank: the same bits at any world size",
        options.deterministic_batch, options.grad_accum));
  }
  if (options.master_dtype == DType::kFloat32 && options.optimizer_state_dtype == DType::kFloat32) {
    return;
  }
  Say(absl::StrFormat("optimizer %s parameters, %s moments: %.1f MiB of moments per rank",
                      DTypeName(options.master_dtype), OptionText("optimizer_state_dtype", options),
                      static_cast<double>(trainer_.optimizer().MemoryBytes()) / (1024.0 * 1024.0)));
}

void Reporter::PrintSlowMatmuls() {
  const std::vector<std::string> slow = trainer_.kernels().SlowMatmuls();
  if (slow.size() == slow_matmuls_) return;
  slow_matmuls_ = slow.size();
  Say(
      absl::StrCat("matmuls   computed by a plain kernel, about a hundred times slower than the "
                   "device's library, which has no algorithm for them: ",
                   absl::StrJoin(slow, "; ")));
}

void Reporter::PrintAdapters() {
  const std::vector<LoraAdapter> adapters = LoraAdapters(trainer_.model());
  if (adapters.empty()) return;
  int64_t numel = 0;
  for (const Parameter* parameter : trainer_.model().Parameters()) {
    if (parameter->requires_grad()) numel += parameter->global_numel();
  }
  const std::string& saved = options_.lora_modules_to_save;
  Say(absl::StrFormat(
      "adapters  %s of rank %d, alpha %g%s, on %d weights%s: %.2fM "
      "parameters are trained, the rest is frozen",
      absl::StrCat(options_.lora_rslora ? "rs" : "", options_.lora_dora ? "DoRA" : "LoRA"),
      options_.lora_rank, options_.lora_alpha,
      options_.lora_dropout > 0 ? absl::StrCat(", dropout ", options_.lora_dropout) : "",
      adapters.size(), saved.empty() ? "" : absl::StrCat(", and ", saved, " in full"),
      static_cast<double>(numel) / 1e6));
  const std::vector<const PackedWeight*> packed = PackedWeights(trainer_.model());
  if (packed.empty()) return;
  int64_t weights = 0;
  int64_t bytes = 0;
  std::set<absl::string_view> formats;
  for (const PackedWeight* weight : packed) {
    weights += weight->weight->global_numel();
    bytes += weight->codes->global_numel() + weight->shape.scale_bytes();
    formats.insert(PackedFormatName(weight->shape.format));
  }
  Say(absl::StrFormat(
      "base      %.2fM of the frozen weights are kept as %s, in %.2f bits each; a merged model has "
      "them unpacked in fp32, plus the adapters, then rounded to its type",
      static_cast<double>(weights) / 1e6, absl::StrJoin(formats, ", "),
      8.0 * static_cast<double>(bytes) / static_cast<double>(weights)));
}

void Reporter::PrintFp8() {
  const Fp8Layers layers = FindFp8Layers(trainer_.model());
  if (layers.in_fp8.empty()) return;
  Say(absl::StrFormat("fp8       %d of %d linear layers, scales %s%s%s", layers.in_fp8.size(),
                      layers.in_fp8.size() + layers.others.size(), OptionText("fp8", options_),
                      layers.others.empty() ? ""
                                            : absl::StrCat("; not multiples of 16, so in ",
                                                           DTypeName(options_.param_dtype), ": "),
                      absl::StrJoin(layers.others, ", ")));
}

}  // namespace zeroth
