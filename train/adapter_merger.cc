// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/adapter_merger.h"

#include <set>
#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

AdapterMerger::AdapterMerger(const LanguageModel& model, Device& device, Kernels& kernels)
    : device_(device), kernels_(kernels) {
  for (const LoraAdapter& adapter : LoraAdapters(model)) {
    for (const Parameter* parameter : {adapter.weight, adapter.a, adapter.b}) {
      pending_of_[parameter] = pending_.size();
    }
    pending_.push_back({adapter, {}});
  }
}

absl::Status AdapterMerger::Add(const Parameter& parameter, absl::Span<const float> values,
                                const Sink& sink) {
  const auto found = pending_of_.find(&parameter);
  if (found == pending_of_.end()) return sink(parameter, values);
  Pending& pending = pending_[found->second];
  pending.values[&parameter].assign(values.begin(), values.end());
  constexpr size_t kParts = 3;
  return pending.values.size() == kParts ? Merge(pending, sink) : absl::OkStatus();
}

absl::Status AdapterMerger::Merge(Pending& pending, const Sink& sink) {
  const auto values = std::exchange(pending.values, {});
  const auto upload = [&](const Parameter& parameter) {
    return Tensor::FromHost<float>(device_, parameter.global_shape(), values.at(&parameter),
                                   MemoryCategory::kWorkspace);
  };
  const LoraAdapter& adapter = pending.adapter;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor weight, upload(*adapter.weight));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor a, upload(*adapter.a));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor b, upload(*adapter.b));
  ZEROTH_RETURN_IF_ERROR(MergeLora(kernels_, adapter, weight, a, b));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> merged, weight.ToHost<float>());
  return sink(*adapter.weight, merged);
}

std::vector<const Parameter*> AdapterMerger::MergedParameters(const LanguageModel& model) {
  std::set<const Parameter*> adapters;
  for (const LoraAdapter& adapter : LoraAdapters(model)) {
    adapters.insert(adapter.a);
    adapters.insert(adapter.b);
  }
  std::vector<const Parameter*> merged;
  for (const Parameter* parameter : model.Parameters()) {
    if (adapters.count(parameter) == 0) merged.push_back(parameter);
  }
  return merged;
}

}  // namespace zeroth
