// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace zeroth {

// The initial values of a parameter. A range of elements gets the same values whether it is filled
// alone or as part of the whole, so each rank fills only its shard. A value type.
class Initializer {
 public:
  static Initializer Constant(float value) { return Initializer(Kind::kConstant, value); }
  static Initializer Zeros() { return Constant(0.0f); }
  static Initializer Ones() { return Constant(1.0f); }
  // Normal with mean 0.
  static Initializer Normal(float stddev) { return Initializer(Kind::kNormal, stddev); }
  // The logarithms of values that are uniform on [low, high), with 0 < low.
  static Initializer LogOfUniform(float low, float high) {
    return Initializer(Kind::kLogOfUniform, low, high);
  }

  // Sets out[i] to the value of element begin + i of the parameter `name` under `seed`.
  void Fill(uint64_t seed, absl::string_view name, int64_t begin, absl::Span<float> out) const;

 private:
  enum class Kind { kConstant, kNormal, kLogOfUniform };
  Initializer(Kind kind, float value, float end = 0) : kind_(kind), value_(value), end_(end) {}

  Kind kind_;
  float value_;
  float end_;
};

}  // namespace zeroth
