// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Prepares kernels of weights in few bits.

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "zeroth/benchmarks/kernel_bench.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/packed/packed.h"

namespace zeroth {
namespace {

// Returns a random packed matrix, and memory for its values.
absl::StatusOr<UnpackArgs> Packed(KernelBench& bench, const PackedShape& shape, DType dtype) {
  constexpr MemoryCategory kCategory = MemoryCategory::kActivations;
  std::mt19937 random(3);
  // Six bits: the fp16 scales within GGUF's blocks are then finite.
  std::uniform_int_distribution<int> uniform(0, 63);
  std::array<uint8_t, 1 << 16> pattern;
  for (uint8_t& byte : pattern) byte = static_cast<uint8_t>(uniform(random));
  std::vector<uint8_t> bytes(static_cast<size_t>(shape.rows * shape.CodeBytes(shape.cols)));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern[i % pattern.size()];
  UnpackArgs args;
  args.shape = shape;
  UnpackArgs::Block& block = args.blocks.emplace_back();
  ZEROTH_ASSIGN_OR_RETURN(
      block.codes,
      Tensor::FromHost<uint8_t>(bench.device(), Shape({shape.rows, shape.CodeBytes(shape.cols)}),
                                bytes, kCategory));
  if (shape.scales() > 0) {
    const std::vector<uint8_t> scales(static_cast<size_t>(shape.scale_bytes()), 0x3c);
    ZEROTH_ASSIGN_OR_RETURN(
        block.scales,
        Tensor::FromHost<uint8_t>(bench.device(), Shape({shape.scale_bytes()}), scales, kCategory));
  }
  ZEROTH_ASSIGN_OR_RETURN(block.values, bench.Zeros(Shape({shape.rows, shape.cols}), dtype));
  return args;
}

}  // namespace

double UnpackBytes(const PackedShape& shape, DType dtype) {
  return static_cast<double>(shape.rows * shape.CodeBytes(shape.cols) + shape.scale_bytes() +
                             shape.rows * shape.cols * static_cast<int64_t>(SizeOf(dtype)));
}

absl::StatusOr<Op> PrepareUnpack(KernelBench& bench, const PackedShape& shape, DType dtype) {
  ZEROTH_ASSIGN_OR_RETURN(const UnpackArgs args, Packed(bench, shape, dtype));
  return Op([&bench, args] { return kernels::Unpack(bench.kernels(), args); });
}

absl::StatusOr<Op> PreparePackedLinear(KernelBench& bench, const Layer& layer, PackedFormat format,
                                       DType dtype) {
  ZEROTH_ASSIGN_OR_RETURN(GemmArgs gemm, LayerGemm(bench, layer, Pass::kForward, dtype));
  ZEROTH_ASSIGN_OR_RETURN(const UnpackArgs args,
                          Packed(bench, {format, layer.out, layer.in}, dtype));
  gemm.b = args.blocks.front().values;
  return Op([&bench, args, gemm]() -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(kernels::Unpack(bench.kernels(), args));
    return kernels::Gemm(bench.kernels(), gemm);
  });
}

}  // namespace zeroth
