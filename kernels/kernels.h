// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of training: the operations, without saying where they run. An implementation is a
// folder that registers itself for a device type (see cpu/); reference/ has a plain version of
// each, used by tests only.

#ifndef ZEROTH_KERNELS_KERNELS_H_
#define ZEROTH_KERNELS_KERNELS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/exact_sum.h"
#include "zeroth/kernels/fp8.h"
#include "zeroth/kernels/matrix.h"

namespace zeroth {

// Applied to a product before it is stored.
enum class Activation : uint8_t { kNone, kGelu, kSilu };

// c = activation(op(a) op(b) + bias), or c += op(a) op(b). a, b and bias share one dtype; c may
// have another.
struct GemmArgs {
  Matrix a;  // [m, k], or [k, m] if transpose_a
  Matrix b;  // [k, n], or [n, k] if transpose_b
  Matrix c;  // [m, n]
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;                    // add to c; excludes bias and activation
  Tensor bias;                                // [n], or undefined for none
  Activation activation = Activation::kNone;  // kGelu is the tanh approximation
  // [m, n], c's dtype, or undefined: what the activation was applied to, kept for its backward, in
  // the same pass. Needs kGelu.
  Tensor pre_activation;
  // [m, n], c's dtype, or undefined: c = (op(a) op(b)) * gelu'(gelu_input), the backward of a GELU
  // whose output's gradient the product is. Excludes bias, activation, pre_activation, accumulate.
  Tensor gelu_input;
};

// y = (x - mean) / sqrt(variance + eps) * gamma + beta over the last dimension, variance biased.
struct LayerNormArgs {
  Tensor x;         // [rows, dim] (leading dimensions are flattened here and below)
  Tensor residual;  // [rows, dim] or undefined; if given, x + residual is stored …
  Tensor sum;    // … here, [rows, dim], which may be x or residual itself, and what is stored is
                 // normalised, so that backward, which reads it, sees the same numbers
  Tensor gamma;  // [dim]
  Tensor beta;   // [dim]
  float eps = 1e-5f;
  Tensor y;     // [rows, dim]
  Tensor mean;  // [rows]
  Tensor rstd;  // [rows]
};

struct LayerNormBackwardArgs {
  Tensor dy;     // [rows, dim]
  Tensor x;      // [rows, dim], what was normalised
  Tensor gamma;  // [dim]
  Tensor mean;   // [rows]
  Tensor rstd;   // [rows]
  Tensor dx;     // [rows, dim]
  bool accumulate_dx = false;
  Tensor dgamma;  // [dim], or undefined when frozen
  bool accumulate_dgamma = false;
  Tensor dbeta;  // [dim], or undefined when frozen
  bool accumulate_dbeta = false;
};

// y = x / sqrt(mean(x^2) + eps) * gamma (Zhang and Sennrich, "Root mean square layer
// normalization", 2019).
struct RmsNormArgs {
  Tensor x;         // [rows, dim]
  Tensor residual;  // as in LayerNormArgs
  Tensor sum;
  Tensor gamma;  // [dim]
  float eps = 1e-5f;
  Tensor y;     // [rows, dim]
  Tensor rstd;  // [rows]
};

struct RmsNormBackwardArgs {
  Tensor dy;     // [rows, dim]
  Tensor x;      // [rows, dim]
  Tensor gamma;  // [dim]
  Tensor rstd;   // [rows]
  Tensor dx;     // [rows, dim]
  bool accumulate_dx = false;
  Tensor dgamma;  // [dim], or undefined when frozen
  bool accumulate_dgamma = false;
};

// Queries, keys and values of one layer lie side by side: [batch, seq, (heads + 2 * kv_heads) *
// head_dim], in this order. kv_heads divides heads; query head h reads key head h / (heads /
// kv_heads).
struct AttentionShape {
  int64_t batch = 0;
  int64_t seq = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;

  int64_t packed_dim() const { return (heads + 2 * kv_heads) * head_dim; }
};

// Causal softmax(q k^T / sqrt(head_dim)) v, tile by tile with a running maximum (Dao et al.,
// "FlashAttention", 2022): no [seq, seq] tensor exists.
struct AttentionArgs {
  AttentionShape shape;
  Tensor qkv;  // [batch, seq, packed_dim]
  Tensor out;  // [batch, seq, heads * head_dim]
  Tensor lse;  // [batch, heads, seq], fp32: log of each row's sum of exponentials, for backward;
               // undefined if unwanted
};

struct AttentionBackwardArgs {
  AttentionShape shape;
  Tensor dout;  // [batch, seq, heads * head_dim]
  Tensor qkv;   // [batch, seq, packed_dim]
  Tensor out;   // [batch, seq, heads * head_dim]
  Tensor lse;   // [batch, heads, seq]
  Tensor dqkv;  // [batch, seq, packed_dim], overwritten
};

// Rotary position embedding (Su et al., 2021) on the query and key heads of a packed tensor, in
// place; element i of the lower half of a head is paired with element i of the upper half, position
// = index in the sequence.
struct RopeArgs {
  AttentionShape shape;
  Tensor qkv;  // [batch, seq, packed_dim]
  float theta = 10000.0f;
  bool inverse = false;  // rotate back: the backward of the same call
};

// Mean cross-entropy of softmax(hidden weight^T) against targets, and its gradients in the same
// pass over chunks of rows: the logits of one chunk are the most that ever exist. Gradients are
// computed with the loss, since the logits are at hand then and never again (as in the Liger
// kernels, Hsu et al., 2024).
struct LinearCrossEntropyArgs {
  Tensor hidden;   // [rows, dim]
  Tensor weight;   // [vocab, dim]
  Tensor targets;  // [rows] int32; -100 is left out of the mean; other values outside [0, vocab)
                   // are InvalidArgument
  Tensor loss;     // [1] fp32, overwritten; 0 if no target counts
  Tensor dhidden;  // [rows, dim], overwritten; undefined for the loss alone
  Tensor dweight;  // [vocab, dim]; undefined for the loss alone or when frozen
  bool accumulate_dweight = false;
  float grad_scale = 1.0f;  // gradients are those of grad_scale * loss
};

// Where AdamW adds eps. Libraries differ, and it shows wherever sqrt(v) is not far above eps.
enum class EpsMode : uint8_t {
  kAfterCorrection,   // sqrt(v / correction2) + eps: the paper's, and PyTorch's
  kBeforeCorrection,  // (sqrt(v) + eps) / sqrt(correction2): the form at the end of section 2 of
                      // "Adam" (2015)
};

// One AdamW step in place (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019):
//   g = grad * grad_scale;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   param -= lr * (m / correction1 / denominator + weight_decay * param), the denominator as
//   eps_mode says
// An element's result depends on that element alone and, where it is rounded stochastically, on its
// index in its parameter, but not on its place in the tensor, to the last bit: cutting a parameter
// into shards changes nothing. Moments below the smallest normal float become zero: subnormals,
// which rows without gradients would decay into and never leave, cost a hundred times a normal
// operation. The scalars are doubles so that 1 - beta keeps its digits; what is derived from them
// is rounded to fp32 once.
//
// Arithmetic is fp32. What is stored in fewer bits is rounded stochastically, up with the
// probability that makes the mean exact (Gupta et al., "Deep learning with limited numerical
// precision", 2015): to nearest, a moment that changes by less than half a step in each update
// would never change at all. The draws are those of rounding.h: a function of seed, step, stream
// and the element's index, hence the same on every rank, device and run.
struct AdamWArgs {
  Tensor param;    // [n] fp32 or bf16; grad, m and v have the same shape
  Tensor grad;     // [n] fp32, bf16 or fp16
  Tensor m;        // [n] fp32, bf16, or uint8: codes of moment_codes.h
  Tensor v;        // [n], of m's type
  Tensor m_scale;  // [ceil(n / kMomentBlock)] fp32 with uint8 moments, undefined otherwise: the
                   // scales of blocks of elements. Zeros are the scales of zeros.
  Tensor v_scale;  // the same
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;
  double correction1 = 1;  // 1 - beta1^step
  double correction2 = 1;  // 1 - beta2^step
  double grad_scale = 1;   // known on the host: unscaling
  Tensor grad_factor;      // [1] fp32 or undefined: known on the device, multiplies grad_scale (in
                           // fp32): clipping, without the host waiting for the norm. NaN: nothing
                           // changes, a step to be skipped
  EpsMode eps_mode = EpsMode::kAfterCorrection;
  uint64_t seed = 0;          // of stochastic rounding, and so are the three below
  int64_t step = 0;           // two steps round by different draws
  uint64_t stream = 0;        // names the parameter, see HashName of philox.h
  int64_t first_element = 0;  // where the tensors start in their parameter, at least 0; a multiple
                              // of kMomentBlock with uint8 moments, as blocks are cut there
  // [kAdamWCoefficients] fp32 in device memory or undefined: if defined, what counts is what lies
  // there when the step runs, an AdamWCoefficients (adamw_coefficients.h), and not the scalars
  // above, seed and step included: for a step that is recorded once and played with others. The
  // bits are the same.
  Tensor coefficients;
};
inline constexpr int64_t kAdamWCoefficients = 11;
// Neighbours that share one scale where moments are stored in 8 bits.
inline constexpr int64_t kMomentBlock = 128;

// Values as int8 codes and one fp32 scale for each block of them, largest magnitude / 127
// (QuantizedBlocks says how they lie): code = value / scale to the nearest, ties to even. An error
// is at most half a scale. A block that holds an infinity or NaN has scale NaN, so that all of it
// comes back as NaN: an overflow must not vanish on its way.
struct QuantizeArgs {
  Tensor values;  // [n] fp32, bf16 or fp16
  int64_t block = 256;
  Tensor quantized;  // uint8 [QuantizedBlocks{n, block}.bytes()]
};

struct DequantizeArgs {
  Tensor quantized;    // uint8 [pieces * QuantizedBlocks{n, block}.bytes()]
  int64_t pieces = 1;  // each quantised by itself
  int64_t block = 256;
  Tensor values;  // [pieces * n] fp32, bf16 or fp16
};

// sum = (mean of pieces or) sum of pieces, along the tree of core/comm/communicator.h in fp32; each
// result is rounded once.
struct SumQuantizedArgs {
  Tensor quantized;  // uint8 [pieces * QuantizedBlocks{n, block}.bytes()]
  int64_t pieces = 1;
  int64_t block = 256;
  bool mean = false;
  Tensor sum;               // [n] fp32, bf16 or fp16
  bool accumulate = false;  // add to sum, which is fp32
};

// Values as 8-bit floats and one scale for all of them, made just in time: the largest magnitude
// becomes the format's largest number ("tensorwise" in torchao's words, "current scaling" in
// TransformerEngine's). code = value * Fp8Multiplier(amax), rounded to nearest even, the largest
// number where that would overflow, kNaNCode for NaN; value = code * scale. An infinity or NaN
// among the values makes the scale NaN: an overflow must not vanish on its way.
struct CastFp8Args {
  Matrix values;  // [rows, cols] fp32, bf16 or fp16
  Fp8Format format = Fp8Format::kE4M3;
  // At least one of the two: uint8 [rows, cols], and uint8 [cols, PaddedFp8Depth(rows)], the same
  // codes transposed, zeros behind them.
  Tensor codes;
  Tensor codes_transposed;
  Tensor scale;  // fp32 [2]: 1 / multiplier, and the largest magnitude (amax)
};

struct Fp8Operand {
  Tensor codes;  // uint8 [rows, depth]
  Fp8Format format = Fp8Format::kE4M3;
  Tensor scale;  // as CastFp8 leaves it; the first element counts
};

// c = a b^T a.scale b.scale + bias, or c += a b^T a.scale b.scale: both operands with their depth
// innermost, the one layout in which Hopper multiplies 8-bit floats.
struct Fp8GemmArgs {
  Fp8Operand a;             // [m, k], k a multiple of kFp8Step
  Fp8Operand b;             // [n, k], n a multiple of kFp8Step; not e5m2 as well
  Matrix c;                 // [m, n] fp32, bf16 or fp16; offset and stride multiples of kFp8Step
  bool accumulate = false;  // add to c; excludes bias
  Tensor bias;              // [n] of c's type, bf16 or fp16; or undefined
};

struct BasicArgs;  // basic/basic.h

// The operations of one device, enqueued on one stream (given at creation) and returning at once;
// on the CPU's compute stream they are done on return. Tensors are kept alive until the stream has
// passed.
//
// Element types, unless a field says otherwise: the activations and parameters of one call share
// one dtype, fp32, bf16 or fp16; gradients of parameters (dgamma, dbeta, dbias, dtable, dpositions,
// dweight) share one of their own, and so does a product's c: fp32, or 16 bits of the call's one
// kind; statistics (mean, rstd, lse) and losses are fp32. Arithmetic is fp32 throughout, products
// add up in fp32, and each result is rounded once, to nearest even, also when it is added to what
// is there.
//
// A wrong shape, dtype or device is InvalidArgument naming operation and field. Zero-sized tensors
// are legal everywhere. Results are the same bits from run to run. Not thread-safe: one per rank
// and stream.
class Kernels {
 public:
  virtual ~Kernels() = default;
  virtual Stream& stream() = 0;

  virtual absl::Status Gemm(const GemmArgs& args) = 0;
  // In words, for people: the products that KernelOptions::allow_slow_kernels has let pass so far,
  // each once.
  virtual std::vector<std::string> SlowProducts() const { return {}; }
  // dbias[n] (+)= sum over rows of dy.
  virtual absl::Status BiasGradient(const Matrix& dy, const Tensor& dbias, bool accumulate) = 0;

  // out[b, s] = table[tokens[b, s]] (+ positions[s]). tokens int32 [batch, seq]; table [vocab,
  // dim]; positions [max_seq, dim] or undefined; out [batch, seq, dim]. A token outside [0, vocab)
  // is InvalidArgument.
  virtual absl::Status Embedding(const Tensor& tokens, const Tensor& table, const Tensor& positions,
                                 const Tensor& out) = 0;
  // dtable[t] (+)= sum of dout over the places of t, in their order. The whole of dtable is
  // written.
  virtual absl::Status EmbeddingBackward(const Tensor& tokens, const Tensor& dout,
                                         const Tensor& dtable, bool accumulate) = 0;
  // dpositions[s] (+)= sum of dout[b, s] over b; rows from seq on count as zeros.
  virtual absl::Status PositionBackward(const Tensor& dout, const Tensor& dpositions,
                                        bool accumulate) = 0;

  virtual absl::Status LayerNorm(const LayerNormArgs& args) = 0;
  virtual absl::Status LayerNormBackward(const LayerNormBackwardArgs& args) = 0;
  virtual absl::Status RmsNorm(const RmsNormArgs& args) = 0;
  virtual absl::Status RmsNormBackward(const RmsNormBackwardArgs& args) = 0;

  virtual absl::Status Rope(const RopeArgs& args) = 0;
  virtual absl::Status Attention(const AttentionArgs& args) = 0;
  virtual absl::Status AttentionBackward(const AttentionBackwardArgs& args) = 0;
  // In words, for people: what would compute attention of this shape and type, forward and
  // backward, and why not cuDNN where it does not; empty where there is one way only. Unimplemented
  // if KernelOptions::attention asks for what there is not.
  virtual absl::StatusOr<std::string> DescribeAttention(const AttentionShape& shape,
                                                        DType dtype) = 0;

  // y = gelu(x), tanh approximation; x and y may be the same tensor.
  virtual absl::Status Gelu(const Tensor& x, const Tensor& y) = 0;
  // dx = dy * gelu'(x); dx may be dy.
  virtual absl::Status GeluBackward(const Tensor& x, const Tensor& dy, const Tensor& dx) = 0;
  // out = silu(gate) * up, where gate_up [rows, 2 * hidden] holds gate, then up, in each row; out
  // [rows, hidden].
  virtual absl::Status SwiGlu(const Tensor& gate_up, const Tensor& out) = 0;
  virtual absl::Status SwiGluBackward(const Tensor& gate_up, const Tensor& dout,
                                      const Tensor& dgate_up) = 0;

  // Any of the small operations of basic/basic.h.
  virtual absl::Status Basic(const BasicArgs& args) = 0;

  // out = a + b; out may be either.
  virtual absl::Status Add(const Tensor& a, const Tensor& b, const Tensor& out) = 0;
  // x *= factor.
  virtual absl::Status Scale(const Tensor& x, float factor) = 0;
  // x += weight * (target - x), each operation rounded by itself, so that an element's result does
  // not depend on its place: exponential averages.
  virtual absl::Status Lerp(const Tensor& x, const Tensor& target, float weight) = 0;
  // Between fp32, bf16 and fp16, rounding to nearest even; same count; not in place.
  virtual absl::Status Cast(const Tensor& src, const Tensor& dst) = 0;

  virtual absl::Status Quantize(const QuantizeArgs& args) = 0;
  virtual absl::Status Dequantize(const DequantizeArgs& args) = 0;
  virtual absl::Status SumQuantized(const SumQuantizedArgs& args) = 0;

  virtual absl::Status LinearCrossEntropy(const LinearCrossEntropyArgs& args) = 0;

  // A step of each of `ranges`, to the last bit what a call for each of them leaves: the
  // multi-tensor apply of NVIDIA's Apex. A model has parameters by the hundred, most of them too
  // small to fill a device, and each with a weight decay and draws of its own. Ranges may differ in
  // everything and be empty; what one writes no other reads or writes. On a GPU those of the same
  // types and grad_factor share launches; on a CPU all share one parallel loop. If one is refused
  // the message says which, and nothing changes.
  virtual absl::Status AdamW(absl::Span<const AdamWArgs> ranges) = 0;
  absl::Status AdamW(const AdamWArgs& args) { return AdamW(absl::MakeConstSpan(&args, 1)); }
  // Adds the squares of the elements of all `xs` to `sum` (device memory, int64 [ExactSum::kWords])
  // exactly: the result does not depend on the order of elements, on how they are cut into tensors
  // and calls, or on who adds what. Each of `xs` is fp32, bf16 or fp16. See exact_sum.h. Tensors
  // share launches and parallel loops as AdamW's ranges do.
  virtual absl::Status AddSquares(absl::Span<const Tensor> xs, const Tensor& sum) = 0;
  absl::Status AddSquares(const Tensor& x, const Tensor& sum) {
    return AddSquares(absl::MakeConstSpan(&x, 1), sum);
  }
  // norm_and_factor ([2] fp32) = {norm, factor} of gradients whose squares AddSquares added up in
  // `sum` and which are to be multiplied by `scale` (>= 0): norm = sqrt(sum) * scale; factor = 1
  // for max_norm <= 0, and otherwise min(1, max_norm / (norm + 1e-6)) as torch's clip_grad_norm_;
  // NaN where the norm is not a finite fp32. Computed in double, each rounded once.
  virtual absl::Status ClipFactor(const Tensor& sum, double scale, double max_norm,
                                  const Tensor& norm_and_factor) = 0;

  // Unimplemented says why this device has no products of 8-bit floats; CastFp8 it has.
  virtual absl::Status SupportsFp8() const = 0;
  virtual absl::Status CastFp8(const CastFp8Args& args) = 0;
  // Unimplemented where SupportsFp8 is.
  virtual absl::Status Fp8Gemm(const Fp8GemmArgs& args) = 0;
};

// What products of fp32 operands are made in; the words are those of PyTorch's
// torch.backends.cuda.matmul.fp32_precision.
enum class Fp32Precision : uint8_t {
  kIeee,  // fp32
  kTf32,  // operands rounded to 10 bits of mantissa for tensor cores (TF32, NVIDIA, 2020); sums in
          // fp32. Gemm and LinearCrossEntropy; attention stays as it is.
};

// What computes attention where a device has a choice.
enum class AttentionBackend : uint8_t {
  kAuto,   // cuDNN where it is found and has an engine for the shape, else kFlash
  kCudnn,  // or an error
  kFlash,  // our own kernels, after FlashAttention
};

struct KernelOptions {
  Fp32Precision fp32_precision = Fp32Precision::kIeee;
  AttentionBackend attention = AttentionBackend::kAuto;
  // A large product that the device's library has no algorithm for goes to a plain kernel of ours,
  // about a hundred times slower, and is one of SlowProducts(). Otherwise it is Unimplemented.
  bool allow_slow_kernels = false;
};

// What the kernels of a device type have beyond the common.
struct KernelSupport {
  bool tf32 = false;
  bool cudnn = false;
  bool slow_kernels = false;  // to which products may go
};

// Implementations by device type. Thread-safe.
class KernelRegistry {
 public:
  using Factory = std::function<absl::StatusOr<std::unique_ptr<Kernels>>(Device&, Stream&,
                                                                         const KernelOptions&)>;

  static void Register(absl::string_view device_type, Factory factory,
                       const KernelSupport& support = {});
  // Whether kernels of this type can be made with these options, as far as is known without a
  // device. NotFound lists the device types linked in; Unimplemented names the option.
  static absl::Status Check(absl::string_view device_type, const KernelOptions& options);
  // The kernels of `device` on `stream`, which both must outlive them. The errors of Check, and
  // Unimplemented if this very device is too old for an option.
  static absl::StatusOr<std::unique_ptr<Kernels>> Create(Device& device, Stream& stream,
                                                         const KernelOptions& options = {});
};

// Put one at namespace scope in the implementation's .cc, in a target with alwayslink.
struct KernelRegistration {
  KernelRegistration(absl::string_view device_type, KernelRegistry::Factory factory,
                     const KernelSupport& support = {}) {
    KernelRegistry::Register(device_type, std::move(factory), support);
  }
};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_KERNELS_H_
