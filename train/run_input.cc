// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run_input.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/core/base/byte_count.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/chat/chat_template.h"
#include "zeroth/data/data_files.h"
#include "zeroth/data/open_data.h"
#include "zeroth/nn/layers/moe.h"
#include "zeroth/options/option_registry.h"

namespace zeroth {
namespace {

// Makes the exported model chat in the format that the run names. Programs differ in which of the
// two files they read first, so only one keeps a template.
void ReplaceChatTemplate(const ChatTemplate& chat, std::map<std::string, std::string>& files) {
  files["chat_template.jinja"] = chat.jinja();
  const auto config = files.find("tokenizer_config.json");
  if (config == files.end()) return;
  auto json = nlohmann::ordered_json::parse(config->second, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.erase("chat_template") > 0) config->second = json.dump(2);
}

// Adds `end_of_turn` to generation_config.json: programs that find this file read stop tokens only
// from it.
void StopAtEndOfTurn(int32_t end_of_turn, std::map<std::string, std::string>& files) {
  const auto file = files.find(kGenerationConfig);
  if (file == files.end()) return;
  auto json = nlohmann::json::parse(file->second, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  const nlohmann::json given = json;
  AddEndOfTurn(end_of_turn, json);
  if (json != given) file->second = json.dump(2);
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
  if (options.preference().has_value() && !model.TakesDocuments()) {
    return InvalidArgument(
        "--objective=", OptionText("objective", options),
        ": the answers of a pair lie in one sequence and must not attend to each other, and this "
        "model has a learned vector for each position, or does not take documents; expected one "
        "with rotary positions");
  }
  if (options.attend_within == AttendWithin::kAuto)
    return data.has_marks() && model.TakesDocuments();
  if (options.attend_within == AttendWithin::kSequence) return false;
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

// Rounds up, except for the rounding error of a product just above a whole number.
double RoundedUp(double exact) { return std::ceil(exact * (1 - 1e-12)); }

// True if all weights are bf16, apart from routers with a bias, which transformers 5.24 writes in
// fp32.
bool AllWeightsAreBf16(const ModelSource& source) {
  if (source.directory() == nullptr) return false;
  const TensorEntries& tensors = source.directory()->weights().tensors();
  const auto is_of_router = [&](absl::string_view name) {
    if (StaysFp32(name)) return true;
    return absl::ConsumeSuffix(&name, ".weight") &&
           tensors.find(absl::StrCat(name, ".e_score_correction_bias")) != tensors.end();
  };
  return std::all_of(tensors.begin(), tensors.end(), [&](const auto& tensor) {
    return tensor.second.dtype == SafetensorsDType::kBF16 || is_of_router(tensor.first);
  });
}

LoaderOptions LoaderOptionsFor(const TrainOptions& options, int rank) {
  LoaderOptions loader;
  loader.batch_size = options.batch_size;
  loader.seq_len = options.seq_len;
  loader.world_size = options.data_ranks();
  loader.rank = rank / options.tensor_parallel;
  loader.seed = options.seed;
  loader.shuffle = options.shuffle;
  loader.pairs = options.preference().has_value();
  loader.judgements = options.objective == Objective::kKto;
  return loader;
}

// Opens another model at `path`, which computes the sequences that `model` reads and is not
// trained. `flag` names it in messages; `expected` says what may be there.
absl::StatusOr<ModelSource> OpenFrozen(const TrainOptions& options, const std::string& path,
                                       const std::string& flag, const char* expected,
                                       const LanguageModel& model) {
  TrainOptions of_frozen;
  of_frozen.init_from = path;
  of_frozen.tokenizer = "byte";  // the data are tokens by now
  of_frozen.fp8 = options.fp8;
  absl::StatusOr<ModelSource> source = ModelSource::Open(of_frozen);
  ZEROTH_RETURN_IF_ERROR_WITH(source.status(), absl::StrCat(flag, ", expected ", expected));
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> frozen, source->Build());
  // A model without experts refuses the option.
  if (options.router_dtype != of_frozen.router_dtype && !ModulesOf<const MoeMlp>(*frozen).empty()) {
    of_frozen.router_dtype = options.router_dtype;
    source = ModelSource::Open(of_frozen);
    ZEROTH_RETURN_IF_ERROR_WITH(source.status(), flag);
  }
  if (frozen->vocab_size() != model.vocab_size()) {
    return InvalidArgument(flag, ": has a vocabulary of ", frozen->vocab_size(),
                           " tokens, and the model one of ", model.vocab_size(),
                           "; expected the same tokens");
  }
  if (frozen->max_seq_len() < options.seq_len) {
    return InvalidArgument(flag, ": has ", frozen->max_seq_len(),
                           " positions, expected at least --seq_len=", options.seq_len);
  }
  if (options.tensor().enabled()) {
    ZEROTH_RETURN_IF_ERROR_WITH(DivideModel(*frozen, options.tensor(), /*index=*/0), flag);
  }
  return source;
}

// Opens the model that --reference names.
absl::StatusOr<std::optional<ModelSource>> OpenReference(const TrainOptions& options,
                                                         const LanguageModel& model) {
  const std::string path = options.reference_path();
  if (path.empty()) return std::nullopt;
  const std::string flag = absl::StrCat("--reference=", path);
  absl::StatusOr<ModelSource> source =
      OpenFrozen(options, path, flag, "auto, cached, adapter_off or a model's path", model);
  if (!source.ok()) return source.status();
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> reference, source->Build());
  if (!reference->TakesDocuments()) {
    return InvalidArgument(flag,
                           ": the answers of a pair lie in one sequence, and this model has a "
                           "learned vector for each position, or does not take documents; expected "
                           "one with rotary positions");
  }
  return std::optional<ModelSource>(*std::move(source));
}

// Opens the model that --teacher names.
absl::StatusOr<std::optional<ModelSource>> OpenTeacher(const TrainOptions& options,
                                                       const LanguageModel& model,
                                                       bool within_documents) {
  if (options.teacher.empty()) return std::nullopt;
  const std::string flag = absl::StrCat("--teacher=", options.teacher);
  absl::StatusOr<ModelSource> source =
      OpenFrozen(options, options.teacher, flag, "a Hugging Face directory or a GGUF file", model);
  if (!source.ok()) return source.status();
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> teacher, source->Build());
  if (within_documents && !teacher->TakesDocuments()) {
    return InvalidArgument(flag,
                           ": tokens attend only within their document, and this model has a "
                           "learned vector for each position, or does not take documents; expected "
                           "one with rotary positions, or --attend_within=sequence");
  }
  return std::optional<ModelSource>(*std::move(source));
}

// Reads the teacher's part of the first batch, so that one of other data is refused here.
absl::Status TryTeacher(const TrainOptions& options, std::shared_ptr<const Mixture> data,
                        std::shared_ptr<const TeacherTopK> teacher, bool within_documents,
                        const Tokenizer* tokenizer) {
  LoaderOptions loader = LoaderOptionsFor(options, 0);
  loader.teacher = std::move(teacher);
  loader.documents = within_documents;
  if (tokenizer != nullptr) loader.end_of_text = tokenizer->end_of_text();
  ZEROTH_ASSIGN_OR_RETURN(const DataLoader batches, DataLoader::Create(std::move(data), loader));
  return batches.Load(0).status();
}

}  // namespace

absl::StatusOr<RunInput> OpenInput(const RunSpec& spec) {
  const TrainOptions& options = spec.options;
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
    return InvalidArgument("--seq_len=", options.seq_len, ": the model has ", model->max_seq_len(),
                           " positions; expected at most that");
  }
  ZEROTH_ASSIGN_OR_RETURN(const bool data_are_text, HoldsText("--data", options.data));
  ZEROTH_ASSIGN_OR_RETURN(const bool eval_data_are_text,
                          HoldsText("--eval_data", options.eval_data));
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
                          source.OpenTokenizer(options, data_are_text || eval_data_are_text));
  ZEROTH_ASSIGN_OR_RETURN(TokenizerContent tokenizer_content, source.ReadTokenizer(options));
  const std::string tokenizer_path =
      options.tokenizer == "auto" ? source.tokenizer_path() : options.tokenizer;
  const std::string tokenizer_owner = options.tokenizer == "auto" ? source.tokenizer_owner() : "";
  if (options.chat_template != "auto" && tokenizer != nullptr && !tokenizer_content.files.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(
        const ChatTemplate chat,
        OpenChatTemplate(options.chat_template, tokenizer_path, *tokenizer, tokenizer_owner));
    ReplaceChatTemplate(chat, tokenizer_content.files);
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::optional<std::string> generation,
                          source.ReadGenerationConfig(tokenizer.get()));
  if (generation.has_value()) tokenizer_content.files[kGenerationConfig] = *generation;
  DataOptions data_options;
  data_options.tokenizer = tokenizer.get();
  data_options.chat_template = options.chat_template;
  data_options.tokenizer_path = tokenizer_path;
  data_options.tokenizer_owner = tokenizer_owner;
  data_options.loss_on_all = options.loss_on == LossOn::kAll;
  data_options.seq_len = options.seq_len;
  data_options.on_long = options.on_long;
  data_options.columns = options.data_columns;
  data_options.pairs = options.preference().has_value();
  data_options.judgements = options.objective == Objective::kKto;
  data_options.scores = options.objective == Objective::kReward;
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
    const absl::StatusOr<ChatTemplate> chat =
        OpenChatTemplate(options.chat_template, tokenizer_path, *tokenizer, tokenizer_owner);
    // Prompts with completions, and Alpaca records, need no template.
    if (!chat.ok() && !absl::IsNotFound(chat.status())) return chat.status();
    if (chat.ok()) {
      end_of_turn = chat->end_of_turn();
      StopAtEndOfTurn(*end_of_turn, tokenizer_content.files);
    }
  }
  if (eval_data != nullptr) {
    ZEROTH_RETURN_IF_ERROR_WITH(
        DataLoader::Create(eval_data, LoaderOptionsFor(options, 0)).status(),
        options.eval_fraction > 0 ? "--eval_fraction" : "--eval_data");
  }
  // Refuses data that are too short before anything is started or written.
  const absl::StatusOr<DataLoader> loader = DataLoader::Create(data, LoaderOptionsFor(options, 0));
  ZEROTH_RETURN_IF_ERROR_WITH(loader.status(), "--data");
  const int64_t sequences_per_epoch = loader->distinct_windows();
  ZEROTH_ASSIGN_OR_RETURN(RunLength length, LengthOf(options, sequences_per_epoch));
  if (!options.trace.empty() &&
      ParseStepRange(options.trace).value_or(StepRange()).from > length.steps) {
    return InvalidArgument("--trace=", options.trace,
                           ": the first step to trace is beyond the last step of the run, ",
                           length.steps);
  }
  ZEROTH_ASSIGN_OR_RETURN(const bool within_documents,
                          AttendsWithinDocuments(options, *data, *model, tokenizer.get()));
  bool eval_within_documents = false;
  if (eval_data != nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(eval_within_documents,
                            AttendsWithinDocuments(options, *eval_data, *model, tokenizer.get()));
  }
  std::shared_ptr<const TeacherTopK> teacher;
  if (!options.teacher_topk.empty()) {
    absl::StatusOr<std::shared_ptr<const TeacherTopK>> opened =
        TeacherTopK::Open(options.teacher_topk, model->vocab_size());
    ZEROTH_RETURN_IF_ERROR_WITH(opened.status(), "--teacher_topk");
    teacher = *std::move(opened);
    ZEROTH_RETURN_IF_ERROR_WITH(
        TryTeacher(options, data, teacher, within_documents, tokenizer.get()), "--teacher_topk");
  }
  ZEROTH_ASSIGN_OR_RETURN(std::optional<ModelSource> reference, OpenReference(options, *model));
  ZEROTH_ASSIGN_OR_RETURN(std::optional<ModelSource> teacher_model,
                          OpenTeacher(options, *model, within_documents));
  return RunInput{std::move(source),  std::move(tokenizer),  std::move(tokenizer_content.files),
                  end_of_turn,        std::move(data),       std::move(eval_data),
                  std::move(teacher), std::move(reference),  std::move(teacher_model),
                  within_documents,   eval_within_documents, sequences_per_epoch,
                  std::move(length)};
}

int64_t WarmupSteps(const TrainOptions& options, int64_t steps) {
  const auto part = [steps](double ratio) {
    return static_cast<int64_t>(RoundedUp(ratio * static_cast<double>(steps)));
  };
  if (options.warmup_ratio > 0) return part(options.warmup_ratio);
  if (options.warmup_steps >= 0) return options.warmup_steps;
  return options.init_from.empty() ? std::min<int64_t>(20, part(0.1))
                                   : part(kFineTuningWarmupRatio);
}

absl::StatusOr<RunLength> LengthOf(const TrainOptions& options, int64_t sequences_per_epoch,
                                   int64_t steps, int64_t sequences) {
  int64_t total = options.steps;
  if (options.epochs > 0) {
    const double left = RoundedUp(options.epochs * static_cast<double>(sequences_per_epoch)) -
                        static_cast<double>(sequences);
    const double more =
        std::max(0.0, std::ceil(left / static_cast<double>(SequencesPerStep(options))));
    constexpr double kMost = 1e15;
    if (more > kMost) {
      return InvalidArgument("--epochs=", options.epochs, ": this is ", more,
                             " steps; expected at most ", kMost);
    }
    total = steps + static_cast<int64_t>(more);
  }
  const LrScheduleOptions schedule = {.lr = options.peak_lr(),
                                      .min_lr = options.final_lr(),
                                      .warmup_steps = WarmupSteps(options, total),
                                      .total_steps = total,
                                      .decay_ratio = options.decay_ratio};
  ZEROTH_ASSIGN_OR_RETURN(LrSchedule created, LrSchedule::Create(options.lr_schedule, schedule));
  return RunLength{total, std::move(created)};
}

LoaderOptions LoaderOptionsFor(const RunSpec& spec, const RunInput& input, int rank) {
  LoaderOptions loader = LoaderOptionsFor(spec.options, rank);
  loader.documents = input.within_documents;
  if (input.tokenizer != nullptr) loader.end_of_text = input.tokenizer->end_of_text();
  return loader;
}

absl::StatusOr<ExportOptions> ExportOptionsOf(const RunSpec& spec, const RunInput& input,
                                              HfDirectoryKind kind) {
  const TrainOptions& options = spec.options;
  const HfDirectory* const files = input.source.directory();
  if (kind == HfDirectoryKind::kAdapter && files != nullptr && !files->left_out().empty()) {
    return Unimplemented("--lora_export=", OptionText("lora_export", options),
                         ": --init_from=", options.init_from, " has ", files->left_out(),
                         ", with which transformers names layers otherwise, so that PEFT would not "
                         "find those of the "
                         "adapter; write the text model alone by tools/convert --in=",
                         options.init_from, " --out=DIRECTORY, and give --init_from=DIRECTORY");
  }
  ExportOptions result;
  result.token_ids = input.source.TokenIds(input.tokenizer.get());
  if (input.end_of_turn.has_value()) AddEndOfTurn(*input.end_of_turn, result.token_ids);
  result.directory.kind = kind;
  // The base model's dtype does not decide the dtype of exported adapters.
  const bool is_bf16 = options.export_dtype == ExportDType::kAuto
                           ? kind == HfDirectoryKind::kModel && AllWeightsAreBf16(input.source)
                           : options.export_dtype == ExportDType::kBf16;
  result.dtype = is_bf16 ? DType::kBFloat16 : DType::kFloat32;
  ZEROTH_ASSIGN_OR_RETURN(result.directory.max_shard_bytes, ParseByteCount(options.max_shard_size));
  result.tokenizer_files = input.tokenizer_files;
  result.base_model = options.init_from;
  return result;
}

}  // namespace zeroth
