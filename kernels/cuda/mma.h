// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tensor core instructions of a warp: matmuls of 16 x 16 by 16 x 8 tiles of 16-bit floats, summed
// in fp32, and loads of tiles from shared memory into the lanes' registers (PTX ISA, "Matrix
// fragments for mma.m16n8k16 with floating point type" and "ldmatrix").
//
// With row = lane / 4 and pair = lane % 4, a lane holds these elements of
//
//   A [16, 16]  a[0]: A[row][2 pair ..]       a[1]: A[row + 8][2 pair ..]
//               a[2]: A[row][2 pair + 8 ..]   a[3]: A[row + 8][2 pair + 8 ..]
//   B [16, 8]   b[0]: B[2 pair ..][row]       b[1]: B[2 pair + 8 ..][row]
//   C [16, 8]   c[0], c[1]: C[row][2 pair ..]      c[2], c[3]: C[row + 8][2 pair ..]
//
// where ".." means two neighbours, the first in a register's lower half. Two C tiles side by side,
// rounded, therefore form an A tile without moving data between lanes: {c0 c1, c2 c3} of the left
// and {c0 c1, c2 c3} of the right.
//
// All lanes of a warp must call these functions.

#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/elements.h"
#if defined(ZEROTH_CUDA_EMULATION)
#include "zeroth/kernels/cuda/emulation/mma_operands.h"
#endif

namespace zeroth::cuda {

// Packs two elements into a register, `low` into the lower half, rounded to nearest even.
template <typename T>
__device__ __forceinline__ uint32_t PackPair(float low, float high) {
  static_assert(std::is_same_v<T, bf16> || std::is_same_v<T, fp16>);
  if constexpr (std::is_same_v<T, bf16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    uint32_t bits;
    memcpy(&bits, &pair, sizeof(bits));
    return bits;
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    uint32_t bits;
    memcpy(&bits, &pair, sizeof(bits));
    return bits;
  }
}

// c += A B.
template <typename T>
__device__ __forceinline__ void MmaM16N8K16(float (&c)[4], const uint32_t (&a)[4],
                                            const uint32_t (&b)[2]) {
  static_assert(std::is_same_v<T, bf16> || std::is_same_v<T, fp16>);
#if defined(ZEROTH_CUDA_EMULATION)
  const emulation::WarpValues<emulation::MmaOperands> lanes(emulation::Unpack<T>(a, b));
  const unsigned lane = emulation::LaneIndex();
  float rows[2][16];
  float columns[2][16];
  emulation::RowsOfA(lanes, lane / 4, rows);
  for (unsigned i = 0; i < 2; ++i) emulation::ColumnOfB(lanes, lane % 4 * 2 + i, columns[i]);
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned k = 0; k < 16; ++k) c[i] += rows[i / 2][k] * columns[i % 2][k];
  }
#else
  if constexpr (std::is_same_v<T, bf16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#endif
}

// Like MmaM16N8K16, for two tiles of C and two of B side by side, as LoadTiles loads B.
template <typename T>
__device__ __forceinline__ void MmaM16N16K16(float (&left)[4], float (&right)[4],
                                             const uint32_t (&a)[4], const uint32_t (&b)[4]) {
  const uint32_t left_b[2] = {b[0], b[1]};
  const uint32_t right_b[2] = {b[2], b[3]};
  MmaM16N8K16<T>(left, a, left_b);
  MmaM16N8K16<T>(right, a, right_b);
}

// Loads four 8 x 8 tiles of 16-bit elements. Lane 8 i + r passes the address of row r of tile i, 16
// bytes aligned to 16. Every lane gets elements [lane / 4][2 (lane % 4) ..] of tile i in tiles[i].
__device__ __forceinline__ void LoadTiles(uint32_t (&tiles)[4], const void* shared_row) {
#if defined(ZEROTH_CUDA_EMULATION)
  const emulation::WarpValues<const void*> rows(shared_row);
  const unsigned lane = emulation::LaneIndex();
  for (unsigned i = 0; i < 4; ++i) {
    const void* row = rows.at(8 * i + lane / 4);
    std::memcpy(&tiles[i], static_cast<const uint32_t*>(row) + lane % 4, sizeof(uint32_t));
  }
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared_row)))
               : "memory");
#endif
}

// Like LoadTiles, for the transposed tiles: every lane gets elements [2 (lane % 4) ..][lane / 4] of
// tile i, two in a column.
__device__ __forceinline__ void LoadTilesTransposed(uint32_t (&tiles)[4], const void* shared_row) {
#if defined(ZEROTH_CUDA_EMULATION)
  const emulation::WarpValues<const void*> rows(shared_row);
  const unsigned lane = emulation::LaneIndex();
  for (unsigned i = 0; i < 4; ++i) {
    uint16_t pair[2];
    for (unsigned half = 0; half < 2; ++half) {
      const void* row = rows.at(8 * i + lane % 4 * 2 + half);
      pair[half] = static_cast<const uint16_t*>(row)[lane / 4];
    }
    std::memcpy(&tiles[i], pair, sizeof(uint32_t));
  }
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared_row)))
               : "memory");
#endif
}

}  // namespace zeroth::cuda
