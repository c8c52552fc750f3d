// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Prepares kernels for timing on any device: makes tensors, and binds calls to them.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/packed/packed_format.h"

namespace zeroth {

// Owns a device and its kernels, and makes tensors for them. Has one stream and belongs to one
// thread.
class KernelBench {
 public:
  absl::Status Open(const std::string& device, const KernelOptions& options = {});

  Device& device() { return *device_; }
  Kernels& kernels() { return *kernels_; }

  // Returns normally distributed values. GEMMs of zeros would draw less power and run faster.
  absl::StatusOr<Tensor> Values(const Shape& shape, DType dtype, float stddev = 1.0f);
  absl::StatusOr<Tensor> Zeros(const Shape& shape, DType dtype);
  // Returns values that are uniform on [0, vocab).
  absl::StatusOr<Tensor> Tokens(const Shape& shape, int64_t vocab);

 private:
  std::shared_ptr<Device> device_;
  std::unique_ptr<Kernels> kernels_;
  Tensor pattern_;  // Values() repeats it
};

// A call that is ready to run. Everything that it refers to must outlive it.
using Op = std::function<absl::Status()>;

// The activations of one step, [batch * seq, dim], for kernels that memory bandwidth limits.
struct Activations {
  const char* model;
  int64_t batch;
  int64_t seq;
  int64_t dim;
  int64_t heads;
  int64_t kv_heads;
  int64_t hidden;  // of the MLP
  int64_t vocab;
  DType dtype = DType::kBFloat16;
  DType gradient_dtype = DType::kFloat32;  // of parameters

  int64_t rows() const { return batch * seq; }
};
using Prepare = std::function<absl::StatusOr<Op>(KernelBench& bench, const Activations& on)>;

absl::StatusOr<Op> PrepareAdd(KernelBench& bench, const Activations& on);
absl::StatusOr<Op> PrepareScale(KernelBench& bench, const Activations& on);
Prepare PrepareCast(DType from, DType to);
absl::StatusOr<Op> PrepareGelu(KernelBench& bench, const Activations& on);
absl::StatusOr<Op> PrepareGeluBackward(KernelBench& bench, const Activations& on);
absl::StatusOr<Op> PrepareSwiGlu(KernelBench& bench, const Activations& on);
absl::StatusOr<Op> PrepareSwiGluBackward(KernelBench& bench, const Activations& on);
// Norms read x and the residual, and write their sum and y. Backward adds to dx if `accumulate_dx`.
absl::StatusOr<Op> PrepareLayerNorm(KernelBench& bench, const Activations& on);
Prepare PrepareLayerNormBackward(bool accumulate_dx);
absl::StatusOr<Op> PrepareRmsNorm(KernelBench& bench, const Activations& on);
Prepare PrepareRmsNormBackward(bool accumulate_dx);
// Rotates queries and keys in place.
absl::StatusOr<Op> PrepareRope(KernelBench& bench, const Activations& on);
// Also adds positions if `positions`.
Prepare PrepareEmbedding(bool positions);
// Adds dout to rows of the table's gradient, or overwrites all of it.
Prepare PrepareEmbeddingBackward(bool accumulate);
absl::StatusOr<Op> PreparePositionBackward(KernelBench& bench, const Activations& on);
absl::StatusOr<Op> PrepareBiasGradient(KernelBench& bench, const Activations& on);
// Updates rows * dim parameters. Parameters and moments are fp32, gradients have the activations'
// type.
absl::StatusOr<Op> PrepareAdamW(KernelBench& bench, const Activations& on);
// Updates the same number of elements as PrepareAdamW, divided as in a model: matrices of
// `matrix_rows` rows (0: hidden), which decay, each followed by vectors, which do not decay and are
// too small to fill a GPU. Makes one call for all ranges, or one for each if `one_by_one`.
Prepare PrepareAdamWRanges(int64_t matrix_rows, bool one_by_one);
// Like PrepareAdamW, but parameters also have the activations' type.
Prepare PrepareLowAdamW(DType moment_dtype);
absl::StatusOr<Op> PrepareAddSquares(KernelBench& bench, const Activations& on);

// A linear layer of a model.
struct Layer {
  const char* model;
  const char* name;
  int64_t tokens;
  int64_t in;
  int64_t out;
  bool gpt2;                 // weights [in, out] and a bias; otherwise [out, in] and none
  bool before_gelu = false;  // forward applies GELU to the output
  bool after_gelu = false;   // the input is a GELU's output, so its gradient is multiplied by gelu'

  Shape weight_shape() const { return gpt2 ? Shape({in, out}) : Shape({out, in}); }
  double flops() const { return 2.0 * static_cast<double>(tokens * in * out); }
};
enum class Pass : uint8_t { kForward, kInputGradient, kWeightGradient };

// y = x w + bias; dx = dy w^T, times gelu' if the layer follows a GELU; dw = x^T dy in fp32.
absl::StatusOr<GemmArgs> LayerGemm(KernelBench& bench, const Layer& layer, Pass pass, DType dtype);

// Unpacks a random matrix in few bits. UnpackBytes are what must be read and written.
absl::StatusOr<Op> PrepareUnpack(KernelBench& bench, const PackedShape& shape, DType dtype);
double UnpackBytes(const PackedShape& shape, DType dtype);

// The forward of a layer whose weights [out, in] are packed: unpacks them, then multiplies.
absl::StatusOr<Op> PreparePackedLinear(KernelBench& bench, const Layer& layer, PackedFormat format,
                                       DType dtype);

// Prepares attention or its backward. FLOPs count only scores below the diagonal and in the window.
absl::StatusOr<Op> PrepareAttention(KernelBench& bench, Kernels& kernels,
                                    const AttentionShape& shape, DType dtype, bool backward);
double AttentionFlops(const AttentionShape& shape, bool backward);

// A layer of experts: `rows` are divided among them at random. PrepareExperts multiplies each
// expert's rows with its matrix in one grouped call, or in one call per expert.
struct ExpertLayer {
  int64_t rows;
  int64_t experts;
  int64_t in;
  int64_t out;

  double flops() const { return 2.0 * static_cast<double>(rows * in * out); }
};
absl::StatusOr<Op> PrepareExperts(KernelBench& bench, const ExpertLayer& layer, DType dtype,
                                  bool grouped);

// The output projection with its loss and gradients; the weight's gradient is fp32.
struct Loss {
  int64_t rows;
  int64_t dim;
  int64_t vocab;
  bool accumulate = false;  // into the weight's gradient

  double flops() const { return 6.0 * static_cast<double>(rows * dim * vocab); }
};
absl::StatusOr<Op> PrepareLoss(KernelBench& bench, const Loss& loss, DType dtype);

// Registers a benchmark whose work may fail, and which reports the time of each iteration itself.
benchmark::internal::Benchmark* Register(const std::string& name,
                                         std::function<absl::Status(benchmark::State&)> run);

}  // namespace zeroth
