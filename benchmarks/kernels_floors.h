// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Kernels whose limit is memory. Each is held against a plain loop that moves as many bytes at the
// same moment: out = a + s * b (two thirds read, one third written), which also has the lines of
// `out` fetched before they are overwritten; x = -x for kernels that work in place; and for kernels
// that only read a plain sum of squares.
//
// Argument: MiB that one call must read and write, once within the shared cache and once far beyond
// it. Names that end in Bf16 work on bf16, and AdamW then on bf16 gradients; their floors are the
// same plain fp32 loops, moving as many bytes. Columns: GB/s of the best call, counting what must
// be read and written; floor_GB/s of the plain loop; ratio_to_floor the former over the latter, 1
// being the floor. One thread.

#ifndef ZEROTH_BENCHMARKS_KERNELS_FLOORS_H_
#define ZEROTH_BENCHMARKS_KERNELS_FLOORS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

inline constexpr int64_t kDim = 768;
inline constexpr int64_t kVocab = 50304;

// A CPU device with one thread, its kernels, and tensors to run them on.
class Bench {
 public:
  // `dtype` is the type of Values: fp32 or bf16.
  static absl::StatusOr<std::unique_ptr<Bench>> Create(DType dtype);

  Kernels& kernels() { return *kernels_; }

  // Of the type that the case is about.
  absl::StatusOr<Tensor> Values(const Shape& shape);
  // Of magnitudes like those of a gradient, from 2^-10 to 2, either sign.
  absl::StatusOr<Tensor> Floats(const Shape& shape);
  absl::StatusOr<Tensor> Zeros(const Shape& shape, DType dtype);
  absl::StatusOr<Tensor> Tokens(int64_t count);

 private:
  uint32_t Draw() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 32);
  }

  uint64_t state_ = 1;
  DType dtype_ = DType::kFloat32;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Kernels> kernels_;
};

using Op = std::function<absl::Status()>;

enum class Floor { kTriad, kInPlace, kSumOfSquares };

// One kernel: how many bytes it must move for each element of its main operand, and how to prepare
// a call on `rows` rows of kDim of them.
struct Case {
  const char* name;
  DType dtype;  // of activations, parameters and gradients
  int64_t bytes_per_element;
  Floor floor;
  std::function<absl::StatusOr<Op>(Bench& bench, int64_t rows)> prepare;
};

// Registers a benchmark of each, once in the shared cache and once far beyond it. Returns true, for
// an object that nobody reads.
bool RegisterCases(std::vector<Case> cases);

}  // namespace zeroth

#endif  // ZEROTH_BENCHMARKS_KERNELS_FLOORS_H_
