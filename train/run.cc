// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/byte_count.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/data/open_data.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/nn/layers/attention.h"
#include "zeroth/nn/layers/fp8_layers.h"
#include "zeroth/optim/lr_schedule.h"
#include "zeroth/strategies/quantized_collectives.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/train/export.h"
#include "zeroth/train/gemm_peak.h"
#include "zeroth/train/interrupt.h"
#include "zeroth/train/metrics.h"
#include "zeroth/train/model_source.h"
#include "zeroth/train/progress.h"
#include "zeroth/train/run_checkpoints.h"
#include "zeroth/train/run_progress.h"
#include "zeroth/train/sampler.h"
#include "zeroth/train/step_trace.h"
#include "zeroth/train/trainer.h"

namespace zeroth {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Where weights are written, as a model and as adapters alone; empty: not at all.
struct ExportDirectories {
  std::string model;
  std::string adapters;

  const std::string& shown() const { return model.empty() ? adapters : model; }
};

// What all ranks share, opened and checked once.
struct Job {
  TrainOptions options;
  ModelSource source;
  std::unique_ptr<Tokenizer> tokenizer;
  std::shared_ptr<const TokenSource> data;
  std::shared_ptr<const TokenSource> eval_data;
  LrSchedule schedule;
  ExportDirectories final_directories;
  ExportDirectories ema_directories;  // empty: no average is kept
};

LoaderOptions LoaderOptionsFor(const TrainOptions& options, int rank) {
  LoaderOptions loader;
  loader.batch_size = options.batch_size;
  loader.seq_len = options.seq_len;
  loader.world_size = options.world_size;
  loader.rank = rank;
  loader.seed = options.seed;
  loader.shuffle = options.shuffle;
  return loader;
}

int64_t SequencesPerStep(const TrainOptions& options) {
  return options.batch_size * options.grad_accum * options.world_size;
}

int64_t TokensPerStep(const TrainOptions& options) {
  return SequencesPerStep(options) * options.seq_len;
}

// int8 is for gathers and reduce-scatters: where there are none, nothing would come of it.
absl::Status CheckQuantization(const TrainOptions& options, bool cuts) {
  const char* const flag = options.quantized_weights     ? "quantized_weights"
                           : options.quantized_gradients ? "quantized_gradients"
                                                         : nullptr;
  if (flag == nullptr || cuts || options.world_size == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, ": under --strategy=", options.strategy,
      options.shard_size > 0 ? absl::StrCat(" --shard_size=", options.shard_size) : "",
      " every rank keeps all parameters and gradients, which all-reduce sums as they are; leave it "
      "out, or shard, as full_shard does"));
}

// Names and sizes that only the ranks use, refused before any of them starts.
absl::Status CheckParallelism(const TrainOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const StrategyOptions strategy_options, options.strategy_options());
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<ShardingStrategy> strategy,
                          StrategyRegistry::Create(options.strategy, strategy_options));
  ZEROTH_ASSIGN_OR_RETURN(const int shard_size, strategy->ShardSize(options.world_size));
  return CheckQuantization(options, shard_size > 1 || strategy->ShardsOptimizerOverWorld());
}

// What a build lacks is known to whoever built it, and to nobody else.
absl::Status WithBuildHint(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kNotFound) return status;
  return absl::NotFoundError(absl::StrCat(
      status.message(), "; --device=cuda and --comm=nccl need a build with --config=cuda"));
}

// `options` with the number of ranks that there will be.
absl::StatusOr<TrainOptions> WithWorldSize(TrainOptions options) {
  const absl::StatusOr<std::optional<int>> started_or = LauncherRegistry::WorldSize(options.comm);
  if (!started_or.ok()) return WithBuildHint(started_or.status());
  const std::optional<int> started = *started_or;
  if (started.has_value()) {
    if (options.world_size != 0 && options.world_size != *started) {
      return absl::InvalidArgumentError(
          absl::StrCat("--world_size=", options.world_size, ", but the environment says that ",
                       *started, " ranks have been started; leave the flag out, and have the ",
                       "launcher start as many as you want (mpirun -n ", options.world_size, ")"));
    }
    options.world_size = *started;
    ZEROTH_ASSIGN_OR_RETURN(const std::optional<int> local,
                            LauncherRegistry::LocalWorldSize(options.comm));
    options.local_world_size = local.value_or(0);
    return options;
  }
  if (options.world_size == 0) options.world_size = kDefaultWorldSize;
  // Where this process runs all ranks, a device that is not there shows before any is started.
  ZEROTH_RETURN_IF_ERROR(
      WithBuildHint(DeviceRegistry::Create(options.device, DeviceOptions()).status()));
  return options;
}

absl::Status CreateOutput(const std::string& out) {
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error || !std::filesystem::is_directory(out)) {
    return absl::PermissionDeniedError(
        absl::StrCat("--out=", out, ": cannot create this directory: ",
                     error ? error.message() : "something else has this name"));
  }
  return absl::OkStatus();
}

ExportDirectories DirectoriesOf(const TrainOptions& options, absl::string_view name) {
  const std::string path = absl::StrCat(options.out, "/", name);
  ExportDirectories directories;
  if (options.lora_export != "adapter") directories.model = path;
  if (options.lora_export != "merged") directories.adapters = absl::StrCat(path, "_adapter");
  return directories;
}

absl::StatusOr<ExportOptions> ExportOptionsOf(const TrainOptions& options,
                                              const ModelSource& source) {
  ExportOptions result;
  ZEROTH_ASSIGN_OR_RETURN(result.dtype, ParseDType(options.export_dtype));
  ZEROTH_ASSIGN_OR_RETURN(result.directory.max_shard_bytes, ParseByteCount(options.max_shard_size));
  result.tokenizer_files = source.TokenizerFiles(options.tokenizer);
  result.base_model = options.init_from;
  return result;
}

absl::StatusOr<std::unique_ptr<Job>> OpenJob(const TrainOptions& options) {
  ZEROTH_RETURN_IF_ERROR(CheckParallelism(options));
  if (const absl::Status status = KernelRegistry::Check(options.device, options.kernel_options());
      !status.ok()) {
    return Annotate(WithBuildHint(status), absl::StrCat("--device=", options.device));
  }
  ZEROTH_ASSIGN_OR_RETURN(ModelSource source, ModelSource::Open(options));
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model, source.Build());
  if (options.seq_len > model->max_seq_len()) {
    return absl::InvalidArgumentError(absl::StrCat("--seq_len=", options.seq_len,
                                                   ": the model has ", model->max_seq_len(),
                                                   " positions; expected at most that"));
  }
  LrScheduleOptions schedule_options;
  schedule_options.lr = options.lr;
  schedule_options.min_lr = options.min_lr;
  schedule_options.warmup_steps = options.warmup_steps;
  schedule_options.total_steps = options.steps;
  ZEROTH_ASSIGN_OR_RETURN(LrSchedule schedule,
                          LrSchedule::Create(options.lr_schedule, schedule_options));
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
                          source.OpenTokenizer(options.tokenizer));
  DataOptions data_options;
  data_options.tokenizer = tokenizer.get();
  data_options.vocab_size = static_cast<int32_t>(model->vocab_size());
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<const TokenSource> data,
                          OpenData(options.data, data_options));
  std::shared_ptr<const TokenSource> eval_data;
  if (!options.eval_data.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(eval_data, OpenData(options.eval_data, data_options));
    ZEROTH_RETURN_IF_ERROR_WITH(
        DataLoader::Create(eval_data, LoaderOptionsFor(options, 0)).status(), "--eval_data");
  }
  // Also refuses data that are too short, before anything is started or written.
  ZEROTH_RETURN_IF_ERROR_WITH(DataLoader::Create(data, LoaderOptionsFor(options, 0)).status(),
                              "--data");
  ZEROTH_RETURN_IF_ERROR(CreateOutput(options.out));
  ZEROTH_RETURN_IF_ERROR(CheckCheckpointFlags(options));
  ZEROTH_RETURN_IF_ERROR(StepTrace::Create(options.trace, options.steps).status());
  const ExportDirectories final_directories = DirectoriesOf(options, "final");
  const ExportDirectories ema_directories =
      options.ema_decay > 0 ? DirectoriesOf(options, "final_ema") : ExportDirectories();
  ZEROTH_ASSIGN_OR_RETURN(const ExportOptions export_options, ExportOptionsOf(options, source));
  for (const ExportDirectories& directories : {final_directories, ema_directories}) {
    if (!directories.model.empty()) {
      ZEROTH_RETURN_IF_ERROR(CheckExport(*model, directories.model, export_options));
    }
    if (!directories.adapters.empty()) {
      ZEROTH_RETURN_IF_ERROR(CheckExportAdapters(*model, directories.adapters, export_options));
    }
  }
  return std::unique_ptr<Job>(new Job{options, std::move(source), std::move(tokenizer),
                                      std::move(data), std::move(eval_data), std::move(schedule),
                                      final_directories, ema_directories});
}

TrainerOptions TrainerOptionsFor(const TrainOptions& options, Timeline* timeline) {
  TrainerOptions trainer;
  trainer.sharding.strategy = options.strategy;
  trainer.sharding.strategy_options = *options.strategy_options();
  trainer.sharding.scheduler = *options.scheduler_options();
  if (options.layout == "rows") trainer.sharding.layout = LayoutKind::kRows;
  if (options.quantized_weights || options.quantized_gradients) {
    QuantizationOptions quantization;
    quantization.weights = options.quantized_weights;
    quantization.gradients = options.quantized_gradients;
    trainer.sharding.collectives = *QuantizedCollectives(quantization);
  }
  trainer.sharding.scheduler.timeline = timeline;
  trainer.sharding.mixed_precision = options.mixed_precision();
  trainer.sharding.offload = options.offload_options();
  if (options.min_wrap_numel > 0) trainer.wrap = WrapByMinNumel(options.min_wrap_numel);
  trainer.kernels = options.kernel_options();
  trainer.fp32_norms = options.fp32_norms;
  trainer.activation_checkpointing =
      *ParseActivationCheckpointing(options.activation_checkpointing);
  trainer.adamw.beta1 = options.beta1;
  trainer.adamw.beta2 = options.beta2;
  trainer.adamw.eps = options.eps;
  trainer.adamw.weight_decay = options.weight_decay;
  trainer.adamw.state_dtype = *options.moment_dtype();
  trainer.adamw.seed = options.seed;
  if (options.lora_b_lr_scale != 1) {
    ParameterGroup b_halves;
    b_halves.pattern = "*.lora_B";
    b_halves.lr_scale = options.lora_b_lr_scale;
    trainer.parameter_groups = {b_halves};
  }
  trainer.clip_grad_norm = options.clip_grad_norm;
  trainer.loss_scaler = *options.loss_scaler();
  trainer.sync_every_micro_batch = options.grad_sync == "every";
  trainer.record_steps = options.cuda_graphs;
  trainer.skip_loss_zscore = options.skip_loss_zscore;
  trainer.skip_grad_norm_zscore = options.skip_grad_norm_zscore;
  trainer.ema_decay = options.ema_decay;
  trainer.deterministic_batch = options.deterministic_batch;
  return trainer;
}

// Rank 0's side of a run: what is printed and written.
class Reporter {
 public:
  // `first_step`: steps that earlier runs have made.
  static absl::StatusOr<std::unique_ptr<Reporter>> Create(const Job& job, Trainer& trainer,
                                                          double gemm_peak, int64_t first_step) {
    const std::string path = absl::StrCat(job.options.out, "/metrics.jsonl");
    ZEROTH_ASSIGN_OR_RETURN(MetricsWriter metrics, first_step > 0
                                                       ? MetricsWriter::Resume(path, first_step)
                                                       : MetricsWriter::Create(path));
    ProgressOptions progress;
    progress.steps = job.options.steps;
    progress.log_every = job.options.log_every;
    progress.flops_per_token = trainer.model().FlopsPerToken(job.options.seq_len);
    progress.gemm_peak_flops = gemm_peak;
    std::unique_ptr<Reporter> reporter(
        new Reporter(job, trainer, std::move(metrics), progress, first_step));
    reporter->PrintHeader(gemm_peak);
    return reporter;
  }

  absl::Status Step(const StepMetrics& metrics, double seconds_left) {
    last_ = metrics;
    progress_.Step(metrics, seconds_left);
    if (metrics.eval_loss.has_value()) {
      progress_.Print(
          absl::StrFormat("step %d  evaluation loss %.4f", metrics.step, *metrics.eval_loss));
    }
    if (metrics.ema_eval_loss.has_value()) {
      progress_.Print(absl::StrFormat("step %d  evaluation loss %.4f of the averaged weights",
                                      metrics.step, *metrics.ema_eval_loss));
    }
    return metrics_.Write(metrics);
  }

  void Say(const std::string& line) { progress_.Print(line); }

  void Sample(int64_t step, const std::string& text) {
    progress_.Print(absl::StrFormat("step %d  sample: %s", step, Printable(text)));
  }

  absl::Status Finish(bool interrupted, double seconds) {
    progress_.Finish();
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
    const double tokens =
        static_cast<double>((last_.step - first_step_) * TokensPerStep(job_.options));
    ZEROTH_RETURN_IF_ERROR(
        metrics_.WriteSummary({{"steps", last_.step},
                               {"interrupted", interrupted},
                               {"skipped_steps", last_.skipped_steps},
                               {"loss", last_.loss},
                               {"seconds", seconds},
                               {"tokens", tokens},
                               {"tokens_per_second", seconds > 0 ? tokens / seconds : 0.0},
                               {"parameters", stats.total_numel},
                               {"parameters_local", stats.local_numel},
                               {"sharding_ratio", stats.local_ratio},
                               {"strategy", job_.options.strategy},
                               {"world_size", job_.options.world_size},
                               {"memory_peak_bytes", stats.memory.total.peak_bytes},
                               {"memory_peak_bytes_by_category", memory},
                               {"offload",
                                {{"reserved_bytes", stats.offload.reserved_bytes},
                                 {"bytes_read", stats.offload.bytes_read},
                                 {"bytes_written", stats.offload.bytes_written}}},
                               {"collectives", collectives}}));
    progress_.Print(absl::StrFormat(
        "%s after %d steps in %s: model in %s%s, metrics in %s/metrics.jsonl",
        interrupted ? "interrupted" : "done", last_.step, FormatDuration(seconds),
        job_.final_directories.shown(),
        job_.ema_directories.shown().empty() ? ""
                                             : " (averaged: " + job_.ema_directories.shown() + ")",
        job_.options.out));
    return absl::OkStatus();
  }

 private:
  Reporter(const Job& job, Trainer& trainer, MetricsWriter metrics, const ProgressOptions& progress,
           int64_t first_step)
      : job_(job),
        trainer_(trainer),
        metrics_(std::move(metrics)),
        progress_(progress),
        first_step_(first_step) {
    last_.step = first_step;
  }

  void PrintHeader(double gemm_peak) {
    const TrainOptions& options = job_.options;
    const ShardingStats stats = trainer_.sharding().stats();
    const std::string name = !options.init_from.empty() ? options.init_from
                             : options.model.empty()    ? "gpt2_nano"
                                                        : options.model;
    progress_.Print(absl::StrFormat("model     %s, %.2fM parameters, vocabulary %d, tokenizer %s",
                                    name, static_cast<double>(stats.total_numel) / 1e6,
                                    trainer_.model().vocab_size(), job_.tokenizer->name()));
    PrintAdapters();
    PrintFp8();
    progress_.Print(
        absl::StrFormat("data      %s, %d tokens", job_.data->description(), job_.data->size()));
    progress_.Print(absl::StrFormat(
        "strategy  %s over %d ranks x %d threads (%s, %s), %.1f%% of the parameters per rank",
        options.strategy, options.world_size, ThreadsPerRank(options), options.device, options.comm,
        100 * stats.local_ratio));
    if (stats.offload.reserved_bytes > 0) {
      progress_.Print(
          absl::StrFormat("offload   %s: %.1f MiB per rank beyond its memory", options.offload,
                          static_cast<double>(stats.offload.reserved_bytes) / (1 << 20)));
    }
    progress_.Print(absl::StrFormat(
        "batch     %d sequences of %d tokens a step; %s, reduced in %s; %s GEMM peak %s",
        SequencesPerStep(options), options.seq_len, options.param_dtype, options.reduce_dtype,
        options.fp32_precision == "tf32" ? options.fp32_precision : options.param_dtype,
        gemm_peak > 0 ? absl::StrFormat("%.0f GFLOP/s", gemm_peak / 1e9)
                      : "unknown, for want of memory to measure it in"));
    if (options.deterministic_batch > 0) {
      progress_.Print(absl::StrFormat(
          "          in %d micro-batches, %d on each rank: the bits are those of any world size",
          options.deterministic_batch, options.grad_accum));
    }
    PrintOptimizer();
  }

  // What differs from fp32 masters and moments.
  void PrintOptimizer() {
    const TrainOptions& options = job_.options;
    if (options.master_dtype == "fp32" && options.optimizer_state_dtype == "fp32") return;
    progress_.Print(absl::StrFormat(
        "optimizer %s parameters, %s moments: %.1f MiB of moments per rank", options.master_dtype,
        options.optimizer_state_dtype,
        static_cast<double>(trainer_.optimizer().MemoryBytes()) / (1024.0 * 1024.0)));
  }

  void PrintAdapters() {
    const std::vector<LoraAdapter> adapters = LoraAdapters(trainer_.model());
    if (adapters.empty()) return;
    int64_t numel = 0;
    for (const LoraAdapter& adapter : adapters) numel += adapter.a->numel() + adapter.b->numel();
    progress_.Print(
        absl::StrFormat("adapters  LoRA of rank %d, alpha %g, on %d weights: %.2fM "
                        "parameters are trained, the rest is frozen",
                        job_.options.lora_rank, job_.options.lora_alpha, adapters.size(),
                        static_cast<double>(numel) / 1e6));
  }

  // What stays in more bits is said, layer by layer.
  void PrintFp8() {
    const Fp8Layers layers = FindFp8Layers(trainer_.model());
    if (layers.in_fp8.empty()) return;
    progress_.Print(absl::StrFormat(
        "fp8       %d of %d linear layers, scales %s%s%s", layers.in_fp8.size(),
        layers.in_fp8.size() + layers.others.size(), job_.options.fp8,
        layers.others.empty() ? ""
                              : "; no multiples of 16, so in " + job_.options.param_dtype + ": ",
        absl::StrJoin(layers.others, ", ")));
  }

  const Job& job_;
  Trainer& trainer_;
  MetricsWriter metrics_;
  Progress progress_;
  const int64_t first_step_;
  StepMetrics last_;
};

// One rank's run.
class RankRun {
 public:
  RankRun(const Job& job, Communicator& world) : job_(job), options_(job.options), world_(world) {}

  absl::Status Run() {
    ZEROTH_RETURN_IF_ERROR(SetUp());
    const Clock::time_point start = Clock::now();
    bool stop = false;
    int64_t step = first_step_;
    while (step < options_.steps && !stop) {
      ZEROTH_ASSIGN_OR_RETURN(stop, Step(step, start));
      ++step;
    }
    const double seconds = SecondsSince(start);
    ZEROTH_ASSIGN_OR_RETURN(const bool traced, trace_->Finish());
    SayTraced(traced);
    if (failure_.ok()) ZEROTH_RETURN_IF_ERROR(ShowSample(step));
    ZEROTH_RETURN_IF_ERROR(Export());
    if (checkpoints_ != nullptr) {
      ZEROTH_RETURN_IF_ERROR(checkpoints_->Wait());
      SayNotes(checkpoints_->TakeNotes());
    }
    if (reporter_ != nullptr) {
      ZEROTH_RETURN_IF_ERROR(reporter_->Finish(stop && step < options_.steps, seconds));
    }
    return failure_;
  }

 private:
  absl::Status SetUp() {
    DeviceOptions device_options;
    device_options.index = world_.device_index();
    device_options.transport_memory = world_.memory_source();
    device_options.threads = ThreadsPerRank(options_);
    device_options.bits_of_any_team = options_.deterministic_batch > 0;
    ZEROTH_ASSIGN_OR_RETURN(device_options.memory_limit, ParseByteCount(options_.memory_limit));
    ZEROTH_ASSIGN_OR_RETURN(device_, DeviceRegistry::Create(options_.device, device_options));
    device_->BindThread();
    if (options_.cuda_graphs) {
      ZEROTH_RETURN_IF_ERROR_WITH(
          Trainer::CanRecordSteps(world_, *device_),
          "--cuda_graphs needs --device=cuda and, with --comm=local, --world_size=1");
    }
    if (job_.eval_data != nullptr) {
      LoaderOptions eval_options = LoaderOptionsFor(options_, world_.rank());
      eval_options.shuffle = false;  // every evaluation sees the same text
      ZEROTH_ASSIGN_OR_RETURN(eval_loader_, DataLoader::Create(job_.eval_data, eval_options));
    }
    ZEROTH_ASSIGN_OR_RETURN(
        StepTrace trace,
        StepTrace::Create(world_.rank() == 0 ? options_.trace : "", options_.steps));
    trace_.emplace(std::move(trace));
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, job_.source.Build());
    ZEROTH_ASSIGN_OR_RETURN(trainer_,
                            Trainer::Create(world_, *device_, std::move(model),
                                            TrainerOptionsFor(options_, trace_->timeline())));
    ZEROTH_ASSIGN_OR_RETURN(std::vector<std::string> notes, FillOrResume());
    trace_->set_steps(options_.steps - first_step_);
    ZEROTH_ASSIGN_OR_RETURN(checkpoints_, RunCheckpoints::Create(options_, *trainer_));
    ZEROTH_ASSIGN_OR_RETURN(const double gemm_peak,
                            MeasureGemmPeak(world_, *device_, trainer_->kernels(),
                                            options_.mixed_precision().param_dtype));
    device_->allocator().Trim();
    device_->allocator().ResetPeaks();
    if (world_.rank() == 0) {
      ZEROTH_ASSIGN_OR_RETURN(reporter_, Reporter::Create(job_, *trainer_, gemm_peak, first_step_));
    }
    ZEROTH_RETURN_IF_ERROR(SayAttention(notes));
    const std::string gathers = trainer_->sharding().mesh().shard_gather().GatherNote();
    if (!gathers.empty()) notes.push_back(absl::StrCat("gathers   ", gathers));
    SayNotes(notes);
    return absl::OkStatus();
  }

  // Where kernels have a choice, at the shape of training; an error if it cannot be as asked for.
  absl::Status SayAttention(std::vector<std::string>& notes) const {
    std::optional<AttentionShape> shape = FindAttentionShape(trainer_->model());
    if (!shape.has_value()) return absl::OkStatus();
    shape->batch = options_.batch_size;
    shape->seq = options_.seq_len;
    ZEROTH_ASSIGN_OR_RETURN(
        const std::string attention,
        trainer_->kernels().DescribeAttention(*shape, options_.mixed_precision().param_dtype));
    if (!attention.empty()) notes.push_back(absl::StrCat("attention ", attention));
    return absl::OkStatus();
  }

  DataOrder Order() const {
    return {job_.data->size(), options_.seq_len, options_.seed, options_.shuffle};
  }

  // The state to begin with, and the loader's place; what there is to say about it.
  absl::StatusOr<std::vector<std::string>> FillOrResume() {
    Resumed resumed;
    if (!options_.resume.empty()) {
      ZEROTH_ASSIGN_OR_RETURN(resumed,
                              Resume(options_, *trainer_, job_.source.Reader(options_.seed)));
    }
    LoaderOptions loader = LoaderOptionsFor(options_, world_.rank());
    if (!resumed.progress.has_value()) {
      ZEROTH_RETURN_IF_ERROR(job_.source.Fill(trainer_->sharding(), options_.seed));
    } else {
      const RunProgress& progress = *resumed.progress;
      first_step_ = progress.steps;
      skipped_steps_ = progress.skipped_steps;
      // A place in other data, or in another order of them, means nothing.
      if (progress.data == Order()) {
        first_sequence_ = progress.sequences;
      } else {
        resumed.notes.push_back(
            "resume    the data, or their order, are others: they are read from their beginning");
      }
      loader.first_window = first_sequence_ - first_step_ * SequencesPerStep(options_);
    }
    ZEROTH_ASSIGN_OR_RETURN(loader_, DataLoader::Create(job_.data, loader));
    return resumed.notes;
  }

  // Only rank 0 traces.
  void SayTraced(bool traced) {
    if (traced) reporter_->Say(absl::StrCat("trace     of the last steps in ", options_.trace));
  }

  void SayNotes(const std::vector<std::string>& notes) {
    if (reporter_ == nullptr) return;
    for (const std::string& note : notes) reporter_->Say(note);
  }

  // After `steps` steps. Errors of earlier checkpoints, too.
  absl::Status SaveCheckpoint(int64_t steps, bool last) {
    ZEROTH_RETURN_IF_ERROR(checkpoints_->status());
    if (checkpoints_->IsDue(steps, last)) {
      RunProgress progress;
      progress.steps = steps;
      progress.skipped_steps = skipped_steps_;
      progress.sequences = first_sequence_ + (steps - first_step_) * SequencesPerStep(options_);
      progress.data = Order();
      ZEROTH_RETURN_IF_ERROR(checkpoints_->Save(std::move(progress)));
    }
    SayNotes(checkpoints_->TakeNotes());
    return absl::OkStatus();
  }

  // True if the run is to end.
  absl::StatusOr<bool> Step(int64_t step, Clock::time_point start) {
    const Clock::time_point step_start = Clock::now();
    const int64_t count = options_.grad_accum;
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<Batch> micro_batches,
                            LoadMicroBatches(*loader_, step * count, count));
    const double lr = job_.schedule.At(step);
    trace_->BeforeStep(step - first_step_);
    ZEROTH_ASSIGN_OR_RETURN(const StepResult result,
                            trainer_->Step(micro_batches, lr, Interrupted()));
    ZEROTH_ASSIGN_OR_RETURN(const bool traced, trace_->AfterStep(step - first_step_));
    SayTraced(traced);
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
    metrics.memory_peak_bytes = device_->allocator().stats().total.peak_bytes;
    const bool last = step + 1 == options_.steps || result.stop || failed;
    if (eval_loader_.has_value() &&
        (last || (options_.eval_every > 0 && (step + 1) % options_.eval_every == 0))) {
      ZEROTH_ASSIGN_OR_RETURN(metrics.eval_loss, Evaluate());
      if (trainer_->ema() != nullptr) {
        ZEROTH_RETURN_IF_ERROR(trainer_->ema()->Swap());
        ZEROTH_ASSIGN_OR_RETURN(metrics.ema_eval_loss, Evaluate());
        ZEROTH_RETURN_IF_ERROR(trainer_->ema()->Swap());
      }
    }
    if (reporter_ != nullptr) {
      if (checkpoints_ != nullptr) metrics.saving = checkpoints_->saving();
      const double left = SecondsSince(start) / static_cast<double>(step + 1 - first_step_) *
                          static_cast<double>(options_.steps - step - 1);
      ZEROTH_RETURN_IF_ERROR(reporter_->Step(metrics, left));
    }
    if (checkpoints_ != nullptr && !failed) {
      ZEROTH_RETURN_IF_ERROR(SaveCheckpoint(step + 1, last));
    }
    if (!last && options_.sample_every > 0 && (step + 1) % options_.sample_every == 0) {
      ZEROTH_RETURN_IF_ERROR(ShowSample(step + 1));
    }
    return result.stop || failed;
  }

  // True if the run is to end because of it.
  bool HandleSkipped(int64_t step, const StepResult& result) {
    ++skipped_steps_;
    const double norm = result.grad_norm;
    if (result.overflowed) {
      if (reporter_ != nullptr) {
        reporter_->Say(absl::StrFormat(
            "step %d  skipped: gradients overflow at loss scale %g; it is %g from here on", step,
            result.loss_scale, trainer_->loss_scaler()->scale()));
      }
      return false;
    }
    if (result.outlier) {
      if (reporter_ != nullptr) {
        reporter_->Say(absl::StrFormat(
            "step %d  skipped: an outlier; z-scores are %.1f of loss %.4f, %.1f of norm %.3f", step,
            result.loss_zscore.value_or(0), result.loss, result.grad_norm_zscore.value_or(0),
            norm));
      }
      return false;
    }
    if (options_.on_nonfinite == "skip") {
      if (reporter_ != nullptr) {
        reporter_->Say(absl::StrFormat("step %d  skipped: the gradient norm is %g", step, norm));
      }
      return false;
    }
    failure_ = absl::OutOfRangeError(absl::StrFormat(
        "step %d: the gradient norm is %g, so the weights were not updated; %s has those of step "
        "%d. "
        "A lower --lr, a longer --warmup_steps, bf16 or fp32 may help; --on_nonfinite=skip goes on",
        step, norm, job_.final_directories.shown(), step - 1));
    return true;
  }

  // The weights, and their average if there is one, each as a model of its own.
  absl::Status Export() {
    ZEROTH_RETURN_IF_ERROR(ExportTo(job_.final_directories));
    if (trainer_->ema() == nullptr) return absl::OkStatus();
    ZEROTH_RETURN_IF_ERROR(trainer_->ema()->Swap());
    ZEROTH_RETURN_IF_ERROR(ExportTo(job_.ema_directories));
    return trainer_->ema()->Swap();
  }

  // Micro-batches `first`, and so on, of this rank.
  static absl::StatusOr<std::vector<Batch>> LoadMicroBatches(const DataLoader& loader,
                                                             int64_t first, int64_t count) {
    std::vector<Batch> micro_batches;
    for (int64_t i = 0; i < count; ++i) {
      ZEROTH_ASSIGN_OR_RETURN(Batch batch, loader.Load(first + i));
      micro_batches.push_back(std::move(batch));
    }
    return micro_batches;
  }

  absl::Status ExportTo(const ExportDirectories& directories) {
    ZEROTH_ASSIGN_OR_RETURN(const ExportOptions options, ExportOptionsOf(options_, job_.source));
    if (!directories.model.empty()) {
      ZEROTH_RETURN_IF_ERROR(ExportModel(*trainer_, directories.model, options));
    }
    if (directories.adapters.empty()) return absl::OkStatus();
    return ExportAdapters(*trainer_, directories.adapters, options);
  }

  absl::StatusOr<float> Evaluate() {
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

  absl::Status ShowSample(int64_t step) {
    if (options_.sample_tokens == 0) return absl::OkStatus();
    SampleOptions sample;
    sample.prompt = options_.prompt;
    sample.tokens = options_.sample_tokens;
    sample.temperature = options_.temperature;
    sample.seed = options_.seed;
    ZEROTH_ASSIGN_OR_RETURN(const std::string text, Sample(*trainer_, *job_.tokenizer, sample));
    if (reporter_ != nullptr) reporter_->Sample(step, text);
    return absl::OkStatus();
  }

  const Job& job_;
  const TrainOptions& options_;
  Communicator& world_;
  std::shared_ptr<Device> device_;
  std::optional<DataLoader> loader_;
  std::optional<DataLoader> eval_loader_;
  std::optional<StepTrace> trace_;  // before the trainer, which marks it
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<RunCheckpoints> checkpoints_;
  std::unique_ptr<Reporter> reporter_;
  int64_t first_step_ = 0;      // steps that earlier runs have made
  int64_t first_sequence_ = 0;  // sequences of the data that they have read
  int64_t skipped_steps_ = 0;
  absl::Status failure_;  // that ends the run, with everything saved that is good
};

}  // namespace

absl::Status RunTraining(const TrainOptions& options) {
  ZEROTH_RETURN_IF_ERROR(Validate(options));
  ZEROTH_ASSIGN_OR_RETURN(const TrainOptions started, WithWorldSize(options));
  ZEROTH_ASSIGN_OR_RETURN(const TrainOptions resolved, WithDeterministicBatch(started));
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Job> job, OpenJob(resolved));
  LaunchOptions launch;
  launch.world_size = resolved.world_size;
  ZEROTH_ASSIGN_OR_RETURN(launch.timeout, ParseTimeout(resolved.comm_timeout));
  launch.reduction = resolved.reduction;
  launch.nccl_copy_engine = resolved.nccl_copy_engine;
  return LauncherRegistry::Launch(resolved.comm, launch,
                                  [&](Communicator& world) { return RankRun(*job, world).Run(); });
}

}  // namespace zeroth
