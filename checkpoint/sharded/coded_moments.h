// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Conversions between moments in 8-bit codes and in numbers, for LoadState.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/sharded/checkpoint_reader.h"
#include "zeroth/optim/shard_state.h"

namespace zeroth {

// The state that has the scales of the coded state `state`: "m_scale" of "m".
std::string ScaleStateOf(absl::string_view state);

// True if the checkpoint has `state` of `parameter` as codes that ReadCodedMoments reads.
bool HasCodedMoments(const CheckpointReader& reader, absl::string_view parameter,
                     absl::string_view state);

// Reads elements [begin, begin + out.size()) of a state that the checkpoint has in codes.
absl::Status ReadCodedMoments(CheckpointReader& reader, const std::string& parameter,
                              const ShardState& state, int64_t begin, absl::Span<float> out);

// Encodes moments, and stores their codes and scales from element `begin` of the unit's shard on, a
// multiple of kMomentBlock.
absl::Status CopyEncodedMoments(absl::Span<const float> values, const ShardState& codes_state,
                                const ShardState& scales_state, int64_t begin);

}  // namespace zeroth
