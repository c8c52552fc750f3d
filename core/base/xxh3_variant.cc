// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

// Compiled once for each variant, with its instructions enabled. So this file must not include
// headers whose inline functions other files use: the linker might keep this file's copy for all.
#include "zeroth/core/base/xxh3_variant.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace zeroth {
namespace {

static_assert(sizeof(XXH3_state_t) <= kXxh3StateBytes);
static_assert(alignof(XXH3_state_t) <= kXxh3StateAlignment);

uint64_t Hash(const uint8_t* bytes, size_t size) { return XXH3_64bits(bytes, size); }
void Reset(void* state) { XXH3_64bits_reset(static_cast<XXH3_state_t*>(state)); }
void Update(void* state, const uint8_t* bytes, size_t size) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state), bytes, size);
}
uint64_t Digest(const void* state) {
  return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state));
}

}  // namespace

const Xxh3Variant ZEROTH_XXH3_VARIANT = {Hash, Reset, Update, Digest};

}  // namespace zeroth
