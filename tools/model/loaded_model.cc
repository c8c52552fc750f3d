// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tools/model/loaded_model.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"

#include "zeroth/api/rank.h"
#include "zeroth/core/base/command_line.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/ignored_target.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/host_floats.h"
#include "zeroth/tools/model/open_model.h"
#include "zeroth/train/gpu_libraries.h"
#include "zeroth/train/text_generation.h"

ABSL_FLAG(
    std::string, model, "",
    "A Hugging Face directory, a GGUF file, a checkpoint of the trainer (step-N), or an adapter of "
    "PEFT's. "
    "Required.");
ABSL_FLAG(
    std::string, base, "",
    "Hugging Face directory of the base model that an adapter is merged into. Empty: the one that "
    "the adapter names.");
ABSL_FLAG(std::string, tokenizer, "auto",
          "The directory or file of a tokenizer, byte, or auto (the model's own).");
ABSL_FLAG(
    bool, parse_special, false,
    "If true, text that spells a special token becomes that token; if false, it is ordinary text.");
ABSL_FLAG(std::string, precision, "fp32", "Type in which the model computes: fp32, bf16 or fp16.");
ABSL_FLAG(std::string, device, "cpu",
          "The device to compute on: cpu, or in builds with --config=cuda, cuda.");
ABSL_FLAG(int, threads, 0, "CPU threads; 0: one for each core.");

namespace zeroth {

absl::StatusOr<LoadModelOptions> ParseModelFlags(absl::string_view usage, int argc, char** argv) {
  ZEROTH_RETURN_IF_ERROR(ParseFlags(usage, "tools/", "--model=DIRECTORY", argc, argv));
  LoadModelOptions options;
  options.model = absl::GetFlag(FLAGS_model);
  options.base = absl::GetFlag(FLAGS_base);
  options.tokenizer = absl::GetFlag(FLAGS_tokenizer);
  options.parse_special = absl::GetFlag(FLAGS_parse_special);
  options.precision = absl::GetFlag(FLAGS_precision);
  options.device = absl::GetFlag(FLAGS_device);
  options.threads = absl::GetFlag(FLAGS_threads);
  return options;
}

absl::StatusOr<std::unique_ptr<LoadedModel>> LoadedModel::Open(const LoadModelOptions& options) {
  if (options.model.empty()) {
    return absl::InvalidArgumentError(
        "--model is missing: name a Hugging Face directory, a GGUF file, a checkpoint of the "
        "trainer "
        "(step-N) or an adapter of PEFT's, as in --model=zeroth_out/latest/final");
  }
  const absl::StatusOr<DType> dtype = ParseDType(options.precision);
  if (!dtype.ok() || !IsFloatingPoint(*dtype)) {
    return InvalidArgument("--precision=", options.precision, ": expected fp32, bf16 or fp16");
  }
  ZEROTH_ASSIGN_OR_RETURN(HfDirectory directory, OpenModel(options.model, options.base));
  const std::string path = directory.path();
  ZEROTH_ASSIGN_OR_RETURN(
      ModelSource source,
      ModelSource::FromDirectory(absl::StrCat("--model=", options.model), std::move(directory)));
  std::unique_ptr<LoadedModel> loaded(new LoadedModel(options, path, std::move(source)));
  DeviceOptions device;
  device.threads = options.threads > 0 ? options.threads : DefaultThreadsPerRank(1);
  auto created = DeviceRegistry::Create(options.device, device);
  if (!created.ok()) return Annotate(WithBuildHint(created.status()), "--device");
  loaded->device_ = *std::move(created);
  loaded->device_->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(
      loaded->kernels_,
      KernelRegistry::Create(*loaded->device_, loaded->device_->compute_stream()));
  loaded->tape_.set_recording(false);
  loaded->context_ = std::make_unique<Context>(*loaded->device_, *loaded->kernels_, loaded->tape_);
  ZEROTH_ASSIGN_OR_RETURN(loaded->model_, loaded->source_.Build());
  ZEROTH_RETURN_IF_ERROR(loaded->ReadWeights(*dtype));
  return loaded;
}

absl::Status LoadedModel::ReadWeights(DType dtype) {
  const ParameterReader read = source_.Reader(/*seed=*/0);
  for (Parameter* parameter : model_->Parameters()) {
    std::vector<float> values(static_cast<size_t>(parameter->numel()));
    ZEROTH_RETURN_IF_ERROR(read(*parameter, 0, absl::MakeSpan(values)));
    ZEROTH_ASSIGN_OR_RETURN(Tensor data, Tensor::Empty(*device_, parameter->shape(), dtype,
                                                       MemoryCategory::kParameters));
    ZEROTH_RETURN_IF_ERROR(SetFromHostFloats(values, data));
    parameter->set_data(std::move(data));
  }
  return absl::OkStatus();
}

TrainOptions LoadedModel::TokenizerOptions() const {
  TrainOptions options;
  options.tokenizer = options_.tokenizer;
  options.parse_special = options_.parse_special;
  return options;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadedModel::OpenTokenizer() const {
  return source_.OpenTokenizer(TokenizerOptions(), /*has_text=*/true);
}

absl::StatusOr<std::string> LoadedModel::TokenizerIdentity() const {
  ZEROTH_ASSIGN_OR_RETURN(TokenizerContent content, source_.ReadTokenizer(TokenizerOptions()));
  return std::move(content.identity);
}

absl::StatusOr<ChatTemplate> LoadedModel::OpenChat(const std::string& choice,
                                                   const Tokenizer& tokenizer) const {
  return OpenChatTemplate(choice, TokenizerPath(), tokenizer, TokenizerOwner());
}

std::string LoadedModel::TokenizerOwner() const {
  return options_.tokenizer == "auto" ? source_.tokenizer_owner() : "";
}

std::string LoadedModel::TokenizerPath() const {
  return options_.tokenizer == "auto" ? source_.tokenizer_path() : options_.tokenizer;
}

absl::StatusOr<std::vector<int32_t>> LoadedModel::StopTokens(const Tokenizer& tokenizer) const {
  std::vector<int32_t> stop = zeroth::StopTokens(source_.config(), tokenizer);
  const std::string path = absl::StrCat(directory_, "/generation_config.json");
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return stop;
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json config, ReadJsonFile(path));
  const std::vector<int32_t> more = zeroth::StopTokens(config, tokenizer);
  stop.insert(stop.end(), more.begin(), more.end());
  return stop;
}

absl::StatusOr<Tensor> LoadedModel::Logits(absl::Span<const int32_t> tokens, int64_t from,
                                           KeyValueCache* cache) {
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor input,
      Tensor::FromHost<int32_t>(*device_, Shape({1, static_cast<int64_t>(tokens.size())}), tokens,
                                MemoryCategory::kActivations));
  return model_->Logits(*context_, input, from, cache);
}

absl::StatusOr<std::vector<float>> LoadedModel::Logits(const Batch& batch) {
  const auto upload = [&](const std::vector<int32_t>& values) {
    return Tensor::FromHost<int32_t>(*device_, Shape({batch.batch, batch.seq}),
                                     absl::MakeConstSpan(values), MemoryCategory::kActivations);
  };
  ZEROTH_ASSIGN_OR_RETURN(const Tensor input, upload(batch.inputs));
  Tensor starts;
  if (!batch.starts.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(starts, upload(batch.starts));
  }
  context_->set_document_starts(starts);
  const absl::StatusOr<Tensor> logits = model_->Logits(*context_, input, 0, nullptr);
  context_->set_document_starts(Tensor());
  ZEROTH_RETURN_IF_ERROR(logits.status());
  return logits->ToHost<float>();
}

absl::StatusOr<double> LoadedModel::NegativeLogLikelihood(absl::Span<const int32_t> tokens,
                                                          int64_t from) {
  const auto count = static_cast<int64_t>(tokens.size());
  if (from < 1 || from > count) {
    return InvalidArgument("likelihood of the tokens from ", from, " of ", count,
                           ", expected 1 to ", count);
  }
  if (from == count) return 0.0;
  std::vector<int32_t> targets(tokens.begin() + 1, tokens.end());
  std::fill_n(targets.begin(), from - 1, kIgnoredTarget);
  const Shape shape({1, count - 1});
  ZEROTH_ASSIGN_OR_RETURN(const Tensor input, Tensor::FromHost<int32_t>(
                                                  *device_, shape, tokens.first(tokens.size() - 1),
                                                  MemoryCategory::kActivations));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor target,
                          Tensor::FromHost<int32_t>(*device_, shape, absl::MakeConstSpan(targets),
                                                    MemoryCategory::kActivations));
  ZEROTH_ASSIGN_OR_RETURN(const Value loss, model_->Loss(*context_, input, target));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> mean, loss.data.ToHost<float>());
  return static_cast<double>(mean[0]) * static_cast<double>(count - from);
}

}  // namespace zeroth
