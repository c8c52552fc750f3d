// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_TOKENIZER_WORD_CACHE_H_
#define ZEROTH_DATA_TOKENIZER_WORD_CACHE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace zeroth {

// Caches the ids of words. Each word has one place, where a newer word replaces it; natural
// language repeats itself long before that matters. Not thread-safe.
class WordCache {
 public:
  static constexpr size_t kMaxWordBytes = 22;
  static constexpr size_t kMaxIds = 10;

  // The ids of a word; null if they are not cached. `word` has 1 to kMaxWordBytes bytes.
  const std::array<int32_t, kMaxIds>* Find(absl::string_view word, size_t* count) const {
    if (entries_.empty()) return nullptr;
    const Entry& entry = entries_[PlaceOf(word)];
    if (entry.length != word.size() || std::memcmp(entry.word, word.data(), word.size()) != 0)
      return nullptr;
    *count = entry.count;
    return &entry.ids;
  }

  // Ignores words of more than kMaxIds ids.
  void Add(absl::string_view word, absl::Span<const int32_t> ids) {
    if (ids.size() > kMaxIds) return;
    // The cache begins small, so that small texts take little memory. Growing clears it.
    if (added_++ >= entries_.size() && entries_.size() < kMostEntries) {
      entries_.assign(std::max<size_t>(kFewestEntries, 4 * entries_.size()), Entry());
      added_ = 1;
    }
    Entry& entry = entries_[PlaceOf(word)];
    entry.length = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(ids.size());
    std::memcpy(entry.word, word.data(), word.size());
    std::copy(ids.begin(), ids.end(), entry.ids.begin());
  }

 private:
  static constexpr size_t kFewestEntries = 256;
  static constexpr size_t kMostEntries = size_t{1} << 16;

  struct Entry {  // a cache line
    uint8_t length = 0;
    uint8_t count = 0;
    char word[kMaxWordBytes] = {};
    std::array<int32_t, kMaxIds> ids = {};
  };
  static_assert(sizeof(Entry) == 64);

  size_t PlaceOf(absl::string_view word) const {
    return absl::HashOf(word) & (entries_.size() - 1);
  }

  std::vector<Entry> entries_;
  size_t added_ = 0;
};

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKENIZER_WORD_CACHE_H_
