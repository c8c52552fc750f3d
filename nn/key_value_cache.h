// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_NN_KEY_VALUE_CACHE_H_
#define ZEROTH_NN_KEY_VALUE_CACHE_H_

#include <cstdint>
#include <map>

#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

// Keys and values of the tokens of one sequence that a model has seen, layer by layer, so that the
// tokens that follow cost no more than themselves (LanguageModel::Logits). One rank's thread only.
class KeyValueCache {
 public:
  // Has room for `capacity` tokens.
  explicit KeyValueCache(int64_t capacity) : capacity_(capacity) {}
  KeyValueCache(const KeyValueCache&) = delete;
  KeyValueCache& operator=(const KeyValueCache&) = delete;

  int64_t capacity() const { return capacity_; }
  // Tokens that all layers have seen: the position of the next one.
  int64_t size() const { return size_; }
  void Grow(int64_t tokens) { size_ += tokens; }

  // What one layer keeps, [capacity, width]; memory that is uninitialised at its first use.
  absl::StatusOr<Tensor> Of(const void* layer, Device& device, int64_t width, DType dtype) {
    Tensor& kept = kept_[layer];
    if (!kept.defined()) {
      absl::StatusOr<Tensor> made =
          Tensor::Empty(device, Shape({capacity_, width}), dtype, MemoryCategory::kActivations);
      if (!made.ok()) return made.status();
      kept = *made;
    }
    return kept;
  }

 private:
  const int64_t capacity_;
  int64_t size_ = 0;
  std::map<const void*, Tensor> kept_;
};

}  // namespace zeroth

#endif  // ZEROTH_NN_KEY_VALUE_CACHE_H_
