// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_LATE_RANKS_H_
#define ZEROTH_TRAIN_LATE_RANKS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace zeroth {

// A rank that others waited for, and when.
struct LateRank {
  int rank = 0;
  int64_t since = 0;   // the first step of the period
  int64_t until = 0;   // the last
  double seconds = 0;  // in the last step; 0 if it was in time then
  double mean_seconds = 0;
  double worst_seconds = 0;

  int64_t steps() const { return until - since + 1; }
};

// Who is late. All ranks end a step together, so whoever comes to collectives last is the one that
// waits least. How late a rank is in a step is how much longer the others waited, in their mean.
//
// A rank's period of being late begins where it is later than kTolerated of a step, and lasts while
// what it is late beyond that adds up to more than nothing (Page's cumulative sums): one early step
// does not end it, and what ranks are late in turn is no period.
class LateRanks {
 public:
  static constexpr double kTolerated = 0.02;

  explicit LateRanks(int ranks) : ranks_(static_cast<size_t>(ranks)) {}

  // Steps one after another: what each rank waited in it, and its length.
  void Add(int64_t step, absl::Span<const double> waited, double step_seconds);
  // Of the periods that go on, the one in which most was waited; none if all ranks are in time.
  std::optional<LateRank> now() const;
  // The same of all periods so far, each up to where most was waited beyond what is tolerated; none
  // where that is below kTolerated of all steps.
  std::optional<LateRank> most() const;

 private:
  struct Rank {
    LateRank period;  // none goes on where `sum` is 0
    double sum = 0;
  };

  std::vector<Rank> ranks_;
  LateRank most_;
  double most_sum_ = 0;
  double seconds_ = 0;  // of all steps
};

// "rank 2 from step 21 to 200: the others waited 48.2 ms a step for it, and 60.1 ms at most".
std::string LateRankText(const LateRank& late);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_LATE_RANKS_H_
