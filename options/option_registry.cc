// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/options/option_registry.h"

// toml++ then returns errors as values.
#define TOML_EXCEPTIONS 0

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/flags/marshalling.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "toml.hpp"

#include "zeroth/core/base/byte_count.h"
#include "zeroth/core/base/did_you_mean.h"
#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/temporary_path.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/optim/outlier_detector.h"

namespace zeroth {
namespace {

constexpr bool kDecides = true;
constexpr bool kKeeps = false;

// The terms in which options.inc gives the allowed values.
AllowedValues Any() { return {}; }
AllowedValues AtLeast(double least, const char* expected = nullptr) {
  return {.least = least, .or_value = least, .expected = expected};
}
AllowedValues AtLeastOr(double least, double or_value) {
  return {.least = least, .or_value = or_value};
}
// 0 <= value < below.
AllowedValues Below(double below) { return {.least = 0, .below = below, .or_value = 0}; }
AllowedValues OneOf(const char* words, const char* old_word = nullptr,
                    const char* new_word = nullptr) {
  return {.words = words, .old_word = old_word, .new_word = new_word};
}
AllowedValues Parsed(bool (*parses)(absl::string_view), const char* expected) {
  return {.parses = parses, .expected = expected};
}

bool IsTimeout(absl::string_view text) { return ParseTimeout(text).ok(); }
bool IsByteCount(absl::string_view text) { return ParseByteCount(text).ok(); }
bool IsOffload(absl::string_view text) { return ParseOffload(text).ok(); }
bool IsTrace(absl::string_view text) { return text.empty() || ParseStepRange(text).has_value(); }
bool IsReshard(absl::string_view text) {
  int group = 0;
  return text == "true" || text == "false" || (absl::SimpleAtoi(text, &group) && group > 0);
}
bool IsChatTemplate(absl::string_view text) {
  return text == "auto" || text == "chatml" || text == "llama3" || text == "mistral" ||
         absl::EndsWith(text, ".jinja");
}
bool IsLossScale(absl::string_view text) {
  double scale = 0;
  return text == "auto" || text == "dynamic" || absl::SimpleAtod(text, &scale);
}
bool AreTargets(absl::string_view text) {
  for (const absl::string_view target : absl::StrSplit(text, ',')) {
    if (absl::StripAsciiWhitespace(target).empty()) return false;
  }
  return true;
}

std::vector<Option> MakeOptions() {
  std::vector<Option> options;
  const char* group = "";
#define GROUP(text) group = text;
#define OPTION(type, name, default_value, decides_results, allowed, help) \
  options.push_back({#name, group, decides_results, allowed, help, &TrainOptions::name});
#include "zeroth/options/options.inc"
  return options;
}

// Calls `visit` with the option's field.
template <typename Options, typename Visit>
auto VisitField(const Option& option, Options& options, Visit visit) {
  return std::visit([&](auto field) { return visit(options.*field); }, option.field);
}

bool Allows(const AllowedValues& allowed, const std::string& value) {
  if (allowed.parses != nullptr) return allowed.parses(value);
  if (allowed.words == nullptr) return true;
  const std::vector<absl::string_view> words = absl::StrSplit(allowed.words, ' ');
  return std::find(words.begin(), words.end(), value) != words.end();
}
template <typename Number>
bool Allows(const AllowedValues& allowed, Number value) {
  const double number = static_cast<double>(value);
  return number == allowed.or_value ||
         (std::isfinite(number) && number >= allowed.least && number < allowed.below);
}

std::string ListWords(const char* text) {
  std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  const absl::string_view last = words.back();
  words.pop_back();
  return absl::StrCat(absl::StrJoin(words, ", "), " or ", last);
}

template <typename T>
std::string ExpectedOf(const AllowedValues& allowed, const T&) {
  if (allowed.expected != nullptr) return allowed.expected;
  if (allowed.words != nullptr) return ListWords(allowed.words);
  if (std::is_same_v<T, std::string>) return "";
  if (std::is_same_v<T, bool>) return "true or false";
  std::string text = std::is_integral_v<T> ? "a whole number" : "a finite number";
  const double least = std::is_unsigned_v<T> ? 0 : allowed.least;
  if (least > AllowedValues().least) absl::StrAppend(&text, " of at least ", least);
  if (std::isfinite(allowed.below)) absl::StrAppend(&text, " and below ", allowed.below);
  if (allowed.or_value != allowed.least) absl::StrAppend(&text, ", or ", allowed.or_value);
  return text;
}

absl::Status NotExpected(const Option& option) {
  const AllowedValues& allowed = option.allowed;
  std::string renamed;
  if (allowed.old_word != nullptr) {
    renamed = absl::StrCat("; ", allowed.old_word, " is called ", allowed.new_word, " now");
  }
  return InvalidArgument("expected ", Expected(option), renamed);
}

// Flags here, and their names in transformers, PyTorch's recipes and FSDP, DeepSpeed, Megatron-LM,
// nanoGPT, llm.c and earlier versions of Zeroth.
constexpr NamedElsewhere kElsewhere[] = {
    {"--steps", "max_steps max_iters train_iters num_steps iterations"},
    {"--epochs", "num_train_epochs num_epochs"},
    {"--lr", "learning_rate max_lr"},
    {"--min_lr", "min_learning_rate"},
    {"--lr_schedule", "lr_scheduler_type lr_scheduler lr_decay_style"},
    {"--warmup_steps", "warmup warmup_iters lr_warmup_iters num_warmup_steps"},
    {"--batch_size",
     "per_device_train_batch_size train_batch_size micro_batch_size "
     "train_micro_batch_size_per_gpu"},
    {"--grad_accum", "gradient_accumulation_steps accumulate_grad_batches"},
    {"--seq_len",
     "block_size max_length max_seq_length max_seq_len seq_length sequence_length context_length"},
    {"--beta1", "adam_beta1"},
    {"--beta2", "adam_beta2"},
    {"--eps", "adam_epsilon adam_eps epsilon"},
    {"--weight_decay", "wd"},
    {"--clip_grad_norm", "max_grad_norm gradient_clip_val gradient_clipping grad_clip clip_grad"},
    {"--param_dtype=bf16 --reduce_dtype=bf16", "bf16"},
    {"--param_dtype=fp16", "fp16"},
    {"--fp32_precision=tf32", "tf32"},
    {"--param_dtype", "dtype precision mixed_precision torch_dtype"},
    {"--activation_checkpointing=block",
     "gradient_checkpointing recompute_activations checkpoint_activations"},
    {"--gather_buffers (a number of them)", "limit_all_gathers"},
    {"--strategy=full_shard", "fsdp"},
    {"--strategy", "sharding_strategy"},
    {"--strategy (1: shard_optimizer, 2: shard_grad_op, 3: full_shard)", "zero_stage stage"},
    {"--offload=all", "cpu_offload"},
    {"--offload=optimizer", "offload_optimizer"},
    {"--offload=parameters", "offload_param"},
    {"--comm", "backend distributed_backend"},
    {"--world_size", "nproc_per_node num_processes num_gpus gpus"},
    {"--init_from", "model_name_or_path pretrained_model"},
    {"--model (from scratch) or --init_from (a directory)", "model_name"},
    {"--tokenizer", "tokenizer_name tokenizer_path"},
    {"--data", "dataset dataset_name train_file train_data data_path data_dir input"},
    {"--eval_data", "validation_file val_data"},
    {"--eval_fraction", "validation_split val_size test_size"},
    {"--eval_every", "eval_steps eval_interval"},
    {"--eval_batches", "eval_iters"},
    {"--out", "output_dir out_dir save"},
    {"--overwrite", "overwrite_output_dir"},
    {"--checkpoint_every", "save_steps save_interval checkpoint_interval"},
    {"--keep_last", "save_total_limit"},
    {"--resume", "resume_from_checkpoint load"},
    {"--log_every", "logging_steps log_interval"},
    {"--lora_rank", "lora_r use_lora"},
    {"--lora_targets", "lora_target_modules"},
    {"--ema_decay", "use_ema"},
    {"--trace", "profile"},
};

constexpr size_t kMostBytes = size_t{1} << 20;

// Returns the value in the spelling of a flag, or nullopt if its type is not the option's.
std::optional<std::string> FlagText(const Option& option, const toml::node& node) {
  const auto is = [&](auto field) { return std::holds_alternative<decltype(field)>(option.field); };
  const bool is_text = is(&TrainOptions::data);
  const bool is_bool = is(&TrainOptions::shuffle);
  // A seed may be too large for an integer of TOML, and is text then.
  if (node.is_string() && (is_text || is(&TrainOptions::seed))) return node.ref<std::string>();
  if (node.is_boolean() && is_bool) return absl::UnparseFlag(node.ref<bool>());
  if (node.is_integer() && !is_text && !is_bool) return absl::UnparseFlag(node.ref<int64_t>());
  if (node.is_floating_point() && is(&TrainOptions::lr)) {
    return absl::UnparseFlag(node.ref<double>());
  }
  return std::nullopt;
}

absl::Status SetFromNode(const std::string& key, const toml::node& node, TrainOptions& options) {
  const Option* const option = FindOption(key);
  if (option == nullptr) {
    return InvalidArgument("there is no option ", Shorten(key), DidYouMean(Shorten(key)),
                           node.is_table() ? "; keys are names of flags, without sections" : "");
  }
  if (const std::optional<std::string> text = FlagText(*option, node)) {
    return Annotate(SetOption(*option, *text, options), absl::StrCat(key, " = ", Shorten(*text)));
  }
  std::ostringstream type;
  type << node.type();
  std::string expected = Expected(*option);
  if (std::holds_alternative<std::string TrainOptions::*>(option->field)) {
    absl::StrAppend(&expected, expected.empty() ? "text in quotes" : ", in quotes");
  }
  return InvalidArgument(key, " is of type ", type.str(), ", expected ", expected);
}

}  // namespace

const std::vector<Option>& AllOptions() {
  static const std::vector<Option>& options = *new std::vector<Option>(MakeOptions());
  return options;
}

const Option* FindOption(absl::string_view name) {
  for (const Option& option : AllOptions()) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

nlohmann::json OptionValue(const Option& option, const TrainOptions& options) {
  return VisitField(option, options, [](const auto& value) -> nlohmann::json { return value; });
}

std::string OptionText(const Option& option, const TrainOptions& options) {
  return VisitField(option, options, [](const auto& value) {
    std::string text = absl::UnparseFlag(value);
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, double>) {
      // Abseil tries 15 digits and then prints 17, although 16 may read back as the same number.
      const std::string shorter = absl::StrFormat("%.16g", value);
      double read = 0;
      if (shorter.size() < text.size() && absl::SimpleAtod(shorter, &read) && read == value) {
        text = shorter;
      }
    }
    return text;
  });
}

std::string Expected(const Option& option) {
  const TrainOptions any;
  return VisitField(option, any,
                    [&](const auto& value) { return ExpectedOf(option.allowed, value); });
}

absl::Status CheckOption(const Option& option, const TrainOptions& options) {
  const bool allowed =
      VisitField(option, options, [&](const auto& value) { return Allows(option.allowed, value); });
  return allowed ? absl::OkStatus() : NotExpected(option);
}

absl::Status SetOption(const Option& option, absl::string_view text, TrainOptions& options) {
  std::string error;
  const bool parsed = VisitField(
      option, options, [&](auto& value) { return absl::ParseFlag(text, &value, &error); });
  return parsed ? CheckOption(option, options) : NotExpected(option);
}

std::string DidYouMean(absl::string_view unknown) {
  std::vector<std::string> options;
  for (const Option& option : AllOptions()) options.push_back(option.name);
  return DidYouMean(unknown, kElsewhere, options, "--");
}

absl::Status ReadConfig(const std::string& path, TrainOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMostBytes));
  const toml::parse_result parsed = toml::parse(std::string_view(text), std::string_view(path));
  if (!parsed) {
    const toml::source_position place = parsed.error().source().begin;
    return InvalidArgument(path, ":", place.line, ":", place.column, ": ",
                           std::string(parsed.error().description()),
                           "; expected lines of TOML as steps = 500, each key once");
  }
  std::vector<std::pair<int64_t, std::string>> wrong;  // by line
  for (const auto& [key, node] : parsed.table()) {
    const absl::Status status = SetFromNode(std::string(key.str()), node, options);
    if (!status.ok()) wrong.emplace_back(key.source().begin.line, status.message());
  }
  if (wrong.empty()) return absl::OkStatus();
  std::sort(wrong.begin(), wrong.end());
  return absl::InvalidArgumentError(
      absl::StrJoin(wrong, "\n  ", [&](std::string* out, const auto& error) {
        absl::StrAppend(out, path, ":", error.first, ": ", error.second);
      }));
}

std::string ConfigText(const TrainOptions& options) {
  std::string text =
      "# All options of a run: --config=FILE --out=OTHER repeats the run, flags override.\n";
  std::string group;
  for (const Option& option : AllOptions()) {
    if (option.group != group) {
      group = option.group;
      absl::StrAppend(&text, "\n# ", group, "\n");
    }
    nlohmann::json value = OptionValue(option, options);
    // TOML has no larger integers.
    if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) {
      value = OptionText(option, options);
    }
    // JSON's texts, numbers and booleans are valid TOML, except for one character.
    const std::string json = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    absl::StrAppend(&text, option.name, " = ", absl::StrReplaceAll(json, {{"\x7f", "\\u007f"}}),
                    "\n");
  }
  return text;
}

absl::Status WriteConfig(const std::string& directory, const TrainOptions& options) {
  return ReplaceFile(absl::StrCat(directory, "/", kConfigName), ConfigText(options));
}

}  // namespace zeroth
