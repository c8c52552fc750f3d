// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/basic/basic.h"

#include <array>
#include <cstddef>

#include "zeroth/core/base/philox.h"

namespace zeroth {
namespace {

uint32_t Low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t High(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

}  // namespace

RoundingKey MakeDropoutKey(uint64_t seed, int64_t step) {
  const uint64_t key = CounterRng(seed, "dropout").Bits64(static_cast<uint64_t>(step));
  return {Low(key), High(key)};
}

bool DropsElement(const DropoutDraws& draws, int64_t element, uint32_t threshold) {
  const uint64_t block = static_cast<uint64_t>(element) / 4;
  const std::array<uint32_t, 4> words =
      Philox4x32({Low(block), High(block), Low(draws.stream), High(draws.stream)},
                 {draws.key.low, draws.key.high});
  return words[static_cast<size_t>(element) % 4] < threshold;
}

uint32_t DropoutThreshold(float rate) {
  return static_cast<uint32_t>(static_cast<double>(rate) * 4294967296.0);
}

BasicCall CallOf(const BasicArgs& args) {
  const Matrix& a = args.a.tensor.defined() ? args.a : args.out;
  const Matrix& b = args.b.tensor.defined() ? args.b : a;
  return {.op = args.op,
          .dtype = args.out.tensor.dtype(),
          .rows = args.out.rows,
          .cols = args.out.cols,
          .a = a.raw_data(),
          .a_stride = a.stride,
          .b = b.raw_data(),
          .b_stride = b.stride,
          .out = args.out.raw_data(),
          .out_stride = args.out.stride,
          .accumulate = args.accumulate,
          .scalar = args.scalar,
          .group = args.group,
          .draws = args.draws};
}

}  // namespace zeroth
