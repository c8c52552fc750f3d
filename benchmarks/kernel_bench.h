// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Kernels to be timed on any device: tensors, and calls that are ready to run on them.

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

namespace zeroth {

// A device, its kernels, and tensors for them. One stream, one thread.
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
  Tensor pattern_;  // all Values are repetitions of it
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
// Norms read x and the residual, and write their sum and y. Backward may add to dx.
absl::StatusOr<Op> PrepareLayerNorm(KernelBench& bench, const Activations& on);
Prepare PrepareLayerNormBackward(bool accumulate_dx);
absl::StatusOr<Op> PrepareRmsNorm(KernelBench& bench, const Activations& on);
Prepare PrepareRmsNormBackward(bool accumulate_dx);
// Queries and keys, in place.
absl::StatusOr<Op> PrepareRope(KernelBench& bench, const Activations& on);
// Also adds positions if `positions`.
Prepare PrepareEmbedding(bool positions);
// Adds dout to rows of the table's gradient, or overwrites all of it.
Prepare PrepareEmbeddingBackward(bool accumulate);
absl::StatusOr<Op> PreparePositionBackward(KernelBench& bench, const Activations& on);
absl::StatusOr<Op> PrepareBiasGradient(KernelBench& bench, const Activations& on);
// On rows * dim parameters. Parameters and moments are fp32, gradients have the activations' type.
absl::StatusOr<Op> PrepareAdamW(KernelBench& bench, const Activations& on);
// The same elements divided as in a model: a matrix of `matrix_rows` rows (0: hidden), which
// decays, then its vectors, which do not decay and are too small to fill a GPU. In one call, or in
// a call for each.
Prepare PrepareAdamWRanges(int64_t matrix_rows, bool one_by_one);
// Parameters and gradients have the activations' type.
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
  bool before_gelu = false;  // forward ends in the activation
  bool after_gelu = false;   // the gradient of its input goes through it

  Shape weight_shape() const { return gpt2 ? Shape({in, out}) : Shape({out, in}); }
  double flops() const { return 2.0 * static_cast<double>(tokens * in * out); }
};
enum class Pass : uint8_t { kForward, kInputGradient, kWeightGradient };

// y = x w + bias; dx = dy w^T, times gelu' where the layer is behind one; dw = x^T dy in fp32.
absl::StatusOr<GemmArgs> LayerProduct(KernelBench& bench, const Layer& layer, Pass pass,
                                      DType dtype);

// Attention, or its backward. Operations are counted below the diagonal and in the window only.
absl::StatusOr<Op> PrepareAttention(KernelBench& bench, Kernels& kernels,
                                    const AttentionShape& shape, DType dtype, bool backward);
double AttentionFlops(const AttentionShape& shape, bool backward);

// GEMMs of each expert's matrix with its part of `rows`, which are divided at random: in one call,
// or in one call per expert.
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

// Registers a benchmark whose work may fail, and which sets the time of each iteration.
benchmark::internal::Benchmark* Register(const std::string& name,
                                         std::function<absl::Status(benchmark::State&)> run);

}  // namespace zeroth
