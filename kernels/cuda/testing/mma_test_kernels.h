// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Kernels of one warp that each call one function of mma.h or async_copy.h, for mma_test.cc.

#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"

namespace zeroth::cuda {

// MmaM16N8K16 on registers as they are: a [32][4], b [32][2] and c [32][4], by lane.
absl::Status RunMma(DType dtype, const uint32_t* a, const uint32_t* b, float* c,
                    cudaStream_t stream);

// tiles [32][4], by lane: the result of LoadTiles, or LoadTilesTransposed, for matrix [32, 8],
// whose rows 8 i .. 8 i + 7 are tile i.
absl::Status RunLoadTiles(bool transposed, const uint16_t* matrix, uint32_t* tiles,
                          cudaStream_t stream);

// out [3][32][4]: every lane copies 16 bytes of `from` [32][4] in a first group, of which odd
// lanes' are not valid, and one word in a second group, valid for the first `valid_words` lanes.
// out[0]: the first group after waiting for all but one; out[1][lane][0]: the second after waiting
// for all; out[2]: both groups before waiting for anything, 16 bytes of the first.
absl::Status RunAsyncCopies(const uint32_t* from, int valid_words, uint32_t* out,
                            cudaStream_t stream);

}  // namespace zeroth::cuda
