// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// The rotation frequencies of a head's pairs, with Hugging Face's names. Pair i rotates by
// theta^(-2 i / rotary_dim) radians for each position; models for longer contexts scale that down.
struct RopeSpec {
  enum class Type : uint8_t {
    kDefault,
    kLinear,    // all divided by `factor` (Chen et al., "Extending context window ...", 2023)
    kLlama3,    // only slow pairs are scaled ("The Llama 3 herd", 2024)
    kYarn,      // a ramp over i, and longer vectors (Peng et al., "YaRN", 2023)
    kLongrope,  // a divisor for each pair, and longer vectors (Ding et al., "LongRoPE", 2024)
  };
  double theta = 10000.0;
  Type type = Type::kDefault;
  double factor = 1.0;
  double original_context = 0;  // positions of pre-training; for the last three types
  // kLlama3: frequencies of fewer than low_freq_factor rotations within the original context are
  // divided by the factor; those of more than high_freq_factor rotations stay; between them, the
  // two are blended.
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  // kYarn: the same with beta_slow and beta_fast, and a ramp over the pairs between them.
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;           // the ramp begins and ends at whole pairs
  double attention_factor = 1.0;  // scales the rotated vectors
  // kLongrope: the divisors of the pairs' frequencies, for sequences within the original context
  // and for longer ones.
  std::vector<double> factors = {};
  std::vector<double> long_factors = {};
  double rotated_share = 1.0;  // the share of a head's elements that is rotated, from the first on

  // Returns the number of elements of a head that are rotated.
  int64_t rotary_dim(int64_t head_dim) const {
    return static_cast<int64_t>(static_cast<double>(head_dim) * rotated_share);
  }

  bool operator==(const RopeSpec&) const = default;
};

// Returns for each of the rotary_dim / 2 pairs the angle between neighbouring positions, in
// radians, in sequences that are no longer than the original context.
std::vector<double> RopeFrequencies(const RopeSpec& spec, int64_t rotary_dim);

// Rotary position embedding (Su et al., 2021) on the query and key heads of a packed tensor, in
// place; element i of the lower half of the rotated elements is paired with element i of the upper
// half. For kLongrope the sequence's length is first_position + seq, packed documents or not.
struct RopeArgs {
  AttentionShape shape;
  Tensor qkv;  // [batch, seq, packed_dim]
  RopeSpec spec;
  // Like AttentionArgs::starts: positions restart with each document. Undefined: a token's position
  // is its place in the sequence.
  Tensor starts = {};
  bool inverse = false;  // the transpose of the same call, which is its backward
  // The position of the first token, for tokens that follow cached ones.
  int64_t first_position = 0;
};

namespace kernels {

absl::Status Rope(Kernels& kernels, const RopeArgs& args);

}  // namespace kernels

// The arguments that a device's implementation needs besides the table of angles.
struct RopeRows {
  int64_t batch = 0;
  int64_t seq = 0;
  int64_t heads = 0;  // query and key heads, all of which are rotated
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;  // even
  int64_t packed_dim = 0;
  void* qkv = nullptr;
  const int32_t* starts = nullptr;  // or null
  int64_t first_position = 0;
};

// The checked arguments.
struct RopeCall : RopeRows {
  DType dtype = DType::kFloat32;
  RopeSpec spec;  // with the `factors` for the sequence's length
  bool inverse = false;
  // Returns the number of positions that a table needs. Rounded up to a power of two if tokens are
  // cached, so that the table is not rebuilt for every token.
  int64_t positions() const {
    const int64_t end = first_position + seq;
    return first_position == 0 ? end
                               : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(end)));
  }
};

}  // namespace zeroth
