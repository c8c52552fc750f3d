// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Byte-pair encoding (Sennrich et al., 2016; over bytes: Radford et al., 2019) of single words.

#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/formats/hf_tokenizer.h"

namespace zeroth {

// Immutable and thread-safe.
class BpeModel {
 public:
  // A word is cut after this many bytes even if a merge could join them, so that memory is bounded.
  static constexpr size_t kMaxPartBytes = size_t{1} << 20;

  // InvalidArgument names what is wrong: ids that are negative, repeat or leave large gaps, a merge
  // (by its number, from 1) with a token that is not in the vocabulary, an unknown unk_token, or a
  // byte without a token.
  static absl::StatusOr<BpeModel> Create(const BpeParts& parts);

  // The largest id plus one.
  int32_t vocab_size() const { return vocab_size_; }
  // The id of a token, spelled as in the vocabulary.
  std::optional<int32_t> Find(absl::string_view token) const;

  bool leaves_words_whole() const { return ignore_merges_; }
  // The id of a word that becomes one token (ignore_merges); empty otherwise.
  std::optional<int32_t> FindWord(absl::string_view word) const;
  // Appends the ids of a word, or of a part that IndependentLength has found. Merges the pair of
  // lowest rank first, and the leftmost of several. Takes n log n steps for n bytes.
  void EncodePart(absl::string_view part, std::vector<int32_t>* ids) const;
  // Returns the smallest number of bytes at the front of `word` that no merge can join with the
  // bytes after them; at most kMaxPartBytes. `word` is not empty.
  size_t IndependentLength(absl::string_view word) const;
  // True if a merge may join a character (byte_level: byte) `left` with a following `right`.
  bool MayMerge(uint32_t left, uint32_t right) const;

 private:
  struct Merge {
    int32_t rank;
    int32_t result;
  };
  BpeModel() = default;
  absl::Status AddVocab(const BpeParts& parts);
  absl::Status AddMerges(const BpeParts& parts);
  // The merge of two adjacent tokens; null if they do not merge.
  const Merge* FindMerge(int32_t left, int32_t right) const;
  // Appends the symbols that merging begins with.
  void AppendSymbols(absl::string_view word, std::vector<int32_t>* ids) const;
  void MergeShort(size_t begin, std::vector<int32_t>* ids) const;
  void MergeLong(size_t begin, std::vector<int32_t>* ids) const;

  static constexpr int32_t kNone = -1;

  bool byte_level_ = false;
  bool fuse_unk_ = false;
  bool ignore_merges_ = false;
  // True if every character has tokens. A character without any may be fused or dropped, so that
  // its neighbours meet.
  bool covers_all_ = false;
  int32_t vocab_size_ = 0;
  int32_t unk_ = kNone;
  absl::flat_hash_map<std::string, int32_t> ids_;    // by the spelling
  absl::flat_hash_map<std::string, int32_t> words_;  // byte_level: by the bytes; else empty
  std::array<int32_t, 256> id_of_byte_{};  // byte_level: of the byte; else of <0x..>, or kNone
  absl::flat_hash_map<uint64_t, Merge> merges_;  // key: left id << 32 | right id
  // The characters (byte_level: bytes) between which a merge may happen.
  std::bitset<256 * 256> low_pairs_;
  absl::flat_hash_set<uint64_t> high_pairs_;
};

}  // namespace zeroth
