// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The fragments of mma.h for the emulated device.

#pragma once

#include <cstdint>

#include "zeroth/kernels/cuda/elements.h"

namespace zeroth::cuda::emulation {

inline float FromBits(bf16, uint16_t bits) { return ToFloat(bf16(__nv_bfloat16_raw{bits})); }
inline float FromBits(fp16, uint16_t bits) { return ToFloat(fp16(__half_raw{bits})); }

// The elements that a lane holds, in the order of the ISA.
struct MmaOperands {
  float a[8];
  float b[4];
};

template <typename T>
MmaOperands Unpack(const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  MmaOperands held;
  for (unsigned i = 0; i < 8; ++i) {
    held.a[i] = FromBits(T(), static_cast<uint16_t>(a[i / 2] >> (16 * (i % 2))));
  }
  for (unsigned i = 0; i < 4; ++i) {
    held.b[i] = FromBits(T(), static_cast<uint16_t>(b[i / 2] >> (16 * (i % 2))));
  }
  return held;
}

// Reads rows `row` and row + 8 of A from the four lanes that hold them.
inline void RowsOfA(const WarpValues<MmaOperands>& lanes, unsigned row, float (&rows)[2][16]) {
  for (unsigned pair = 0; pair < 4; ++pair) {
    const MmaOperands held = lanes.at(row * 4 + pair);
    for (unsigned i = 0; i < 8; ++i) {
      rows[i / 2 % 2][2 * pair + i % 2 + 8 * (i / 4)] = held.a[i];
    }
  }
}
inline void ColumnOfB(const WarpValues<MmaOperands>& lanes, unsigned column, float (&k)[16]) {
  for (unsigned pair = 0; pair < 4; ++pair) {
    const MmaOperands held = lanes.at(column * 4 + pair);
    for (unsigned i = 0; i < 4; ++i) k[2 * pair + i % 2 + 8 * (i / 2)] = held.b[i];
  }
}

}  // namespace zeroth::cuda::emulation
