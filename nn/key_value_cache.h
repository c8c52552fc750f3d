// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

// The KV cache of one sequence: each layer's keys and values of the tokens so far, or the state of
// a recurrent layer after them, so that the next tokens are computed without recomputing these
// (LanguageModel::Logits). During a forward each recurrent state exists twice: until Grow, the old
// states remain beside the next ones of all layers, so that a forward that fails can be repeated.
// Used by one rank's thread only.
class KeyValueCache {
 public:
  // `capacity` is in tokens.
  explicit KeyValueCache(int64_t capacity) : capacity_(capacity) {}
  KeyValueCache(const KeyValueCache&) = delete;
  KeyValueCache& operator=(const KeyValueCache&) = delete;

  int64_t capacity() const { return capacity_; }
  // The number of tokens in the cache, which is the position of the next one.
  int64_t size() const { return size_; }
  // Commits the tokens of the last forward. If a forward fails, call Discard instead.
  void Grow(int64_t tokens) {
    size_ += tokens;
    for (auto& [owner, state] : next_states_) states_[owner] = std::move(state);
    next_states_.clear();
  }
  // Drops the next states of a forward that failed. The next forward then starts from the old size
  // and states.
  void Discard() { next_states_.clear(); }

  // Returns one layer's keys and values, [capacity, width]; uninitialised at first.
  absl::StatusOr<Tensor> Of(const void* layer, Device& device, int64_t width, DType dtype) {
    Tensor& kept = kept_[layer];
    if (!kept.defined()) {
      ZEROTH_ASSIGN_OR_RETURN(kept, Tensor::Empty(device, Shape({capacity_, width}), dtype,
                                                  MemoryCategory::kActivations));
    }
    return kept;
  }

  // Returns the state of a recurrence after size() tokens; undefined before the first one. `owner`
  // is a unique key, such as the address of a parameter that only this recurrence uses.
  Tensor State(const void* owner) const {
    const auto found = states_.find(owner);
    return found == states_.end() ? Tensor() : found->second;
  }
  // Stages the state after this forward's tokens. Grow makes it the current one. FailedPrecondition
  // if the owner has already staged one in this forward.
  absl::Status SetNextState(const void* owner, Tensor state) {
    if (next_states_.emplace(owner, std::move(state)).second) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "key/value cache: a recurrence computed twice in one forward, but the cache has one state "
        "for it; give each use parameters of its own");
  }

 private:
  const int64_t capacity_;
  int64_t size_ = 0;
  std::map<const void*, Tensor> kept_;
  std::map<const void*, Tensor> states_;
  std::map<const void*, Tensor> next_states_;
};

}  // namespace zeroth
