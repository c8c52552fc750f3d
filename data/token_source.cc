// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/token_source.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using SourcePtr = std::shared_ptr<const TokenSource>;

// Number of pieces of a large source that are hashed.
constexpr int64_t kPieces = 4096;
constexpr int64_t kPieceTokens = int64_t{1} << 16;

class View final : public TokenSource {
 public:
  View(SourcePtr tokens, int64_t begin, Facts facts, SourcePtr marks)
      : TokenSource(std::move(facts)),
        tokens_(std::move(tokens)),
        marks_(std::move(marks)),
        begin_(begin) {}

 private:
  absl::Status DoRead(int64_t begin, absl::Span<int32_t> out) const override {
    return tokens_->Read(begin_ + begin, out);
  }
  absl::Status DoReadMarks(int64_t begin, absl::Span<uint8_t> out) const override {
    if (marks_ == nullptr) return tokens_->ReadMarks(begin_ + begin, out);
    std::vector<int32_t> marks(out.size());
    ZEROTH_RETURN_IF_ERROR(marks_->Read(begin_ + begin, absl::MakeSpan(marks)));
    std::copy(marks.begin(), marks.end(), out.begin());
    return absl::OkStatus();
  }

  const SourcePtr tokens_;
  const SourcePtr marks_;
  const int64_t begin_;
};

class Concatenation final : public TokenSource {
 public:
  explicit Concatenation(std::vector<SourcePtr> parts)
      : TokenSource(FactsOf(parts)), parts_(std::move(parts)) {
    int64_t begin = 0;
    for (const SourcePtr& part : parts_) {
      begins_.push_back(begin);
      begin += part->size();
    }
  }

 private:
  static Facts FactsOf(const std::vector<SourcePtr>& parts) {
    Facts facts;
    for (const SourcePtr& part : parts) facts.size += part->size();
    facts.row_length = parts[0]->row_length();
    facts.description = absl::StrCat(parts[0]->description(), " and ", parts.size() - 1, " more");
    return facts;
  }

  absl::Status DoRead(int64_t begin, absl::Span<int32_t> out) const override {
    auto index = static_cast<size_t>(std::upper_bound(begins_.begin(), begins_.end(), begin) -
                                     begins_.begin() - 1);
    while (!out.empty()) {
      const TokenSource& part = *parts_[index];
      const int64_t place = begin - begins_[index];
      const auto count = std::min(out.size(), static_cast<size_t>(part.size() - place));
      ZEROTH_RETURN_IF_ERROR(part.Read(place, out.subspan(0, count)));
      out.remove_prefix(count);
      begin += static_cast<int64_t>(count);
      ++index;
    }
    return absl::OkStatus();
  }

  const std::vector<SourcePtr> parts_;
  std::vector<int64_t> begins_;
};

std::string KindOf(const TokenSource& source) {
  if (source.row_length() == 0) return absl::StrCat(source.description(), " is a stream");
  return absl::StrCat(source.description(), " has rows of ", source.row_length(), " tokens");
}

absl::Status CheckRange(const TokenSource& source, int64_t begin, size_t count) {
  const auto wanted = static_cast<int64_t>(count);
  if (begin >= 0 && wanted <= source.size() && begin <= source.size() - wanted)
    return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(source.description(), ": tokens [", begin, ", ", begin,
                                            " + ", wanted, ") of ", source.size()));
}

template <typename T>
absl::Span<const uint8_t> BytesOf(absl::Span<const T> values) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values.data()),
                             values.size() * sizeof(T));
}

}  // namespace

absl::Status TokenSource::Read(int64_t begin, absl::Span<int32_t> out) const {
  ZEROTH_RETURN_IF_ERROR(CheckRange(*this, begin, out.size()));
  return DoRead(begin, out);
}

absl::Status TokenSource::ReadMarks(int64_t begin, absl::Span<uint8_t> out) const {
  ZEROTH_RETURN_IF_ERROR(CheckRange(*this, begin, out.size()));
  if (has_marks()) return DoReadMarks(begin, out);
  std::fill(out.begin(), out.end(), 0);
  return absl::OkStatus();
}

absl::Status TokenSource::DoReadMarks(int64_t /*begin*/, absl::Span<uint8_t> /*out*/) const {
  ZEROTH_CHECK(!has_marks());  // a source that has marks overrides this
  return absl::OkStatus();
}

SourcePtr ViewTokens(SourcePtr tokens, int64_t begin, TokenSource::Facts facts, SourcePtr marks) {
  return std::make_shared<const View>(std::move(tokens), begin, std::move(facts), std::move(marks));
}

absl::StatusOr<SourcePtr> Concatenate(std::vector<SourcePtr> sources) {
  ZEROTH_CHECK(!sources.empty());
  for (const SourcePtr& source : sources) {
    if (source->row_length() != sources[0]->row_length()) {
      return InvalidArgument("these cannot be used together: ", KindOf(*sources[0]), ", ",
                             KindOf(*source));
    }
  }
  if (sources.size() == 1) return std::move(sources[0]);
  return std::make_shared<const Concatenation>(std::move(sources));
}

absl::Status ReadInPieces(const TokenSource& source, int64_t begin, int64_t end,
                          absl::FunctionRef<absl::Status(absl::Span<const int32_t>)> sink) {
  std::vector<int32_t> piece;
  for (; begin < end; begin += static_cast<int64_t>(piece.size())) {
    piece.resize(static_cast<size_t>(std::min(kPieceTokens, end - begin)));
    ZEROTH_RETURN_IF_ERROR(source.Read(begin, absl::MakeSpan(piece)));
    ZEROTH_RETURN_IF_ERROR(sink(piece));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> HashTokens(const TokenSource& source, int64_t most) {
  ChecksumStream checksum;
  const int64_t facts[] = {source.size(), source.row_length()};
  checksum.Add(BytesOf(absl::MakeConstSpan(facts)));
  const auto add = [&checksum](absl::Span<const int32_t> tokens) {
    checksum.Add(BytesOf(tokens));
    return absl::OkStatus();
  };
  if (source.size() <= most) {
    ZEROTH_RETURN_IF_ERROR(ReadInPieces(source, 0, source.size(), add));
  } else {
    const int64_t pieces = std::min(kPieces, most);
    const int64_t length = most / pieces;
    // In two terms, because the product may overflow.
    const int64_t last = source.size() - length;
    const int64_t steps = std::max<int64_t>(pieces - 1, 1);
    for (int64_t i = 0; i < pieces; ++i) {
      const int64_t begin = last / steps * i + last % steps * i / steps;
      ZEROTH_RETURN_IF_ERROR(ReadInPieces(source, begin, begin + length, add));
    }
  }
  return std::max<uint64_t>(checksum.Value(), 1);
}

}  // namespace zeroth
