// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/gpt2_bpe.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/byte_alphabet.h"
#include "zeroth/data/gpt2_split.h"

namespace zeroth {
namespace {

// Up to here finding the best pair by looking at all of them beats keeping a heap.
constexpr size_t kShortWord = 64;
constexpr size_t kFlushIds = 8192;
constexpr size_t kMaxMergesBytes = size_t{64} << 20;

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

// Words that were encoded before in this text; the words themselves stay in the text. Per call, so
// that encoding needs no lock.
class Gpt2Bpe::WordCache {
 public:
  const std::vector<int32_t>* Find(absl::string_view word) const {
    const auto found = ids_of_.find(word);
    return found == ids_of_.end() ? nullptr : &found->second;
  }

  void Add(absl::string_view word, absl::Span<const int32_t> ids) {
    // Natural language repeats itself long before this; for other data a bound on memory matters
    // more than hits.
    constexpr size_t kMaxWords = size_t{1} << 19;
    if (word.size() > kShortWord) return;
    if (ids_of_.size() == kMaxWords) ids_of_.clear();
    ids_of_.emplace(word, std::vector<int32_t>(ids.begin(), ids.end()));
  }

 private:
  absl::flat_hash_map<absl::string_view, std::vector<int32_t>> ids_of_;
};

absl::StatusOr<std::unique_ptr<Gpt2Bpe>> Gpt2Bpe::Load(const std::string& vocab_path,
                                                       const std::string& merges_path) {
  std::unique_ptr<Gpt2Bpe> bpe(new Gpt2Bpe());
  IdOfBytes id_of_bytes;
  ZEROTH_RETURN_IF_ERROR(bpe->ReadVocab(vocab_path, &id_of_bytes));
  ZEROTH_RETURN_IF_ERROR(bpe->ReadMerges(merges_path, id_of_bytes));
  return bpe;
}

absl::StatusOr<std::unique_ptr<Gpt2Bpe>> Gpt2Bpe::LoadDirectory(const std::string& directory) {
  const std::filesystem::path base(directory);
  return Load((base / "vocab.json").string(), (base / "merges.txt").string());
}

absl::Status Gpt2Bpe::ReadVocab(const std::string& path, IdOfBytes* id_of_bytes) {
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json vocab, ReadJsonFile(path));
  if (!vocab.is_object() ||
      vocab.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a JSON object that maps tokens to ids"));
  }
  const auto count = static_cast<int64_t>(vocab.size());
  bytes_of_.resize(vocab.size());
  std::vector<bool> taken(vocab.size());
  for (const auto& [token, id] : vocab.items()) {
    const auto wrong = [&path, &token = token](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": token \"", token, "\" ", what));
    };
    // An id below the number of tokens, each used once: then none is missing.
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(count)) {
      return wrong(absl::StrCat("has id ", id.dump(-1, ' ', true), ", expected 0 to ", count - 1,
                                " because the file has ", count, " tokens"));
    }
    const auto index = id.get<size_t>();
    if (taken[index]) return wrong(absl::StrCat("has id ", index, ", which another token has too"));
    std::optional<std::string> bytes = AlphabetToBytes(token);
    if (!bytes || bytes->empty())
      return wrong("is empty or has a character outside GPT-2's byte alphabet");
    taken[index] = true;
    id_of_bytes->emplace(*bytes, static_cast<int32_t>(index));
    bytes_of_[index] = *std::move(bytes);
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = id_of_bytes->find(std::string(1, static_cast<char>(byte)));
    if (found == id_of_bytes->end()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": no token for byte ", byte,
                                                     ", expected one for each of the 256 bytes"));
    }
    id_of_byte_[static_cast<size_t>(byte)] = found->second;
  }
  const auto end_of_text = id_of_bytes->find(kEndOfTextSpelling);
  if (end_of_text == id_of_bytes->end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": no token \"", kEndOfTextSpelling, "\""));
  }
  end_of_text_ = end_of_text->second;
  return absl::OkStatus();
}

absl::Status Gpt2Bpe::ReadMerges(const std::string& path, const IdOfBytes& id_of_bytes) {
  ZEROTH_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxMergesBytes));
  std::vector<bool> available(bytes_of_.size());
  for (const int32_t id : id_of_byte_) available[static_cast<size_t>(id)] = true;
  int64_t line_number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    if (absl::EndsWith(line, "\r")) line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && absl::StartsWith(line, "#version"))) continue;
    ZEROTH_RETURN_IF_ERROR_WITH(AddMerge(line, id_of_bytes, &available),
                                absl::StrCat(path, " line ", line_number));
  }
  return absl::OkStatus();
}

absl::Status Gpt2Bpe::AddMerge(absl::string_view line, const IdOfBytes& id_of_bytes,
                               std::vector<bool>* available) {
  const std::vector<absl::string_view> parts = absl::StrSplit(line, ' ');
  if (parts.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", line, "\": expected two tokens separated by one space, found ", parts.size()));
  }
  int32_t ids[2];
  std::string merged;
  for (size_t i = 0; i < 2; ++i) {
    const std::optional<std::string> bytes = AlphabetToBytes(parts[i]);
    const auto found = bytes ? id_of_bytes.find(*bytes) : id_of_bytes.end();
    if (found == id_of_bytes.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", parts[i], "\" is not in the vocabulary"));
    }
    // With this the merges have one meaning: nothing can prefer a pair before it can exist.
    if (!(*available)[static_cast<size_t>(found->second)]) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", parts[i], "\" is neither a byte nor the result of an earlier line"));
    }
    ids[i] = found->second;
    merged += *bytes;
  }
  const auto result = id_of_bytes.find(merged);
  if (result == id_of_bytes.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the merge \"", parts[0], parts[1], "\" is not in the vocabulary"));
  }
  const Merge merge = {static_cast<int32_t>(merges_.size()), result->second};
  if (!merges_.emplace(PairKey(ids[0], ids[1]), merge).second) {
    return absl::InvalidArgumentError(absl::StrCat("\"", line, "\" repeats an earlier line"));
  }
  (*available)[static_cast<size_t>(result->second)] = true;
  return absl::OkStatus();
}

const Gpt2Bpe::Merge* Gpt2Bpe::FindMerge(int32_t left, int32_t right) const {
  const auto found = merges_.find(PairKey(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void Gpt2Bpe::EncodeTo(absl::string_view text, Sink sink) const {
  WordCache cache;
  while (true) {
    const size_t end = text.find(kEndOfTextSpelling);
    EncodeOrdinary(text.substr(0, end), &cache, sink);
    if (end == absl::string_view::npos) return;
    sink(absl::MakeConstSpan(&end_of_text_, 1));
    text.remove_prefix(end + sizeof(kEndOfTextSpelling) - 1);
  }
}

void Gpt2Bpe::EncodeOrdinary(absl::string_view text, WordCache* cache, Sink sink) const {
  std::vector<int32_t> ids;
  while (!text.empty()) {
    const absl::string_view word = text.substr(0, Gpt2WordLength(text));
    if (const std::vector<int32_t>* cached = cache->Find(word)) {
      ids.insert(ids.end(), cached->begin(), cached->end());
    } else {
      const size_t word_begin = ids.size();
      EncodeWord(word, &ids);
      cache->Add(word, absl::MakeConstSpan(ids).subspan(word_begin));
    }
    if (ids.size() >= kFlushIds) {
      sink(ids);
      ids.clear();
    }
    text.remove_prefix(word.size());
  }
  if (!ids.empty()) sink(ids);
}

void Gpt2Bpe::EncodeWord(absl::string_view word, std::vector<int32_t>* ids) const {
  const size_t word_begin = ids->size();
  for (const char byte : word) ids->push_back(id_of_byte_[static_cast<uint8_t>(byte)]);
  if (word.size() <= kShortWord) {
    MergeShortWord(ids, word_begin);
  } else {
    MergeLongWord(ids, word_begin);
  }
}

void Gpt2Bpe::MergeShortWord(std::vector<int32_t>* ids, size_t word_begin) const {
  while (true) {
    const Merge* best = nullptr;
    size_t best_place = 0;
    for (size_t i = word_begin; i + 1 < ids->size(); ++i) {
      const Merge* merge = FindMerge((*ids)[i], (*ids)[i + 1]);
      if (merge != nullptr && (best == nullptr || merge->rank < best->rank)) {
        best = merge;
        best_place = i;
      }
    }
    if (best == nullptr) return;
    (*ids)[best_place] = best->result;
    ids->erase(ids->begin() + static_cast<std::ptrdiff_t>(best_place) + 1);
  }
}

// A heap of possible merges over a linked list of tokens, n log n: a "word" can be a megabyte of
// base64.
void Gpt2Bpe::MergeLongWord(std::vector<int32_t>* ids, size_t word_begin) const {
  const absl::Span<int32_t> word = absl::MakeSpan(*ids).subspan(word_begin);
  const size_t size = word.size();
  constexpr int32_t kGone = -1;
  std::vector<size_t> next(size);
  std::vector<size_t> previous(size);
  for (size_t i = 0; i < size; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;  // wraps at the front, where nobody looks
  }
  // Rank, place, and the two tokens as they were when this was queued: an entry whose tokens
  // changed is stale.
  using Candidate = std::tuple<int32_t, size_t, int32_t, int32_t>;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](size_t i) {
    if (next[i] >= size) return;
    if (const Merge* merge = FindMerge(word[i], word[next[i]]))
      queue.emplace(merge->rank, i, word[i], word[next[i]]);
  };
  for (size_t i = 0; i < size; ++i) consider(i);
  while (!queue.empty()) {
    const auto [rank, i, left, right] = queue.top();
    queue.pop();
    if (word[i] != left || next[i] >= size || word[next[i]] != right) continue;
    const size_t absorbed = next[i];
    word[i] = FindMerge(left, right)->result;
    word[absorbed] = kGone;
    next[i] = next[absorbed];
    if (next[i] < size) previous[next[i]] = i;
    if (i > 0) consider(previous[i]);
    consider(i);
  }
  ids->erase(std::remove(ids->begin() + static_cast<std::ptrdiff_t>(word_begin), ids->end(), kGone),
             ids->end());
}

absl::StatusOr<std::string> Gpt2Bpe::Decode(absl::Span<const int32_t> ids) const {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size()) {
      return absl::OutOfRangeError(
          absl::StrCat("id ", ids[i], " at position ", i, ", expected 0 to ", vocab_size() - 1));
    }
    text += bytes_of_[static_cast<size_t>(ids[i])];
  }
  return text;
}

}  // namespace zeroth
