// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/data/mixture.h"
#include "zeroth/data/teacher_topk.h"
#include "zeroth/data/token_source.h"

namespace zeroth {

// The micro-batch of one rank: `batch` rows of `seq` tokens, row-major, and for each token the
// token that follows it.
struct Batch {
  int64_t batch = 0;
  int64_t seq = 0;
  std::vector<int32_t> inputs;   // [batch, seq]
  std::vector<int32_t> targets;  // [batch, seq]
  // With LoaderOptions::documents, the place in the row where each token's document begins; else
  // empty.
  std::vector<int32_t> starts;  // [batch, seq]
  // With LoaderOptions::pairs, {begin, middle, end} of each preference pair, as positions in [0,
  // batch * seq): the chosen answer is [begin, middle), the rejected one [middle, end). Padded with
  // zeros to PairsInBatch.
  std::vector<int32_t> pairs;  // [n, 3]
  // With LoaderOptions::judgements, 1 for each pair whose first answer is desirable, else 0.
  std::vector<int32_t> labels;  // [n]
  // With pairs, the reference model's loss at each target; empty if the step computes that model.
  std::vector<float> reference;  // [batch, seq]
  // With LoaderOptions::teacher, its likeliest tokens after each token and their log-probabilities;
  // else empty. Zeros in rows without targets that count.
  std::vector<int32_t> teacher_ids;      // [batch, seq, k]
  std::vector<float> teacher_log_probs;  // [batch, seq, k]
  // The divisor of the mean loss: the number of counted (not ignored) targets in the global batch,
  // over all ranks; with pairs, the number of pairs. nullopt: all targets count.
  std::optional<int64_t> counted;
};

// Returns the most pairs that a batch can hold: each answer needs a target and a token before it.
inline size_t PairsInBatch(int64_t batch, int64_t seq) {
  return static_cast<size_t>(batch * ((seq + 1) / 4));
}

// The losses of a reference at each target of each row of the sources, [source][rows * seq]; NaN in
// rows that it has not computed.
using ReferenceLosses = std::vector<std::vector<float>>;
// Which rows are marked, [source][row].
using RowMask = std::vector<std::vector<bool>>;

struct LoaderOptions {
  int64_t batch_size = 1;  // rows per rank
  int64_t seq_len = 1;     // tokens per row
  int64_t world_size = 1;
  int64_t rank = 0;
  uint64_t seed = 0;    // of the shuffling
  bool shuffle = true;  // false: in order
  // Fill Batch::starts. Marks tell where documents begin, if the source has any. Otherwise a
  // document begins after each token end_of_text, which belongs to the document that it ends.
  bool documents = false;
  int32_t end_of_text = -1;
  // The sources are rows of preference pairs (see chat/conversations.h): fill Batch::pairs.
  bool pairs = false;
  // With pairs: the first answer of each is judged, and the second is mismatched. Fill
  // Batch::labels.
  bool judgements = false;
  // With pairs: fills Batch::reference. Null: that stays empty. Loading a row that it has not
  // computed is FailedPrecondition.
  std::shared_ptr<const ReferenceLosses> reference = {};
  // Fills Batch::teacher_ids and teacher_log_probs. An epoch then cuts a stream where the teacher
  // did, at its first token. Null: they stay empty.
  std::shared_ptr<const TeacherTopK> teacher = {};
  // Number of windows of the endless sequence before step 0; negative if early steps do not exist.
  // With this, a run with another global batch size continues after the data of an earlier run.
  int64_t first_window = 0;
  // Use each window at most once, for evaluations: after the last one, all targets of a row are
  // masked.
  bool once = false;
};

// Cuts token sources into batches. A stream is cut into windows of seq_len + 1 tokens that start
// seq_len apart, so that in an epoch every token but the first is a target at most once. Rows are
// windows as they are. A global batch is batch_size * world_size consecutive windows of an endless
// sequence, of which rank r loads [r * batch_size, (r + 1) * batch_size). Mixture draws that
// sequence from the sources; each source has separate epochs. With shuffle, every epoch has a new
// random order of windows, and cuts a stream at a new random offset, so that the left-over tokens
// are not always the same.
//
// Batches are a function of (sources, options, step) alone. The step is the loader's whole state,
// so a run resumes by continuing to count. Batches do not change when the same global batch is
// divided over more or fewer ranks. Immutable and thread-safe.
class DataLoader {
 public:
  // InvalidArgument for an option out of its range, rows whose length is not seq_len + 1, a stream
  // of fewer than seq_len + 1 tokens, or a teacher that has read other sources or rows.
  static absl::StatusOr<DataLoader> Create(std::shared_ptr<const Mixture> data,
                                           const LoaderOptions& options);
  // The same, from one source.
  static absl::StatusOr<DataLoader> Create(std::shared_ptr<const TokenSource> source,
                                           const LoaderOptions& options);

  // This rank's part of global batch `step`, from 0. Errors of the sources.
  absl::StatusOr<Batch> Load(int64_t step) const;
  // Loads the parts of global batches [first, first + count), in order. Either all of them have a
  // Batch::counted or none.
  absl::StatusOr<std::vector<Batch>> LoadMany(int64_t first, int64_t count) const;

  // Marks the rows that windows [first, first + count) of the endless sequence read. The sources
  // must be rows. An empty `rows` first gets an unmarked element for each row.
  void MarkRows(int64_t first, int64_t count, RowMask& rows) const;

  // Number of windows before one is repeated. For a mixture this may be fewer than all windows,
  // because the count ends with the first source that is used up.
  int64_t distinct_windows() const { return distinct_; }

 private:
  // The windows of one source.
  struct Windows {
    int64_t count = 0;   // in an epoch
    int64_t stride = 0;  // from one to the next
    int64_t slack = 0;   // tokens of a stream that no window of an epoch uses; 0 for rows
    uint64_t seed = 0;
  };
  static absl::Status CheckTeacher(const Mixture& data, const LoaderOptions& options,
                                   absl::Span<const Windows> windows);
  DataLoader(std::shared_ptr<const Mixture> data, const LoaderOptions& options,
             std::vector<Windows> windows, int64_t distinct)
      : data_(std::move(data)),
        options_(options),
        windows_(std::move(windows)),
        distinct_(distinct) {}
  int64_t global_batch() const { return options_.batch_size * options_.world_size; }
  // The first token of a window in its source.
  int64_t WindowBegin(const Mixture::Place& place) const;
  // Fills the teacher's part of row `row` of the batch.
  absl::Status ReadTeacher(const Mixture::Place& place, int64_t row, Batch& batch) const;
  // How many rows of the global batch that begins at window `first` have data.
  int64_t RowsWithData(int64_t first) const;
  // Number of pairs, or of targets that count.
  absl::StatusOr<int64_t> Count(absl::Span<const Mixture::Place> places) const;

  std::shared_ptr<const Mixture> data_;
  LoaderOptions options_;
  std::vector<Windows> windows_;  // of each source
  int64_t distinct_;
};

// Loads the batches of coming steps in a separate thread, so that a step waits for data only if
// loading takes longer than computing. The batches are those of the loader. Next is for one thread.
class BatchPrefetcher {
 public:
  // Number of steps that are loaded ahead, so that one slow load does not make its step wait.
  static constexpr size_t kSteps = 2;

  // A step consists of the micro-batches [step * count, (step + 1) * count) of `loader`. The thread
  // loads the steps [first, end). If the system refuses the thread, Next returns ResourceExhausted.
  BatchPrefetcher(DataLoader loader, int64_t count, int64_t first, int64_t end);
  // Waits for the batch that is being loaded.
  ~BatchPrefetcher();
  BatchPrefetcher(const BatchPrefetcher&) = delete;
  BatchPrefetcher& operator=(const BatchPrefetcher&) = delete;

  // Returns the next step's micro-batches, waiting if they are not loaded yet. An error of the
  // loader is returned by this and all later calls. OutOfRange after the last step.
  absl::StatusOr<std::vector<Batch>> Next();

 private:
  using Step = absl::StatusOr<std::vector<Batch>>;

  void Run(int64_t first, int64_t end);
  const DataLoader loader_;
  const int64_t count_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Step> ready_;
  bool stop_ = false;   // the consumer is gone
  bool ended_ = false;  // all steps are loaded
  std::thread thread_;  // last, because it uses the other members
};

}  // namespace zeroth
