// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_PEFT_DIRECTORY_H_
#define ZEROTH_CHECKPOINT_PEFT_DIRECTORY_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "zeroth/checkpoint/peft_adapter.h"
#include "zeroth/checkpoint/weights_source.h"

namespace zeroth {

// adapter_config.json: a directory that has it holds an adapter, not a model.
bool IsPeftDirectory(const std::string& path);

// A directory that PEFT or the trainer has written an adapter to, opened for reading. Immutable and
// thread-safe; movable.
class PeftDirectory {
 public:
  // NotFound if one of the two files is missing; as ParsePeftAdapter; InvalidArgument if a tensor
  // is no half of an adapter, or lacks its other half, or has another rank.
  static absl::StatusOr<PeftDirectory> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const PeftAdapter& adapter() const { return adapter_; }
  // Tensors by PeftNameOfA and PeftNameOfB of each of adapter().layers.
  const std::shared_ptr<const WeightsSource>& weights() const { return weights_; }

 private:
  PeftDirectory(std::string path, PeftAdapter adapter, std::shared_ptr<const WeightsSource> weights)
      : path_(std::move(path)), adapter_(std::move(adapter)), weights_(std::move(weights)) {}

  std::string path_;
  PeftAdapter adapter_;
  std::shared_ptr<const WeightsSource> weights_;
};

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_PEFT_DIRECTORY_H_
