// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Two engines with which a block of grouped_gemm.cu computes one tile of a matmul: one thread per
// element, in any type, or tensor cores, in 16-bit floats. Device code. Both sum in the order of
// depth, so that a result depends on its operands alone.

#pragma once

#include <cstdint>

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/async_copy.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/cuda/mma.h"

namespace zeroth::cuda {

// An operand of the matmul, [lines, depths]. Element [line, depth] is data[line * stride + depth],
// or data[depth * stride + line] with kDepthOuter.
template <typename T, bool kDepthOuter>
struct GroupedOperand {
  static constexpr bool kOuter = kDepthOuter;
  __device__ __forceinline__ const T* At(int64_t line, int64_t depth) const {
    return data + (kDepthOuter ? depth * stride + line : line * stride + depth);
  }

  const T* data;
  int64_t stride;
  int64_t lines;
};

// Each engine has Multiply(a, b, row, column, depths, store), which computes the tile of a b^T at
// [row, column] and calls store(row, column, sum) for its elements inside the matrix. All threads
// of the block must call it, once.

// Any type, any strides.
template <typename T>
struct PlainTiles {
  static constexpr int kSide = 16;
  static constexpr int kRows = kSide;
  static constexpr int kColumns = kSide;
  static constexpr int kThreads = kSide * kSide;

  template <typename A, typename B, typename Store>
  static __device__ __forceinline__ void Multiply(const A& a, const B& b, int64_t row,
                                                  int64_t column, int64_t depths,
                                                  const Store& store) {
    ZEROTH_SHARED(float, a_tile, [kSide * (kSide + 1)]);
    ZEROTH_SHARED(float, b_tile, [kSide * (kSide + 1)]);
    const int x = static_cast<int>(threadIdx.x) % kSide;
    const int y = static_cast<int>(threadIdx.x) / kSide;
    row += y;
    float sum = 0.0f;
    for (int64_t depth = 0; depth < depths; depth += kSide) {
      a_tile[y * (kSide + 1) + x] =
          row < a.lines && depth + x < depths ? ToFloat(*a.At(row, depth + x)) : 0.0f;
      b_tile[y * (kSide + 1) + x] =
          column + x < b.lines && depth + y < depths ? ToFloat(*b.At(column + x, depth + y)) : 0.0f;
      __syncthreads();
      for (int i = 0; i < kSide; ++i) {
        sum = __fmaf_rn(a_tile[y * (kSide + 1) + i], b_tile[i * (kSide + 1) + x], sum);
      }
      __syncthreads();
    }
    if (row < a.lines && column + x < b.lines) store(row, column + x, sum);
  }
};

// For bf16 and fp16. Addresses and strides must be multiples of 16 bytes, and so must the extent of
// the contiguous dimension: depths, or lines with kDepthOuter.
template <typename T>
struct MmaTiles {
  static constexpr int kRows = 64;
  static constexpr int kColumns = 128;
  static constexpr int kThreads = 128;

  template <typename A, typename B, typename Store>
  static __device__ __forceinline__ void Multiply(const A& a, const B& b, int64_t row,
                                                  int64_t column, int64_t depths,
                                                  const Store& store) {
    using SlabOfA = Slab<A, kRows>;
    using SlabOfB = Slab<B, kColumns>;
    ZEROTH_SHARED(T, a_slabs, [kStages * SlabOfA::kSize]);
    ZEROTH_SHARED(T, b_slabs, [kStages * SlabOfB::kSize]);
    const auto load = [&](int64_t slab) {
      const int64_t depth = slab * kDepths;
      const auto stage = static_cast<int>(slab % kStages);
      if (depth < depths) {
        SlabOfA::Begin(a, row, depth, depths, a_slabs + stage * SlabOfA::kSize);
        SlabOfB::Begin(b, column, depth, depths, b_slabs + stage * SlabOfB::kSize);
      }
      CommitCopies();  // also an empty group, since groups are counted
    };
    // Pairs of neighbouring warps share rows.
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int first_row = warp / kWarpColumns * kWarpRowTiles * 16;
    const int first_column = warp % kWarpColumns * kWarpColumnTiles * 8;
    float sums[kWarpRowTiles][kWarpColumnTiles][4] = {};
    for (int slab = 0; slab < kStages - 1; ++slab) load(slab);
    for (int64_t slab = 0; slab * kDepths < depths; ++slab) {
      WaitForCopies<kStages - 2>();
      // After this, no warp reads the slab any more that the next copies overwrite.
      __syncthreads();
      load(slab + kStages - 1);
      const auto stage = static_cast<int>(slab % kStages);
      const T* const a_slab = a_slabs + stage * SlabOfA::kSize;
      const T* const b_slab = b_slabs + stage * SlabOfB::kSize;
#pragma unroll
      for (int depth = 0; depth < kDepths; depth += 16) {
        uint32_t left[kWarpRowTiles][4];
#pragma unroll
        for (int m = 0; m < kWarpRowTiles; ++m) {
          SlabOfA::LoadA(left[m], a_slab, first_row + m * 16, depth);
        }
#pragma unroll
        for (int n = 0; n < kWarpColumnTiles; n += 2) {
          uint32_t right[4];
          SlabOfB::LoadB(right, b_slab, first_column + n * 8, depth);
#pragma unroll
          for (int m = 0; m < kWarpRowTiles; ++m) {
            MmaM16N16K16<T>(sums[m][n], sums[m][n + 1], left[m], right);
          }
        }
      }
    }
    WaitForCopies<0>();
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int m = 0; m < kWarpRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kWarpColumnTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int64_t r = row + first_row + m * 16 + lane / 4 + i / 2 * 8;
          const int64_t c = column + first_column + n * 8 + lane % 4 * 2 + i % 2;
          if (r < a.lines && c < b.lines) store(r, c, sums[m][n][i]);
        }
      }
    }
  }

 private:
  static constexpr int kDepths = 32;  // of a slab
  static constexpr int kStages = 3;   // slabs in shared memory: one is in use, the others arrive
  static constexpr int kWarpColumns = 2;
  static constexpr int kWarpRowTiles = 2;     // of 16 rows
  static constexpr int kWarpColumnTiles = 8;  // of 8 columns

  // kLines lines of an operand at kDepths depths, in shared memory, in the order of global memory.
  // The row stride is an odd multiple of 16 bytes, so that eight rows cover all banks.
  template <typename Operand, int kLines>
  struct Slab {
    static constexpr int kAcross = Operand::kOuter ? kLines : kDepths;
    static constexpr int kDown = Operand::kOuter ? kDepths : kLines;
    static constexpr int kStride = kAcross + 8;
    static constexpr int kSize = kDown * kStride;

    static __device__ __forceinline__ void Begin(const Operand& from, int64_t line, int64_t depth,
                                                 int64_t depths, T* slab) {
      constexpr int kPacks = kAcross / 8;
      static_assert(kDown * kPacks % kThreads == 0);
#pragma unroll
      for (int n = 0; n < kDown * kPacks / kThreads; ++n) {
        const int pack = n * kThreads + static_cast<int>(threadIdx.x);
        const int down = pack / kPacks;
        const int across = pack % kPacks * 8;
        const int64_t l = line + (Operand::kOuter ? across : down);
        const int64_t d = depth + (Operand::kOuter ? down : across);
        const bool valid = l < from.lines && d < depths;
        CopyAsync16(slab + down * kStride + across, valid ? from.At(l, d) : from.data, valid);
      }
    }

    // Load operands of MmaM16N8K16. mma.h says which address each lane passes.
    static __device__ __forceinline__ void LoadA(uint32_t (&tiles)[4], const T* slab, int line,
                                                 int depth) {
      const int lane = static_cast<int>(threadIdx.x) % 32;
      if constexpr (Operand::kOuter) {
        LoadTilesTransposed(
            tiles, slab + (depth + lane / 16 * 8 + lane % 8) * kStride + line + lane / 8 % 2 * 8);
      } else {
        LoadTiles(tiles, slab + (line + lane % 16) * kStride + depth + lane / 16 * 8);
      }
    }
    // Loads two operands side by side.
    static __device__ __forceinline__ void LoadB(uint32_t (&tiles)[4], const T* slab, int line,
                                                 int depth) {
      const int lane = static_cast<int>(threadIdx.x) % 32;
      if constexpr (Operand::kOuter) {
        LoadTilesTransposed(tiles, slab + (depth + lane % 16) * kStride + line + lane / 16 * 8);
      } else {
        LoadTiles(tiles,
                  slab + (line + lane / 16 * 8 + lane % 8) * kStride + depth + lane / 8 % 2 * 8);
      }
    }
  };
};

}  // namespace zeroth::cuda
