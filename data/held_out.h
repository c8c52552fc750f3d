// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_HELD_OUT_H_
#define ZEROTH_DATA_HELD_OUT_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

#include "zeroth/data/token_source.h"

namespace zeroth {

// A source in two parts that share no token.
struct SplitSource {
  std::shared_ptr<const TokenSource> train;
  std::shared_ptr<const TokenSource> held_out;
};

// Holds out the end of `source`: about `fraction` of its tokens, 0 < fraction < 1. The held-out
// part begins with a whole row of rows; in a stream, with the first document that begins in that
// fraction, or else with the last that begins before it. A document begins behind each token
// `end_of_text`; a stream without one is cut at the token. So the parts depend on the source, the
// fraction and `end_of_text` alone.
//
// InvalidArgument if a part would be empty. Errors of the source.
absl::StatusOr<SplitSource> SplitHeldOut(std::shared_ptr<const TokenSource> source, double fraction,
                                         int32_t end_of_text);

}  // namespace zeroth

#endif  // ZEROTH_DATA_HELD_OUT_H_
