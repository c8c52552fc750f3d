// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/byte_count.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"
#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/nn/layers/attention.h"
#include "zeroth/train/back_end.h"
#include "zeroth/train/config_file.h"
#include "zeroth/train/export.h"
#include "zeroth/train/gemm_rate.h"
#include "zeroth/train/init_adapter.h"
#include "zeroth/train/interrupt.h"
#include "zeroth/train/job.h"
#include "zeroth/train/metrics.h"
#include "zeroth/train/model_source.h"
#include "zeroth/train/reporter.h"
#include "zeroth/train/result_flags.h"
#include "zeroth/train/run_checkpoints.h"
#include "zeroth/train/run_directory.h"
#include "zeroth/train/run_lock.h"
#include "zeroth/train/run_progress.h"
#include "zeroth/train/sampler.h"
#include "zeroth/train/step_trace.h"
#include "zeroth/train/trainer.h"

namespace zeroth {
namespace {

using Clock = std::chrono::steady_clock;

// Periodic checkpoints that may fail one after the other before the run ends.
constexpr int kMostFailedSaves = 3;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One rank's run.
class RankRun {
 public:
  RankRun(Job& job, Communicator& world) : job_(job), options_(job.options), world_(world) {}

  absl::Status Run() {
    ZEROTH_RETURN_IF_ERROR(SetUp());
    if (job_.only_evaluates) return EvaluateOnly();
    const Clock::time_point start = Clock::now();
    bool stop = false;
    int64_t step = first_step_;
    while (step < options_.steps && !stop) {
      ZEROTH_ASSIGN_OR_RETURN(stop, Step(step, start));
      ++step;
    }
    const double seconds = SecondsSince(start);
    SayTraced(trace_->Finish());
    const bool interrupted = failure_.ok() && stop && step < options_.steps;
    // What a run is for comes first; what it ends with is a courtesy.
    if (checkpoints_ != nullptr) ZEROTH_RETURN_IF_ERROR(JudgeSaves(checkpoints_->Wait()));
    ZEROTH_RETURN_IF_ERROR(Export());
    if (reporter_ != nullptr) reporter_->WriteSummary(interrupted, seconds);
    if (failure_.ok() && !interrupted) ShowSample(step).IgnoreError();
    if (reporter_ != nullptr) {
      reporter_->SayEnd(!failure_.ok() ? "stopped"
                        : interrupted  ? "interrupted"
                                       : "done",
                        seconds, exported_);
    }
    // Whoever returns an error first may have the others killed before they have said this.
    if (!failure_.ok()) AgreeOnStatus(world_, *device_, absl::OkStatus(), "end").IgnoreError();
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
    ZEROTH_RETURN_IF_ERROR(AgreeOnOutput());
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
    if (!job_.only_evaluates) {
      ZEROTH_ASSIGN_OR_RETURN(lock_, RunLock::Take(options_.out, world_, *device_));
      // Another run may have come and gone since the first look.
      ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(
          world_, *device_, world_.rank() == 0 ? CheckRunDirectory(options_) : absl::OkStatus(),
          "look into the directory"));
    }
    ZEROTH_ASSIGN_OR_RETURN(std::vector<std::string> notes, FillOrResume());
    trace_->set_steps(options_.steps - first_step_);
    std::vector<std::string> kernel_notes;
    ZEROTH_RETURN_IF_ERROR(SayAttention(kernel_notes));
    ZEROTH_ASSIGN_OR_RETURN(const double gemm_rate,
                            MeasureGemmRate(world_, *device_, trainer_->kernels(),
                                            options_.mixed_precision().param_dtype));
    if (!job_.only_evaluates) {
      ZEROTH_RETURN_IF_ERROR(ClearOutput());
      ZEROTH_ASSIGN_OR_RETURN(checkpoints_, OpenCheckpoints());
    }
    device_->allocator().Trim();
    device_->allocator().ResetPeaks();
    if (world_.rank() == 0) {
      ZEROTH_ASSIGN_OR_RETURN(reporter_, Reporter::Create(job_, *trainer_, gemm_rate, first_step_));
    }
    notes.insert(notes.end(), kernel_notes.begin(), kernel_notes.end());
    const std::string gathers = trainer_->sharding().units()[0]->mesh().shard_gather().GatherNote();
    if (!gathers.empty()) notes.push_back(absl::StrCat("gathers   ", gathers));
    if (job_.tokenizer == nullptr && options_.sample_tokens > 0) {
      notes.push_back(
          "samples   none: the data are tokens, and nothing says of which text; --tokenizer does");
    }
    SayNotes(notes);
    AnnounceInterrupt();
    return absl::OkStatus();
  }

  // Where ranks are processes and --out is left to us, rank 0 makes the directory for all.
  absl::Status AgreeOnOutput() {
    if (!options_.out.empty() || job_.only_evaluates) return absl::OkStatus();
    absl::StatusOr<std::string> made = "";
    if (world_.rank() == 0) made = NewRunDirectory();
    ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(world_, *device_, made.status(), "make a directory"));
    ZEROTH_ASSIGN_OR_RETURN(job_.options.out,
                            BroadcastText(world_, *device_, 0, *made, "name the directory"));
    return AgreeOnStatus(world_, *device_, OpenOutput(job_), "open the directory");
  }

  // Rank 0, once nothing but training is to come: what --overwrite gives up, what this run is told,
  // and which run is the newest.
  absl::Status ClearOutput() {
    absl::Status status;
    if (world_.rank() == 0 && options_.overwrite) status = RemoveEarlierRun(options_.out);
    if (world_.rank() == 0 && status.ok()) {
      status = WriteConfig(options_.out, AsTold(options_));
    }
    if (world_.rank() == 0 && status.ok()) status = PointLatestTo(options_.out);
    return AgreeOnStatus(world_, *device_, status, "clear the directory");
  }

  // What an interrupt would say now.
  void AnnounceInterrupt() {
    if (reporter_ == nullptr) {
      // Threads share a process with rank 0, and leave what it says.
      if (!job_.ranks_are_threads) AnnounceOnInterrupt("", "");
      return;
    }
    const std::optional<int64_t> saved =
        checkpoints_ != nullptr && checkpoints_->newest() ? checkpoints_->newest() : resumed_step_;
    const std::string lost =
        saved ? absl::StrCat("what was learned since the checkpoint of step ", *saved)
              : "all that this run has learned, since there is no checkpoint yet";
    AnnounceOnInterrupt(
        job_.only_evaluates
            ? "\ninterrupt: an evaluation ends by itself; a second interrupt ends it at once\n"
            : absl::StrCat("\ninterrupt: the run ends after this step, then saves ",
                           checkpoints_ != nullptr
                               ? absl::StrCat("a checkpoint in ", options_.out, " and ")
                               : "",
                           "the model in ", job_.final_directories.shown(),
                           ". A second interrupt ends it at once; lost would be ", lost, ".\n"),
        absl::StrCat("\ninterrupt: ended at once. Lost is ", job_.only_evaluates ? "nothing" : lost,
                     ".\n"));
  }

  // Where kernels have a choice, at the shape of training; an error if it cannot be as asked for.
  absl::Status SayAttention(std::vector<std::string>& notes) const {
    std::optional<AttentionShape> shape = FindAttentionShape(trainer_->model());
    if (!shape.has_value()) return absl::OkStatus();
    shape->batch = options_.batch_size;
    shape->seq = options_.seq_len;
    ZEROTH_ASSIGN_OR_RETURN(const std::string attention,
                            kernels::DescribeAttention(trainer_->kernels(), *shape,
                                                       options_.mixed_precision().param_dtype));
    if (!attention.empty()) notes.push_back(absl::StrCat("attention ", attention));
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<RunCheckpoints>> OpenCheckpoints() {
    ZEROTH_ASSIGN_OR_RETURN(const ExportOptions options, ExportOptionsOf(job_));
    ZEROTH_ASSIGN_OR_RETURN(
        auto files,
        ModelFiles(trainer_->model(), options_.mixed_precision().master_dtype, options));
    return RunCheckpoints::Create(options_, *trainer_, std::move(files));
  }

  DataOrder Order() const {
    return {job_.data->size(), content_, options_.seq_len, options_.seed, options_.shuffle};
  }

  // The state to begin with, and the loader's place; what there is to say about it.
  absl::StatusOr<std::vector<std::string>> FillOrResume() {
    Resumed resumed;
    if (!options_.resume.empty() || options_.checkpoint_every > 0) {
      ZEROTH_ASSIGN_OR_RETURN(content_, AgreedContent(*job_.data, world_, *device_));
    }
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
      resumed_step_ = progress.steps;
      skipped_steps_ = progress.skipped_steps;
      // A place in other data, or in another order of them, means nothing.
      const std::vector<std::string> others = Order().Differences(progress.data);
      if (others.empty()) {
        first_sequence_ = progress.sequences;
      } else {
        resumed.notes.push_back(absl::StrCat(
            "resume    the data, or their order, are others, and are read from their beginning: ",
            absl::StrJoin(others, "; ")));
      }
      loader.first_window = first_sequence_ - first_step_ * SequencesPerStep(options_);
    }
    ZEROTH_ASSIGN_OR_RETURN(loader_, DataLoader::Create(job_.data, loader));
    return resumed.notes;
  }

  // Only rank 0 traces.
  void SayTraced(const absl::StatusOr<bool>& traced) {
    if (!traced.ok()) return Warn(traced.status());
    if (*traced) reporter_->Say(absl::StrCat("trace     of the last steps in ", options_.trace));
  }

  void Warn(const absl::Status& status) {
    if (reporter_ != nullptr) reporter_->Warn(status);
  }

  // An error, the same on all ranks, that ends the run once all that can be saved is.
  void EndWith(const absl::Status& status) {
    if (status.ok()) return;
    failure_ = failure_.ok()
                   ? status
                   : absl::Status(failure_.code(),
                                  absl::StrCat(failure_.message(), "\n  and: ", status.message()));
  }

  void SayNotes(const std::vector<std::string>& notes) {
    if (reporter_ == nullptr) return;
    for (const std::string& note : notes) reporter_->Say(note);
  }

  // After `steps` steps.
  absl::Status SaveCheckpoint(int64_t steps, bool last) {
    absl::Status status;
    if (checkpoints_->IsDue(steps, last)) {
      RunProgress progress;
      progress.steps = steps;
      progress.skipped_steps = skipped_steps_;
      progress.sequences = first_sequence_ + (steps - first_step_) * SequencesPerStep(options_);
      progress.data = Order();
      if (last) last_save_ = steps;
      status = checkpoints_->Save(std::move(progress), last);
    }
    return JudgeSaves(status);
  }

  // What has become of checkpoints, after a call of theirs that returned `status`. One that fails
  // costs no more than itself, unless there is none to come after it, or none of many works. An
  // error of anything but a save is returned.
  absl::Status JudgeSaves(const absl::Status& status) {
    const std::vector<FailedSave> failed = checkpoints_->TakeFailed();
    if (!status.ok()) ZEROTH_RETURN_IF_ERROR(world_.status());
    if (failed.empty()) ZEROTH_RETURN_IF_ERROR(status);
    for (const FailedSave& save : failed) {
      const absl::Status named =
          Annotate(save.status, absl::StrCat("the checkpoint of step ", save.step));
      if (save.step == last_save_) {
        EndWith(named);
      } else {
        Warn(named);
      }
    }
    if (failure_.ok() && checkpoints_->failures_in_a_row() >= kMostFailedSaves) {
      EndWith(Annotate(failed.empty() ? status : failed.back().status,
                       absl::StrCat(checkpoints_->failures_in_a_row(),
                                    " checkpoints in a row could not be saved; the last")));
    }
    const std::optional<int64_t> before = checkpoints_->newest();
    SayNotes(checkpoints_->TakeNotes());
    if (checkpoints_->newest() != before) AnnounceInterrupt();
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
    metrics.memory_peak_bytes = device_->allocator().stats().total.peak_bytes;
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
    EndWith(absl::OutOfRangeError(absl::StrFormat(
        "step %d: the gradient norm is %g, so the weights were not updated; %s has those of step "
        "%d. "
        "A lower --lr, a longer --warmup_steps, bf16 or fp32 may help; --on_nonfinite=skip goes on",
        step, norm, job_.final_directories.shown(), step - 1)));
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

  // One that fails ends the run, and keeps no other from being written.
  absl::Status Exported(const absl::Status& status, const std::string& directory) {
    // Of a good export others may know as well, and have ended, so that their world is no more.
    if (status.ok()) {
      exported_.push_back(directory);
      return absl::OkStatus();
    }
    ZEROTH_RETURN_IF_ERROR(world_.status());
    EndWith(Annotate(status, absl::StrCat("the model in ", directory)));
    return absl::OkStatus();
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
    ZEROTH_ASSIGN_OR_RETURN(const ExportOptions options, ExportOptionsOf(job_));
    if (!directories.model.empty()) {
      ZEROTH_RETURN_IF_ERROR(
          Exported(ExportModel(*trainer_, directories.model, options), directories.model));
    }
    if (directories.adapters.empty()) return absl::OkStatus();
    return Exported(ExportAdapters(*trainer_, directories.adapters, options), directories.adapters);
  }

  absl::Status EvaluateAll(StepMetrics& metrics) {
    ZEROTH_ASSIGN_OR_RETURN(metrics.eval_loss, Evaluate());
    if (trainer_->ema() == nullptr) return absl::OkStatus();
    ZEROTH_RETURN_IF_ERROR(trainer_->ema()->Swap());
    ZEROTH_ASSIGN_OR_RETURN(metrics.ema_eval_loss, Evaluate());
    return trainer_->ema()->Swap();
  }

  absl::Status EvaluateOnly() {
    StepMetrics metrics;
    metrics.step = first_step_;
    ZEROTH_RETURN_IF_ERROR(EvaluateAll(metrics));
    if (reporter_ != nullptr) reporter_->SayEvaluation(metrics);
    return absl::OkStatus();
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

  // An error is a warning, unless the ranks cannot go on together.
  absl::Status ShowSample(int64_t step) {
    if (options_.sample_tokens == 0 || job_.tokenizer == nullptr) return absl::OkStatus();
    SampleOptions sample;
    sample.prompt = options_.prompt;
    sample.tokens = options_.sample_tokens;
    sample.temperature = options_.temperature;
    sample.seed = options_.seed;
    const absl::StatusOr<std::string> text = Sample(*trainer_, *job_.tokenizer, sample);
    const absl::Status agreed = AgreeOnStatus(world_, *device_, text.status(), "sample");
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

  Job& job_;
  const TrainOptions& options_;
  Communicator& world_;
  std::shared_ptr<Device> device_;
  std::optional<DataLoader> loader_;
  std::optional<DataLoader> eval_loader_;
  std::optional<StepTrace> trace_;  // before the trainer, which marks it
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<RunLock> lock_;  // outlives what writes
  std::unique_ptr<RunCheckpoints> checkpoints_;
  std::unique_ptr<Reporter> reporter_;
  uint64_t content_ = 0;        // of the data
  int64_t first_step_ = 0;      // steps that earlier runs have made
  int64_t first_sequence_ = 0;  // sequences of the data that they have read
  int64_t skipped_steps_ = 0;
  std::optional<int64_t> resumed_step_;  // of the checkpoint that it went on from
  std::optional<int64_t> last_save_;     // the step after which no checkpoint follows, once saved
  std::vector<std::string> exported_;    // directories
  absl::Status failure_;                 // that ends the run, with everything saved that is good
};

}  // namespace

absl::Status RunTraining(const TrainOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(TrainOptions chosen, WithInitAdapter(options));
  ZEROTH_RETURN_IF_ERROR(Validate(chosen));
  AnnounceOnInterrupt(
      "\ninterrupt: the run is still starting; it ends after its first step, and saves. A second "
      "interrupt ends it at once; nothing would be lost.\n",
      "\ninterrupt: ended at once. Lost is nothing: no step has been made.\n");
  ZEROTH_ASSIGN_OR_RETURN(chosen.comm, ChooseBackEnd(chosen));
  ZEROTH_ASSIGN_OR_RETURN(chosen.out, KnownRunDirectory(chosen));
  ZEROTH_RETURN_IF_ERROR(Validate(chosen));
  ZEROTH_ASSIGN_OR_RETURN(const TrainOptions started, WithWorldSize(chosen));
  ZEROTH_ASSIGN_OR_RETURN(TrainOptions resolved, WithDeterministicBatch(started));
  ZEROTH_ASSIGN_OR_RETURN(resolved, WithGlobalBatch(std::move(resolved)));
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Job> job, OpenJob(resolved));
  ZEROTH_ASSIGN_OR_RETURN(const std::optional<int> processes,
                          LauncherRegistry::WorldSize(resolved.comm));
  job->ranks_are_threads = !processes.has_value();
  if (job->only_evaluates && resolved.out.empty() && resolved.resume == "auto") {
    return absl::NotFoundError(
        absl::StrCat("--resume=auto: there is no ", kRunsDirectory, "/", kLatestRun,
                     " to evaluate; name a checkpoint, or its run by --out"));
  }
  if (job->ranks_are_threads && job->options.out.empty() && !job->only_evaluates) {
    ZEROTH_ASSIGN_OR_RETURN(job->options.out, NewRunDirectory());
  }
  if (!job->options.out.empty()) ZEROTH_RETURN_IF_ERROR(OpenOutput(*job));
  LaunchOptions launch;
  launch.world_size = resolved.world_size;
  ZEROTH_ASSIGN_OR_RETURN(launch.timeout, ParseTimeout(resolved.comm_timeout));
  launch.reduction = resolved.reduction;
  launch.nccl_copy_engine = resolved.nccl_copy_engine;
  return LauncherRegistry::Launch(resolved.comm, launch,
                                  [&](Communicator& world) { return RankRun(*job, world).Run(); });
}

}  // namespace zeroth
