// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Translates Hugging Face models to llama.cpp's terms and back: the names of tensors, config.json
// ("n_layer" is "gpt2.block_count", and so on), and the vocabulary.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/hf_config.h"
#include "zeroth/kernels/rope/rope.h"

namespace zeroth {

// The architecture of Qwen3.5's dense models.
inline constexpr char kQwen35[] = "qwen35";

// How a tensor's layout in GGUF differs from Hugging Face's.
enum class GgufLayout {
  kSame,
  // GPT-2's linear layers are [in, out] in Hugging Face and [out, in] in GGUF.
  kTransposed,
  // Llama's query and key projections: the rows of each query head, or each key-value head, are in
  // another order (Relayout::kInterleaveHalves converts to GGUF).
  kQueryRows,
  kKeyRows,
  // Norms of Gemma 2 and 3 and of Qwen3.5 scale by 1 + weight in Hugging Face; GGUF holds the sum.
  kPlusOne,
  // Qwen3.5's linear attention. Hugging Face has the value heads in grouped order: those of the
  // first key head, then those of the second, and so on. GGUF has them in tiled order: the first of
  // each key head, then the second of each.
  kValueRows,
  // The rows of queries and keys, which keep their order, followed by kValueRows.
  kLastValueRows,
  // The same rows; the kernel is [channels, 1, width] in Hugging Face, [channels, width] in GGUF.
  kConvKernel,
  // A number for each value head; Hugging Face holds A_log, and GGUF -exp(A_log).
  kALog,
  // The value heads are the columns.
  kValueColumns,
};

struct GgufTensorName {
  std::string name;
  GgufLayout layout = GgufLayout::kSame;
  // llama.cpp requires this tensor in F32, whatever the dtype of the others.
  bool always_float32 = false;
  // Index of the expert. Hugging Face has one tensor per expert; GGUF stacks the experts of a block
  // in one tensor.
  std::optional<int64_t> expert;
};

// OK if the names of this general.architecture are known: "gpt2", "llama", "qwen2", "qwen3",
// "qwen3moe", "qwen35", "gpt-oss", "olmo2", "phi3", "gemma2", "gemma3". Otherwise Unimplemented,
// with this list.
absl::Status CheckGgufArchitecture(absl::string_view architecture);
// Returns GGUF's architecture for a model_type of Hugging Face. The names are the same, except that
// Mistral and Mixtral are Llamas, "qwen3_moe" is "qwen3moe", "qwen3_5_text" is "qwen35", "gpt_oss"
// is "gpt-oss", and "gemma3_text" is "gemma3".
absl::string_view GgufArchitectureOf(absl::string_view model_type);
// Returns the naming scheme of a file's tensors: "mixtral" for a Llama with experts, and otherwise
// the architecture. The functions below take it as `naming`.
absl::StatusOr<std::string> GgufNamingOf(const GgufMetadata& metadata);

// Returns the GGUF name of a Hugging Face tensor. Empty for tensors that hold no parameters (masks
// and frequencies in old files). GPT-2's leading "transformer." may be absent, as in OpenAI's own
// files. InvalidArgument for a name outside the naming scheme.
absl::StatusOr<std::optional<GgufTensorName>> GgufNameOf(absl::string_view naming,
                                                         absl::string_view hf_name);

// The inverse of GgufNameOf: `name` of the result is Hugging Face's. Empty for "rope_freqs.weight":
// a Hugging Face directory stores these factors in config.json, not in a tensor. If the GGUF tensor
// stacks all experts, `expert` selects one.
absl::StatusOr<std::optional<GgufTensorName>> HfNameOf(absl::string_view naming,
                                                       absl::string_view gguf_name,
                                                       int64_t expert = 0);

// Returns 12 for GGUF's "blk.12.rest", and -1 for a tensor outside the blocks.
int64_t GgufBlockNumber(absl::string_view gguf_name);

// Returns the GGUF name of the first weight that a model of `blocks` blocks needs and `present`
// lacks; empty if the model is complete. A head that is `tied` to the embedding needs no weight.
// Every `interval`-th block of a "qwen35" has full attention, and the others linear attention.
absl::StatusOr<std::string> MissingGgufTensor(absl::string_view naming, int64_t blocks, bool tied,
                                              const std::set<std::string>& present,
                                              int64_t interval = 1);

inline constexpr char kGgufRopeFactors[] = "rope_freqs.weight";

// Llama 3.1 stretches rotary embeddings to longer contexts (a RopeSpec of type kLlama3). Hugging
// Face stores its four numbers, and GGUF the divisor of each frequency.
//
// Returns the divisors of the head_dim / 2 frequencies, the highest frequency first.
std::vector<float> Llama3RopeFactors(const RopeSpec& rope, int64_t head_dim);
// Recovers the numbers from the divisors. All published Llama 3 models differ in `factor` alone;
// Unimplemented for divisors of other models.
absl::StatusOr<RopeSpec> RecoverLlama3Rope(absl::Span<const float> factors, double theta);

// Returns general.architecture and the architecture's keys. InvalidArgument, naming file and key,
// for a config that is incomplete or contradicts itself. Unimplemented for a family without a
// mapping, and for a config that llama.cpp would not follow (other activations, rotary scaling that
// it has no key for): such a file would load and answer nonsense.
absl::StatusOr<GgufMetadata> GgufMetadataOf(const HfConfig& config);

// How a Llama config scales rotary embeddings. Newer files have "rope_parameters", which includes
// the base.
struct HfRope {
  std::string where;  // "rope_scaling" or "rope_parameters"; empty if neither is there
  std::string type = "default";
  double theta = 10000.0;
  double rotated_share = 1.0;  // "partial_rotary_factor"
};

// InvalidArgument if both objects are there and differ.
absl::StatusOr<HfRope> HfRopeOf(const HfConfig& config);

// The rotary scaling of a config with rope_type "llama3"; empty for other configs. GGUF stores it
// as a tensor (Llama3RopeFactors), not under keys.
absl::StatusOr<std::optional<RopeSpec>> Llama3RopeOf(const HfConfig& config);

// Values that a config.json needs in addition to the metadata.
struct HfConfigFacts {
  // Rows of the token embedding. The metadata's key, if present, may count the tokens only.
  int64_t vocab_size = 0;
  // True if the file has no separate head.
  bool tie_word_embeddings = false;
  // The type in which transformers loads the model: "float32", ...
  std::string torch_dtype = "float32";
  std::optional<RopeSpec> rope;
  // Whether Llama's projections have biases, as the file's tensors show.
  bool attention_bias = false;
  bool mlp_bias = false;
};

// The inverse of GgufMetadataOf. Unimplemented for mixtures of experts other than Mixtral,
// Qwen3-MoE and gpt-oss, and for rotary scaling other than linear, Llama 3's and gpt-oss's YaRN.
absl::StatusOr<HfConfig> HfConfigOf(const GgufMetadata& metadata, const HfConfigFacts& facts);

// How the matrices of linear attention are divided into heads.
struct GgufLinearDivision {
  int64_t key_heads = 1;
  int64_t value_heads = 1;
  int64_t key_dim = 0;
};

// How a model's matrices are divided: rows into heads, and stacks into experts.
struct GgufDivision {
  int64_t query_heads = 1;
  int64_t key_heads = 1;
  // Number of experts whose matrices are stacked in each block; 0 in a model without experts.
  int64_t experts = 0;
  GgufLinearDivision linear;
};
// InvalidArgument for absent keys, and for value heads that the key heads do not divide.
absl::StatusOr<GgufDivision> GgufDivisionOf(const GgufMetadata& metadata);

struct GgufBlockCounts {
  // The number of blocks, without the blocks of multi-token prediction (MTP) that follow them.
  int64_t blocks = 0;
  // With the MTP blocks ("nextn_predict_layers"), which only a "qwen35" has.
  int64_t with_mtp = 0;
  // In a "qwen35" every full_interval-th block has full attention. 1 in other models.
  int64_t full_interval = 1;
};
// InvalidArgument for an interval below 1, and if all blocks are MTP blocks.
absl::StatusOr<GgufBlockCounts> GgufBlockCountsOf(const GgufMetadata& metadata);

// Converts vocabularies between Hugging Face's files and the tokenizer.ggml.* keys of GGUF: those
// of byte-pair encoders over GPT-2's byte alphabet, and of SentencePiece's byte-pair encoders.

// llama.cpp's numbers for kinds of token, which are SentencePiece's.
enum class GgufTokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct GgufVocabulary {
  // The tokens by id, spelled in the byte alphabet, or as SentencePiece spells pieces; control
  // tokens and user-defined tokens are spelled as in text.
  std::vector<std::string> tokens;
  std::vector<GgufTokenType> types;
  // "left right", in the order of application.
  std::vector<std::string> merges;
  // llama.cpp's name of the rule that splits text into words: "gpt-2", "llama-bpe" (Llama 3's),
  // "dbrx" (the same words, always built by merges), "qwen2", "qwen35" or "gpt-4o" (gpt-oss's).
  std::string pre = "gpt-2";
  // SentencePiece's, by id, in place of `merges` and `pre`: the two neighbours whose text together
  // has the highest score are merged first.
  std::vector<float> scores;
  // SentencePiece puts a space before a text.
  bool add_space_prefix = true;
  std::optional<int64_t> bos;
  std::optional<int64_t> eos;
  std::optional<int64_t> unknown;
  std::optional<int64_t> padding;
  // Tokens before and after each text. GGUF can express only `bos` and `eos`, or none.
  std::vector<int64_t> prefix;
  std::vector<int64_t> suffix;
  // The template of conversations, in Jinja; empty if there is none.
  std::string chat_template;

  bool is_sentencepiece() const { return !scores.empty(); }
};

// The trainer's byte tokenizer: a token for every byte, and "<|endoftext|>", which is 256.
GgufVocabulary ByteVocabulary();

// Reads the tokenizer of a Hugging Face directory; empty if it has none. `bos` and `eos` are those
// of tokenizer_config.json, or of a tokenizer.model. InvalidArgument, naming the file, for ids that
// repeat and for malformed merges. Unimplemented for other encoders (unigram models,
// WordPiece), for splitting rules and normalizers that llama.cpp does not have, and for merges that
// SentencePiece's scores cannot express.
absl::StatusOr<std::optional<GgufVocabulary>> ReadHfVocabulary(const std::string& directory);

// Sets tokenizer.ggml.* and tokenizer.chat_template, with as many tokens as the embedding has rows
// (`vocab_size`). Padding rows get tokens that are marked unused, and special tokens beyond the
// rows are left out. Without `bos` or `eos`, "<|endoftext|>" is used. InvalidArgument if another
// token is beyond the rows, if there is no `eos`, and if `bos` or `eos` is not below `vocab_size`.
// Unimplemented for another prefix than `bos` or suffix than `eos`.
absl::Status SetVocabulary(GgufVocabulary vocabulary, int64_t vocab_size, GgufMetadata* metadata);

// Marks the model as one without vocabulary: programs read and write ids.
void SetNoVocabulary(GgufMetadata* metadata);

// Reads the vocabulary of metadata; empty if they declare none. Unimplemented for other encoders;
// InvalidArgument for lists of different lengths and ids outside the vocabulary.
absl::StatusOr<std::optional<GgufVocabulary>> VocabularyOf(const GgufMetadata& metadata);

// Returns tokenizer.json, or SentencePiece's tokenizer.model, and tokenizer_config.json: contents
// by name. Unimplemented for a `pre` of another name, since a reader would silently split words in
// the wrong places, and for what a tokenizer.model cannot express: a suffix, or a `bos` that is not
// a prefix. InvalidArgument for tokens that are spelled alike.
absl::StatusOr<std::map<std::string, std::string>> HfTokenizerFiles(
    const GgufVocabulary& vocabulary);

}  // namespace zeroth
