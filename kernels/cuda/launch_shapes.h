// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// How kernels are spread over a device, computed on the host and tested there.

#ifndef ZEROTH_KERNELS_CUDA_LAUNCH_SHAPES_H_
#define ZEROTH_KERNELS_CUDA_LAUNCH_SHAPES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "zeroth/core/device/cuda/launch.h"

namespace zeroth::cuda {

// Where a kernel runs.
struct LaunchTarget {
  cudaStream_t stream = nullptr;
  int multiprocessors = 1;
};

// Blocks that a multiprocessor holds of kernels which are spread by MapShape: for the compiler, as
// a bound of __launch_bounds__, and for the grid, whose blocks are then all at work at once. Packs
// of 16 bytes take up to 40 registers, which six blocks of 256 have; that many loads fill its
// memory's latency.
inline constexpr int kBlocksPerMultiprocessor = 6;
inline constexpr int kMapThreads = 256;

// What the parameters of a kernel may take on every device: 4 KiB up to CUDA 12.0.
inline constexpr size_t kKernelParameterBytes = 4096;

// A grid for `items` independent items, one per thread and turn: as many blocks as the device holds
// at once, the rest of which wait, or fewer. `resident`: of a kernel that is compiled for fewer.
inline LaunchShape MapShape(int64_t items, int multiprocessors,
                            int resident = kBlocksPerMultiprocessor) {
  const int64_t blocks = (items + kMapThreads - 1) / kMapThreads;
  const int64_t at_once = int64_t{multiprocessors} * resident;
  return {dim3(static_cast<unsigned>(std::min(blocks, at_once))), dim3(kMapThreads)};
}

// A grid for `rows` rows, each a warp's work, `warps` warps to a block.
inline LaunchShape WarpPerRowShape(int64_t rows, int warps) {
  return {dim3(static_cast<unsigned>((rows + warps - 1) / warps)),
          dim3(static_cast<unsigned>(warps) * 32)};
}

// Into how many pieces a sum over `rows` rows is cut: enough to fill a device, few enough that
// adding the pieces up costs little. Depends on nothing but the rows, so that results do not depend
// on the device.
inline int64_t RowPieces(int64_t rows) {
  constexpr int64_t kRowsPerPiece = 64;
  constexpr int64_t kMostPieces = 128;
  return std::clamp<int64_t>((rows + kRowsPerPiece - 1) / kRowsPerPiece, 1, kMostPieces);
}

}  // namespace zeroth::cuda

// Launches a kernel for `items` items, spread by MapShape over `target`.
#define ZEROTH_MAP(kernel, items, target, ...)                                     \
  ZEROTH_LAUNCH(kernel, ::zeroth::cuda::MapShape(items, (target).multiprocessors), \
                (target).stream, __VA_ARGS__)

#endif  // ZEROTH_KERNELS_CUDA_LAUNCH_SHAPES_H_
