// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Building blocks of attention without tensor cores, in fp32 whatever the tensors' type. Device
// code for blocks of kPlainThreads threads: thread (x, y) of 16 x 16 owns four rows and four
// columns of a [64, 64] tile of scores.

#pragma once

#include <algorithm>
#include <cstdint>

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/attention/attention_kernels.h"
#include "zeroth/kernels/attention/attention_plan.h"
#include "zeroth/kernels/cuda/elements.h"

namespace zeroth::cuda {

__device__ __forceinline__ int ThreadX() { return static_cast<int>(threadIdx.x) % 16; }
__device__ __forceinline__ int ThreadY() { return static_cast<int>(threadIdx.x) / 16; }

// Return the rows and columns of scores that a thread owns. Neighbouring threads read neighbouring
// rows of the operands, which start in different banks.
__device__ __forceinline__ int ScoreRow(int r) { return ThreadY() + 16 * r; }
__device__ __forceinline__ int ScoreColumn(int c) { return ThreadX() + 16 * c; }

// tile[64, kWidth] = rows [first, first + 64), columns [column, column + kWidth) of a head; zeros
// beyond the sequence and beyond head_dim.
template <int kWidth, typename T>
__device__ __forceinline__ void LoadPlainTile(const HeadLayout& at, float* tile, const T* head,
                                              int64_t stride, int first, int column) {
  if (at.in_packs) {
    constexpr int kPacks = kWidth / 4;
    // Issues four loads together, since the block waits for them.
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < kPlainTile * kPacks; i += kPlainThreads) {
      const int row = i / kPacks;
      const int pack = i % kPacks * 4;
      float values[4] = {};
      if (first + row < at.seq && column + pack < at.head_dim) {
        LoadPack<4>(head + (first + row) * stride + column + pack, values);
      }
      StorePack<4>(values, tile + row * kPlainStride<kWidth> + pack);
    }
    return;
  }
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < kPlainTile * kWidth; i += kPlainThreads) {
    const int row = i / kWidth;
    const int within = i % kWidth;
    const bool valid = first + row < at.seq && column + within < at.head_dim;
    tile[row * kPlainStride<kWidth> + within] =
        valid ? ToFloat(head[(first + row) * stride + column + within]) : 0.0f;
  }
}

// Returns the number of columns of a tile that hold data, rounded up to packs of four.
template <int kWidth>
__device__ __forceinline__ int UsedWidth(int column, int head_dim) {
  return (std::min(kWidth, head_dim - column) + 3) / 4 * 4;
}

// scores += a[64, width] b[64, width]^T.
template <int kWidth>
__device__ __forceinline__ void AddScores(const float* a, const float* b, int width,
                                          float (&scores)[4][4]) {
#pragma unroll 1
  for (int k = 0; k < width; k += 4) {
    float4 left[4];
    float4 right[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      left[i] = *reinterpret_cast<const float4*>(a + ScoreRow(i) * kPlainStride<kWidth> + k);
      right[i] = *reinterpret_cast<const float4*>(b + ScoreColumn(i) * kPlainStride<kWidth> + k);
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        scores[r][c] = __fmaf_rn(left[r].x, right[c].x, scores[r][c]);
        scores[r][c] = __fmaf_rn(left[r].y, right[c].y, scores[r][c]);
        scores[r][c] = __fmaf_rn(left[r].z, right[c].z, scores[r][c]);
        scores[r][c] = __fmaf_rn(left[r].w, right[c].w, scores[r][c]);
      }
    }
  }
}

// A thread's part of a result [64, kWidth]: four rows, and in each the four columns from 4 x + 64
// pack on.
template <int kWidth>
using PlainSums = float[4][kWidth / 64][4];

template <int kWidth>
__device__ __forceinline__ void AddPack(float weight, const float4& values, float (&sums)[4]) {
  sums[0] = __fmaf_rn(weight, values.x, sums[0]);
  sums[1] = __fmaf_rn(weight, values.y, sums[1]);
  sums[2] = __fmaf_rn(weight, values.z, sums[2]);
  sums[3] = __fmaf_rn(weight, values.w, sums[3]);
}

// sums[row ScoreRow(r)] += weights[64, 64] tile[64, kWidth], where rows of weights are
// kWeightStride apart.
template <int kWidth, int kWeightStride>
__device__ __forceinline__ void AddRowsWeighted(const float* weights, const float* tile,
                                                PlainSums<kWidth>& sums) {
#pragma unroll 1
  for (int k = 0; k < kPlainTile; k += 4) {
    float weight[4][4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float4 pack =
          *reinterpret_cast<const float4*>(weights + ScoreRow(r) * kWeightStride + k);
      weight[r][0] = pack.x;
      weight[r][1] = pack.y;
      weight[r][2] = pack.z;
      weight[r][3] = pack.w;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int pack = 0; pack < kWidth / 64; ++pack) {
        const float4 values = *reinterpret_cast<const float4*>(
            tile + (k + i) * kPlainStride<kWidth> + 64 * pack + 4 * ThreadX());
#pragma unroll
        for (int r = 0; r < 4; ++r) AddPack<kWidth>(weight[r][i], values, sums[r][pack]);
      }
    }
  }
}

// sums[row 4 y + r] += weights[64, 64]^T tile[64, kWidth], where rows of weights are kPlainTile
// apart.
template <int kWidth>
__device__ __forceinline__ void AddColumnsWeighted(const float* weights, const float* tile,
                                                   PlainSums<kWidth>& sums) {
#pragma unroll 4
  for (int k = 0; k < kPlainTile; ++k) {
    const float4 weight =
        *reinterpret_cast<const float4*>(weights + k * kPlainTile + 4 * ThreadY());
#pragma unroll
    for (int pack = 0; pack < kWidth / 64; ++pack) {
      const float4 values = *reinterpret_cast<const float4*>(tile + k * kPlainStride<kWidth> +
                                                             64 * pack + 4 * ThreadX());
      AddPack<kWidth>(weight.x, values, sums[0][pack]);
      AddPack<kWidth>(weight.y, values, sums[1][pack]);
      AddPack<kWidth>(weight.z, values, sums[2][pack]);
      AddPack<kWidth>(weight.w, values, sums[3][pack]);
    }
  }
}

// Stores row `row` of a thread's result, at place `place` of the sequence, times `factor`.
template <int kWidth, typename T>
__device__ __forceinline__ void StorePlainRow(const float (&sums)[kWidth / 64][4], float factor,
                                              T* head, int64_t stride, int place, int seq,
                                              int column, int head_dim) {
  if (place >= seq) return;
#pragma unroll
  for (int pack = 0; pack < kWidth / 64; ++pack) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = column + 64 * pack + 4 * ThreadX() + i;
      if (at < head_dim) head[place * stride + at] = FromFloat<T>(sums[pack][i] * factor);
    }
  }
}

}  // namespace zeroth::cuda
