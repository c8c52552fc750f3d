// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "zeroth/api/rank.h"
#include "zeroth/checkpoint/gguf/gguf_convert.h"
#include "zeroth/checkpoint/sharded/checkpoint_directory.h"
#include "zeroth/core/base/byte_count.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"
#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/comm/process/process_environment.h"
#include "zeroth/core/device/memory.h"
#include "zeroth/options/trainer_options.h"
#include "zeroth/plan/machine_file.h"
#include "zeroth/plan/machine_measure.h"
#include "zeroth/plan/plan.h"
#include "zeroth/plan/search.h"
#include "zeroth/train/flight_record.h"
#include "zeroth/train/interrupt.h"
#include "zeroth/train/job.h"
#include "zeroth/train/model_source.h"
#include "zeroth/train/run_directory.h"

namespace zeroth {

absl::Status RankRun::Run() {
  const absl::Status status = SetUpAndTrain();
  const absl::Status broken = world_.status();
  // An error that the ranks have agreed on is not a communication error, even if a rank has ended
  // already.
  const bool is_communication =
      !status.ok() && !broken.ok() && absl::StrContains(status.message(), broken.message());
  if (!is_communication || options_.out.empty() || job_.only_evaluates) return status;
  std::vector<Communicator*> groups = {&world_};
  if (trainer_ != nullptr) {
    for (Communicator* group : trainer_->sharding().communicators()) groups.push_back(group);
  }
  const absl::Status written =
      WriteFlightRecord(options_.out, world_, groups, status, absl::Seconds(2));
  if (written.ok()) {
    Say(absl::StrCat("flight    ", options_.out, "/", kFlightDirectory, "/", kWhoWaitedFile,
                     " says which rank waited for which"));
  }
  Warn(written);
  return status;
}

absl::Status RankRun::SetUpAndTrain() {
  ZEROTH_RETURN_IF_ERROR(SetUp());
  if (job_.only_evaluates) {
    ZEROTH_ASSIGN_OR_RETURN(const bool evaluated, EvaluateAll(first_step_));
    if (evaluated) return absl::OkStatus();
    Say("interrupted: no evaluation loss");
    end_ = RunEnd::kInterrupted;
    return MeetAtEnd();
  }
  bool stop = false;
  int64_t step = first_step_;
  ZEROTH_ASSIGN_OR_RETURN(const bool misses_evaluation, MissesEvaluation());
  if (misses_evaluation) {
    ZEROTH_ASSIGN_OR_RETURN(const bool evaluated, EvaluateAll(step));
    stop = !evaluated;
  }
  const Clock::time_point start = Clock::now();
  while (step < options_.steps && !stop) {
    ZEROTH_ASSIGN_OR_RETURN(stop, Step(step, start));
    ++step;
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  SayTraced();
  // Checkpoints and models come first; an error of the last sample must not lose them.
  if (saver_ != nullptr) ZEROTH_RETURN_IF_ERROR(JudgeSaves(saver_->Wait()));
  if (interrupted_ && saver_ == nullptr) {
    EndWith(FailedPrecondition("a signal ended the run after step ", step,
                               ", which is lost: no checkpoint can be saved in --out=",
                               options_.out, ", which the ranks do not share"));
  }
  const bool interrupted = failure_.ok() && interrupted_;
  // A model in final/ is finished.
  if (!interrupted_) ZEROTH_RETURN_IF_ERROR(Export());
  // A finished run that is started again keeps its summary.
  if (reporter_ != nullptr && step > first_step_) reporter_->WriteSummary(interrupted, seconds);
  if (failure_.ok() && !interrupted) ShowSample(step).IgnoreError();
  if (reporter_ != nullptr) {
    std::vector<std::string> saved;
    if (!exported_.empty()) saved.push_back("model in " + absl::StrJoin(exported_, " and "));
    if (interrupted) saved.push_back("checkpoint in " + CheckpointPath(options_.out, step));
    reporter_->SayEnd(!failure_.ok() ? "stopped"
                      : interrupted  ? "interrupted"
                                     : "done",
                      seconds, saved, interrupted ? "--resume=auto goes on from there" : "");
  }
  if (failure_.ok() && !interrupted) return absl::OkStatus();
  if (interrupted) end_ = RunEnd::kInterrupted;
  return MeetAtEnd();
}

absl::Status RankRun::MeetAtEnd() {
  // The launcher may kill the other ranks as soon as one ends with another code than 0, so all meet
  // here first.
  AgreeOnStatus(world_, device(), absl::OkStatus(), "end").IgnoreError();
  return failure_;
}

absl::Status RankRun::SetUp() {
  RankOptions rank;
  rank.device = options_.device;
  rank.threads = options_.threads_per_rank;
  rank.ranks_on_machine = options_.local_world_size;
  rank.bits_of_any_team = options_.deterministic_batch > 0 || options_.deterministic_tensor > 0;
  ZEROTH_ASSIGN_OR_RETURN(rank.memory_limit, ParseByteCount(options_.memory_limit));
  rank.kernels = options_.kernel_options();
  ZEROTH_ASSIGN_OR_RETURN(rank_, Rank::Open(world_, rank));
  ZEROTH_RETURN_IF_ERROR(CompareWithRankZero());
  ZEROTH_RETURN_IF_ERROR(AgreeOnOutput());
  if (options_.cuda_graphs) {
    ZEROTH_RETURN_IF_ERROR_WITH(
        Trainer::CanRecordSteps(world_, device()),
        "--cuda_graphs needs --device=cuda and, with --comm=local, --world_size=1");
  }
  if (job_.eval_data != nullptr) {
    LoaderOptions eval_options = LoaderOptionsFor(job_, world_.rank());
    eval_options.shuffle = false;  // every evaluation reads the same text
    eval_options.once = true;
    ZEROTH_ASSIGN_OR_RETURN(eval_loader_, DataLoader::Create(job_.eval_data, eval_options));
  }
  trace_.emplace(ParseStepRange(options_.trace), world_, device());
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, job_.source.Build());
  ZEROTH_ASSIGN_OR_RETURN(
      trainer_,
      Trainer::Create(*rank_, std::move(model), TrainerOptionsFor(options_, trace_->timeline())));
  if (!job_.only_evaluates) {
    ZEROTH_ASSIGN_OR_RETURN(lock_, LockRunDirectory(options_.out, world_, device()));
    // Another run may have used the directory since the first check.
    ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(
        world_, device(), world_.rank() == 0 ? CheckRunDirectory(options_) : absl::OkStatus(),
        "look into the directory"));
  }
  ZEROTH_ASSIGN_OR_RETURN(std::vector<std::string> notes, FillOrResume());
  std::vector<std::string> kernel_notes;
  ZEROTH_RETURN_IF_ERROR(SayAttention(kernel_notes));
  ZEROTH_ASSIGN_OR_RETURN(const double gemm_rate,
                          MeasureGemmRate(world_, device(), trainer_->kernels(),
                                          options_.mixed_precision().param_dtype));
  if (!job_.only_evaluates) {
    ZEROTH_RETURN_IF_ERROR(ClearOutput());
    ZEROTH_RETURN_IF_ERROR(OpenSaver(notes));
  }
  device().allocator().Trim();
  device().allocator().ResetPeaks();
  if (world_.rank() == 0) {
    ZEROTH_ASSIGN_OR_RETURN(reporter_, Reporter::Create(job_, *trainer_, gemm_rate, first_step_));
  }
  for (const auto& data : {job_.data, job_.eval_data}) {
    if (data == nullptr) continue;
    for (std::string& note : data->notes()) notes.push_back(std::move(note));
  }
  if (eval_loader_.has_value()) SayEvaluation(notes);
  // They read the tokenizer's files, and rank 0 alone prints.
  const bool fine_tunes = !options_.init_from.empty() && !job_.only_evaluates;
  if (fine_tunes && world_.rank() == 0) AddFineTuningNotes(notes);
  notes.insert(notes.end(), kernel_notes.begin(), kernel_notes.end());
  const std::string gathers = trainer_->sharding().units()[0]->mesh().shard_gather().GatherNote();
  if (!gathers.empty()) notes.push_back(absl::StrCat("gathers   ", gathers));
  if (job_.tokenizer == nullptr && options_.sample_tokens > 0) {
    notes.push_back(
        "samples   none: the data are tokens of an unknown tokenizer; name it by --tokenizer");
  }
  for (const std::string& note : notes) Say(note);
  if (options_.print_programs) {
    const std::string programs = trainer_->sharding().ProgramsText();
    Say(absl::StrCat("programs\n", absl::StripTrailingAsciiWhitespace(programs)));
  }
  AnnounceInterrupt();
  return absl::OkStatus();
}

namespace {

absl::StatusOr<Machine> MachineOf(const TrainOptions& options) {
  const bool on_gpu = options.device != TrainOptions().device;
  // This CPU has no name, and is measured.
  if (!on_gpu || !options.machine.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(Machine machine, OpenMachine(options.machine));
    if (machine.is_gpu == on_gpu) return machine;
  }
  return InvalidArgument(
      "a plan with --device=", options.device, " and --machine=", options.machine,
      ": one is a GPU and the other is not; make them agree, or ask //tools/plan about a run on "
      "another machine");
}

absl::Status SayPlan(const Job& job) {
  ZEROTH_ASSIGN_OR_RETURN(const ProcessEnvironment ranks, ProcessEnvironment::ReadRanks());
  if (!job.ranks_are_threads && ranks.rank != 0) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const Machine machine, MachineOf(job.options));
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, job.source.Build());
  ZEROTH_ASSIGN_OR_RETURN(const Plan plan, PlanRun(job.options, machine, std::move(model)));
  std::fputs(PlanText(plan, job.options, machine).c_str(), stdout);
  return absl::OkStatus();
}

// Bytes that processes here can still get: the system's available memory, or less if a cgroup
// limits this process. nullopt if neither is known.
std::optional<double> FreeMemory() {
  std::optional<double> free;
  const auto number_in = [](const char* path, absl::string_view key) -> std::optional<double> {
    const absl::StatusOr<std::string> text = ReadFile(path, size_t{1} << 20);
    if (!text.ok()) return std::nullopt;
    for (absl::string_view line : absl::StrSplit(*text, '\n')) {
      double value = 0;
      if (!absl::ConsumePrefix(&line, key)) continue;
      absl::ConsumeSuffix(&line, "kB");
      if (absl::SimpleAtod(absl::StripAsciiWhitespace(line), &value)) return value;
    }
    return std::nullopt;
  };
  if (const auto available = number_in("/proc/meminfo", "MemAvailable:")) free = *available * 1024;
  const auto most = number_in("/sys/fs/cgroup/memory.max", "");
  const auto used = number_in("/sys/fs/cgroup/memory.current", "");
  if (most.has_value() && used.has_value()) {
    free = std::min(free.value_or(*most), std::max(0.0, *most - *used));
  }
  return free;
}

// Returns a warning if, by its plan, a run on CPUs needs more memory than is free here. The system
// would kill it silently.
std::string MemoryWarning(const Job& job) {
  const TrainOptions& options = job.options;
  const absl::StatusOr<ProcessEnvironment> process = ProcessEnvironment::ReadRanks();
  if (options.device != TrainOptions().device || !options.memory_limit.empty() ||
      (!job.ranks_are_threads && process.ok() && process->local_rank != 0)) {
    return "";
  }
  // A plan of memory alone needs no rates.
  Machine machine = CpuAtHand();
  for (double* const rate :
       {&machine.fp32_flops, &machine.tf32_flops, &machine.bf16_flops, &machine.memory_bandwidth,
        &machine.link_bandwidth, &machine.network_bandwidth, &machine.host_bandwidth}) {
    *rate = 1e9;
  }
  absl::StatusOr<std::unique_ptr<LanguageModel>> model = job.source.Build();
  if (!model.ok()) return "";
  const absl::StatusOr<Plan> plan = PlanRun(options, machine, *std::move(model));
  const std::optional<double> free = FreeMemory();
  if (!plan.ok() || !free.has_value()) return "";
  const int ranks =
      job.ranks_are_threads ? options.world_size : std::max(1, options.local_world_size);
  const double needed = static_cast<double>(plan->memory_peak_bytes) * ranks;
  if (needed <= *free) return "";
  return absl::StrFormat(
      "warning   this run needs %.1f GiB for %d ranks by its plan, and %.1f GiB are free here: the "
      "system may kill it without a message. --dry_run shows the plan; a smaller --batch_size, "
      "--activation_checkpointing=block or fewer ranks need less",
      needed / (1 << 30), ranks, *free / (1 << 30));
}

bool LacksMemory(const absl::Status& status) {
  return absl::IsResourceExhausted(status) && absl::StrContains(status.message(), kCannotAllocate);
}

// Returns the lines that name the changes with which a run that ran out of memory would fit, as
// //tools/plan finds them. Empty if there are none.
std::string Remedies(const Job& job, const absl::Status& lacking) {
  // The error comes first, in case somebody interrupts the search. The processes of other ranks
  // wait for half a minute.
  constexpr absl::Duration kSearch = absl::Seconds(15);
  const absl::Time deadline = absl::Now() + kSearch;
  std::fputs(absl::StrCat("out of memory: ", lacking.message(), "\nmemory    looking for at most ",
                          absl::FormatDuration(kSearch), " for changes with which the run fits\n")
                 .c_str(),
             stderr);
  AnnounceOnInterrupt("", "");
  const auto changes = [&job, deadline]() -> absl::StatusOr<std::string> {
    ZEROTH_ASSIGN_OR_RETURN(const Machine machine, MachineOf(job.options));
    return TextOfChanges(
        job.options, machine,
        [&job](std::optional<int64_t> layers) { return job.source.Build(layers); },
        [deadline] { return absl::Now() >= deadline || Interrupted(); });
  };
  const absl::StatusOr<std::string> found = changes();
  if (found.ok()) return *found;
  return absl::StrCat("  no changes with which the run would fit are known: ",
                      found.status().message());
}

}  // namespace

void RankRun::AddFineTuningNotes(std::vector<std::string>& notes) const {
  const TrainOptions defaults;
  const int64_t positions = trainer_->model().max_seq_len();
  if (options_.lr == defaults.lr) {
    notes.push_back(absl::StrCat("note      --lr=", options_.lr,
                                 " is the default, for training from scratch; fine-tuning usually "
                                 "takes 1e-5 to 5e-5, and LoRA 1e-4 to 3e-4"));
  }
  if (options_.seq_len == defaults.seq_len && options_.seq_len < positions) {
    notes.push_back(absl::StrCat("note      --seq_len=", options_.seq_len,
                                 " is the default; the model takes up to ", positions, " tokens"));
  }
  const HfDirectory* const directory = job_.source.directory();
  if (directory == nullptr || options_.tokenizer != defaults.tokenizer) return;
  if (const absl::Status gguf = CheckGgufVocabulary(*directory); !gguf.ok())
    notes.push_back(
        absl::StrCat("note      no GGUF file can be made of the result: ", gguf.message()));
}

absl::StatusOr<RunEnd> RunTraining(const TrainOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(TrainOptions chosen, WithInitAdapter(options));
  ZEROTH_RETURN_IF_ERROR(Validate(chosen));
  if (!chosen.dry_run && chosen.like != TrainOptions().like) {
    return InvalidArgument("--like=", chosen.like,
                           " needs --dry_run: a run has the buffers of this trainer");
  }
  AnnounceOnInterrupt(
      "\ninterrupt: the run is still starting; it ends after its first step and saves a "
      "checkpoint. A second interrupt ends it at once and loses nothing.\n",
      "\ninterrupt: ended at once. Lost: nothing, since no step has been made.\n");
  ZEROTH_ASSIGN_OR_RETURN(chosen.comm, ChooseBackEnd(chosen));
  ZEROTH_ASSIGN_OR_RETURN(chosen.out, KnownRunDirectory(chosen));
  ZEROTH_RETURN_IF_ERROR(Validate(chosen));
  const bool writes = !chosen.dry_run && chosen.steps > 0;
  if (writes) ZEROTH_RETURN_IF_ERROR(CheckRunIsNoData(chosen));
  ZEROTH_ASSIGN_OR_RETURN(const TrainOptions started, WithWorldSize(chosen));
  ZEROTH_ASSIGN_OR_RETURN(const TrainOptions resolved, WithSharesOfRanks(started));
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Job> job, OpenJob(resolved));
  ZEROTH_ASSIGN_OR_RETURN(const std::optional<StartedRanks> processes,
                          LauncherRegistry::Started(resolved.comm));
  job->ranks_are_threads = !processes.has_value();
  if (resolved.dry_run) {
    ZEROTH_RETURN_IF_ERROR(SayPlan(*job));
    return RunEnd::kFinished;
  }
  if (job->only_evaluates && resolved.out.empty() && resolved.resume == "auto") {
    return absl::NotFoundError(
        absl::StrCat("--resume=auto: there is no ", kRunsDirectory, "/", kLatestRun,
                     " to evaluate; name a checkpoint, or its run by --out"));
  }
  if (job->ranks_are_threads && job->options.out.empty() && !job->only_evaluates) {
    ZEROTH_ASSIGN_OR_RETURN(job->options.out, NewRunDirectory());
  }
  if (!job->options.out.empty()) ZEROTH_RETURN_IF_ERROR(OpenOutput(*job));
  const std::string lacks_memory = MemoryWarning(*job);
  if (!lacks_memory.empty()) std::fputs(absl::StrCat(lacks_memory, "\n").c_str(), stdout);
  LaunchOptions launch;
  launch.world_size = resolved.world_size;
  ZEROTH_ASSIGN_OR_RETURN(launch.timeout, ParseTimeout(resolved.comm_timeout));
  launch.reduction = resolved.reduction;
  launch.nccl_copy_engine = resolved.nccl_copy_engine;
  std::string remedies;
  RunEnd end = RunEnd::kFinished;
  const absl::Status status =
      LauncherRegistry::Launch(resolved.comm, launch, [&](Communicator& world) {
        absl::Status result;
        {
          RankRun run(*job, world);
          result = run.Run();
          if (!job->ranks_are_threads || world.rank() == 0) end = run.end();
          // All ranks learn of this error, and not of the communicators that `run` destroys.
          if (LacksMemory(result)) world.Abort(result);
        }
        // A launcher may kill the process of rank 0 once another rank has exited, so it looks for
        // them before it returns. Threads end first, and free their memory.
        if (!job->ranks_are_threads && world.rank() == 0 && LacksMemory(result)) {
          remedies = Remedies(*job, result);
        }
        return result;
      });
  if (status.ok()) return end;
  if (!LacksMemory(status)) return status;
  if (job->ranks_are_threads) remedies = Remedies(*job, status);
  if (remedies.empty()) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), "\n", remedies));
}

}  // namespace zeroth
