// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The language of device code, for nvcc and for the host's compiler. Include this header first in
// .cu files and in headers with device code. On the host (ZEROTH_CUDA_EMULATION) it supplies the
// part of CUDA C++ that this project's kernels use, on top of emulation/simt.h:
//
//   __global__, __device__, threadIdx and its like; __syncthreads, __syncwarp of whole warps;
//   shuffles and votes of whole warps; fences; integer atomics; 16-bit floats; the fast and the
//   exactly rounded arithmetic functions.
//
// It does not supply: <<<>>> (use Launch), inline PTX outside of wrappers that have both forms,
// float atomics (their order is not deterministic), shared arrays of class types, and __shared__,
// which would be one array for all blocks of a host thread (use ZEROTH_SHARED).

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#if !defined(ZEROTH_CUDA_EMULATION)

// A shared array of the block, 16-byte aligned: ZEROTH_SHARED(float, tile, [8][32]);
#define ZEROTH_SHARED(type, name, dimensions) __shared__ __align__(16) type name dimensions

// Dynamic shared memory as an array of `type`, 16-byte aligned.
#define ZEROTH_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char zeroth_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(zeroth_dynamic_shared)

#else
#include "zeroth/core/device/cuda/emulation/device_language.h"
#endif  // ZEROTH_CUDA_EMULATION
