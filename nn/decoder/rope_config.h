// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Rotary positions in config.json: older files have "rope_theta" and, for longer contexts,
// "rope_scaling"; newer ones have both inside "rope_parameters". If a file has both objects, they
// must agree. "original_max_position_embeddings" is in the object or beside it.

#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

#include "zeroth/kernels/rope/rope.h"

namespace zeroth {

// What a family's files may say beyond what the files of all families may.
enum class RopeKeys : uint8_t {
  kCommon,
  kShare,  // "partial_rotary_factor"
  // As kShare, with the rules of Phi3Config in transformers: the type is default or longrope, which
  // older files call "su" or "yarn", and the original context is 4096 unless it is beside the
  // object.
  kPhi3,
};

// Whether ReadRope reads this key of config.json.
bool IsRopeKey(absl::string_view key);

// Reads rotary positions from a config.json. `base` has the values of absent keys, and
// `max_positions` is the model's. InvalidArgument names the key that is missing or out of its
// range, and says why a rope_type is not supported.
absl::StatusOr<RopeSpec> ReadRope(const nlohmann::json& config, const RopeSpec& base,
                                  int64_t max_positions, RopeKeys keys = RopeKeys::kCommon);

// OK if the spec fits heads of this size: an even number of elements is rotated, and a longrope has
// a divisor for each pair. InvalidArgument names the key otherwise.
absl::Status CheckRope(const RopeSpec& spec, int64_t head_dim);

// The kinds of layers in "layer_types", and the key of the base of windowed layers.
inline constexpr char kFullAttention[] = "full_attention";
inline constexpr char kSlidingAttention[] = "sliding_attention";
inline constexpr char kLinearAttention[] = "linear_attention";
inline constexpr char kLocalRopeTheta[] = "rope_local_base_freq";

// Reads the rotary positions of one kind of layers, kFullAttention or kSlidingAttention, of a model
// that has both. "rope_parameters" has an object for each kind. In older files, "rope_theta" and
// "rope_scaling" are those of kFullAttention, and kLocalRopeTheta is the base of the others.
absl::StatusOr<RopeSpec> ReadRopeOfLayers(const nlohmann::json& config, absl::string_view kind,
                                          const RopeSpec& base, int64_t max_positions);

// Copies the keys of rotary positions from `from` to `to`, and adds theta if `from` has none.
void CopyRope(const nlohmann::json& from, const RopeSpec& spec, nlohmann::json& to);

}  // namespace zeroth
