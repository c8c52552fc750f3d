// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_MERGED_WEIGHTS_H_
#define ZEROTH_CHECKPOINT_MERGED_WEIGHTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/weights_source.h"

namespace zeroth {

// An adapter adds scale * left right to a weight [rows, columns], where left is [rows, rank] and
// right is [rank, columns]. Both may be stored transposed.
struct LowRankProduct {
  std::string weight;
  std::string left;
  std::string right;
  bool transposed = false;  // left is stored as [rank, rows], right as [columns, rank]
};

// A model's weights with adapters added, computed as they are read. Holds the halves of one adapter
// in memory. Sums over the rank are made in float64, and rounded once together with the weight.
// Thread-safe.
class MergedWeights final : public WeightsSource {
 public:
  // `adapters` has the halves. It may be `base` itself; the halves are then no weights of the
  // merged model. NotFound or InvalidArgument if a weight or a half is missing or shapes do not
  // match.
  static absl::StatusOr<std::shared_ptr<const MergedWeights>> Create(
      std::shared_ptr<const WeightsSource> base, std::shared_ptr<const WeightsSource> adapters,
      const std::vector<LowRankProduct>& products, double scale);

  absl::Status ReadElements(absl::string_view name, int64_t begin,
                            absl::Span<float> out) const override;

 private:
  // The halves of one product: left is [rows, rank], right is [rank, columns].
  struct Halves {
    std::vector<float> left;
    std::vector<float> right;
    int64_t rank = 0;
    int64_t columns = 0;
  };

  MergedWeights(std::shared_ptr<const WeightsSource> base,
                std::shared_ptr<const WeightsSource> adapters, double scale)
      : WeightsSource(base->description(), base->tensors()),
        base_(std::move(base)),
        adapters_(std::move(adapters)),
        scale_(scale) {}
  absl::Status Check(const LowRankProduct& product) const;
  absl::StatusOr<std::shared_ptr<const Halves>> HalvesOf(const LowRankProduct& product) const;

  const std::shared_ptr<const WeightsSource> base_;
  const std::shared_ptr<const WeightsSource> adapters_;
  const double scale_;
  std::map<std::string, LowRankProduct, std::less<>> products_;  // by weight
  mutable std::mutex mutex_;
  // The halves of the last weight that was read, guarded. A weight is read piece by piece.
  mutable std::string last_;
  mutable std::shared_ptr<const Halves> halves_;
};

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_MERGED_WEIGHTS_H_
