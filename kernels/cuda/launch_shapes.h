// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The grids and blocks that kernels are launched with, and how they are chosen; host code.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "zeroth/core/device/cuda/launch.h"

namespace zeroth::cuda {

// The stream and device on which a kernel runs.
struct LaunchTarget {
  cudaStream_t stream = nullptr;
  int multiprocessors = 1;
};

// Resident blocks per SM of a kernel launched with MapShape, which makes grids of one wave; the
// kernel's __launch_bounds__ tells the compiler. Six blocks of 256 threads leave each thread 40
// registers, enough for packs of 16 bytes, whose loads in flight hide the latency.
inline constexpr int kBlocksPerMultiprocessor = 6;
inline constexpr int kMapThreads = 256;

// The size of a kernel's parameters that every device accepts: 4 KiB up to CUDA 12.0.
inline constexpr size_t kKernelParameterBytes = 4096;

// Returns a one-dimensional grid.
inline LaunchShape Blocks(int64_t blocks, int threads, size_t dynamic_shared_bytes = 0) {
  return {dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)),
          dynamic_shared_bytes};
}

// Returns a grid for `items` independent items, in which each thread processes one item at a time.
// It has at most as many blocks as run at once on the device, `resident` on each SM.
inline LaunchShape MapShape(int64_t items, int multiprocessors,
                            int resident = kBlocksPerMultiprocessor) {
  const int64_t blocks = (items + kMapThreads - 1) / kMapThreads;
  const int64_t at_once = int64_t{multiprocessors} * resident;
  return Blocks(std::min(blocks, at_once), kMapThreads);
}

// Returns a grid with a thread for each of `items` items.
inline LaunchShape ThreadPerItemShape(int64_t items) {
  return Blocks((items + kMapThreads - 1) / kMapThreads, kMapThreads);
}

// Returns a grid with a warp for each of `rows` rows and `warps` warps in a block.
inline LaunchShape WarpPerRowShape(int64_t rows, int warps) {
  return Blocks((rows + warps - 1) / warps, warps * 32);
}

// Returns true if every array may be accessed in packs of 16 bytes, also by asynchronous copies.
// Null counts as aligned, since it is not accessed.
template <typename... Elements>
bool ArePacked(const Elements*... arrays) {
  return ((reinterpret_cast<uintptr_t>(arrays) % 16 == 0) && ...);
}

// Returns the number of pieces into which a sum over `rows` rows is divided: enough to fill a
// device, and few enough that adding the pieces costs little. It depends on the rows alone, so that
// results do not depend on the device.
inline int64_t RowPieces(int64_t rows) {
  constexpr int64_t kRowsPerPiece = 64;
  constexpr int64_t kMostPieces = 128;
  return std::clamp<int64_t>((rows + kRowsPerPiece - 1) / kRowsPerPiece, 1, kMostPieces);
}

}  // namespace zeroth::cuda

// Launches a kernel for `items` items on `target`, with MapShape's grid.
#define ZEROTH_MAP(kernel, items, target, ...)                                     \
  ZEROTH_LAUNCH(kernel, ::zeroth::cuda::MapShape(items, (target).multiprocessors), \
                (target).stream, __VA_ARGS__)
