// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Rotary positions in the words of config.json: older files have "rope_theta" and, for longer
// contexts, "rope_scaling"; newer ones have both inside "rope_parameters".

#ifndef ZEROTH_NN_DECODER_ROPE_CONFIG_H_
#define ZEROTH_NN_DECODER_ROPE_CONFIG_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "zeroth/kernels/rope/rope.h"

namespace zeroth {

// `base` is what a file that says nothing means, `max_positions` the model's own. InvalidArgument
// names the key that is missing or out of its range, and says why for a rope_type that is not
// computed.
absl::StatusOr<RopeSpec> ReadRope(const nlohmann::json& config, const RopeSpec& base,
                                  int64_t max_positions);

// Writes to `to` what `from` says of it, in the same words; theta is written even if `from` leaves
// it out.
void CopyRope(const nlohmann::json& from, const RopeSpec& spec, nlohmann::json& to);

}  // namespace zeroth

#endif  // ZEROTH_NN_DECODER_ROPE_CONFIG_H_
