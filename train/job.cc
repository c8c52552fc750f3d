// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/job.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/core/base/byte_count.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/chat/chat_template.h"
#include "zeroth/data/data_files.h"
#include "zeroth/data/open_data.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/optim/optimizer.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/train/model_source.h"
#include "zeroth/train/resume.h"
#include "zeroth/train/run_directory.h"

namespace zeroth {
namespace {

// The exported model chats in the format that the run names. Programs differ in which of the two
// files they read first.
void ReplaceChatTemplate(const ChatTemplate& chat, std::map<std::string, std::string>& files) {
  files["chat_template.jinja"] = chat.jinja();
  const auto config = files.find("tokenizer_config.json");
  if (config == files.end()) return;
  auto json = nlohmann::ordered_json::parse(config->second, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.erase("chat_template") > 0) config->second = json.dump(2);
}

// Programs that find this file look only in it for the ends of a text.
void StopAtEndOfTurn(int32_t end_of_turn, std::map<std::string, std::string>& files) {
  const auto file = files.find(kGenerationConfig);
  if (file == files.end()) return;
  auto json = nlohmann::json::parse(file->second, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  const nlohmann::json given = json;
  AddEndOfTurn(end_of_turn, json);
  if (json != given) file->second = json.dump(2);
}

// Quantization changes gathers and reduce-scatters only. Refuses it for strategies without them.
absl::Status CheckQuantization(const TrainOptions& options, bool shards) {
  const char* const flag = options.quantized_weights     ? "quantized_weights"
                           : options.quantized_gradients ? "quantized_gradients"
                                                         : nullptr;
  if (flag == nullptr || shards || options.data_ranks() == 1) return absl::OkStatus();
  return InvalidArgument(
      "--", flag, ": under --strategy=", options.strategy,
      options.shard_size > 0 ? absl::StrCat(" --shard_size=", options.shard_size) : "",
      " every rank keeps all parameters and gradients, which all-reduce sums as they are; leave it "
      "out, or shard, as full_shard does");
}

// Checks the strategy's name and sizes before any rank starts; only the ranks use them.
absl::Status CheckParallelism(const TrainOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<ShardingStrategy> strategy,
                          StrategyRegistry::Create(options.strategy, options.strategy_options()));
  const absl::StatusOr<int> shard_size =
      ShardSizeOf(*strategy, options.strategy_options(), options.data_ranks());
  if (options.tensor_parallel > 1) {
    ZEROTH_RETURN_IF_ERROR_WITH(
        shard_size.status(), absl::StrCat("--world_size=", options.world_size,
                                          " / --tensor_parallel=", options.tensor_parallel, " = ",
                                          options.data_ranks(), " ranks with data"));
  }
  ZEROTH_RETURN_IF_ERROR(shard_size.status());
  return CheckQuantization(options, *shard_size > 1 || options.shard_optimizer_over_world);
}

// Adds to NotFound which build has the devices and back ends for GPUs.
absl::Status WithBuildHint(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kNotFound) return status;
  return absl::NotFoundError(absl::StrCat(
      status.message(), "; --device=cuda and --comm=nccl need a build with --config=cuda"));
}

ExportDirectories DirectoriesOf(const TrainOptions& options, absl::string_view name) {
  const std::string path = absl::StrCat(options.out, "/", name);
  ExportDirectories directories;
  if (options.lora_export != "adapter") directories.emplace_back(HfDirectoryKind::kModel, path);
  if (options.lora_export != "merged") {
    directories.emplace_back(HfDirectoryKind::kAdapter, absl::StrCat(path, "_adapter"));
  }
  return directories;
}

absl::StatusOr<bool> HoldsText(const char* flag, const std::string& data) {
  if (data.empty()) return false;
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<WeightedSpec> parts, SplitWeights(data));
  for (const WeightedSpec& part : parts) {
    const absl::StatusOr<std::vector<DataFile>> files = FindDataFiles(part.spec);
    ZEROTH_RETURN_IF_ERROR_WITH(files.status(), flag);
    if (IsText(files->front().kind)) return true;
  }
  return false;
}

absl::StatusOr<bool> AttendsWithinDocuments(const TrainOptions& options, const Mixture& data,
                                            const LanguageModel& model,
                                            const Tokenizer* tokenizer) {
  if (options.attend_within == "auto") return data.has_marks() && model.TakesDocuments();
  if (options.attend_within == "sequence") return false;
  if (!model.TakesDocuments()) {
    return absl::InvalidArgumentError(
        "--attend_within=document: the model has a learned vector for each position, or is one "
        "that does not take documents; expected one with rotary positions, or "
        "--attend_within=sequence");
  }
  if (tokenizer == nullptr) {
    return absl::InvalidArgumentError(
        "--attend_within=document: the data are tokens, and nothing says which of them ends a "
        "document; name the tokenizer that made them by --tokenizer");
  }
  return true;
}

LoaderOptions LoaderOptionsFor(const TrainOptions& options, int rank) {
  LoaderOptions loader;
  loader.batch_size = options.batch_size;
  loader.seq_len = options.seq_len;
  loader.world_size = options.data_ranks();
  loader.rank = rank / options.tensor_parallel;
  loader.seed = options.seed;
  loader.shuffle = options.shuffle;
  return loader;
}

}  // namespace

absl::StatusOr<TrainOptions> WithWorldSize(TrainOptions options) {
  const absl::StatusOr<std::optional<StartedRanks>> found = LauncherRegistry::Started(options.comm);
  if (!found.ok()) return WithBuildHint(found.status());
  if (const std::optional<StartedRanks>& started = *found; started.has_value()) {
    if (options.world_size != 0 && options.world_size != started->world_size) {
      return InvalidArgument(
          "--world_size=", options.world_size, ", but the environment says that ",
          started->world_size, " ranks have been started; leave the flag out, and have the ",
          "launcher start as many as you want (mpirun -n ", options.world_size, ")");
    }
    options.world_size = started->world_size;
    options.local_world_size = started->local_world_size;
    return options;
  }
  if (options.world_size == 0) options.world_size = kDefaultWorldSize;
  // If this process runs all ranks, a missing device shows here, before any rank starts.
  ZEROTH_RETURN_IF_ERROR(
      WithBuildHint(DeviceRegistry::Create(options.device, DeviceOptions()).status()));
  return options;
}

absl::StatusOr<std::unique_ptr<Job>> OpenJob(const TrainOptions& options) {
  ZEROTH_RETURN_IF_ERROR_WITH(OptimizerRegistry::Check(options.optimizer), "--optimizer");
  ZEROTH_RETURN_IF_ERROR(CheckParallelism(options));
  if (const absl::Status status = KernelRegistry::Check(options.device, options.kernel_options());
      !status.ok()) {
    return Annotate(WithBuildHint(status), absl::StrCat("--device=", options.device));
  }
  ZEROTH_ASSIGN_OR_RETURN(ModelSource source, ModelSource::Open(options));
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model, source.Build());
  if (options.tensor().enabled()) {
    ZEROTH_RETURN_IF_ERROR_WITH(
        DivideModel(*model, options.tensor(), /*index=*/0),
        absl::StrCat(
            options.tensor_parallel > 1 ? "--tensor_parallel=" : "--deterministic_tensor=",
            options.tensor_parallel > 1 ? options.tensor_parallel : options.deterministic_tensor));
  }
  if (options.seq_len > model->max_seq_len()) {
    return InvalidArgument("--seq_len=", options.seq_len,
                           options.seq_len == TrainOptions().seq_len ? " (the default)" : "",
                           ": the model has ", model->max_seq_len(),
                           " positions; expected at most that");
  }
  ZEROTH_ASSIGN_OR_RETURN(
      LrSchedule schedule,
      LrSchedule::Create(options.lr_schedule, {.lr = options.lr,
                                               .min_lr = options.final_lr(),
                                               .warmup_steps = options.warmup_steps,
                                               .total_steps = options.steps}));
  ZEROTH_ASSIGN_OR_RETURN(const bool data_are_text, HoldsText("--data", options.data));
  ZEROTH_ASSIGN_OR_RETURN(const bool eval_data_are_text,
                          HoldsText("--eval_data", options.eval_data));
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
                          source.OpenTokenizer(options, data_are_text || eval_data_are_text));
  ZEROTH_ASSIGN_OR_RETURN(TokenizerContent tokenizer_content, source.ReadTokenizer(options));
  const std::string tokenizer_path =
      options.tokenizer == "auto" ? source.tokenizer_path() : options.tokenizer;
  if (options.chat_template != "auto" && tokenizer != nullptr && !tokenizer_content.files.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(const ChatTemplate chat,
                            OpenChatTemplate(options.chat_template, tokenizer_path, *tokenizer));
    ReplaceChatTemplate(chat, tokenizer_content.files);
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::optional<std::string> generation,
                          source.ReadGenerationConfig(tokenizer.get()));
  if (generation.has_value()) tokenizer_content.files[kGenerationConfig] = *generation;
  DataOptions data_options;
  data_options.tokenizer = tokenizer.get();
  data_options.chat_template = options.chat_template;
  data_options.tokenizer_path = tokenizer_path;
  data_options.loss_on_all = options.loss_on == "all";
  data_options.seq_len = options.seq_len;
  data_options.cache_dir = options.cache_dir;
  data_options.tokenizer_identity = tokenizer_content.identity;
  data_options.vocab_size = static_cast<int32_t>(model->vocab_size());
  std::shared_ptr<const Mixture> data;
  std::shared_ptr<const Mixture> eval_data;
  if (options.eval_fraction > 0) {
    auto split = OpenSplitMixture(options.data, data_options, options.eval_fraction);
    if (!split.ok()) return split.status();
    data = std::move(split->train);
    eval_data = std::move(split->held_out);
  } else {
    ZEROTH_ASSIGN_OR_RETURN(data, OpenMixture(options.data, data_options));
  }
  if (!options.eval_data.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(eval_data, OpenMixture(options.eval_data, data_options));
  }
  std::optional<int32_t> end_of_turn;
  if (tokenizer != nullptr && data->has_marks()) {
    ZEROTH_ASSIGN_OR_RETURN(
        const ChatTemplate chat,
        OpenChatTemplate(options.chat_template, data_options.tokenizer_path, *tokenizer));
    end_of_turn = chat.end_of_turn();
    StopAtEndOfTurn(*end_of_turn, tokenizer_content.files);
  }
  if (eval_data != nullptr) {
    ZEROTH_RETURN_IF_ERROR_WITH(
        DataLoader::Create(eval_data, LoaderOptionsFor(options, 0)).status(),
        options.eval_fraction > 0 ? "--eval_fraction" : "--eval_data");
  }
  // Refuses data that are too short before anything is started or written.
  ZEROTH_RETURN_IF_ERROR_WITH(DataLoader::Create(data, LoaderOptionsFor(options, 0)).status(),
                              "--data");
  ZEROTH_ASSIGN_OR_RETURN(const bool within_documents,
                          AttendsWithinDocuments(options, *data, *model, tokenizer.get()));
  const bool only_evaluates = options.steps == 0 && eval_data != nullptr;
  return std::unique_ptr<Job>(new Job{options,
                                      std::move(source),
                                      std::move(tokenizer),
                                      std::move(tokenizer_content.files),
                                      end_of_turn,
                                      std::move(data),
                                      std::move(eval_data),
                                      within_documents,
                                      std::move(schedule),
                                      only_evaluates,
                                      {},
                                      {}});
}

absl::Status OpenOutput(Job& job) {
  const TrainOptions& options = job.options;
  ZEROTH_RETURN_IF_ERROR(CheckCheckpointFlags(options));
  if (job.only_evaluates) return absl::OkStatus();
  ZEROTH_RETURN_IF_ERROR(CheckRunDirectory(options));
  job.final_directories = DirectoriesOf(options, "final");
  if (options.ema_decay > 0) job.ema_directories = DirectoriesOf(options, "final_ema");
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model, job.source.Build());
  ZEROTH_ASSIGN_OR_RETURN(ExportOptions export_options, ExportOptionsOf(job));
  for (const ExportDirectories& directories : {job.final_directories, job.ema_directories}) {
    for (const auto& [kind, directory] : directories) {
      export_options.directory.kind = kind;
      ZEROTH_RETURN_IF_ERROR(CheckExport(*model, directory, export_options));
    }
  }
  return absl::OkStatus();
}

LoaderOptions LoaderOptionsFor(const Job& job, int rank) {
  LoaderOptions loader = LoaderOptionsFor(job.options, rank);
  loader.documents = job.within_documents;
  if (job.tokenizer != nullptr) loader.end_of_text = job.tokenizer->end_of_text();
  return loader;
}

absl::StatusOr<ExportOptions> ExportOptionsOf(const Job& job) {
  const TrainOptions& options = job.options;
  ExportOptions result;
  result.token_ids = job.source.TokenIds(job.tokenizer.get());
  if (job.end_of_turn.has_value()) AddEndOfTurn(*job.end_of_turn, result.token_ids);
  ZEROTH_ASSIGN_OR_RETURN(result.dtype, ParseDType(options.export_dtype));
  ZEROTH_ASSIGN_OR_RETURN(result.directory.max_shard_bytes, ParseByteCount(options.max_shard_size));
  result.tokenizer_files = job.tokenizer_files;
  result.base_model = options.init_from;
  return result;
}

absl::StatusOr<std::string> ChooseBackEnd(const TrainOptions& options,
                                          const ProcessEnvironment& ranks) {
  const bool is_auto = options.comm == "auto";
  if (!is_auto && options.comm != "local") return options.comm;
  // Ranks of a single process can only be threads.
  if (!ranks.HasLauncher() || ranks.world_size == 1) return "local";
  const std::string started = absl::StrCat(ranks.launcher, " has started ", ranks.world_size,
                                           " processes, of which this is number ", ranks.rank);
  const bool on_gpus = options.device != TrainOptions().device;
  const bool no_mpi = ranks.launcher == "torchrun";
  if (is_auto && on_gpus) return "nccl";
  if (is_auto && !no_mpi) return "mpi";
  const std::string advice =
      on_gpus  ? "take --comm=nccl, or leave --comm out"
      : no_mpi ? "start them by mpirun or srun, for --comm=mpi, or train with --device=cuda, for "
                 "--comm=nccl"
               : "take --comm=mpi, or leave --comm out";
  return InvalidArgument("--comm=", options.comm, ": ", started,
                         is_auto ? ", and on CPUs ranks that it starts cannot talk to each other; "
                                 : ", and each would be a whole run of its own, all in one --out; ",
                         advice);
}

absl::StatusOr<std::string> ChooseBackEnd(const TrainOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const ProcessEnvironment ranks, ProcessEnvironment::ReadRanks());
  return ChooseBackEnd(options, ranks);
}

}  // namespace zeroth
