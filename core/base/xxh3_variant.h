// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// XXH3 of 64 bits, compiled for several vector widths. The library, built for every x86-64, has
// only the narrowest, which is a third as fast as the widest. The results are the same.

#pragma once

#include <stddef.h>
#include <stdint.h>

namespace zeroth {

// The size and alignment of the state of a hash in progress.
inline constexpr size_t kXxh3StateBytes = 576;
inline constexpr size_t kXxh3StateAlignment = 64;

struct Xxh3Variant {
  uint64_t (*hash)(const uint8_t* bytes, size_t size);
  void (*reset)(void* state);
  void (*update)(void* state, const uint8_t* bytes, size_t size);
  uint64_t (*digest)(const void* state);
};

// For any processor of the architecture.
extern const Xxh3Variant kXxh3Portable;
// For processors with AVX2, and with AVX-512 F. On other architectures the same as the portable
// one.
extern const Xxh3Variant kXxh3Avx2;
extern const Xxh3Variant kXxh3Avx512;

}  // namespace zeroth
