// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/loader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/ignored_target.h"
#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/thread.h"
#include "zeroth/data/mixture.h"

namespace zeroth {
namespace {

// Far above any use, and low enough that products of two options do not overflow.
constexpr int64_t kMaxOption = int64_t{1} << 30;

absl::Status CheckOption(const char* name, int64_t value) {
  if (value >= 1 && value <= kMaxOption) return absl::OkStatus();
  return InvalidArgument(name, " is ", value, ", expected 1 to ", kMaxOption);
}

absl::Status CheckOptions(const LoaderOptions& options) {
  ZEROTH_RETURN_IF_ERROR(CheckOption("batch_size", options.batch_size));
  ZEROTH_RETURN_IF_ERROR(CheckOption("seq_len", options.seq_len));
  ZEROTH_RETURN_IF_ERROR(CheckOption("world_size", options.world_size));
  if (options.rank < 0 || options.rank >= options.world_size) {
    return InvalidArgument("rank is ", options.rank, ", expected 0 to ", options.world_size - 1);
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
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<const Mixture> data,
                          Mixture::Create({{std::move(source), 1}}));
  return Create(std::move(data), options);
}

absl::StatusOr<DataLoader> DataLoader::Create(std::shared_ptr<const Mixture> data,
                                              const LoaderOptions& options) {
  ZEROTH_CHECK(data != nullptr);
  ZEROTH_RETURN_IF_ERROR(CheckOptions(options));
  std::vector<Windows> windows;
  for (size_t i = 0; i < data->sources(); ++i) {
    const TokenSource& source = data->source(i);
    const int64_t size = source.size();
    const int64_t row = source.row_length();
    Windows own;
    // Sources of the same size must not have the same order.
    own.seed = i == 0 ? options.seed : CounterRng(options.seed, "loader source").Bits64(i);
    if (row > 0) {
      if (row != options.seq_len + 1) {
        return InvalidArgument(source.description(), ": rows of ", row, " tokens need seq_len ",
                               row - 1, " (the last token is only a target), but seq_len is ",
                               options.seq_len);
      }
      own.count = size / row;
      own.stride = row;
    } else {
      if (size < options.seq_len + 1) {
        return InvalidArgument(source.description(), ": ", size,
                               " tokens, but one sequence of seq_len ", options.seq_len, " needs ",
                               options.seq_len + 1, "; give more data or a smaller seq_len");
      }
      own.count = (size - 1) / options.seq_len;
      own.stride = options.seq_len;
      own.slack = size - 1 - own.count * options.seq_len;
    }
    windows.push_back(own);
  }
  if (options.teacher != nullptr) {
    ZEROTH_RETURN_IF_ERROR(CheckTeacher(*data, options, windows));
  }
  std::vector<int64_t> counts;
  for (const Windows& own : windows) counts.push_back(own.count);
  const int64_t distinct = data->DistinctWindows(counts, options.seed);
  return DataLoader(std::move(data), options, std::move(windows), distinct);
}

absl::Status DataLoader::CheckTeacher(const Mixture& data, const LoaderOptions& options,
                                      absl::Span<const Windows> windows) {
  const TopKFacts& facts = options.teacher->facts();
  const std::string& directory = options.teacher->directory();
  if (facts.seq_len != options.seq_len) {
    return InvalidArgument(directory, ": written with seq_len ", facts.seq_len, ", but seq_len is ",
                           options.seq_len, "; expected the same");
  }
  if (facts.rows.size() != windows.size()) {
    return InvalidArgument(directory, ": written for ", facts.rows.size(),
                           " sources, but there are ", windows.size(),
                           "; write it from the same data");
  }
  for (size_t i = 0; i < windows.size(); ++i) {
    if (facts.rows[i] == windows[i].count) continue;
    return InvalidArgument(directory, ": written for ", facts.rows[i], " sequences, but ",
                           data.source(i).description(), " has ", windows[i].count,
                           "; write it from the same data, of which nothing is held out");
  }
  return absl::OkStatus();
}

absl::Status DataLoader::ReadTeacher(const Mixture::Place& place, int64_t row, Batch& batch) const {
  const auto part = [row](auto& values, int64_t of_row) {
    return absl::MakeSpan(values).subspan(static_cast<size_t>(row * of_row),
                                          static_cast<size_t>(of_row));
  };
  const int64_t numbers = options_.seq_len * options_.teacher->facts().k;
  TopKRow to;
  to.inputs = part(batch.inputs, options_.seq_len);
  if (options_.documents) to.starts = part(batch.starts, options_.seq_len);
  to.ids = part(batch.teacher_ids, numbers);
  to.log_probs = part(batch.teacher_log_probs, numbers);
  const int64_t index = WindowBegin(place) / windows_[place.source].stride;
  return options_.teacher->Read(place.source, index, to);
}

int64_t DataLoader::WindowBegin(const Mixture::Place& place) const {
  const Windows& windows = windows_[place.source];
  const auto epoch = static_cast<uint64_t>(place.index / windows.count);
  int64_t position = place.index % windows.count;
  int64_t offset = 0;
  if (options_.shuffle) {
    position = Permutation(windows.count, windows.seed, epoch)(position);
    if (options_.teacher == nullptr) {
      // Slack is below seq_len, so 64 random bits show no bias.
      const CounterRng rng(windows.seed, "loader offset");
      offset = static_cast<int64_t>(rng.Bits64(epoch) % static_cast<uint64_t>(windows.slack + 1));
    }
  }
  return offset + position * windows.stride;
}

absl::StatusOr<int64_t> DataLoader::Count(absl::Span<const Mixture::Place> places) const {
  std::vector<uint8_t> marks(static_cast<size_t>(options_.seq_len));
  int64_t counted = 0;
  for (const Mixture::Place& place : places) {
    ZEROTH_RETURN_IF_ERROR(
        data_->source(place.source).ReadMarks(WindowBegin(place) + 1, absl::MakeSpan(marks)));
    counted += std::count_if(marks.begin(), marks.end(), [this](uint8_t mark) {
      return options_.pairs ? (mark & kBeginsRejected) != 0 : (mark & kNoTarget) == 0;
    });
  }
  return counted;
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
  const auto seq = static_cast<size_t>(options_.seq_len);
  Batch batch;
  batch.batch = options_.batch_size;
  batch.seq = options_.seq_len;
  batch.inputs.resize(static_cast<size_t>(options_.batch_size) * seq);
  batch.targets.resize(batch.inputs.size());
  if (options_.documents) batch.starts.resize(batch.inputs.size());
  const int64_t used = RowsWithData(first);
  const std::vector<Mixture::Place> places = data_->Places(first, used, options_.seed);
  if (data_->has_marks()) {
    ZEROTH_ASSIGN_OR_RETURN(batch.counted, Count(places));
  } else if (used < global_batch()) {
    batch.counted = used * options_.seq_len;
  }
  if (options_.pairs) {
    batch.pairs.resize(3 * PairsInBatch(options_.batch_size, options_.seq_len));
    if (options_.judgements) batch.labels.resize(batch.pairs.size() / 3);
    if (options_.reference != nullptr) batch.reference.resize(batch.inputs.size());
  }
  if (options_.teacher != nullptr) {
    batch.teacher_ids.resize(batch.inputs.size() *
                             static_cast<size_t>(options_.teacher->facts().k));
    batch.teacher_log_probs.resize(batch.teacher_ids.size());
  }
  size_t pair = 0;  // the number of the last pair so far
  std::vector<int32_t> window(seq + 1);
  std::vector<uint8_t> marks(seq + 1);
  for (int64_t row = 0; row < options_.batch_size; ++row) {
    const int64_t global_row = options_.rank * options_.batch_size + row;
    if (global_row >= used) {
      std::fill_n(batch.targets.begin() + row * options_.seq_len, seq, kIgnoredTarget);
      continue;
    }
    const Mixture::Place& place = places[static_cast<size_t>(global_row)];
    const TokenSource& source = data_->source(place.source);
    const int64_t begin = WindowBegin(place);
    const size_t at = static_cast<size_t>(row) * seq;
    ZEROTH_RETURN_IF_ERROR(source.Read(begin, absl::MakeSpan(window)));
    ZEROTH_RETURN_IF_ERROR(source.ReadMarks(begin, absl::MakeSpan(marks)));
    if (options_.reference != nullptr) {
      const int64_t index = begin / (options_.seq_len + 1);
      const auto losses = (*options_.reference)[place.source].begin() + index * options_.seq_len;
      if (std::isnan(*losses)) {
        return absl::FailedPreconditionError(
            absl::StrCat(source.description(), ": sequence ", index,
                         " was not among those for which the reference was computed"));
      }
      std::copy_n(losses, seq, batch.reference.begin() + row * options_.seq_len);
    }
    size_t start = 0;
    for (size_t i = 0; i < seq; ++i) {
      const bool begins = source.has_marks() ? (marks[i] & kBeginsDocument) != 0
                                             : i > 0 && window[i - 1] == options_.end_of_text;
      if (options_.pairs && begins) {
        if ((marks[i] & kBeginsRejected) != 0) {
          const auto place_of = [at](size_t token) { return static_cast<int32_t>(at + token); };
          if (options_.judgements) batch.labels[pair] = (marks[start] & kIsDesirable) != 0 ? 1 : 0;
          int32_t* const range = &batch.pairs[3 * pair++];
          range[0] = place_of(start);
          range[1] = place_of(i);
          range[2] = place_of(seq);
        } else if (i > 0) {
          batch.pairs[3 * pair - 1] = static_cast<int32_t>(at + i);
        }
      }
      if (begins) start = i;
      if (options_.documents) batch.starts[at + i] = static_cast<int32_t>(start);
      batch.inputs[at + i] = window[i];
      batch.targets[at + i] = (marks[i + 1] & kNoTarget) != 0 ? kIgnoredTarget : window[i + 1];
    }
    if (options_.teacher != nullptr) ZEROTH_RETURN_IF_ERROR(ReadTeacher(place, row, batch));
  }
  return batch;
}

absl::StatusOr<std::vector<Batch>> DataLoader::LoadMany(int64_t first, int64_t count) const {
  std::vector<Batch> batches;
  for (int64_t i = 0; i < count; ++i) {
    ZEROTH_ASSIGN_OR_RETURN(Batch batch, Load(first + i));
    batches.push_back(std::move(batch));
  }
  // Only the last batches can lack rows.
  if (!batches.empty() && batches.back().counted.has_value()) {
    for (Batch& batch : batches) {
      batch.counted = batch.counted.value_or(global_batch() * options_.seq_len);
    }
  }
  return batches;
}

void DataLoader::MarkRows(int64_t first, int64_t count, RowMask& rows) const {
  int64_t unmarked = 0;
  for (size_t i = 0; i < windows_.size(); ++i) {
    ZEROTH_CHECK(data_->source(i).row_length() > 0);
    if (rows.size() == i) rows.emplace_back(static_cast<size_t>(windows_[i].count));
    unmarked += std::count(rows[i].begin(), rows[i].end(), false);
  }
  const int64_t most = std::numeric_limits<int64_t>::max() - global_batch();
  int64_t end = count > most - first ? most : first + count;
  if (options_.once) end = std::min(end, distinct_);
  constexpr int64_t kPiece = int64_t{1} << 12;
  while (first < end && unmarked > 0) {
    const int64_t piece = std::min(kPiece, end - first);
    for (const Mixture::Place& place : data_->Places(first, piece, options_.seed)) {
      const int64_t row = WindowBegin(place) / windows_[place.source].stride;
      std::vector<bool>::reference is_marked = rows[place.source][static_cast<size_t>(row)];
      if (!is_marked) --unmarked;
      is_marked = true;
    }
    first += piece;
  }
}

int64_t DataLoader::RowsWithData(int64_t first) const {
  if (!options_.once) return global_batch();
  return std::clamp<int64_t>(distinct_ - first, 0, global_batch());
}

BatchPrefetcher::BatchPrefetcher(DataLoader loader, int64_t count, int64_t first, int64_t end)
    : loader_(std::move(loader)), count_(count) {
  absl::StatusOr<std::thread> thread =
      StartThread("loading batches ahead", [this, first, end] { Run(first, end); });
  if (thread.ok()) {
    thread_ = *std::move(thread);
  } else {
    ready_.emplace_back(thread.status());
  }
}

BatchPrefetcher::~BatchPrefetcher() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void BatchPrefetcher::Run(int64_t first, int64_t end) {
  for (int64_t step = first; step < end; ++step) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || ready_.size() < kSteps; });
      if (stop_) return;
    }
    Step loaded = loader_.LoadMany(step * count_, count_);
    const bool failed = !loaded.ok();
    const std::lock_guard<std::mutex> lock(mutex_);
    ready_.push_back(std::move(loaded));
    changed_.notify_one();
    if (failed) return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  ended_ = true;
  changed_.notify_one();
}

absl::StatusOr<std::vector<Batch>> BatchPrefetcher::Next() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return ended_ || !ready_.empty(); });
  if (ready_.empty()) return absl::OutOfRangeError("batches of a step behind the last one");
  // An error stays in the queue, because the thread ends after it.
  if (!ready_.front().ok()) return ready_.front();
  Step step = std::move(ready_.front());
  ready_.pop_front();
  changed_.notify_one();
  return step;
}

}  // namespace zeroth
