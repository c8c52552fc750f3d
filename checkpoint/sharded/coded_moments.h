// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// AdamW's moments between 8-bit codes and numbers, when a checkpoint has the one and a run keeps
// the other.

#ifndef ZEROTH_CHECKPOINT_SHARDED_CODED_MOMENTS_H_
#define ZEROTH_CHECKPOINT_SHARDED_CODED_MOMENTS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/sharded/checkpoint_reader.h"
#include "zeroth/optim/shard_state.h"

namespace zeroth {

// The state that has the scales of coded state `state`: "m_scale" of "m".
std::string ScaleStateOf(absl::string_view state);

// Whether the checkpoint has `state` of `parameter` as codes that ReadCodedMoments reads.
bool HasCodedMoments(const CheckpointReader& reader, absl::string_view parameter,
                     absl::string_view state);

// out[i] = element begin + i of a state that the checkpoint has in codes. `coding` is not kNone.
absl::Status ReadCodedMoments(CheckpointReader& reader, absl::string_view parameter,
                              absl::string_view state, StateCoding coding, int64_t begin,
                              absl::Span<float> out);

// The codes of `values`, rounded to nearest, and a scale for every kMomentBlock of them, counted
// from the first. As many codes as values. `coding` is not kNone.
void EncodeMoments(StateCoding coding, absl::Span<const float> values, absl::Span<uint8_t> codes,
                   absl::Span<float> scales);

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_SHARDED_CODED_MOMENTS_H_
