// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_HELD_OUT_H_
#define ZEROTH_DATA_HELD_OUT_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

#include "zeroth/data/token_source.h"

namespace zeroth {

// Two parts of a source that share no token.
struct SplitSource {
  std::shared_ptr<const TokenSource> train;
  std::shared_ptr<const TokenSource> held_out;
};

// Holds out the end of `source`: about `fraction` of its tokens, 0 < fraction < 1. Rows are never
// cut. A stream is cut where the first document begins in that fraction, or otherwise where the
// last document before it begins. A document begins after each token `end_of_text`; a stream
// without such a token is cut at the fraction. The parts depend on nothing but the arguments.
//
// InvalidArgument if a part would be empty. Errors of the source.
absl::StatusOr<SplitSource> SplitHeldOut(std::shared_ptr<const TokenSource> source, double fraction,
                                         int32_t end_of_text);

}  // namespace zeroth

#endif  // ZEROTH_DATA_HELD_OUT_H_
