// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace zeroth {

// Marks of a token.
inline constexpr uint8_t kNoTarget = 1;        // the loss ignores the token as a target
inline constexpr uint8_t kBeginsDocument = 2;  // the token before it is of another document
// Begins a pair's rejected answer, after its chosen one, or the mismatched answer of a judged one.
inline constexpr uint8_t kBeginsRejected = 4;
inline constexpr uint8_t kIsDesirable = 8;  // begins a judged answer that is desirable

// A finite sequence of token ids with random access. Immutable and thread-safe: the ranks of one
// process share one source.
class TokenSource {
 public:
  struct Facts {
    int64_t size = 0;  // tokens
    // Tokens per row if the data are rows of equal length that must be used whole; 0 for a stream,
    // which may be cut anywhere.
    int64_t row_length = 0;
    bool has_marks = false;          // false: all marks are zero
    std::string description;         // names the source in messages: a path, or a path and how
                                     // many more
    std::vector<std::string> notes;  // lines that the trainer prints about this data
  };

  virtual ~TokenSource() = default;

  const Facts& facts() const { return facts_; }
  int64_t size() const { return facts_.size; }
  int64_t row_length() const { return facts_.row_length; }
  bool has_marks() const { return facts_.has_marks; }
  const std::string& description() const { return facts_.description; }
  const std::vector<std::string>& notes() const { return facts_.notes; }

  // Reads the tokens [begin, begin + out.size()). OutOfRange, naming the source, if the range
  // leaves [0, size()). InvalidArgument for a stored id outside the vocabulary given at opening;
  // the message names the file, the token's index and the id. Ids are checked here and not at
  // opening, because files may be too large to read before training.
  absl::Status Read(int64_t begin, absl::Span<int32_t> out) const;
  // Reads the marks of the same tokens, with the same errors.
  absl::Status ReadMarks(int64_t begin, absl::Span<uint8_t> out) const;

 protected:
  explicit TokenSource(Facts facts) : facts_(std::move(facts)) {}

 private:
  // The range is inside the source. DoReadMarks is called only if the source has marks.
  virtual absl::Status DoRead(int64_t begin, absl::Span<int32_t> out) const = 0;
  virtual absl::Status DoReadMarks(int64_t begin, absl::Span<uint8_t> out) const;

  const Facts facts_;
};

// Tokens in memory, as integers of type T.
template <typename T>
class TokensInMemory final : public TokenSource {
 public:
  // `facts` need not have the size. `marks` has one for each id, or is empty.
  TokensInMemory(std::vector<T> ids, Facts facts, std::vector<uint8_t> marks = {})
      : TokenSource(Complete(std::move(facts), ids.size(), !marks.empty())),
        ids_(std::move(ids)),
        marks_(std::move(marks)) {}

 private:
  static Facts Complete(Facts facts, size_t size, bool has_marks) {
    facts.size = static_cast<int64_t>(size);
    facts.has_marks = has_marks;
    return facts;
  }
  absl::Status DoRead(int64_t begin, absl::Span<int32_t> out) const override {
    std::copy_n(ids_.begin() + begin, out.size(), out.begin());
    return absl::OkStatus();
  }
  absl::Status DoReadMarks(int64_t begin, absl::Span<uint8_t> out) const override {
    std::copy_n(marks_.begin() + begin, out.size(), out.begin());
    return absl::OkStatus();
  }

  const std::vector<T> ids_;
  const std::vector<uint8_t> marks_;
};

// Returns the tokens [begin, begin + facts.size) of `tokens` under other facts. If `marks` is
// given, its tokens are the marks; otherwise the marks are those of `tokens`.
std::shared_ptr<const TokenSource> ViewTokens(std::shared_ptr<const TokenSource> tokens,
                                              int64_t begin, TokenSource::Facts facts,
                                              std::shared_ptr<const TokenSource> marks = nullptr);

// Joins the sources, at least one, in their order. All must be streams, or all rows of one length;
// InvalidArgument names two that differ.
absl::StatusOr<std::shared_ptr<const TokenSource>> Concatenate(
    std::vector<std::shared_ptr<const TokenSource>> sources);

// Hands the tokens [begin, end) of `source` to `sink`, in order and in pieces of bounded size.
// Stops at the first error.
absl::Status ReadInPieces(const TokenSource& source, int64_t begin, int64_t end,
                          absl::FunctionRef<absl::Status(absl::Span<const int32_t>)> sink);

// A source of up to this many tokens is hashed whole. In a larger source this many tokens are
// hashed, in 4096 pieces spread evenly from the first token to the last. This bounds the cost to
// about half a second, in addition to reading.
inline constexpr int64_t kHashedTokens = int64_t{1} << 28;

// XXH3 of the ids, their number and the length of rows; never 0. Files, storage types and
// tokenizers do not matter: equal tokens have equal hashes. Sources of at most `most` tokens that
// differ in a token have different hashes; larger ones do if they differ in a hashed piece. Errors
// of the source.
absl::StatusOr<uint64_t> HashTokens(const TokenSource& source, int64_t most = kHashedTokens);

}  // namespace zeroth
