// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/loader.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/permutation.h"

namespace zeroth {
namespace {

// Far above any use, and low enough that products of these do not overflow.
constexpr int64_t kMaxOption = int64_t{1} << 30;

absl::Status CheckOption(const char* name, int64_t value) {
  if (value >= 1 && value <= kMaxOption) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", value, ", expected 1 to ", kMaxOption));
}

absl::Status CheckOptions(const LoaderOptions& options) {
  ZEROTH_RETURN_IF_ERROR(CheckOption("batch_size", options.batch_size));
  ZEROTH_RETURN_IF_ERROR(CheckOption("seq_len", options.seq_len));
  ZEROTH_RETURN_IF_ERROR(CheckOption("world_size", options.world_size));
  if (options.rank < 0 || options.rank >= options.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank is ", options.rank, ", expected 0 to ", options.world_size - 1));
  }
  int64_t tokens = 0;
  if (__builtin_mul_overflow(options.batch_size * options.world_size, options.seq_len, &tokens)) {
    return absl::InvalidArgumentError(
        "batch_size times world_size times seq_len overflows 63 bits");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DataLoader> DataLoader::Create(std::shared_ptr<const TokenSource> source,
                                              const LoaderOptions& options) {
  ZEROTH_CHECK(source != nullptr);
  ZEROTH_RETURN_IF_ERROR(CheckOptions(options));
  const int64_t size = source->size();
  const int64_t row = source->row_length();
  if (row > 0) {
    if (row != options.seq_len + 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(source->description(), ": rows of ", row, " tokens need seq_len ", row - 1,
                       " (the last token is only a target), but seq_len is ", options.seq_len));
    }
    return DataLoader(std::move(source), options, size / row, 0);
  }
  if (size < options.seq_len + 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        source->description(), ": ", size, " tokens, but one sequence of seq_len ", options.seq_len,
        " needs ", options.seq_len + 1, "; give more data or a smaller seq_len"));
  }
  const int64_t windows = (size - 1) / options.seq_len;
  const int64_t slack = size - 1 - windows * options.seq_len;
  return DataLoader(std::move(source), options, windows, slack);
}

int64_t DataLoader::WindowBegin(int64_t epoch, int64_t position) const {
  const auto epoch_number = static_cast<uint64_t>(epoch);
  int64_t offset = 0;
  if (options_.shuffle) {
    position = Permutation(windows_, options_.seed, epoch_number)(position);
    // Slack is below seq_len, so 64 random bits show no bias.
    const CounterRng rng(options_.seed, "loader offset");
    offset = static_cast<int64_t>(rng.Bits64(epoch_number) % static_cast<uint64_t>(slack_ + 1));
  }
  const int64_t stride = source_->row_length() > 0 ? source_->row_length() : options_.seq_len;
  return offset + position * stride;
}

absl::StatusOr<Batch> DataLoader::Load(int64_t step) const {
  int64_t first = 0;
  if (step < 0 || __builtin_mul_overflow(step, global_batch(), &first) ||
      first > std::numeric_limits<int64_t>::max() - global_batch()) {
    return absl::OutOfRangeError(
        absl::StrCat("step ", step, " of the loader is negative or too large to count"));
  }
  if (__builtin_add_overflow(first, options_.first_window, &first) || first < 0 ||
      first > std::numeric_limits<int64_t>::max() - global_batch()) {
    return absl::OutOfRangeError(
        absl::StrCat("step ", step, " of the loader, whose step 0 begins at window ",
                     options_.first_window, ", is before the first window or beyond the last"));
  }
  first += options_.rank * options_.batch_size;
  const auto seq = static_cast<size_t>(options_.seq_len);
  Batch batch;
  batch.batch = options_.batch_size;
  batch.seq = options_.seq_len;
  batch.inputs.resize(static_cast<size_t>(options_.batch_size) * seq);
  batch.targets.resize(batch.inputs.size());
  std::vector<int32_t> window(seq + 1);
  for (int64_t row = 0; row < options_.batch_size; ++row) {
    const int64_t index = first + row;
    const int64_t begin = WindowBegin(index / windows_, index % windows_);
    ZEROTH_RETURN_IF_ERROR(source_->Read(begin, absl::MakeSpan(window)));
    const auto place = static_cast<std::ptrdiff_t>(static_cast<size_t>(row) * seq);
    std::copy(window.begin(), window.end() - 1, batch.inputs.begin() + place);
    std::copy(window.begin() + 1, window.end(), batch.targets.begin() + place);
  }
  return batch;
}

int64_t DataLoader::steps_per_epoch() const {
  return std::max<int64_t>(1, windows_ / global_batch());
}

}  // namespace zeroth
