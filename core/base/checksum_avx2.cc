// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

// Compiled with AVX2 on: no header may come in here whose inline functions others use too, since
// the linker might keep this file's copy of them.
#include "zeroth/core/base/checksum_avx2.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace zeroth {

uint64_t Xxh3WithAvx2(const uint8_t* bytes, size_t size) { return XXH3_64bits(bytes, size); }

}  // namespace zeroth
