// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/tokenizer/bpe_model.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"

namespace zeroth {
namespace {

// Up to this many symbols a linear search for the best pair is faster than a heap.
constexpr size_t kShortWord = 64;

uint64_t PairKey(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

// First and last symbol of a token that is not empty. An invalid byte is a separate symbol.
std::pair<uint32_t, uint32_t> EndsOf(absl::string_view token, bool bytes) {
  if (bytes) return {static_cast<uint8_t>(token.front()), static_cast<uint8_t>(token.back())};
  size_t begin = token.size() - 1;
  while (begin > 0 && (static_cast<uint8_t>(token[begin]) & 0xC0) == 0x80) --begin;
  return {DecodeUtf8(token).code_point, DecodeUtf8(token.substr(begin)).code_point};
}

}  // namespace

absl::StatusOr<BpeModel> BpeModel::Create(const BpeParts& parts) {
  BpeModel model;
  model.byte_level_ = parts.byte_level;
  model.fuse_unk_ = parts.fuse_unk;
  model.ignore_merges_ = parts.ignore_merges;
  ZEROTH_RETURN_IF_ERROR(model.AddVocab(parts));
  ZEROTH_RETURN_IF_ERROR(model.AddMerges(parts));
  return model;
}

absl::Status BpeModel::AddVocab(const BpeParts& parts) {
  const auto count = static_cast<int64_t>(parts.vocab.size());
  // Leaves room for unnamed rows, as of models whose vocabulary is rounded up.
  const int64_t limit = std::min<int64_t>(2 * count + 1024, std::numeric_limits<int32_t>::max());
  std::vector<bool> taken;
  for (const auto& [token, id] : parts.vocab) {
    const auto wrong = [&token = token, id = id](absl::string_view what) {
      return InvalidArgument("token ", Excerpt(token), " has id ", id, what);
    };
    if (id < 0 || id >= limit) {
      return wrong(
          absl::StrCat(", expected 0 to ", limit - 1, " because there are ", count, " tokens"));
    }
    const auto index = static_cast<size_t>(id);
    if (index >= taken.size()) taken.resize(index + 1);
    if (taken[index]) return wrong(", which another token has too");
    taken[index] = true;
    if (!ids_.emplace(token, id).second) return wrong(", and another id before");
    if (parts.byte_level) {
      // A token with other characters can only be an added one.
      std::optional<std::string> bytes = AlphabetToBytes(token);
      if (bytes && !bytes->empty()) words_.emplace(*std::move(bytes), id);
    }
  }
  vocab_size_ = static_cast<int32_t>(taken.size());
  for (int byte = 0; byte < 256; ++byte) {
    int32_t& id = id_of_byte_[static_cast<size_t>(byte)];
    id = kNone;
    if (parts.byte_level) {
      const auto found = words_.find(std::string(1, static_cast<char>(byte)));
      if (found == words_.end()) {
        return InvalidArgument("no token for byte ", byte,
                               ", expected one for each of the 256 bytes");
      }
      id = found->second;
    } else if (parts.byte_fallback) {
      id = Find(absl::StrFormat("<0x%02X>", byte)).value_or(kNone);
    }
  }
  covers_all_ = std::count(id_of_byte_.begin(), id_of_byte_.end(), kNone) == 0;
  if (parts.unk_token) {
    const std::optional<int32_t> unk = Find(*parts.unk_token);
    if (!unk) {
      return InvalidArgument("the unk_token ", Excerpt(*parts.unk_token),
                             " is not in the vocabulary");
    }
    unk_ = *unk;
  }
  return absl::OkStatus();
}

absl::Status BpeModel::AddMerges(const BpeParts& parts) {
  merges_.reserve(parts.merges.size());
  for (size_t i = 0; i < parts.merges.size(); ++i) {
    const auto& [left, right] = parts.merges[i];
    int32_t ids[3];
    const std::string merged = left + right;
    const std::string* const tokens[] = {&left, &right, &merged};
    for (size_t k = 0; k < 3; ++k) {
      const std::optional<int32_t> id = Find(*tokens[k]);
      if (!id || tokens[k]->empty()) {
        return InvalidArgument("merge ", i + 1, " (", Excerpt(left), ", ", Excerpt(right),
                               "): ", Excerpt(*tokens[k]), " is not in the vocabulary");
      }
      ids[k] = *id;
    }
    // The last rank of a repeated pair counts, as in Hugging Face's library.
    merges_[PairKey(static_cast<uint32_t>(ids[0]), static_cast<uint32_t>(ids[1]))] = {
        static_cast<int32_t>(i), ids[2]};
    std::optional<std::string> left_bytes, right_bytes;
    if (parts.byte_level) {
      left_bytes = AlphabetToBytes(left);
      right_bytes = AlphabetToBytes(right);
      if (!left_bytes || !right_bytes) continue;  // of characters that no word has
    }
    const uint32_t a = EndsOf(left_bytes ? *left_bytes : left, parts.byte_level).second;
    const uint32_t b = EndsOf(right_bytes ? *right_bytes : right, parts.byte_level).first;
    if (a < 256 && b < 256) {
      low_pairs_.set(a << 8 | b);
    } else {
      high_pairs_.insert(PairKey(a, b));
    }
    // If tokens of bytes merged, they could join any two characters. No known vocabulary has such
    // merges.
    for (const int32_t id : {ids[0], ids[1]}) {
      if (!parts.byte_level && std::count(id_of_byte_.begin(), id_of_byte_.end(), id) > 0) {
        return Unimplemented("merge ", i + 1, " is of a token that stands for a byte, ",
                             Excerpt(left), " or ", Excerpt(right), ", which Zeroth does not know");
      }
    }
  }
  return absl::OkStatus();
}

std::optional<int32_t> BpeModel::Find(absl::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional<int32_t>(found->second);
}

const BpeModel::Merge* BpeModel::FindMerge(int32_t left, int32_t right) const {
  const auto found =
      merges_.find(PairKey(static_cast<uint32_t>(left), static_cast<uint32_t>(right)));
  return found == merges_.end() ? nullptr : &found->second;
}

bool BpeModel::MayMerge(uint32_t left, uint32_t right) const {
  if (left < 256 && right < 256) return low_pairs_.test(left << 8 | right);
  return high_pairs_.contains(PairKey(left, right));
}

size_t BpeModel::IndependentLength(absl::string_view text) const {
  if (text.size() > kMaxPartBytes) {
    size_t most = kMaxPartBytes;
    while (!byte_level_ && (static_cast<uint8_t>(text[most]) & 0xC0) == 0x80 && most > 1) --most;
    text = text.substr(0, most);
  }
  if (!covers_all_) return text.size();
  size_t place = 0;
  const auto next_symbol = [&]() -> uint32_t {
    if (byte_level_) return static_cast<uint8_t>(text[place++]);
    const DecodedChar next = DecodeUtf8(text.substr(place));
    place += next.length;
    return next.code_point;
  };
  for (uint32_t left = next_symbol(); place < text.size();) {
    const size_t between = place;
    const uint32_t right = next_symbol();
    if (!MayMerge(left, right)) return between;
    left = right;
  }
  return text.size();
}

void BpeModel::AppendSymbols(absl::string_view word, std::vector<int32_t>* ids) const {
  if (byte_level_) {
    for (const char byte : word) ids->push_back(id_of_byte_[static_cast<uint8_t>(byte)]);
    return;
  }
  // The unknown token is held back, so that the next one can be fused with it.
  bool unknown = false;
  while (!word.empty()) {
    const absl::string_view symbol = word.substr(0, DecodeUtf8(word).length);
    word.remove_prefix(symbol.size());
    if (const auto found = ids_.find(symbol); found != ids_.end()) {
      if (unknown) ids->push_back(unk_);
      unknown = false;
      ids->push_back(found->second);
      continue;
    }
    const auto id_of = [this](char byte) { return id_of_byte_[static_cast<uint8_t>(byte)]; };
    if (std::none_of(symbol.begin(), symbol.end(),
                     [&id_of](char byte) { return id_of(byte) == kNone; })) {
      for (const char byte : symbol) ids->push_back(id_of(byte));
    } else if (unk_ != kNone) {
      if (unknown && !fuse_unk_) ids->push_back(unk_);
      unknown = true;
    }
  }
  if (unknown) ids->push_back(unk_);
}

std::optional<int32_t> BpeModel::FindWord(absl::string_view word) const {
  if (!ignore_merges_) return std::nullopt;
  if (!byte_level_) return Find(word);
  const auto found = words_.find(word);
  return found == words_.end() ? std::nullopt : std::optional<int32_t>(found->second);
}

void BpeModel::EncodePart(absl::string_view part, std::vector<int32_t>* ids) const {
  const size_t begin = ids->size();
  AppendSymbols(part, ids);
  if (ids->size() - begin <= kShortWord) {
    MergeShort(begin, ids);
  } else {
    MergeLong(begin, ids);
  }
}

void BpeModel::MergeShort(size_t begin, std::vector<int32_t>* ids) const {
  size_t count = ids->size() - begin;
  if (count < 2) return;
  int32_t* const word = ids->data() + begin;
  constexpr Merge kNever = {std::numeric_limits<int32_t>::max(), kNone};
  std::array<Merge, kShortWord> merge_at;  // of a token and the next
  const auto look = [&](size_t i) {
    const Merge* const merge = FindMerge(word[i], word[i + 1]);
    merge_at[i] = merge == nullptr ? kNever : *merge;
  };
  for (size_t i = 0; i + 1 < count; ++i) look(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (merge_at[i].rank < merge_at[best].rank) best = i;
    }
    if (merge_at[best].rank == kNever.rank) break;
    word[best] = merge_at[best].result;
    --count;
    for (size_t i = best + 1; i < count; ++i) {
      word[i] = word[i + 1];
      merge_at[i - 1] = merge_at[i];
    }
    if (best > 0) look(best - 1);
    if (best + 1 < count) look(best);
  }
  ids->resize(begin + count);
}

// A heap of possible merges over a linked list of tokens, n log n: a "word" can be a megabyte of
// base64.
void BpeModel::MergeLong(size_t begin, std::vector<int32_t>* ids) const {
  const absl::Span<int32_t> word = absl::MakeSpan(*ids).subspan(begin);
  const auto size = static_cast<uint32_t>(word.size());
  std::vector<uint32_t> next(size);
  std::vector<uint32_t> previous(size);
  for (uint32_t i = 0; i < size; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;  // wraps at the front, where nobody looks
  }
  // Rank, place, and the two tokens as they were when this was queued: an entry whose tokens
  // changed is stale.
  using Candidate = std::tuple<int32_t, uint32_t, int32_t, int32_t>;
  std::vector<Candidate> first;
  for (uint32_t i = 0; i + 1 < size; ++i) {
    if (const Merge* merge = FindMerge(word[i], word[i + 1]))
      first.emplace_back(merge->rank, i, word[i], word[i + 1]);
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue(std::greater<>(),
                                                                               std::move(first));
  const auto consider = [&](uint32_t i) {
    if (next[i] >= size) return;
    if (const Merge* merge = FindMerge(word[i], word[next[i]]))
      queue.emplace(merge->rank, i, word[i], word[next[i]]);
  };
  while (!queue.empty()) {
    const auto [rank, i, left, right] = queue.top();
    queue.pop();
    if (word[i] != left || next[i] >= size || word[next[i]] != right) continue;
    const uint32_t absorbed = next[i];
    word[i] = FindMerge(left, right)->result;
    word[absorbed] = kNone;
    next[i] = next[absorbed];
    if (next[i] < size) previous[next[i]] = i;
    if (i > 0) consider(previous[i]);
    consider(i);
  }
  ids->erase(std::remove(ids->begin() + static_cast<std::ptrdiff_t>(begin), ids->end(), kNone),
             ids->end());
}

}  // namespace zeroth
