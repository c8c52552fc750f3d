// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Byte-level byte-pair encoding (Radford et al., "Language models are unsupervised multitask
// learners", 2019; merges as Sennrich et al., 2016), reading the vocab.json and merges.txt that
// Hugging Face stores for GPT-2.

#ifndef ZEROTH_DATA_GPT2_BPE_H_
#define ZEROTH_DATA_GPT2_BPE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/data/tokenizer.h"

namespace zeroth {

// Text is cut at every "<|endoftext|>" (which becomes that token), then into words by gpt2_split.h,
// and each word's bytes are merged: always the pair of lowest rank, the leftmost of several.
class Gpt2Bpe final : public Tokenizer {
 public:
  // Reads the two files. InvalidArgument names the file and the token or line that is wrong: ids
  // that repeat or leave gaps, a byte or "<|endoftext|>" without a token, a token outside the byte
  // alphabet, a merge that is malformed, repeated, or made of or into something that is not there
  // yet.
  static absl::StatusOr<std::unique_ptr<Gpt2Bpe>> Load(const std::string& vocab_path,
                                                       const std::string& merges_path);
  // Load of vocab.json and merges.txt in `directory`.
  static absl::StatusOr<std::unique_ptr<Gpt2Bpe>> LoadDirectory(const std::string& directory);

  std::string name() const override { return "gpt2"; }
  int32_t vocab_size() const override { return static_cast<int32_t>(bytes_of_.size()); }
  int32_t end_of_text() const override { return end_of_text_; }
  void EncodeTo(absl::string_view text, Sink sink) const override;
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> ids) const override;

 private:
  struct Merge {
    int32_t rank;
    int32_t result;
  };
  using IdOfBytes = absl::flat_hash_map<std::string, int32_t>;
  class WordCache;

  Gpt2Bpe() = default;
  absl::Status ReadVocab(const std::string& path, IdOfBytes* id_of_bytes);
  absl::Status ReadMerges(const std::string& path, const IdOfBytes& id_of_bytes);
  absl::Status AddMerge(absl::string_view line, const IdOfBytes& id_of_bytes,
                        std::vector<bool>* available);
  // The merge of two adjacent tokens; null if they do not merge.
  const Merge* FindMerge(int32_t left, int32_t right) const;
  // Appends the ids of one word.
  void EncodeWord(absl::string_view word, std::vector<int32_t>* ids) const;
  void MergeShortWord(std::vector<int32_t>* ids, size_t word_begin) const;
  void MergeLongWord(std::vector<int32_t>* ids, size_t word_begin) const;
  // Text without end-of-text spellings.
  void EncodeOrdinary(absl::string_view text, WordCache* cache, Sink sink) const;

  std::vector<std::string> bytes_of_;  // by id
  std::array<int32_t, 256> id_of_byte_{};
  absl::flat_hash_map<uint64_t, Merge> merges_;  // key: left id << 32 | right id
  int32_t end_of_text_ = -1;
};

}  // namespace zeroth

#endif  // ZEROTH_DATA_GPT2_BPE_H_
