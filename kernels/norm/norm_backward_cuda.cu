// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/column_pieces.h"
#include "zeroth/kernels/cuda/column_sum.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/warp.h"
#include "zeroth/kernels/norm/norm.h"

namespace zeroth::cuda {
namespace {

constexpr int kWarps = 4;

// With h = dy (gamma + offset): dx = rstd * (h - mean(h) - xhat * mean(h xhat)); RMS norm lacks the
// first mean.
template <int N, bool kCentred, typename T>
__global__ void __launch_bounds__(kWarps * 32)
    NormInputGradient(int64_t rows, int64_t dim, const T* dy, const T* x, const T* gamma,
                      float offset, const float* mean_in, const float* rstd_in, T* dx,
                      bool accumulate, const float* sums, int64_t width) {
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (row >= rows) return;
  const int64_t first = int64_t{threadIdx.x % 32} * N;
  constexpr int64_t kStep = 32 * N;
  const float mean = kCentred ? mean_in[row] : 0.0f;
  const float rstd = rstd_in[row];
  dy += row * dim;
  x += row * dim;
  dx += row * dim;
  float d[N];
  float value[N];
  float g[N];
  const auto load = [&](int64_t at) {
    LoadPack<N>(dy + at, d);
    LoadPack<N>(x + at, value);
    LoadPack<N>(gamma + at, g);
#pragma unroll
    for (int i = 0; i < N; ++i) g[i] += offset;
  };
  // Two iterations at once saturate memory; more would cost registers, and thus occupancy.
  float plain = 0.0f;
  float along = 0.0f;
  const int64_t summed = sums == nullptr ? dim : 0;
#pragma unroll 2
  for (int64_t at = first; at < summed; at += kStep) {
    load(at);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float dxhat = d[i] * g[i];
      plain += dxhat;
      along += dxhat * ((value[i] - mean) * rstd);
    }
  }
  const float scale = 1.0f / static_cast<float>(width);
  plain = kCentred ? WarpSum(plain) * scale : 0.0f;
  along = (sums != nullptr ? sums[row] : WarpSum(along)) * scale;
#pragma unroll 2
  for (int64_t at = first; at < dim; at += kStep) {
    load(at);
    float before[N] = {};
    if (accumulate) LoadPack<N>(dx + at, before);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float xhat = (value[i] - mean) * rstd;
      d[i] = before[i] + rstd * (d[i] * g[i] - plain - xhat * along);
    }
    StorePack<N>(d, dx + at);
  }
}

// Threads of a block that computes all gradients, and blocks on an SM.
constexpr int kGradientThreads = 256;
constexpr int kGradientBlocks = 2;
// Packs of a row that a thread keeps in registers. RMS norm, which has no mean, keeps one sum less
// for each element.
template <bool kCentred>
constexpr int kMostPacks = kCentred ? 3 : 4;

// Returns the number of pieces that rows are divided into. It depends on the rows alone, so that
// results do not depend on the device.
int64_t GradientPieces(int64_t rows) { return std::clamp<int64_t>(rows / 32, 1, 512); }

// Hides from the compiler that the pack stays the same, so that it converts elements again instead
// of keeping converted ones, which take twice the registers.
template <typename T, int N>
__device__ __forceinline__ void ForgetConversions([[maybe_unused]] Pack<T, N>& pack) {
#if !defined(ZEROTH_CUDA_EMULATION)
  static_assert(sizeof(pack) == 16);
  auto* const words = reinterpret_cast<uint32_t*>(&pack);
  asm volatile("" : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3]));
#endif
}

// Computes all gradients in one pass over dy and x. A block has a piece of the rows. Its threads
// form teams of `team_threads`, a multiple of the warp, and each team processes a row at a time. A
// thread has the same columns of every row, and sums their contributions to dgamma and dbeta in
// registers. Then the teams' sums are added in order, in shared memory that holds kSums rows if
// there are several teams.
template <int N, int kPacks, bool kCentred, typename T>
__global__ void __launch_bounds__(kGradientThreads, kGradientBlocks)
    NormGradients(int64_t rows, int dim, int team_threads, const T* dy, const T* x, const T* gamma,
                  float offset, const float* mean_in, const float* rstd_in, T* dx, bool accumulate,
                  const float* row_sums, int64_t width, float* partial) {
  constexpr int kSums = kCentred ? 2 : 1;
  constexpr int kWarpsOfBlock = kGradientThreads / 32;
  ZEROTH_SHARED(float, scratch, [2 * 2 * kWarpsOfBlock]);
  ZEROTH_DYNAMIC_SHARED(float, shared);
  const int thread = static_cast<int>(threadIdx.x);
  const int teams = kGradientThreads / team_threads;
  const int team = thread / team_threads;
  const int first = thread % team_threads * N;
  const int step = team_threads * N;
  const int64_t begin = rows * blockIdx.x / gridDim.x;
  const int64_t end = rows * (blockIdx.x + 1) / gridDim.x;
  const float scale = 1.0f / static_cast<float>(width);
  float sums[kSums][kPacks][N] = {};
  int turn = 0;
  for (int64_t base = begin; base < end; base += teams) {
    const int64_t row = base + team;
    const bool has_row = row < end;
    Pack<T, N> d[kPacks];
    Pack<T, N> value[kPacks];
    Pack<T, N> before[kPacks] = {};
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int column = first + p * step;
      if (!has_row || column >= dim) continue;
      d[p] = *reinterpret_cast<const Pack<T, N>*>(dy + row * dim + column);
      value[p] = *reinterpret_cast<const Pack<T, N>*>(x + row * dim + column);
      if (accumulate) before[p] = *reinterpret_cast<const Pack<T, N>*>(dx + row * dim + column);
    }
    const float mean = kCentred && has_row ? mean_in[row] : 0.0f;
    const float rstd = has_row ? rstd_in[row] : 0.0f;
    float plain = 0.0f;
    float along = 0.0f;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int column = first + p * step;
      if (!has_row || column >= dim) continue;
      float g[N];
      LoadPack<N>(gamma + column, g);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float dy_i = ToFloat(d[p].at[i]);
        const float along_i = dy_i * ((ToFloat(value[p].at[i]) - mean) * rstd);
        sums[0][p][i] += along_i;
        if constexpr (kCentred) sums[1][p][i] += dy_i;
        plain += dy_i * (g[i] + offset);
        along += along_i * (g[i] + offset);
      }
    }
    if (row_sums == nullptr) {
      if constexpr (kCentred) plain = WarpSum(plain);
      along = WarpSum(along);
      if (team_threads > 32) {
        // Rows alternate between two buffers, so that one barrier per row suffices.
        float* const of_warps = scratch + turn * 2 * kWarpsOfBlock;
        turn = 1 - turn;
        const int warp = thread / 32;
        if (thread % 32 == 0) {
          of_warps[2 * warp] = plain;
          of_warps[2 * warp + 1] = along;
        }
        __syncthreads();
        plain = 0.0f;
        along = 0.0f;
        const int warps = team_threads / 32;
        for (int w = team * warps; w < (team + 1) * warps; ++w) {
          plain = __fadd_rn(plain, of_warps[2 * w]);
          along = __fadd_rn(along, of_warps[2 * w + 1]);
        }
      }
    } else {
      along = has_row ? row_sums[row] : 0.0f;
    }
    plain = kCentred ? plain * scale : 0.0f;
    along *= scale;
    __syncwarp();  // makes the compiler read gamma again, too
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int column = first + p * step;
      if (!has_row || column >= dim) continue;
      ForgetConversions(d[p]);
      ForgetConversions(value[p]);
      float g[N];
      LoadPack<N>(gamma + column, g);
      float out[N];
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float xhat = (ToFloat(value[p].at[i]) - mean) * rstd;
        const float h = ToFloat(d[p].at[i]) * (g[i] + offset);
        out[i] = ToFloat(before[p].at[i]) + rstd * (h - plain - xhat * along);
      }
      StorePack<N>(out, dx + row * dim + column);
    }
  }
  const auto store_sums = [&](float* to, int64_t stride) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int column = first + p * step;
      if (column >= dim) continue;
#pragma unroll
      for (int s = 0; s < kSums; ++s) StorePack<N>(sums[s][p], to + s * stride + column);
    }
  };
  for (int other = 1; other < teams; ++other) {
    if (team == other) store_sums(shared, dim);
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int column = first + p * step;
      if (team != 0 || column >= dim) continue;
#pragma unroll
      for (int s = 0; s < kSums; ++s) {
        float theirs[N];
        LoadPack<N>(shared + s * dim + column, theirs);
#pragma unroll
        for (int i = 0; i < N; ++i) sums[s][p][i] = __fadd_rn(sums[s][p][i], theirs[i]);
      }
    }
    __syncthreads();
  }
  if (team == 0) store_sums(partial + int64_t{blockIdx.x} * dim, int64_t{gridDim.x} * dim);
}

// dgamma = sum of dy * xhat, dbeta = sum of dy. RMS norm has only the first.
template <int N, bool kCentred, typename T>
struct ParameterGradients {
  static constexpr int kSums = kCentred ? 2 : 1;
  const T* dy;
  const T* x;
  const float* mean;
  const float* rstd;
  int64_t dim;
  __device__ __forceinline__ void operator()(int64_t row, int64_t column,
                                             float (&sums)[kSums][N]) const {
    float d[N];
    float value[N];
    LoadPack<N>(dy + row * dim + column, d);
    LoadPack<N>(x + row * dim + column, value);
    const float centre = kCentred ? mean[row] : 0.0f;
    const float scale = rstd[row];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sums[0][i] += d[i] * ((value[i] - centre) * scale);
      if constexpr (kCentred) sums[1][i] += d[i];
    }
  }
};

template <int N, bool kCentred, typename T>
absl::Status LaunchInputGradient(const NormBackwardCall& call, const LaunchTarget& target) {
  return ZEROTH_LAUNCH((NormInputGradient<N, kCentred, T>), WarpPerRowShape(call.rows, kWarps),
                       target.stream, call.rows, call.dim, static_cast<const T*>(call.dy),
                       static_cast<const T*>(call.x), static_cast<const T*>(call.gamma),
                       call.gamma_offset, call.mean, call.rstd, static_cast<T*>(call.dx),
                       call.accumulate_dx, call.sums, call.width);
}

// Calls enqueue(partial), which enqueues the sums over `pieces` pieces of the rows into partial
// [sums, pieces, dim]. Then adds the pieces to the parameters' gradients.
template <typename Enqueue>
absl::Status SumParameterGradients(const NormBackwardCall& call, int64_t pieces,
                                   CudaKernels& kernels, const Enqueue& enqueue) {
  const int64_t sums = call.mean != nullptr ? 2 : 1;
  ZEROTH_ASSIGN_OR_RETURN(
      const std::shared_ptr<Buffer> scratch,
      kernels.Scratch(static_cast<size_t>(sums * pieces * call.dim) * sizeof(float)));
  float* const partial = static_cast<float*>(scratch->data());
  ZEROTH_RETURN_IF_ERROR(enqueue(partial));
  if (call.dgamma != nullptr) {
    ZEROTH_RETURN_IF_ERROR(SumPieces(pieces, call.dim, partial, call.accumulate_dgamma,
                                     call.grad_dtype, call.dgamma, kernels.target()));
  }
  if (call.dbeta == nullptr) return absl::OkStatus();
  return SumPieces(pieces, call.dim, partial + pieces * call.dim, call.accumulate_dbeta,
                   call.grad_dtype, call.dbeta, kernels.target());
}

template <int N, bool kCentred, typename T>
absl::Status LaunchParameterGradients(const NormBackwardCall& call, CudaKernels& kernels) {
  using Add = ParameterGradients<N, kCentred, T>;
  const Add add{static_cast<const T*>(call.dy), static_cast<const T*>(call.x), call.mean, call.rstd,
                call.dim};
  return SumParameterGradients(call, RowPieces(call.rows), kernels, [&](float* partial) {
    return ColumnPieces<Add::kSums, N>(call.rows, call.dim, add, partial, kernels.target());
  });
}

// Returns the number of threads that share a row in NormGradients.
int TeamThreads(int64_t packs) {
  int threads = 32;
  while (threads < kGradientThreads && threads * 3 < packs) threads *= 2;
  return threads;
}

template <int N, int kPacks, bool kCentred, typename T>
absl::Status LaunchAllGradients(const NormBackwardCall& call, CudaKernels& kernels) {
  const int64_t pieces = GradientPieces(call.rows);
  const int team_threads = TeamThreads(call.dim / N);
  LaunchShape shape = Blocks(pieces, kGradientThreads);
  if (team_threads < kGradientThreads) {
    shape.dynamic_shared_bytes = static_cast<size_t>((kCentred ? 2 : 1) * call.dim) * sizeof(float);
  }
  return SumParameterGradients(call, pieces, kernels, [&](float* partial) {
    return ZEROTH_LAUNCH((NormGradients<N, kPacks, kCentred, T>), shape, kernels.target().stream,
                         call.rows, static_cast<int>(call.dim), team_threads,
                         static_cast<const T*>(call.dy), static_cast<const T*>(call.x),
                         static_cast<const T*>(call.gamma), call.gamma_offset, call.mean, call.rstd,
                         static_cast<T*>(call.dx), call.accumulate_dx, call.sums, call.width,
                         partial);
  });
}

template <int N, bool kCentred, typename T>
absl::Status LaunchGradients(const NormBackwardCall& call, CudaKernels& kernels) {
  const bool has_parameters = call.dgamma != nullptr || call.dbeta != nullptr;
  if constexpr (N > 1) {
    const int64_t packs = call.dim / N;
    const int64_t team = TeamThreads(packs);
    constexpr int kMost = kMostPacks<kCentred>;
    if (has_parameters && packs <= kMost * team) {
      if (packs <= 2 * team) return LaunchAllGradients<N, 2, kCentred, T>(call, kernels);
      if (packs <= 3 * team) return LaunchAllGradients<N, 3, kCentred, T>(call, kernels);
      return LaunchAllGradients<N, kMost, kCentred, T>(call, kernels);
    }
  }
  // The gradients of parameters come first, because dx may be dy.
  if (has_parameters) {
    ZEROTH_RETURN_IF_ERROR((LaunchParameterGradients<N, kCentred, T>(call, kernels)));
  }
  return LaunchInputGradient<N, kCentred, T>(call, kernels.target());
}

absl::Status NormBackward(const NormBackwardCall& call, CudaKernels& kernels) {
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) -> absl::Status {
    constexpr int kWidth = kPackWidth<T>;
    const bool packed = call.dim % kWidth == 0 && ArePacked(call.dy, call.x, call.gamma, call.dx);
    return DispatchWidth<kWidth>(packed, [&](auto width) {
      return call.mean != nullptr ? LaunchGradients<width(), true, T>(call, kernels)
                                  : LaunchGradients<width(), false, T>(call, kernels);
    });
  });
}
const OnCuda<NormBackward> norm_backward;

}  // namespace
}  // namespace zeroth::cuda
