// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/held_out.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr int64_t kTokensAtOnce = int64_t{1} << 16;

// Tokens [begin, end) of a source.
class Part final : public TokenSource {
 public:
  Part(std::shared_ptr<const TokenSource> source, int64_t begin, int64_t end,
       std::string description, std::vector<std::string> notes)
      : source_(std::move(source)),
        begin_(begin),
        size_(end - begin),
        description_(std::move(description)),
        notes_(std::move(notes)) {}

  int64_t size() const override { return size_; }
  int64_t row_length() const override { return source_->row_length(); }
  bool has_marks() const override { return source_->has_marks(); }
  const std::vector<std::string>& notes() const override { return notes_; }
  const std::string& description() const override { return description_; }

  absl::Status Read(int64_t begin, absl::Span<int32_t> out) const override {
    ZEROTH_RETURN_IF_ERROR(CheckTokenRange(*this, begin, out.size()));
    return source_->Read(begin_ + begin, out);
  }
  absl::Status ReadMarks(int64_t begin, absl::Span<uint8_t> out) const override {
    ZEROTH_RETURN_IF_ERROR(CheckTokenRange(*this, begin, out.size()));
    return source_->ReadMarks(begin_ + begin, out);
  }

 private:
  const std::shared_ptr<const TokenSource> source_;
  const int64_t begin_;
  const int64_t size_;
  const std::string description_;
  const std::vector<std::string> notes_;
};

// Where the first document begins that begins at or behind `from`, or else the last before it that
// is not the first of all; `from` if there is neither.
absl::StatusOr<int64_t> DocumentAt(const TokenSource& source, int64_t from, int32_t end_of_text) {
  std::vector<int32_t> room;
  // A document that begins at i is behind the token i - 1; none begins at the end.
  for (int64_t begin = from - 1; begin < source.size() - 1;) {
    room.resize(static_cast<size_t>(std::min(kTokensAtOnce, source.size() - 1 - begin)));
    ZEROTH_RETURN_IF_ERROR(source.Read(begin, absl::MakeSpan(room)));
    const auto found = std::find(room.begin(), room.end(), end_of_text);
    if (found != room.end()) return begin + (found - room.begin()) + 1;
    begin += static_cast<int64_t>(room.size());
  }
  for (int64_t end = from - 1; end > 0;) {
    room.resize(static_cast<size_t>(std::min(kTokensAtOnce, end)));
    ZEROTH_RETURN_IF_ERROR(
        source.Read(end - static_cast<int64_t>(room.size()), absl::MakeSpan(room)));
    const auto found = std::find(room.rbegin(), room.rend(), end_of_text);
    if (found != room.rend()) return end - (found - room.rbegin());
    end -= static_cast<int64_t>(room.size());
  }
  return from;
}

}  // namespace

absl::StatusOr<SplitSource> SplitHeldOut(std::shared_ptr<const TokenSource> source, double fraction,
                                         int32_t end_of_text) {
  ZEROTH_CHECK(source != nullptr && fraction > 0 && fraction < 1);
  const int64_t row = std::max<int64_t>(source->row_length(), 1);
  const int64_t units = source->size() / row;
  if (units < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(source->description(), ": has ", units, row > 1 ? " row" : " token",
                     ", of which no part can be held out; expected 2 at least"));
  }
  const auto wanted = static_cast<int64_t>(std::llround(fraction * static_cast<double>(units)));
  int64_t begin = (units - std::clamp<int64_t>(wanted, 1, units - 1)) * row;
  if (source->row_length() == 0) {
    ZEROTH_ASSIGN_OR_RETURN(begin, DocumentAt(*source, begin, end_of_text));
  }
  const std::string name = source->description();
  std::string note = absl::StrCat("data      ", name, ": the last ", source->size() - begin, " of ",
                                  source->size(), " tokens are held out, and evaluated on");
  SplitSource split;
  split.train = std::make_shared<const Part>(source, 0, begin, name, source->notes());
  const int64_t end = source->size();
  split.held_out =
      std::make_shared<const Part>(std::move(source), begin, end, absl::StrCat(name, " (held out)"),
                                   std::vector{std::move(note)});
  return split;
}

}  // namespace zeroth
