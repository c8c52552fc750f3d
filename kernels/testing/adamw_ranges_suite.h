// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_TESTING_ADAMW_RANGES_SUITE_H_
#define ZEROTH_KERNELS_TESTING_ADAMW_RANGES_SUITE_H_

#include <cstdint>
#include <vector>

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/testing/adamw_state.h"

namespace zeroth::testing {

// Where a range lies in tensors that it shares with others, and what it is updated with.
struct AdamWPiece {
  int64_t begin = 0;
  int64_t count = 0;
  AdamWArgs scalars;
};

// AdamW on many ranges in one call.
class AdamWRangesSuite : public AdamWStateSuite {
 protected:
  // The same scalars in other words: coefficients in device memory.
  AdamWArgs OnDevice(AdamWArgs scalars);
  // Pieces of random sizes of `count` elements, empty ones and gaps included, each with a place in
  // a parameter of its own and by chance one of `sets` sets of scalars, every third on the device.
  std::vector<AdamWPiece> Cut(const AdamWTypes& types, int64_t count, int sets,
                              const Tensor& grad_factor);
  // The state after one call with all pieces, or after a call for each.
  AdamWState StepTogether(const AdamWTypes& types, const AdamWState& state,
                          const std::vector<AdamWPiece>& pieces);
  AdamWState StepOneByOne(const AdamWTypes& types, const AdamWState& state,
                          const std::vector<AdamWPiece>& pieces);
};

}  // namespace zeroth::testing

#endif  // ZEROTH_KERNELS_TESTING_ADAMW_RANGES_SUITE_H_
