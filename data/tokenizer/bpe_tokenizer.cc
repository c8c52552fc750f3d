// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"

namespace zeroth {
namespace {

// A direct-mapped cache of the ids of words: a new word replaces the one in its place. Natural
// language repeats its words often enough for that. Not thread-safe.
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

constexpr size_t kFlushIds = 8192;

}  // namespace

struct BpeTokenizer::Scratch {
  void Emit(int32_t id, Sink sink) {
    ids.push_back(id);
    if (ids.size() >= kFlushIds) Flush(sink);
  }
  void Flush(Sink sink) {
    if (!ids.empty()) sink(ids);
    ids.clear();
  }

  Regex::Scratch regex;
  WordCache cache;
  std::string normalized;
  std::vector<int32_t> ids;  // not yet in the sink
};

BpeTokenizer::BpeTokenizer(BpeTokenizerParts parts, BpeModel model)
    : parts_(std::move(parts)), model_(std::move(model)) {}
BpeTokenizer::~BpeTokenizer() = default;

absl::StatusOr<std::unique_ptr<BpeTokenizer>> BpeTokenizer::Create(BpeTokenizerParts parts) {
  parts.bpe.byte_level = parts.pre_tokenizer.byte_level();
  ZEROTH_ASSIGN_OR_RETURN(BpeModel model, BpeModel::Create(parts.bpe));
  std::unique_ptr<BpeTokenizer> tokenizer(new BpeTokenizer(std::move(parts), std::move(model)));
  BpeParts& bpe = tokenizer->parts_.bpe;
  tokenizer->spelling_of_.resize(static_cast<size_t>(tokenizer->model_.vocab_size()));
  for (auto& [token, id] : bpe.vocab)
    tokenizer->spelling_of_[static_cast<size_t>(id)] = std::move(token);
  bpe = BpeParts();
  ZEROTH_RETURN_IF_ERROR(tokenizer->AddTokens());
  tokenizer->cuts_at_spaces_ = tokenizer->DecideCutsAtSpaces();
  return tokenizer;
}

absl::Status BpeTokenizer::AddTokens() {
  Regex::Scratch scratch;
  text_vocab_size_ = model_.vocab_size();
  for (const AddedToken& token : parts_.added_tokens) {
    const auto wrong = [&token](absl::string_view what) {
      return InvalidArgument("the added token ", Excerpt(token.content), " has id ", token.id, ", ",
                             what);
    };
    const auto id = static_cast<size_t>(token.id);
    if (const auto known = model_.Find(token.content); known && *known != token.id)
      return wrong(absl::StrCat("and in the vocabulary ", *known));
    if (id > 2 * (spelling_of_.size() + parts_.added_tokens.size()) + 1024)
      return wrong(absl::StrCat("far above the vocabulary of ", spelling_of_.size()));
    if (id >= spelling_of_.size()) spelling_of_.resize(id + 1);
    if (!spelling_of_[id].empty() && spelling_of_[id] != token.content)
      return wrong(absl::StrCat("which ", Excerpt(spelling_of_[id]), " has"));
    spelling_of_[id] = token.content;
    if (!token.special || parts_.parse_special) {
      text_vocab_size_ = std::max(text_vocab_size_, token.id + 1);
    }
    special_.Add(token, token.content, /*parse_special=*/true);
    if (!token.normalized) {
      raw_.Add(token, token.content, parts_.parse_special);
      continue;
    }
    std::string spelling = token.content;
    ZEROTH_RETURN_IF_ERROR(parts_.normalizer.Apply(false, &spelling, scratch));
    normalized_.Add(token, spelling, parts_.parse_special);
  }
  std::vector<int32_t> used = {parts_.end_of_text};
  used.insert(used.end(), parts_.prefix.begin(), parts_.prefix.end());
  used.insert(used.end(), parts_.suffix.begin(), parts_.suffix.end());
  for (const int32_t id : used) {
    if (id < 0 || static_cast<size_t>(id) >= spelling_of_.size()) {
      return InvalidArgument("the special token ", id, " is outside the vocabulary of ",
                             spelling_of_.size());
    }
    text_vocab_size_ = std::max(text_vocab_size_, id + 1);
  }
  return absl::OkStatus();
}

bool BpeTokenizer::DecideCutsAtSpaces() const {
  if (!raw_.CutsAtSpaces() || !normalized_.CutsAtSpaces()) return false;
  // A part that follows an added token must be distinguished from one that continues a text.
  if (parts_.normalizer.prepends() && raw_.finds_any()) return false;
  if (!parts_.normalizer.CutsAtSpaces(parts_.pre_tokenizer.has_expressions())) return false;
  if (parts_.pre_tokenizer.CutsAtSpaces()) return true;
  if (parts_.pre_tokenizer.has_expressions()) return false;
  // Words include spaces, or their replacement, but tokens may not.
  constexpr uint32_t kMetaspace = 0x2581;
  for (uint32_t c = 0x21; c < 0x7F; ++c) {
    if (model_.MayMerge(c, ' ') || model_.MayMerge(c, kMetaspace)) return false;
  }
  return model_.IndependentLength("a \xE2\x96\x81") == 1;
}

std::optional<int32_t> BpeTokenizer::Find(absl::string_view token) const {
  for (const AddedToken& added : parts_.added_tokens) {
    if (added.content == token) return added.id;
  }
  return model_.Find(token);
}

absl::Status BpeTokenizer::EncodeParts(absl::string_view text, Place place, Sink sink) const {
  std::unique_ptr<Scratch> borrowed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      borrowed = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (borrowed == nullptr) borrowed = std::make_unique<Scratch>();
  Scratch& scratch = *borrowed;
  const absl::Cleanup give_back = [&] {
    scratch.ids.clear();
    // The copy of a long text is freed.
    scratch.normalized = std::string();
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(borrowed));
  };
  ZEROTH_RETURN_IF_ERROR(
      raw_.Split(text, [&](absl::string_view part, const AddedToken* token) -> absl::Status {
        const bool is_first = part.data() == text.data();
        if (token == nullptr)
          return EncodePiece(part, is_first ? place : Place::kAfterPiece, scratch, sink);
        scratch.Emit(token->id, sink);
        return absl::OkStatus();
      }));
  scratch.Flush(sink);
  return absl::OkStatus();
}

absl::Status BpeTokenizer::EncodePiece(absl::string_view piece, Place place, Scratch& scratch,
                                       Sink sink) const {
  if (!parts_.normalizer.empty()) {
    scratch.normalized.assign(piece.data(), piece.size());
    ZEROTH_RETURN_IF_ERROR(
        parts_.normalizer.Apply(place == Place::kContinues, &scratch.normalized, scratch.regex));
    piece = scratch.normalized;
  }
  return normalized_.Split(
      piece, [&](absl::string_view part, const AddedToken* token) -> absl::Status {
        if (token == nullptr)
          return EncodeNormalized(part, part.data() == piece.data() ? place : Place::kAfterPiece,
                                  scratch, sink);
        scratch.Emit(token->id, sink);
        return absl::OkStatus();
      });
}

absl::Status BpeTokenizer::EncodeNormalized(absl::string_view piece, Place place, Scratch& scratch,
                                            Sink sink) const {
  // Bytes that are not UTF-8 make separate words, which no expression sees.
  while (!piece.empty()) {
    const size_t valid = ValidUtf8Length(piece);
    ZEROTH_RETURN_IF_ERROR(parts_.pre_tokenizer.ForEachWord(
        piece.substr(0, valid), place, scratch.regex, [&](absl::string_view word) {
          EncodeWord(word, scratch, sink);
          return absl::OkStatus();
        }));
    piece.remove_prefix(valid);
    place = Place::kAfterPiece;
    size_t invalid = 0;
    while (invalid < piece.size() &&
           DecodeUtf8(piece.substr(invalid)).code_point == DecodedChar::kInvalid)
      ++invalid;
    if (invalid > 0) EncodeWord(piece.substr(0, invalid), scratch, sink);
    piece.remove_prefix(invalid);
  }
  return absl::OkStatus();
}

void BpeTokenizer::EncodeCached(absl::string_view word, bool is_whole, Scratch& scratch) const {
  size_t count = 0;
  if (const auto* const cached = scratch.cache.Find(word, &count)) {
    scratch.ids.insert(scratch.ids.end(), cached->begin(),
                       cached->begin() + static_cast<std::ptrdiff_t>(count));
    return;
  }
  const size_t begin = scratch.ids.size();
  if (const auto id = is_whole ? model_.FindWord(word) : std::nullopt) {
    scratch.ids.push_back(*id);
  } else {
    model_.EncodePart(word, &scratch.ids);
  }
  scratch.cache.Add(word, absl::MakeConstSpan(scratch.ids).subspan(begin));
}

void BpeTokenizer::EncodeWord(absl::string_view word, Scratch& scratch, Sink sink) const {
  if (word.size() <= WordCache::kMaxWordBytes) {
    EncodeCached(word, true, scratch);
  } else if (const auto id = model_.FindWord(word)) {
    scratch.ids.push_back(*id);
  } else {
    // A long word (a whole text may be one) consists of parts that no merge joins.
    while (!word.empty()) {
      const absl::string_view part = word.substr(0, model_.IndependentLength(word));
      // A part may be spelled like a whole word that has other ids.
      if (part.size() <= WordCache::kMaxWordBytes && !model_.leaves_words_whole()) {
        EncodeCached(part, false, scratch);
      } else {
        model_.EncodePart(part, &scratch.ids);
      }
      if (scratch.ids.size() >= kFlushIds) scratch.Flush(sink);
      word.remove_prefix(part.size());
    }
  }
  if (scratch.ids.size() >= kFlushIds) scratch.Flush(sink);
}

absl::StatusOr<std::string> BpeTokenizer::DecodeIds(absl::Span<const int32_t> ids,
                                                    bool replace_invalid) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    const std::string& spelling = spelling_of_[static_cast<size_t>(id)];
    // An unused id has no text.
    if (!spelling.empty()) tokens.push_back(spelling);
  }
  return parts_.decoder.Decode(std::move(tokens), replace_invalid);
}

}  // namespace zeroth
