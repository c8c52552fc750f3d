// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_ADAPTER_MERGER_H_
#define ZEROTH_TRAIN_ADAPTER_MERGER_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/nn/layers/lora_linear.h"

namespace zeroth {

// Turns the parameters of a model with LoRA adapters, one after the other, into those of the plain
// model that computes the same: weight + scale * (A B), which others' tools read. Parameters that
// have no adapter pass through, so that it serves every model. A weight is held back until both of
// its adapter's halves have come, which in a model's order of parameters is within one layer.
class AdapterMerger {
 public:
  using Sink =
      std::function<absl::Status(const Parameter& parameter, absl::Span<const float> values)>;

  // All outlive the merger.
  AdapterMerger(const LanguageModel& model, Device& device, Kernels& kernels);

  // A whole parameter, in any order; `sink` is given what is complete.
  absl::Status Add(const Parameter& parameter, absl::Span<const float> values, const Sink& sink);

  // The parameters that come out: all but the adapters.
  static std::vector<const Parameter*> MergedParameters(const LanguageModel& model);

 private:
  struct Pending {
    LoraAdapter adapter;
    std::map<const Parameter*, std::vector<float>> values;
  };

  absl::Status Merge(Pending& pending, const Sink& sink);

  Device& device_;
  Kernels& kernels_;
  std::vector<Pending> pending_;
  std::map<const Parameter*, size_t> pending_of_;
};

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_ADAPTER_MERGER_H_
