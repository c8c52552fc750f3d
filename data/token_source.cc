// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/token_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

class Concatenation final : public TokenSource {
 public:
  explicit Concatenation(std::vector<std::shared_ptr<const TokenSource>> parts)
      : parts_(std::move(parts)) {
    for (const auto& part : parts_) {
      begins_.push_back(size_);
      size_ += part->size();
    }
    description_ = absl::StrCat(parts_[0]->description(), " and ", parts_.size() - 1, " more");
  }

  int64_t size() const override { return size_; }
  int64_t row_length() const override { return parts_[0]->row_length(); }
  const std::string& description() const override { return description_; }

  absl::Status Read(int64_t begin, absl::Span<int32_t> out) const override {
    ZEROTH_RETURN_IF_ERROR(CheckTokenRange(*this, begin, out.size()));
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

 private:
  const std::vector<std::shared_ptr<const TokenSource>> parts_;
  std::vector<int64_t> begins_;
  int64_t size_ = 0;
  std::string description_;
};

std::string KindOf(const TokenSource& source) {
  if (source.row_length() == 0) return absl::StrCat(source.description(), " is a stream");
  return absl::StrCat(source.description(), " has rows of ", source.row_length(), " tokens");
}

}  // namespace

absl::Status TokenSource::ReadMarks(int64_t begin, absl::Span<uint8_t> out) const {
  ZEROTH_RETURN_IF_ERROR(CheckTokenRange(*this, begin, out.size()));
  std::fill(out.begin(), out.end(), 0);
  return absl::OkStatus();
}

const std::vector<std::string>& TokenSource::notes() const {
  static const auto* const none = new std::vector<std::string>();
  return *none;
}

absl::Status CheckTokenRange(const TokenSource& source, int64_t begin, size_t count) {
  const auto wanted = static_cast<int64_t>(count);
  if (begin >= 0 && wanted <= source.size() && begin <= source.size() - wanted)
    return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(source.description(), ": tokens [", begin, ", ", begin,
                                            " + ", wanted, ") of ", source.size()));
}

absl::StatusOr<std::shared_ptr<const TokenSource>> Concatenate(
    std::vector<std::shared_ptr<const TokenSource>> sources) {
  ZEROTH_CHECK(!sources.empty());
  for (const auto& source : sources) {
    if (source->row_length() != sources[0]->row_length()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "these cannot be used together: ", KindOf(*sources[0]), ", ", KindOf(*source)));
    }
  }
  if (sources.size() == 1) return std::move(sources[0]);
  return std::make_shared<const Concatenation>(std::move(sources));
}

}  // namespace zeroth
