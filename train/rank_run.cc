// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// How a rank's run is set up and how it ends.

#include "zeroth/train/rank_run.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_convert.h"
#include "zeroth/checkpoint/sharded/checkpoint_directory.h"
#include "zeroth/core/base/byte_count.h"
#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"
#include "zeroth/core/comm/process/process_environment.h"
#include "zeroth/options/option_registry.h"
#include "zeroth/options/trainer_options.h"
#include "zeroth/plan/machine_measure.h"
#include "zeroth/train/flight_record.h"
#include "zeroth/train/reference_losses.h"

namespace zeroth {
namespace {

// Warns that Open MPI's mpirun kills ranks one second after a signal, unless it was told to wait.
// Empty for other launchers.
std::string SignalsUnderMpirun() {
  const auto ranks = ProcessEnvironment::ReadRanks();
  if (!ranks.ok() || ranks->launcher != "mpirun") return "";
  // Open MPI 4 and 5 hand the options of mpirun to its ranks like this.
  for (const char* set :
       {"OMPI_MCA_odls_base_sigkill_timeout", "PRTE_MCA_odls_base_sigkill_timeout"}) {
    if (ProcessEnvironment::Variable(set).has_value()) return "";
  }
  return "mpirun kills its ranks a second after SIGTERM or Ctrl-C, perhaps before the checkpoint "
         "is complete: start it with --mca odls_base_sigkill_timeout 30, or send it SIGUSR1, "
         "which it only forwards";
}

}  // namespace

absl::Status RankRun::Run() {
  const absl::Status status = SetUpAndTrain();
  const absl::Status broken = world_.status();
  // An error that the ranks have agreed on is not a communication error, even if a rank has ended
  // already.
  const bool is_communication =
      !status.ok() && !broken.ok() && absl::StrContains(status.message(), broken.message());
  if (!is_communication || spec_.only_evaluates()) return status;
  if (out().empty()) return status;
  std::vector<Communicator*> groups = {&world_};
  if (trainer_ != nullptr) {
    for (Communicator* group : trainer_->sharding().communicators()) groups.push_back(group);
    if (Trainer* const teacher = trainer_->teacher(); teacher != nullptr) {
      for (Communicator* group : teacher->sharding().communicators()) groups.push_back(group);
    }
  }
  const absl::Status written = WriteFlightRecord(out(), world_, groups, status, absl::Seconds(2));
  if (written.ok()) {
    Say(absl::StrCat("flight    ", out(), "/", kFlightDirectory, "/", kWhoWaitedFile,
                     " says which rank waited for which"));
  }
  Warn(written);
  return status;
}

absl::Status RankRun::SetUpAndTrain() {
  ZEROTH_RETURN_IF_ERROR(SetUp());
  if (interrupted_) {  // while the losses of the reference were computed
    end_ = RunEnd::kInterrupted;
    return BarrierAtEnd();
  }
  if (spec_.only_evaluates()) {
    ZEROTH_ASSIGN_OR_RETURN(const bool evaluated, Evaluate(first_step_));
    if (evaluated) return absl::OkStatus();
    Say("interrupted: no evaluation loss");
    end_ = RunEnd::kInterrupted;
    return BarrierAtEnd();
  }
  bool stop = false;
  int64_t step = first_step_;
  ZEROTH_ASSIGN_OR_RETURN(const bool misses_evaluation, ResumedBeforeEvaluation());
  if (misses_evaluation) {
    ZEROTH_ASSIGN_OR_RETURN(const bool evaluated, Evaluate(step));
    stop = !evaluated;
  }
  const Clock::time_point start = Clock::now();
  while (step < length_.steps && !stop) {
    ZEROTH_ASSIGN_OR_RETURN(stop, Step(step, start));
    ++step;
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  WriteTrace();
  // Finishes checkpoints and models before the last sample, so that an error of the sample cannot
  // lose them.
  if (store_->can_save()) ZEROTH_RETURN_IF_ERROR(HandleReport(store_->Wait()));
  if (interrupted_ && !store_->can_save()) {
    RecordFailure(FailedPrecondition("a signal ended the run after step ", step,
                                     ", which is lost: no checkpoint can be saved in --out=",
                                     store_->directory(), ", which the ranks do not share"));
  }
  const bool interrupted = failure_.ok() && interrupted_;
  // Only a finished run writes final/.
  if (!interrupted_) ZEROTH_RETURN_IF_ERROR(HandleReport(store_->Export()));
  if (reporter_ != nullptr) {
    reporter_->WriteSummary(interrupted, !failure_.ok(), skipped_steps_, seconds);
  }
  if (failure_.ok() && !interrupted) ShowSample(step).IgnoreError();
  if (reporter_ != nullptr) {
    std::vector<std::string> saved;
    const std::vector<std::string>& models = store_->exported();
    if (!models.empty()) saved.push_back("model in " + absl::StrJoin(models, " and "));
    if (interrupted) saved.push_back("checkpoint in " + CheckpointPath(store_->directory(), step));
    reporter_->PrintEnd(!failure_.ok() ? "stopped"
                        : interrupted  ? "interrupted"
                                       : "done",
                        seconds, saved, interrupted ? "--resume=auto continues from there" : "");
  }
  if (failure_.ok() && !interrupted) return absl::OkStatus();
  if (interrupted) end_ = RunEnd::kInterrupted;
  return BarrierAtEnd();
}

absl::Status RankRun::BarrierAtEnd() {
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
  if (options_.cuda_graphs) {
    ZEROTH_RETURN_IF_ERROR_WITH(Trainer::CanRecordSteps(world_, device()), kCudaGraphsNeed);
  }
  trace_.emplace(ParseStepRange(options_.trace), world_, device());
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, input_.source.Build());
  // Before anything that takes long, so that errors of the directory come first, and later errors
  // can leave a flight record.
  if (!spec_.only_evaluates()) {
    ZEROTH_ASSIGN_OR_RETURN(store_, RunStore::Open(spec_, input_, *rank_, *model));
  }
  ZEROTH_RETURN_IF_ERROR(HashData());
  std::vector<std::string> notes;
  CachedReference reference;
  if (options_.caches_reference()) {
    ZEROTH_ASSIGN_OR_RETURN(reference, OpenCachedReference(
                                           spec_, input_, *rank_, out(), Order(),
                                           [this] { return WantsToStop(); }, trainer_));
    interrupted_ = reference.interrupted;
    if (interrupted_) return absl::OkStatus();
    notes = std::move(reference.notes);
  }
  ZEROTH_ASSIGN_OR_RETURN(
      trainer_,
      Trainer::Create(*rank_, std::move(model), TrainerOptionsFor(options_, trace_->timeline())));
  if (input_.teacher_model.has_value() && !spec_.only_evaluates()) {
    absl::StatusOr<std::unique_ptr<Trainer>> teacher =
        LoadFrozen(*rank_, *input_.teacher_model, options_, "teacher", trace_->timeline());
    const absl::Status learns =
        teacher.ok() ? trainer_->SetTeacher(*std::move(teacher)) : teacher.status();
    ZEROTH_RETURN_IF_ERROR_WITH(learns, absl::StrCat("--teacher=", options_.teacher));
  }
  if (input_.eval_data != nullptr) {
    LoaderOptions eval_options = LoaderOptionsFor(spec_, input_, world_.rank());
    eval_options.shuffle = false;  // every evaluation reads the same text
    eval_options.once = true;
    eval_options.documents = input_.eval_within_documents;
    eval_options.reference = reference.eval_losses;
    ZEROTH_ASSIGN_OR_RETURN(DataLoader held_out,
                            DataLoader::Create(input_.eval_data, eval_options));
    evaluator_.emplace(options_, std::move(held_out));
  }
  ZEROTH_RETURN_IF_ERROR(FillOrResume(reference.losses, notes));
  ZEROTH_ASSIGN_OR_RETURN(const std::string attention,
                          DescribeAttention(spec_, input_, rank_->kernels(), trainer_->model()));
  ZEROTH_ASSIGN_OR_RETURN(const double gemm_rate,
                          MeasureGemmRate(world_, device(), trainer_->kernels(),
                                          options_.mixed_precision().param_dtype));
  if (store_ != nullptr) {
    const auto resumed = first_step_ > 0 ? std::optional(first_step_) : std::nullopt;
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string> more, store_->Begin(*trainer_, resumed));
    notes.insert(notes.end(), more.begin(), more.end());
    const std::string under_mpirun = SignalsUnderMpirun();
    if (store_->can_save() && !under_mpirun.empty()) {
      notes.push_back(absl::StrCat("signals   ", under_mpirun));
    }
  }
  device().allocator().Trim();
  device().allocator().ResetPeaks();
  if (world_.rank() == 0) {
    ZEROTH_ASSIGN_OR_RETURN(reporter_, Reporter::Create(spec_, input_, *trainer_, out(), gemm_rate,
                                                        first_step_, length_.steps));
  }
  for (const auto& data : {input_.data, input_.eval_data}) {
    if (data == nullptr) continue;
    for (std::string& note : data->notes()) notes.push_back(std::move(note));
  }
  if (evaluator_.has_value()) {
    std::string note = evaluator_->Note();
    if (!note.empty()) notes.push_back(std::move(note));
  }
  // The notes read the tokenizer's files, and only rank 0 prints them.
  const bool fine_tunes = !options_.init_from.empty() && !spec_.only_evaluates();
  if (fine_tunes && world_.rank() == 0) AddFineTuningNotes(notes);
  AddWarmupNote(notes);
  if (!attention.empty()) notes.push_back(absl::StrCat("attention ", attention));
  const std::string gathers = trainer_->sharding().units()[0]->mesh().shard_gather().GatherNote();
  if (!gathers.empty()) notes.push_back(absl::StrCat("gathers   ", gathers));
  if (input_.tokenizer == nullptr && options_.sample_tokens > 0) {
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

absl::Status RankRun::CompareWithRankZero() {
  if (spec_.ranks_are_threads) return absl::OkStatus();
  // If the data is large, compares only a sample of tokens spread over all of it, which even a slow
  // disk reads quickly.
  constexpr int64_t kSmall = int64_t{1} << 20;
  constexpr int64_t kCompared = 256;
  nlohmann::json facts;
  for (const Option& option : AllOptions()) facts[option.name] = OptionValue(option, options_);
  // Options that may differ between machines.
  for (const char* own : {"threads_per_rank", "memory_limit", "cache_dir", "offload_dir"}) {
    facts.erase(own);
  }
  absl::Status mine;
  for (const auto& [name, data] :
       {std::pair("data", input_.data), {"eval_data", input_.eval_data}}) {
    facts[name] = "none";
    if (data == nullptr) continue;
    const absl::StatusOr<uint64_t> hash = data->Hash(data->tokens() > kSmall ? kCompared : kSmall);
    mine.Update(hash.status());
    facts[name] =
        absl::StrCat(data->tokens(), " tokens, checksum ", ChecksumText(hash.value_or(0)));
  }
  if (input_.teacher != nullptr) facts["teacher_topk"] = input_.teacher->facts().checksum;
  using nlohmann::json;
  // Paths need not be UTF-8.
  const std::string text = facts.dump(-1, ' ', false, json::error_handler_t::replace);
  ZEROTH_ASSIGN_OR_RETURN(const std::string first,
                          BroadcastText(world_, device(), 0, text, "compare flags and data"));
  const std::vector<std::string> others = Changed(json::parse(first), json::parse(text));
  if (!others.empty()) {
    mine.Update(
        InvalidArgument("has other flags or data than rank 0: ", absl::StrJoin(others, "; "),
                        "; give all ranks the same flags and the same files"));
  }
  return AgreeOnStatus(world_, device(), mine, "compare flags and data");
}

absl::Status RankRun::HashData() {
  if (spec_.only_evaluates()) return absl::OkStatus();
  absl::StatusOr<uint64_t> hash = uint64_t{0};
  if (world_.rank() == 0) hash = input_.data->Hash();
  ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(world_, device(), hash.status(), "hash the data"));
  ZEROTH_ASSIGN_OR_RETURN(const std::string text,
                          BroadcastText(world_, device(), 0, ChecksumText(*hash), "hash the data"));
  ZEROTH_ASSIGN_OR_RETURN(content_, ParseChecksum(text));
  return absl::OkStatus();
}

absl::Status RankRun::FillOrResume(std::shared_ptr<const ReferenceLosses> reference,
                                   std::vector<std::string>& notes) {
  Resumed resumed;
  if (!options_.resume.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(
        resumed, Resume(options_, out(), *trainer_, input_.source.Reader(options_.seed)));
  }
  LoaderOptions loader = LoaderOptionsFor(spec_, input_, world_.rank());
  loader.reference = std::move(reference);
  loader.teacher = input_.teacher;
  if (!resumed.progress.has_value()) {
    ZEROTH_RETURN_IF_ERROR(ExpectWeightsToQuantize(options_));
    ZEROTH_RETURN_IF_ERROR(trainer_->sharding().Load(input_.source.Reader(options_.seed)));
  } else {
    const RunProgress& progress = *resumed.progress;
    first_step_ = updated_step_ = progress.steps;
    skipped_steps_ = progress.skipped_steps;
    // A position has no meaning in other data or in another order.
    const std::vector<std::string> others = Order().Differences(progress.data);
    if (others.empty()) {
      first_sequence_ = progress.sequences;
    } else {
      resumed.notes.push_back(absl::StrCat(
          "resume    the data or their order have changed, so they are read from the beginning: ",
          absl::StrJoin(others, "; ")));
    }
    loader.first_window = first_sequence_ - first_step_ * SequencesPerStep(options_);
    ZEROTH_ASSIGN_OR_RETURN(
        length_, LengthOf(options_, input_.sequences_per_epoch, first_step_, first_sequence_));
  }
  ZEROTH_ASSIGN_OR_RETURN(DataLoader batches, DataLoader::Create(input_.data, loader));
  batches_.emplace(std::move(batches), options_.grad_accum, first_step_, length_.steps);
  notes.insert(notes.end(), resumed.notes.begin(), resumed.notes.end());
  return absl::OkStatus();
}

DataOrder RankRun::Order() const {
  return {input_.data->tokens(), content_, options_.seq_len, options_.seed, options_.shuffle};
}

void RankRun::AddWarmupNote(std::vector<std::string>& notes) const {
  const int64_t steps = length_.steps;
  const int64_t warmup = WarmupSteps(options_, steps);
  // By default, a run of one step has a warm-up of one step, at the peak.
  if (steps == 0 || warmup < steps || warmup == 1) return;
  notes.push_back(absl::StrCat("note      the warm-up (", warmup, " steps) is as long as the run (",
                               steps, ") or longer: the learning rate only rises, to ",
                               length_.schedule.At(steps - 1), " of ", options_.peak_lr(),
                               "; a smaller --warmup_steps or --warmup_ratio ends it earlier"));
}

void RankRun::AddFineTuningNotes(std::vector<std::string>& notes) const {
  const TrainOptions defaults;
  const int64_t positions = trainer_->model().max_seq_len();
  if (options_.lr == defaults.lr) {
    const bool adapts = options_.lora_rank > 0;
    const bool of_pairs = options_.preference().has_value();
    notes.push_back(absl::StrCat("note      --lr=", options_.peak_lr(), " is the default for ",
                                 of_pairs ? "preferences by " : "",
                                 adapts ? "LoRA" : "fine-tuning all weights", "; usual are ",
                                 of_pairs ? (adapts ? "5e-6 to 5e-5" : "5e-7 to 1e-6")
                                          : (adapts ? "1e-4 to 3e-4" : "1e-5 to 5e-5")));
  }
  if (options_.warmup_steps == defaults.warmup_steps &&
      options_.warmup_ratio == defaults.warmup_ratio) {
    notes.push_back(absl::StrCat("note      --warmup_ratio=", kFineTuningWarmupRatio,
                                 " is the default for fine-tuning"));
  }
  if (spec_.config.seq_len == defaults.seq_len && options_.seq_len < positions) {
    notes.push_back(absl::StrCat("note      --seq_len=", options_.seq_len,
                                 " is the default for fine-tuning; the model takes up to ",
                                 positions, " tokens"));
  }
  const absl::StatusOr<ExportOptions> exported = ExportOptionsOf(spec_, input_);
  // Adapters alone are in fp32.
  if (options_.lora_export != LoraExport::kAdapter && exported.ok() &&
      options_.export_dtype == ExportDType::kAuto && exported->dtype == DType::kBFloat16) {
    notes.push_back(
        "note      final/ will be in bf16, as --init_from is; --export_dtype=fp32 keeps all bits");
  }
  const HfDirectory* const directory = input_.source.directory();
  if (directory == nullptr || options_.tokenizer != defaults.tokenizer) return;
  if (const absl::Status gguf = CheckGgufVocabulary(*directory); !gguf.ok())
    notes.push_back(
        absl::StrCat("note      no GGUF file can be made of the result: ", gguf.message()));
}

void RankRun::AnnounceInterrupt() {
  if (reporter_ == nullptr) {
    // Ranks that are threads share the process with rank 0, whose text stays.
    if (!spec_.ranks_are_threads) AnnounceOnInterrupt("", "");
    return;
  }
  if (store_ == nullptr) {
    return AnnounceOnInterrupt(
        "\ninterrupt: the evaluation ends after this batch, without a result\n",
        "\ninterrupt: ended at once. Lost: nothing.\n");
  }
  const std::string lost =
      store_->newest().has_value()
          ? absl::StrCat("everything since the checkpoint of step ", *store_->newest())
          : "the whole run, since there is no checkpoint yet";
  const std::string under_mpirun = SignalsUnderMpirun();
  AnnounceOnInterrupt(absl::StrCat("\ninterrupt: the run ends after this step",
                                   store_->can_save() ? absl::StrCat(" and saves a checkpoint in ",
                                                                     store_->directory())
                                                      : ", without a checkpoint",
                                   ". A second interrupt ends it at once and loses ", lost, ".\n",
                                   under_mpirun.empty() ? "" : absl::StrCat(under_mpirun, ".\n")),
                      absl::StrCat("\ninterrupt: ended at once. Lost: ", lost, ".\n"));
}

}  // namespace zeroth
