// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/command_line.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/chat/chat_template.h"
#include "zeroth/data/chat/conversations.h"
#include "zeroth/data/data_files.h"
#include "zeroth/data/documents.h"
#include "zeroth/data/open_data.h"
#include "zeroth/tools/evaluate/evaluate.h"
#include "zeroth/tools/evaluate/topk.h"
#include "zeroth/tools/model/loaded_model.h"

ABSL_FLAG(std::string, data, "",
          "Data to measure the perplexity of: text, JSON lines or token files, as --data of the "
          "trainer.");
ABSL_FLAG(std::string, cache_dir, "auto",
          "Where encoded text is cached, as --cache_dir of the trainer: a directory; auto: "
          ".zeroth_cache beside the data; none: no cache.");
ABSL_FLAG(int64_t, seq_len, 0, "Tokens of a window; 0: the number of the model's positions.");
ABSL_FLAG(int64_t, stride, 0,
          "Tokens between the beginnings of two windows; 0: half of --seq_len.");
ABSL_FLAG(std::string, multiple_choice, "",
          "JSON lines of questions in HellaSwag's format: ctx, endings and label.");
ABSL_FLAG(std::string, pairs, "",
          "Preference pairs, records with a chosen and a rejected answer, as --data of the trainer "
          "with an --objective of pairs.");
ABSL_FLAG(std::string, chat_template, "auto",
          "How pairs of messages are written, as --chat_template of the trainer.");
ABSL_FLAG(std::string, write_topk, "",
          "Instead of measuring --data, write to this new directory which tokens the model finds "
          "likeliest after each of them, for --teacher_topk of the trainer. Takes --data, "
          "--seq_len, --tokenizer and --chat_template of the training run.");
ABSL_FLAG(int64_t, topk, 64, "With --write_topk, how many tokens.");
ABSL_FLAG(int64_t, limit, 0, "Use only this many questions, the first ones; 0: all.");
ABSL_FLAG(bool, json, false, "Print the numbers as a JSON object, for programs.");

namespace zeroth {
namespace {

// Returns the model's LikelihoodFunction, which prints progress to stderr every ten seconds.
// `about` is roughly how many sequences there will be; 0: unknown.
std::function<absl::StatusOr<double>(absl::Span<const int32_t>, int64_t)> LikelihoodOf(
    LoadedModel& loaded, int64_t about = 0) {
  const std::string of = about > 0 ? absl::StrFormat(" of about %d", about) : "";
  return [&loaded, of, sequences = int64_t{0}, said = absl::Now()](absl::Span<const int32_t> tokens,
                                                                   int64_t from) mutable {
    ++sequences;
    if (absl::Now() - said >= absl::Seconds(10)) {
      said = absl::Now();
      absl::FPrintF(stderr, "%d%s sequences\n", sequences, of);
    }
    return loaded.NegativeLogLikelihood(tokens, from);
  };
}

// Conversations are refused: the trainer packs them into its own sequences, and only the
// assistant's tokens count.
absl::Status RefuseConversations(const std::string& spec) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<DataFile> files, FindDataFiles(spec));
  if (!IsText(files[0].kind)) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const std::optional<RecordKind> kind, KindOfFirstRecord(files[0]));
  if (kind.value_or(RecordKind::kText) == RecordKind::kText) return absl::OkStatus();
  return InvalidArgument("--data=", spec, " holds ", NameOf(*kind),
                         " records, expected text or tokens; the trainer measures these, by "
                         "--eval_data and --steps=0");
}

// Returns the options of --data, as the trainer's.
absl::StatusOr<DataOptions> OptionsOfData(LoadedModel& loaded, const Tokenizer* tokenizer) {
  DataOptions options;
  options.tokenizer = tokenizer;
  options.vocab_size = static_cast<int32_t>(loaded.model().vocab_size());
  options.cache_dir = absl::GetFlag(FLAGS_cache_dir);
  if (tokenizer != nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(options.tokenizer_identity, loaded.TokenizerIdentity());
  }
  return options;
}

absl::Status PrintTopK(LoadedModel& loaded, const Tokenizer* tokenizer, const std::string& model) {
  ZEROTH_ASSIGN_OR_RETURN(DataOptions data_options, OptionsOfData(loaded, tokenizer));
  TopKOptions options;
  options.directory = absl::GetFlag(FLAGS_write_topk);
  options.teacher = model;
  options.k = absl::GetFlag(FLAGS_topk);
  // Logits of rows that pad an embedding mean nothing.
  options.vocab_size = loaded.model().vocab_size();
  if (tokenizer != nullptr) {
    options.vocab_size = std::min<int64_t>(options.vocab_size, tokenizer->vocab_size());
  }
  options.loader.seq_len = absl::GetFlag(FLAGS_seq_len);
  if (options.loader.seq_len == 0) {
    return absl::InvalidArgumentError(
        "--write_topk needs --seq_len: that of the runs that will learn from the teacher");
  }
  data_options.chat_template = absl::GetFlag(FLAGS_chat_template);
  data_options.tokenizer_path = loaded.TokenizerPath();
  data_options.tokenizer_owner = loaded.TokenizerOwner();
  data_options.seq_len = options.loader.seq_len;
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<const Mixture> data,
                          OpenMixture(absl::GetFlag(FLAGS_data), data_options));
  for (const std::string& note : data->notes()) absl::FPrintF(stderr, "%s\n", note);
  // The same choice as --attend_within=auto of the trainer.
  options.loader.documents = data->has_marks() && loaded.model().TakesDocuments();
  if (tokenizer != nullptr) options.loader.end_of_text = tokenizer->end_of_text();
  absl::Time said = absl::Now();
  int64_t sequences = 0;
  const int64_t about = data->tokens() / std::max<int64_t>(1, options.loader.seq_len);
  const auto logits = [&](const Batch& batch) {
    ++sequences;
    if (absl::Now() - said >= absl::Seconds(10)) {
      said = absl::Now();
      absl::FPrintF(stderr, "%d of about %d sequences\n", sequences, about);
    }
    return loaded.Logits(batch);
  };
  ZEROTH_ASSIGN_OR_RETURN(const int64_t written, WriteTopK(*data, options, logits));
  absl::PrintF("wrote the %d likeliest of each token in %d sequences of %d to %s\n", options.k,
               written, options.loader.seq_len, options.directory);
  return absl::OkStatus();
}

// Each Print adds its numbers to `json`, and prints them as text unless --json is given.
absl::Status PrintPerplexity(LoadedModel& loaded, const Tokenizer* tokenizer,
                             nlohmann::json& json) {
  ZEROTH_RETURN_IF_ERROR(RefuseConversations(absl::GetFlag(FLAGS_data)));
  ZEROTH_ASSIGN_OR_RETURN(const DataOptions options, OptionsOfData(loaded, tokenizer));
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<const TokenSource> data,
                          OpenData(absl::GetFlag(FLAGS_data), options));
  for (const std::string& note : data->notes()) absl::FPrintF(stderr, "%s\n", note);
  WindowOptions windows;
  windows.length = absl::GetFlag(FLAGS_seq_len);
  if (windows.length == 0) windows.length = loaded.model().max_seq_len();
  windows.stride = absl::GetFlag(FLAGS_stride);
  if (windows.stride == 0) windows.stride = std::max<int64_t>(1, windows.length / 2);
  // MeasurePerplexity refuses a stride below 1.
  const auto likelihood = LikelihoodOf(loaded, data->size() / std::max<int64_t>(1, windows.stride));
  ZEROTH_ASSIGN_OR_RETURN(const Perplexity found, MeasurePerplexity(*data, windows, likelihood));
  json["perplexity"] = std::exp(found.mean);
  json["mean_loss"] = found.mean;
  json["tokens"] = found.tokens;
  json["windows"] = found.windows;
  json["seq_len"] = windows.length;
  json["stride"] = windows.stride;
  if (absl::GetFlag(FLAGS_json)) return absl::OkStatus();
  absl::PrintF(
      "perplexity %.6g: -log p is %.6f on average of %d tokens, in %d windows of %d at a "
      "stride of %d\n",
      std::exp(found.mean), found.mean, found.tokens, found.windows, windows.length,
      windows.stride);
  return absl::OkStatus();
}

// `began`: when the measurement did.
nlohmann::json ScoresJson(const ChoiceScores& scores, const char* what, absl::Time began) {
  return {{"accuracy", scores.accuracy},
          {"accuracy_error", scores.StandardError(scores.accuracy)},
          {"normalized_accuracy", scores.normalized_accuracy},
          {"normalized_accuracy_error", scores.StandardError(scores.normalized_accuracy)},
          {what, scores.questions},
          {"tokens", scores.tokens},
          {"seconds", absl::ToDoubleSeconds(absl::Now() - began)}};
}

absl::Status PrintChoices(LoadedModel& loaded, const Tokenizer& tokenizer, nlohmann::json& json) {
  ZEROTH_ASSIGN_OR_RETURN(
      const std::vector<Question> questions,
      ReadQuestions(absl::GetFlag(FLAGS_multiple_choice), absl::GetFlag(FLAGS_limit)));
  const auto likelihood = LikelihoodOf(loaded);
  const absl::Time began = absl::Now();
  ZEROTH_ASSIGN_OR_RETURN(
      const ChoiceScores found,
      MeasureChoices(questions, tokenizer, loaded.model().max_seq_len(), likelihood));
  json["multiple_choice"] = ScoresJson(found, "questions", began);
  if (absl::GetFlag(FLAGS_json)) return absl::OkStatus();
  absl::PrintF(
      "acc %.4f ± %.4f, acc_norm %.4f ± %.4f of %d questions, %d tokens scored in %.1f s\n",
      found.accuracy, found.StandardError(found.accuracy), found.normalized_accuracy,
      found.StandardError(found.normalized_accuracy), found.questions, found.tokens,
      absl::ToDoubleSeconds(absl::Now() - began));
  return absl::OkStatus();
}

absl::Status PrintPairs(LoadedModel& loaded, const Tokenizer& tokenizer, nlohmann::json& json) {
  const std::string spec = absl::GetFlag(FLAGS_pairs);
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<DataFile> files, FindDataFiles(spec));
  const absl::StatusOr<ChatTemplate> chat =
      loaded.OpenChat(absl::GetFlag(FLAGS_chat_template), tokenizer);
  // Pairs of plain text need no template.
  if (!chat.ok() && !absl::IsNotFound(chat.status())) return chat.status();
  ConversationOptions options;
  options.seq_len = absl::GetFlag(FLAGS_seq_len);
  if (options.seq_len == 0) options.seq_len = loaded.model().max_seq_len();
  options.pairs = true;
  ZEROTH_ASSIGN_OR_RETURN(
      const std::shared_ptr<const TokenSource> rows,
      EncodeConversations(files, chat.ok() ? &*chat : nullptr, tokenizer, options));
  for (const std::string& note : rows->notes()) absl::FPrintF(stderr, "%s\n", note);
  const auto likelihood = LikelihoodOf(loaded);
  const absl::Time began = absl::Now();
  ZEROTH_ASSIGN_OR_RETURN(const ChoiceScores found, MeasurePairs(*rows, likelihood));
  json["pairs"] = ScoresJson(found, "pairs", began);
  if (absl::GetFlag(FLAGS_json)) return absl::OkStatus();
  absl::PrintF(
      "chosen is likelier: %.4f ± %.4f by log p, %.4f ± %.4f by log p per token, of %d pairs, %d "
      "tokens scored in %.1f s\n",
      found.accuracy, found.StandardError(found.accuracy), found.normalized_accuracy,
      found.StandardError(found.normalized_accuracy), found.questions, found.tokens,
      absl::ToDoubleSeconds(absl::Now() - began));
  return absl::OkStatus();
}

// Refuses flags that would have no effect on what is measured or written.
absl::Status CheckFlagsHaveEffect() {
  const bool has_data = !absl::GetFlag(FLAGS_data).empty();
  const bool has_questions = !absl::GetFlag(FLAGS_multiple_choice).empty();
  const bool has_pairs = !absl::GetFlag(FLAGS_pairs).empty();
  const bool writes = !absl::GetFlag(FLAGS_write_topk).empty();
  const struct {
    absl::string_view flag;
    bool is_given;
    bool has_effect;
    absl::string_view needs;
  } flags[] = {
      {"--chat_template", absl::GetFlag(FLAGS_chat_template) != "auto", has_pairs || writes,
       "--pairs or --write_topk"},
      {"--topk", absl::GetFlag(FLAGS_topk) != 64, writes, "--write_topk"},
      {"--limit", absl::GetFlag(FLAGS_limit) != 0, has_questions, "--multiple_choice"},
      {"--stride", absl::GetFlag(FLAGS_stride) != 0, has_data, "--data"},
      {"--cache_dir", absl::GetFlag(FLAGS_cache_dir) != "auto", has_data, "--data"},
      {"--seq_len", absl::GetFlag(FLAGS_seq_len) != 0, has_data || has_pairs, "--data or --pairs"}};
  for (const auto& [flag, is_given, has_effect, needs] : flags) {
    if (is_given && !has_effect) {
      return InvalidArgument(flag, " needs ", needs, "; give it, or leave out ", flag);
    }
  }
  return absl::OkStatus();
}

absl::Status RunEvaluate(int argc, char** argv) {
  ZEROTH_ASSIGN_OR_RETURN(
      const LoadModelOptions load,
      ParseModelFlags(
          "Measures a model's perplexity on a text, how often it picks the right ending, and how "
          "often it prefers the chosen answer.\n\n"
          "  ./bazelw run //tools/evaluate -- --model=zeroth_out/latest/final --data=held_out.txt "
          "--stride=512\n"
          "  ./bazelw run //tools/evaluate -- --model=path/to/model "
          "--multiple_choice=hellaswag_val.jsonl\n"
          "  ./bazelw run //tools/evaluate -- --model=path/to/model --pairs=held_out.jsonl",
          argc, argv));
  const bool has_data = !absl::GetFlag(FLAGS_data).empty();
  const bool has_questions = !absl::GetFlag(FLAGS_multiple_choice).empty();
  const bool has_pairs = !absl::GetFlag(FLAGS_pairs).empty();
  if (!has_data && !has_questions && !has_pairs) {
    return absl::InvalidArgumentError(
        "nothing to measure: give --data for perplexity, or --multiple_choice or --pairs for "
        "accuracy");
  }
  const bool writes = !absl::GetFlag(FLAGS_write_topk).empty();
  if (writes && (!has_data || has_questions || has_pairs || absl::GetFlag(FLAGS_json) ||
                 absl::GetFlag(FLAGS_stride) != 0)) {
    return absl::InvalidArgumentError(
        "--write_topk takes --data alone: without --multiple_choice, --pairs, --stride and --json");
  }
  ZEROTH_RETURN_IF_ERROR(CheckFlagsHaveEffect());
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedModel> loaded, LoadedModel::Open(load));
  const absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = loaded->OpenTokenizer();
  // Token files need no tokenizer.
  const bool may_lack = !has_questions && !has_pairs && load.tokenizer == "auto";
  if (!tokenizer.ok() && !may_lack) return tokenizer.status();
  if (writes) {
    return PrintTopK(*loaded, tokenizer.ok() ? tokenizer->get() : nullptr, load.model);
  }
  nlohmann::json json;
  if (has_data) {
    ZEROTH_RETURN_IF_ERROR(
        PrintPerplexity(*loaded, tokenizer.ok() ? tokenizer->get() : nullptr, json));
  }
  if (has_questions) ZEROTH_RETURN_IF_ERROR(PrintChoices(*loaded, **tokenizer, json));
  if (has_pairs) ZEROTH_RETURN_IF_ERROR(PrintPairs(*loaded, **tokenizer, json));
  if (absl::GetFlag(FLAGS_json)) absl::PrintF("%s\n", json.dump(2));
  return absl::OkStatus();
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  return zeroth::RunProgram([&] { return zeroth::RunEvaluate(argc, argv); });
}
