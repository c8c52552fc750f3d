// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/merged_weights.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// [a, b] as [b, a].
std::vector<float> Transposed(const std::vector<float>& values, int64_t a, int64_t b) {
  std::vector<float> turned(values.size());
  for (int64_t i = 0; i < a; ++i) {
    for (int64_t j = 0; j < b; ++j) {
      turned[static_cast<size_t>(j * a + i)] = values[static_cast<size_t>(i * b + j)];
    }
  }
  return turned;
}

absl::StatusOr<std::vector<float>> ReadHalf(const WeightsSource& source, const std::string& name,
                                            bool transposed) {
  ZEROTH_ASSIGN_OR_RETURN(const Shape shape, source.ShapeOf(name));
  ZEROTH_ASSIGN_OR_RETURN(std::vector<float> values, source.ReadAll(name, shape));
  if (!transposed) return values;
  return Transposed(values, shape.dim(0), shape.dim(1));
}

}  // namespace

absl::Status MergedWeights::Check(const LowRankProduct& product) const {
  ZEROTH_ASSIGN_OR_RETURN(const Shape weight, base_->ShapeOf(product.weight));
  ZEROTH_ASSIGN_OR_RETURN(const Shape left, adapters_->ShapeOf(product.left));
  ZEROTH_ASSIGN_OR_RETURN(const Shape right, adapters_->ShapeOf(product.right));
  const int inner = product.transposed ? 1 : 0;
  const int outer = 1 - inner;
  if (weight.rank() == 2 && left.rank() == 2 && right.rank() == 2 &&
      left.dim(inner) == weight.dim(0) && right.dim(outer) == weight.dim(1) &&
      left.dim(outer) == right.dim(inner)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(adapters_->description(), ": \"", product.left, "\" ", left.ToString(),
                   " and \"", product.right, "\" ", right.ToString(), " do not go with \"",
                   product.weight, "\" ", weight.ToString(), " of ", base_->description(),
                   "; was this adapter made for another model?"));
}

absl::StatusOr<std::shared_ptr<const MergedWeights>> MergedWeights::Create(
    std::shared_ptr<const WeightsSource> base, std::shared_ptr<const WeightsSource> adapters,
    const std::vector<LowRankProduct>& products, double scale) {
  std::shared_ptr<MergedWeights> merged(
      new MergedWeights(std::move(base), std::move(adapters), scale));
  for (const LowRankProduct& product : products) {
    ZEROTH_RETURN_IF_ERROR(merged->Check(product));
    merged->products_[product.weight] = product;
  }
  if (merged->base_ != merged->adapters_) return merged;
  for (const LowRankProduct& product : products) {
    merged->tensors_.erase(product.left);
    merged->tensors_.erase(product.right);
  }
  return merged;
}

absl::StatusOr<std::shared_ptr<const MergedWeights::Halves>> MergedWeights::HalvesOf(
    const LowRankProduct& product) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (halves_ != nullptr && last_ == product.weight) return halves_;
  auto halves = std::make_shared<Halves>();
  ZEROTH_ASSIGN_OR_RETURN(halves->left, ReadHalf(*adapters_, product.left, product.transposed));
  ZEROTH_ASSIGN_OR_RETURN(halves->right, ReadHalf(*adapters_, product.right, product.transposed));
  const Shape& weight = base_->Find(product.weight)->shape;
  halves->columns = weight.dim(1);
  halves->rank = weight.dim(0) == 0 ? 0 : static_cast<int64_t>(halves->left.size()) / weight.dim(0);
  last_ = product.weight;
  halves_ = std::move(halves);
  return halves_;
}

absl::Status MergedWeights::ReadElements(absl::string_view name, int64_t begin,
                                         absl::Span<float> out) const {
  if (Find(name) == nullptr) return MissingTensor(name);
  ZEROTH_RETURN_IF_ERROR(base_->ReadElements(name, begin, out));
  const auto product = products_.find(name);
  if (product == products_.end() || out.empty()) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<const Halves> halves, HalvesOf(product->second));
  std::vector<double> sums(static_cast<size_t>(halves->columns));
  int64_t row = begin / halves->columns;
  int64_t first = begin % halves->columns;
  while (!out.empty()) {
    const int64_t count = std::min(halves->columns - first, static_cast<int64_t>(out.size()));
    std::fill_n(sums.begin(), count, 0.0);
    for (int64_t r = 0; r < halves->rank; ++r) {
      const double left = halves->left[static_cast<size_t>(row * halves->rank + r)];
      const float* const right = halves->right.data() + r * halves->columns + first;
      for (int64_t i = 0; i < count; ++i) sums[static_cast<size_t>(i)] += left * right[i];
    }
    for (int64_t i = 0; i < count; ++i) {
      float& value = out[static_cast<size_t>(i)];
      value = static_cast<float>(value + scale_ * sums[static_cast<size_t>(i)]);
    }
    out.remove_prefix(static_cast<size_t>(count));
    first = 0;
    ++row;
  }
  return absl::OkStatus();
}

}  // namespace zeroth
