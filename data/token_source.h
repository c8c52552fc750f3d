// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_TOKEN_SOURCE_H_
#define ZEROTH_DATA_TOKEN_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace zeroth {

// What there may be to say of a token beside its id.
inline constexpr uint8_t kNoTarget = 1;        // no model learns to say it
inline constexpr uint8_t kBeginsDocument = 2;  // what is before it is of another document

// A finite sequence of token ids with random access. Immutable and thread-safe: the ranks of one
// process share one.
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  // Number of tokens.
  virtual int64_t size() const = 0;

  // Tokens [begin, begin + out.size()). InvalidArgument for a stored id outside the vocabulary
  // given at opening (it names the file, the token's index in it and the id): files can be larger
  // than one wants to read before training, so ids are checked where they are used. OutOfRange if
  // the range leaves [0, size()).
  virtual absl::Status Read(int64_t begin, absl::Span<int32_t> out) const = 0;

  // Tokens per row if the data are rows of equal length that must be used whole; 0 for a stream,
  // which may be cut anywhere.
  virtual int64_t row_length() const { return 0; }

  // Whether ReadMarks gives anything but zeros.
  virtual bool has_marks() const { return false; }
  // The marks of tokens [begin, begin + out.size()). Errors as of Read.
  virtual absl::Status ReadMarks(int64_t begin, absl::Span<uint8_t> out) const;

  // What to tell whoever trains on this, a line each.
  virtual const std::vector<std::string>& notes() const;
  // What messages call this source: a path, or a path and how many more.
  virtual const std::string& description() const = 0;
};

// OutOfRange, naming the source, if [begin, begin + count) is not inside it: for implementations of
// Read.
absl::Status CheckTokenRange(const TokenSource& source, int64_t begin, size_t count);

// The sources one after the other. All must be streams, or all rows of one length (InvalidArgument
// names two that differ); at least one.
absl::StatusOr<std::shared_ptr<const TokenSource>> Concatenate(
    std::vector<std::shared_ptr<const TokenSource>> sources);

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKEN_SOURCE_H_
