// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_INIT_ADAPTER_H_
#define ZEROTH_TRAIN_INIT_ADAPTER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/peft_directory.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/train/options.h"

namespace zeroth {

// `options` with the rank, alpha and targets of the adapter in init_adapter, and the model that it
// was made for if no other is named; without it as they are. InvalidArgument where flags say
// otherwise than the adapter, or it does not say what it was made for; NotFound if that is not
// here; errors of PeftDirectory.
absl::StatusOr<TrainOptions> WithInitAdapter(TrainOptions options);

// The adapter's halves as a model's parameters. Immutable and thread-safe.
class InitAdapter {
 public:
  // InvalidArgument lists the layers that only the model or only the adapter adapts, or names the
  // half of another shape.
  static absl::StatusOr<std::shared_ptr<const InitAdapter>> Open(const std::string& path,
                                                                 const LanguageModel& model);

  // Whether this is one of the halves.
  bool Has(const Parameter& parameter) const { return halves_.count(parameter.name()) > 0; }
  // out[i] = element begin + i.
  absl::Status Read(const Parameter& parameter, int64_t begin, absl::Span<float> out) const;

 private:
  struct Half {
    std::string stored;
    bool transposed = false;
  };
  explicit InitAdapter(PeftDirectory adapter) : adapter_(std::move(adapter)) {}

  const PeftDirectory adapter_;
  std::map<std::string, Half> halves_;  // by the parameter's name
};

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_INIT_ADAPTER_H_
