// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/packed/gguf_values.h"
#include "zeroth/kernels/packed/packed.h"

namespace zeroth::cuda {
namespace {

// A thread unpacks one byte of codes: two values of NF4, or one of int8.
template <typename T>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    UnpackNf4(UnpackCall call, int64_t pairs, T* values) {
  constexpr int64_t kPairs = PackedShape::kNf4Block / 2;
  const int64_t row_pairs = call.cols / 2;
  for (const int64_t at : ItemsOfThread(pairs)) {
    const int64_t row = at / row_pairs;
    const int64_t block_of_row = at % row_pairs / kPairs;
    const uint8_t* const block = call.codes + row * call.shape.CodeBytes(call.cols) +
                                 block_of_row * PackedShape::kNf4BlockBytes;
    const int64_t nf4_block = call.FirstBlock(row) + block_of_row;
    const float magnitude =
        __fadd_rn(__fmul_rn(DynamicValue(block[PackedShape::kNf4BlockBytes - 1]),
                            call.scales[nf4_block / PackedShape::kNf4ScaleBlocks]),
                  call.scales[call.shape.scales() - 1]);
    const int both = block[at % kPairs];
    values[2 * at] = FromFloat<T>(__fmul_rn(Nf4Value(both >> 4), magnitude));
    values[2 * at + 1] = FromFloat<T>(__fmul_rn(Nf4Value(both & 15), magnitude));
  }
}

template <typename T>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    UnpackInt8(UnpackCall call, int64_t count, T* values) {
  for (const int64_t at : ItemsOfThread(count)) {
    const auto code = static_cast<float>(static_cast<int8_t>(call.codes[at]));
    values[at] = FromFloat<T>(__fmul_rn(code, call.scales[call.row + at / call.cols]));
  }
}

// A thread unpacks an element of a GGUF block. Neighbours read the same scales, from the cache.
template <typename T, PackedFormat Format>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    UnpackGguf(const uint8_t* codes, int64_t count, T* values) {
  constexpr PackedShape kOne = {Format};
  for (const int64_t at : ItemsOfThread(count)) {
    const uint8_t* const block = codes + at / kOne.block() * kOne.block_bytes();
    const auto inside = static_cast<int>(at % kOne.block());
    const GgufGroup group = GgufGroupOf<Format>(block, inside / kGgufGroup<Format>);
    values[at] = FromFloat<T>(GgufElement(group, GgufCodeOf<Format>(block, inside)));
  }
}

absl::Status Unpack(const UnpackCall& call, CudaKernels& kernels) {
  const LaunchTarget& target = kernels.target();
  const int64_t count = call.rows * call.cols;
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    auto* const values = static_cast<T*>(call.values);
    if (call.shape.format == PackedFormat::kNf4) {
      return ZEROTH_MAP(UnpackNf4<T>, count / 2, target, call, count / 2, values);
    }
    if (IsGgufFormat(call.shape.format)) {
      return WithGgufFormat(call.shape.format, [&]<PackedFormat Format>() -> absl::Status {
        return ZEROTH_MAP((UnpackGguf<T, Format>), count, target, call.codes, count, values);
      });
    }
    return ZEROTH_MAP(UnpackInt8<T>, count, target, call, count, values);
  });
}
const OnCuda<Unpack> unpack;

}  // namespace
}  // namespace zeroth::cuda
