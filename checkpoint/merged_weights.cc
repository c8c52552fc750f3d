// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/checkpoint/peft_adapter.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Reads A or B; if `transposed`, [a, b] as [b, a].
absl::StatusOr<std::vector<float>> ReadMatrix(const WeightsSource& source, const std::string& name,
                                              bool transposed) {
  ZEROTH_ASSIGN_OR_RETURN(const Shape shape, source.ShapeOf(name));
  ZEROTH_ASSIGN_OR_RETURN(std::vector<float> values, source.ReadAll(name, shape));
  if (!transposed) return values;
  return Transposed(shape, values);
}

}  // namespace

absl::Status MergedWeights::Check(const LoraDelta& delta) const {
  ZEROTH_ASSIGN_OR_RETURN(const Shape weight, base_->ShapeOf(delta.weight));
  ZEROTH_ASSIGN_OR_RETURN(const Shape left, adapters_->ShapeOf(delta.left));
  ZEROTH_ASSIGN_OR_RETURN(const Shape right, adapters_->ShapeOf(delta.right));
  if (!delta.magnitude.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(const Shape magnitude, adapters_->ShapeOf(delta.magnitude));
    const int outputs = delta.outputs_are_columns ? 1 : 0;
    if (weight.rank() == 2 && magnitude != Shape({weight.dim(outputs)})) {
      return InvalidArgument(adapters_->description(), ": \"", delta.magnitude, "\" ",
                             magnitude.ToString(), " does not go with \"", delta.weight, "\" ",
                             weight.ToString(), " of ", base_->description(),
                             "; was this adapter made for another model?");
    }
  }
  const int inner = delta.transposed ? 1 : 0;
  const int outer = 1 - inner;
  if (weight.rank() == 2 && left.rank() == 2 && right.rank() == 2 &&
      left.dim(inner) == weight.dim(0) && right.dim(outer) == weight.dim(1) &&
      left.dim(outer) == right.dim(inner)) {
    return absl::OkStatus();
  }
  return InvalidArgument(adapters_->description(), ": \"", delta.left, "\" ", left.ToString(),
                         " and \"", delta.right, "\" ", right.ToString(), " do not go with \"",
                         delta.weight, "\" ", weight.ToString(), " of ", base_->description(),
                         "; was this adapter made for another model?");
}

absl::StatusOr<std::shared_ptr<const MergedWeights>> MergedWeights::Create(
    std::shared_ptr<const WeightsSource> base, std::shared_ptr<const WeightsSource> adapters,
    const std::vector<LoraDelta>& deltas, double scale,
    std::map<std::string, std::string, std::less<>> replaced) {
  std::shared_ptr<MergedWeights> merged(
      new MergedWeights(std::move(base), std::move(adapters), scale));
  for (const LoraDelta& delta : deltas) {
    ZEROTH_RETURN_IF_ERROR(merged->Check(delta));
    merged->deltas_[delta.weight] = delta;
  }
  for (const auto& [weight, name] : replaced) {
    ZEROTH_ASSIGN_OR_RETURN(const Shape old_shape, merged->base_->ShapeOf(weight));
    ZEROTH_ASSIGN_OR_RETURN(const Shape shape, merged->adapters_->ShapeOf(name));
    if (shape == old_shape) continue;
    return InvalidArgument(merged->adapters_->description(), ": \"", name, "\" ", shape.ToString(),
                           " does not go with \"", weight, "\" ", old_shape.ToString(), " of ",
                           merged->base_->description(),
                           "; was this adapter made for another model?");
  }
  merged->replaced_ = std::move(replaced);
  if (merged->base_ != merged->adapters_) return merged;
  for (const LoraDelta& delta : deltas) {
    merged->tensors_.erase(delta.left);
    merged->tensors_.erase(delta.right);
    if (!delta.magnitude.empty()) merged->tensors_.erase(delta.magnitude);
  }
  return merged;
}

absl::StatusOr<std::shared_ptr<const LoraMatrices>> MergedWeights::MatricesOf(
    const LoraDelta& delta) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (matrices_ != nullptr && last_ == delta.weight) return matrices_;
  auto matrices = std::make_shared<LoraMatrices>();
  ZEROTH_ASSIGN_OR_RETURN(matrices->left, ReadMatrix(*adapters_, delta.left, delta.transposed));
  ZEROTH_ASSIGN_OR_RETURN(matrices->right, ReadMatrix(*adapters_, delta.right, delta.transposed));
  const Shape& weight = base_->Find(delta.weight)->shape;
  matrices->columns = weight.dim(1);
  matrices->rank =
      weight.dim(0) == 0 ? 0 : static_cast<int64_t>(matrices->left.size()) / weight.dim(0);
  if (!delta.magnitude.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(const Shape shape, adapters_->ShapeOf(delta.magnitude));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> magnitudes,
                            adapters_->ReadAll(delta.magnitude, shape));
    ZEROTH_RETURN_IF_ERROR(matrices->SetFactors(scale_, magnitudes, delta.outputs_are_columns,
                                                [&](int64_t begin, absl::Span<float> values) {
                                                  return base_->ReadElements(delta.weight, begin,
                                                                             values);
                                                }));
  }
  last_ = delta.weight;
  matrices_ = std::move(matrices);
  return matrices_;
}

absl::Status MergedWeights::ReadElements(absl::string_view name, int64_t begin,
                                         absl::Span<float> out) const {
  if (Find(name) == nullptr) return MissingTensor(name);
  if (const auto other = replaced_.find(name); other != replaced_.end()) {
    return adapters_->ReadElements(other->second, begin, out);
  }
  ZEROTH_RETURN_IF_ERROR(base_->ReadElements(name, begin, out));
  const auto delta = deltas_.find(name);
  if (delta == deltas_.end() || out.empty()) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<const LoraMatrices> matrices,
                          MatricesOf(delta->second));
  matrices->AddTo(scale_, begin, out);
  return absl::OkStatus();
}

template <typename F>
void LoraMatrices::Visit(double scale, int64_t begin, absl::Span<const float> part,
                         const F& visit) const {
  if (part.empty()) return;
  std::vector<double> sums(static_cast<size_t>(columns));
  int64_t row = begin / columns;
  int64_t first = begin % columns;
  for (size_t at = 0; at < part.size();) {
    const int64_t count = std::min(columns - first, static_cast<int64_t>(part.size() - at));
    std::fill_n(sums.begin(), count, 0.0);
    for (int64_t r = 0; r < rank; ++r) {
      const double factor = left[static_cast<size_t>(row * rank + r)];
      const float* const others = right.data() + r * columns + first;
      for (int64_t i = 0; i < count; ++i) sums[static_cast<size_t>(i)] += factor * others[i];
    }
    for (int64_t i = 0; i < count; ++i, ++at) {
      const int64_t output = outputs_are_columns ? first + i : row;
      visit(at, static_cast<size_t>(output), part[at] + scale * sums[static_cast<size_t>(i)]);
    }
    first = 0;
    ++row;
  }
}

void LoraMatrices::AddTo(double scale, int64_t begin, absl::Span<float> part) const {
  Visit(scale, begin, part, [&](size_t i, size_t output, double value) {
    part[i] = static_cast<float>(factors.empty() ? value : value * factors[output]);
  });
}

absl::Status LoraMatrices::SetFactors(
    double scale, absl::Span<const float> magnitudes, bool of_columns,
    const std::function<absl::Status(int64_t begin, absl::Span<float> values)>& read) {
  outputs_are_columns = of_columns;
  std::vector<double> squares(magnitudes.size());
  const int64_t numel = rank == 0 ? 0 : static_cast<int64_t>(left.size()) / rank * columns;
  constexpr int64_t kBlock = int64_t{1} << 20;
  std::vector<float> block;
  for (int64_t begin = 0; begin < numel; begin += kBlock) {
    block.resize(static_cast<size_t>(std::min(kBlock, numel - begin)));
    ZEROTH_RETURN_IF_ERROR(read(begin, absl::MakeSpan(block)));
    Visit(scale, begin, block,
          [&](size_t, size_t output, double value) { squares[output] += value * value; });
  }
  factors.resize(squares.size());
  for (size_t i = 0; i < squares.size(); ++i) {
    // An output without weights stays zero.
    factors[i] = squares[i] == 0 ? 0 : magnitudes[i] / std::sqrt(squares[i]);
  }
  return absl::OkStatus();
}

}  // namespace zeroth
