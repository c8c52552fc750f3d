// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/decoder/harmless_keys.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr absl::string_view kHarmless[] = {
    // Keys about the origin of the file.
    "_commit_hash", "_name_or_path", "_rope_version", "architectures", "model_type", "name_or_path",
    "tokenizer_class", "torch_dtype", "dtype", "transformers_version", "unsloth_fixed",
    "unsloth_version",
    // Keys that transformers does not read: of nanotron (SmolLM2), of transformers.js, and of early
    // conversions of Llama.
    "is_llama_config", "max_sequence_length", "transformers.js_config",
    // Other ways to compute the same result.
    "_attn_implementation", "_attn_implementation_autoset", "_flash_attn_2_enabled",
    "attn_implementation", "chunk_size_feed_forward", "gradient_checkpointing", "pretraining_tp",
    "reorder_and_upcast_attn", "torchscript", "use_bfloat16", "use_cache",
    // Outputs that are returned.
    "output_attentions", "output_hidden_states", "return_dict", "use_return_dict",
    // Tokens and generation.
    "bad_words_ids", "begin_suppress_tokens", "bos_token_id", "decoder_start_token_id",
    "diversity_penalty", "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
    "eos_token_id", "exponential_decay_length_penalty", "forced_bos_token_id",
    "forced_eos_token_id", "length_penalty", "max_length", "max_new_tokens", "min_length",
    "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences", "output_scores",
    "pad_token_id", "prefix", "remove_invalid_values", "repetition_penalty",
    "return_dict_in_generate", "sep_token_id", "suppress_tokens", "temperature", "top_k", "top_p",
    "typical_p", "unk_token_id",
    // Other tasks.
    "_num_labels", "cross_attention_hidden_size", "finetuning_task", "id2label", "is_decoder",
    "label2id", "num_labels", "problem_type", "task_specific_params", "tf_legacy_loss",
    "tie_encoder_decoder",
    // Dropout of training.
    "attention_dropout", "attn_pdrop", "embd_pdrop", "hidden_dropout", "resid_pdrop"};

}  // namespace

bool IsIgnoredConfigKey(absl::string_view key) {
  // GPT-2's head for classification has a group of keys.
  return absl::StartsWith(key, "summary_") ||
         std::find(std::begin(kHarmless), std::end(kHarmless), key) != std::end(kHarmless);
}

absl::Status CheckKeysOfOtherModels(const nlohmann::json& config) {
  struct Refusal {
    const char* key;
    const char* why;
  };
  for (const Refusal& refusal : {
           Refusal{"quantization_config",
                   "the weights are quantized; expected those of the original model, in fp32, bf16 "
                   "or fp16"},
           {"compression_config",
            "the weights are compressed; expected those of the original model"},
           {"auto_map",
            "code beside the model says what it computes; if that is what transformers itself "
            "computes for this model_type, remove the key"},
           {"pruned_heads", "some heads are removed from the weights; expected all"},
           {"is_encoder_decoder", "the model has an encoder; expected a decoder alone"},
           {"add_cross_attention", "the model attends to an encoder; expected a decoder alone"},
       }) {
    const auto found = config.find(refusal.key);
    const bool is_unset = found == config.end() || found->is_null() || *found == false ||
                          (found->is_structured() && found->empty());
    if (!is_unset) {
      return InvalidArgument("model configuration: '", refusal.key, "' is set: ", refusal.why);
    }
  }
  return absl::OkStatus();
}

}  // namespace zeroth
