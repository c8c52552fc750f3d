// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/api/step_inputs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/strings/str_join.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::StatusOr<int64_t> MicroBatchesPerRank(int64_t micro_batches, int world_size) {
  if (micro_batches < 1) {
    return InvalidArgument("a deterministic batch of ", micro_batches,
                           " micro-batches, expected at least 1");
  }
  std::vector<int64_t> allowed;
  for (int64_t ranks = 1; micro_batches % ranks == 0; ranks *= 2) {
    if (ranks == world_size) return micro_batches / ranks;
    allowed.push_back(ranks);
  }
  return InvalidArgument("a deterministic batch of ", micro_batches,
                         " micro-batches cannot be divided among ", world_size,
                         " ranks; expected a world size that is a power of two and divides it: ",
                         absl::StrJoin(allowed, ", "));
}

std::optional<int64_t> CountedTargets(absl::Span<const Batch> micro_batches) {
  if (!micro_batches[0].counted.has_value()) return std::nullopt;
  return std::accumulate(
      micro_batches.begin(), micro_batches.end(), int64_t{0},
      [](int64_t sum, const Batch& batch) { return sum + batch.counted.value_or(0); });
}

absl::StatusOr<StepInputs> StepInputs::Create(Communicator& world, Device& device,
                                              absl::Span<const Batch> micro_batches,
                                              int64_t deterministic_batch, int ranks_per_data,
                                              absl::Span<const int64_t> experts) {
  StepInputs inputs;
  inputs.experts_.assign(experts.begin(), experts.end());
  inputs.world_ = &world;
  inputs.device_ = &device;
  inputs.is_deterministic_ = deterministic_batch > 0;
  inputs.ranks_per_data_ = ranks_per_data;
  for (const Batch& batch : micro_batches) {
    const auto add = [&device](std::vector<Tensor>& to, Shape shape, DType dtype) -> absl::Status {
      ZEROTH_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(device, std::move(shape), dtype,
                                                           MemoryCategory::kActivations));
      to.push_back(std::move(tensor));
      return absl::OkStatus();
    };
    const Shape places({batch.batch, batch.seq});
    ZEROTH_RETURN_IF_ERROR(add(inputs.tokens_, places, DType::kInt32));
    ZEROTH_RETURN_IF_ERROR(add(inputs.targets_, places, DType::kInt32));
    if (!batch.starts.empty()) ZEROTH_RETURN_IF_ERROR(add(inputs.starts_, places, DType::kInt32));
    inputs.has_references_ = !batch.reference.empty();
    if (!batch.labels.empty()) {
      ZEROTH_RETURN_IF_ERROR(
          add(inputs.labels_, Shape({static_cast<int64_t>(batch.labels.size())}), DType::kInt32));
    }
    if (inputs.has_references_ || !batch.labels.empty()) {
      ZEROTH_RETURN_IF_ERROR(add(inputs.reference_, places, DType::kFloat32));
    }
    if (!batch.teacher_ids.empty()) {
      const int64_t k = static_cast<int64_t>(batch.teacher_ids.size()) / places.numel();
      const Shape shape({batch.batch, batch.seq, k});
      ZEROTH_RETURN_IF_ERROR(add(inputs.teacher_ids_, shape, DType::kInt32));
      ZEROTH_RETURN_IF_ERROR(add(inputs.teacher_log_probs_, shape, DType::kFloat32));
    }
    if (!batch.pairs.empty()) {
      const auto pairs = static_cast<int64_t>(batch.pairs.size() / 3);
      ZEROTH_RETURN_IF_ERROR(add(inputs.pairs_, Shape({pairs, 3}), DType::kInt32));
      inputs.numbers_ = PreferenceStatistics::kCount;
    }
  }
  if (CountedTargets(micro_batches).has_value()) {
    ZEROTH_ASSIGN_OR_RETURN(inputs.divisor_, Tensor::Empty(device, Shape({1}), DType::kFloat32,
                                                           MemoryCategory::kActivations));
  }
  const int64_t places = inputs.is_deterministic_ ? deterministic_batch : inputs.micro_batches();
  if (!inputs.labels_.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(inputs.kl_, Tensor::Empty(device, Shape({places}), DType::kFloat32,
                                                      MemoryCategory::kCommunication));
  }
  const int64_t losses = inputs.numbers_ * places;
  ZEROTH_ASSIGN_OR_RETURN(
      inputs.exchanged_,
      Tensor::Empty(device, Shape({losses + inputs.AllExperts() + world.size() + 1}),
                    DType::kFloat32, MemoryCategory::kCommunication));
  return inputs;
}

int64_t StepInputs::AllExperts() const {
  return std::accumulate(experts_.begin(), experts_.end(), int64_t{0});
}

Tensor StepInputs::expert_counts(size_t layer) const {
  const int64_t first = exchanged_.numel() - 1 - world_->size() - AllExperts();
  const auto end = experts_.begin() + static_cast<std::ptrdiff_t>(layer);
  return exchanged_.View(std::accumulate(experts_.begin(), end, first), Shape({1, *end}));
}

absl::Status StepInputs::Fill(absl::Span<const Batch> micro_batches,
                              const RankReport& report) const {
  Stream& stream = device_->compute_stream();
  const auto copy = [&](const auto& values, const Tensor& tensor) {
    ZEROTH_CHECK(static_cast<int64_t>(values.size()) == tensor.numel());
    return device_->CopyFromHost(tensor.raw_data(), values.data(), tensor.bytes(), stream);
  };
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    ZEROTH_RETURN_IF_ERROR(copy(micro_batches[i].inputs, tokens_[i]));
    ZEROTH_RETURN_IF_ERROR(copy(micro_batches[i].targets, targets_[i]));
    if (!starts_.empty()) ZEROTH_RETURN_IF_ERROR(copy(micro_batches[i].starts, starts_[i]));
    if (!pairs_.empty()) ZEROTH_RETURN_IF_ERROR(copy(micro_batches[i].pairs, pairs_[i]));
    if (!labels_.empty()) ZEROTH_RETURN_IF_ERROR(copy(micro_batches[i].labels, labels_[i]));
    if (!teacher_ids_.empty()) {
      ZEROTH_RETURN_IF_ERROR(copy(micro_batches[i].teacher_ids, teacher_ids_[i]));
      ZEROTH_RETURN_IF_ERROR(copy(micro_batches[i].teacher_log_probs, teacher_log_probs_[i]));
    }
    if (has_references_) {
      ZEROTH_RETURN_IF_ERROR(copy(micro_batches[i].reference, reference_[i]));
    }
  }
  // Losses are averaged over micro-batches and ranks, whatever the number of their targets.
  const auto means = static_cast<double>(micro_batches.size()) * (world_->size() / ranks_per_data_);
  if (divisor_.defined()) {
    // Without any target the sums of losses are 0, and so is their mean.
    const int64_t counted = std::max<int64_t>(1, CountedTargets(micro_batches).value_or(0));
    const float divisor = static_cast<float>(static_cast<double>(counted) / means);
    ZEROTH_RETURN_IF_ERROR(
        device_->CopyFromHost(divisor_.raw_data(), &divisor, divisor_.bytes(), stream));
  }
  // Outlives the copy.
  const std::vector<float> no_kl(kl_.defined() ? static_cast<size_t>(kl_.numel()) : 0, 0.0f);
  if (kl_.defined()) ZEROTH_RETURN_IF_ERROR(copy(no_kl, kl_));
  std::vector<float> exchanged(static_cast<size_t>(exchanged_.numel()), 0.0f);
  exchanged.back() = report.flag ? 1.0f : 0.0f;
  // Each rank has its own slot, to which the others add zeros. The factor undoes the all-reduce's
  // mean.
  const auto place = exchanged.end() - 1 - world_->size() + world_->rank();
  *place = static_cast<float>(report.waited * (is_deterministic_ ? 1 : world_->size()));
  ZEROTH_RETURN_IF_ERROR(copy(exchanged, exchanged_));
  return stream.Synchronize();
}

absl::StatusOr<Tensor> StepInputs::MakeLosses() const {
  const Shape shape = numbers_ == 1 ? Shape({micro_batches()}) : Shape({micro_batches(), numbers_});
  return Tensor::Empty(*device_, shape, DType::kFloat32, MemoryCategory::kCommunication);
}

absl::Status StepInputs::SetLoss(const Tensor& losses, int64_t i, const Tensor& loss) const {
  ZEROTH_CHECK(loss.numel() == numbers_);
  const Tensor place = losses.View(i * numbers_, Shape({numbers_}));
  return device_->Copy(place.raw_data(), loss.raw_data(), place.bytes(), device_->compute_stream());
}

absl::StatusOr<Tensor> StepInputs::MakeKlTerms() const {
  return Tensor::Empty(*device_, Shape({micro_batches()}), DType::kFloat32,
                       MemoryCategory::kCommunication);
}

absl::Status StepInputs::SetKlTerm(const Tensor& terms, int64_t i, const Tensor& statistics) const {
  const Tensor place = terms.View(i, Shape({1}));
  return device_->Copy(place.raw_data(),
                       statistics.View(PreferenceStatistics::kKl, Shape({1})).raw_data(),
                       place.bytes(), device_->compute_stream());
}

absl::Status StepInputs::SetReference(int64_t i, const Tensor& losses) const {
  const Tensor& place = reference_[static_cast<size_t>(i)];
  ZEROTH_CHECK(losses.bytes() == place.bytes());
  return device_->Copy(place.raw_data(), losses.raw_data(), place.bytes(),
                       device_->compute_stream());
}

absl::Status StepInputs::ExchangeLosses(const Tensor& losses, absl::string_view label) const {
  return Exchange(losses, numbers_, exchanged_, label);
}

absl::Status StepInputs::ExchangeKl(const Tensor& terms) const {
  return Exchange(terms, 1, kl_, "KL of mismatched answers");
}

absl::Status StepInputs::Exchange(const Tensor& mine, int64_t numbers, const Tensor& exchanged,
                                  absl::string_view label) const {
  Stream& stream = device_->compute_stream();
  if (!is_deterministic_) {
    ZEROTH_RETURN_IF_ERROR(
        device_->Copy(exchanged.raw_data(), mine.raw_data(), mine.bytes(), stream));
  }
  const bool places = is_deterministic_ && world_->rank() % ranks_per_data_ == 0;
  for (int64_t i = 0; places && i < micro_batches(); ++i) {
    const int64_t at = (i * world_->size() + world_->rank()) / ranks_per_data_;
    const Tensor place = exchanged.View(at * numbers, Shape({numbers}));
    ZEROTH_RETURN_IF_ERROR(device_->Copy(place.raw_data(),
                                         mine.View(i * numbers, Shape({numbers})).raw_data(),
                                         place.bytes(), stream));
  }
  if (world_->size() == 1) return absl::OkStatus();
  // A deterministic batch adds only zeros to a loss in its slot, so that its bits stay.
  const ReduceOp op = is_deterministic_ ? ReduceOp::kSum : ReduceOp::kMean;
  return world_->AllReduce(exchanged, op, stream, label);
}

absl::StatusOr<StepInputs::Exchanged> StepInputs::ReadExchanged() const {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values, exchanged_.ToHost<float>());
  const auto waited = values.end() - 1 - world_->size();
  const auto counts = waited - AllExperts();
  const auto losses = (counts - values.begin()) / numbers_;
  const auto mean = [&](int64_t number) {
    double sum = 0.0;
    for (int64_t i = 0; i < losses; ++i) {
      sum += static_cast<double>(values[static_cast<size_t>(i * numbers_ + number)]);
    }
    return static_cast<float>(sum / static_cast<double>(losses));
  };
  // Undoes the all-reduce's mean. The rounding error that remains is much less than 1.
  const int ranks = is_deterministic_ ? 1 : world_->size();
  std::vector<int64_t> expert_counts;
  for (auto count = counts; count != waited; ++count) {
    expert_counts.push_back(std::llround(static_cast<double>(*count) * ranks));
  }
  Exchanged exchanged{mean(0),
                      {},
                      LoadOf(experts_, absl::MakeConstSpan(values).subspan(
                                           static_cast<size_t>(counts - values.begin()),
                                           static_cast<size_t>(AllExperts()))),
                      std::move(expert_counts),
                      values.back() > 0,
                      std::vector<double>(waited, values.end() - 1)};
  if (numbers_ == PreferenceStatistics::kCount) {
    float means[PreferenceStatistics::kCount];
    for (int64_t i = 0; i < numbers_; ++i) means[i] = mean(i);
    exchanged.preference = PreferenceStatistics::FromMeans(means, !labels_.empty());
  }
  return exchanged;
}

}  // namespace zeroth
