// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/core/device/cuda/launch.h"
#include "zeroth/kernels/cuda/async_copy.h"
#include "zeroth/kernels/cuda/mma.h"
#include "zeroth/kernels/cuda/testing/mma_test_kernels.h"

namespace zeroth::cuda {
namespace {

template <typename T>
__global__ void Mma(const uint32_t* a, const uint32_t* b, float* c) {
  const unsigned lane = threadIdx.x;
  uint32_t own_a[4];
  uint32_t own_b[2];
  float own_c[4];
  for (int i = 0; i < 4; ++i) own_a[i] = a[lane * 4 + i];
  for (int i = 0; i < 2; ++i) own_b[i] = b[lane * 2 + i];
  for (int i = 0; i < 4; ++i) own_c[i] = c[lane * 4 + i];
  MmaM16N8K16<T>(own_c, own_a, own_b);
  for (int i = 0; i < 4; ++i) c[lane * 4 + i] = own_c[i];
}

__global__ void LoadMatrix(bool transposed, const uint16_t* matrix, uint32_t* tiles) {
  ZEROTH_DYNAMIC_SHARED(uint16_t, shared);
  const unsigned lane = threadIdx.x;
  for (int i = 0; i < 8; ++i) shared[lane * 8 + i] = matrix[lane * 8 + i];
  __syncwarp();
  uint32_t own[4];
  if (transposed) {
    LoadTilesTransposed(own, shared + lane * 8);
  } else {
    LoadTiles(own, shared + lane * 8);
  }
  for (int i = 0; i < 4; ++i) tiles[lane * 4 + i] = own[i];
}

__global__ void AsyncCopies(const uint32_t* from, int valid_words, uint32_t* out) {
  ZEROTH_DYNAMIC_SHARED(uint32_t, shared);
  const unsigned lane = threadIdx.x;
  uint32_t* const words = shared + 32 * 4;
  CopyAsync16(shared + lane * 4, from + lane * 4, lane % 2 == 0);
  CommitCopies();
  CopyAsync4(words + lane, from + lane, static_cast<int>(lane) < valid_words);
  CommitCopies();
#if defined(ZEROTH_CUDA_EMULATION)
  // A race on purpose, which racecheck would report on a GPU.
  volatile const uint32_t* const early = shared;
  for (int i = 0; i < 4; ++i) out[(64 + lane) * 4 + i] = early[lane * 4 + i];
#endif
  WaitForCopies<1>();
  for (int i = 0; i < 4; ++i) out[lane * 4 + i] = shared[lane * 4 + i];
  WaitForCopies<0>();
  out[(32 + lane) * 4] = words[lane];
}

}  // namespace

absl::Status RunMma(DType dtype, const uint32_t* a, const uint32_t* b, float* c,
                    cudaStream_t stream) {
  const LaunchShape shape = {dim3(1), dim3(32)};
  return dtype == DType::kBFloat16 ? ZEROTH_LAUNCH(Mma<bf16>, shape, stream, a, b, c)
                                   : ZEROTH_LAUNCH(Mma<fp16>, shape, stream, a, b, c);
}

absl::Status RunLoadTiles(bool transposed, const uint16_t* matrix, uint32_t* tiles,
                          cudaStream_t stream) {
  const LaunchShape shape = {dim3(1), dim3(32), 32 * 8 * sizeof(uint16_t)};
  return ZEROTH_LAUNCH(LoadMatrix, shape, stream, transposed, matrix, tiles);
}

absl::Status RunAsyncCopies(const uint32_t* from, int valid_words, uint32_t* out,
                            cudaStream_t stream) {
  const LaunchShape shape = {dim3(1), dim3(32), 32 * 5 * sizeof(uint32_t)};
  return ZEROTH_LAUNCH(AsyncCopies, shape, stream, from, valid_words, out);
}

}  // namespace zeroth::cuda
