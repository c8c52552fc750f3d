// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The cost of each operation. Most operations read and write their tensors once; those that
// multiply or need workspace state how much. Workspace is that of the operation's *_cpu.cc and
// *_cuda.cc; tests/plan compares it with real runs.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/activation/activation.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/attention/attention_cpu.h"
#include "zeroth/kernels/attention/cudnn_limits.h"
#include "zeroth/kernels/attention/sinks.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/cpu/column_sum.h"
#include "zeroth/kernels/delta_net/delta_net.h"
#include "zeroth/kernels/distillation/distillation.h"
#include "zeroth/kernels/divergence/divergence.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/embedding/embedding.h"
#include "zeroth/kernels/fp8/fp8.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/gemm/gemm_cpu.h"
#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy_cpu.h"
#include "zeroth/kernels/linear_cross_entropy/loss_chunk.h"
#include "zeroth/kernels/moe/moe.h"
#include "zeroth/kernels/muon/muon.h"
#include "zeroth/kernels/norm/norm.h"
#include "zeroth/kernels/packed/packed.h"
#include "zeroth/kernels/planned/planned_delta_net.h"
#include "zeroth/kernels/planned/planned_kernels.h"
#include "zeroth/kernels/preference/preference.h"
#include "zeroth/kernels/quantize/quantize.h"
#include "zeroth/kernels/sum_of_squares/sum_of_squares.h"
#include "zeroth/kernels/vocabulary/vocabulary.h"

namespace zeroth {
namespace {

constexpr int64_t kFloat = sizeof(float);

double Bytes(int64_t elements, DType dtype) {
  return static_cast<double>(elements) * static_cast<double>(SizeOf(dtype));
}

double MatmulFlops(int64_t m, int64_t n, int64_t k) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

// Returns the bytes of all tensors, each counted once.
double Bytes(CallTensors tensors) {
  double bytes = 0;
  for (const Tensor* tensor : tensors) bytes += static_cast<double>(tensor->bytes());
  return bytes;
}

template <typename Call>
KernelCost CostOf(const Call&, const PlannedKernels&, CallTensors tensors) {
  return {.bytes = Bytes(tensors)};
}

KernelCost CostOf(const GemmCall& call, const PlannedKernels& kernels, CallTensors) {
  KernelCost cost;
  cost.flops = MatmulFlops(call.m, call.n, call.k);
  cost.flops_per_second = kernels.FlopsPerSecond(call.dtype) * kernels.Fill(call.m, call.n, call.k);
  cost.bytes = Bytes(call.m * call.k + call.k * call.n, call.dtype) +
               Bytes(call.m * call.n, call.c_dtype) * (call.accumulate ? 2 : 1);
  if (call.pre_activation != nullptr || call.gelu_input != nullptr) {
    cost.bytes += Bytes(call.m * call.n, call.c_dtype);
  }
  cost.place = KernelCost::kMatmuls;
  if (!kernels.is_gpu() && cpu::WidensOperands(call.dtype, call.k)) {
    cost.scratch = cpu::WidenedFloats(call) * kFloat;
  } else if (!kernels.is_gpu() && call.dtype == DType::kBFloat16) {
    cost.scratch = cpu::Bf16WorkspaceBytes(call, kernels.threads());
  }
  return cost;
}

// Sums over rows work on blocks of rows; each block has a row of partial sums. On a GPU the blocks
// are RowPieces of kernels/cuda/launch_shapes.h.
KernelCost CostOf(const BiasGradientCall& call, const PlannedKernels& kernels, CallTensors) {
  const int64_t blocks = kernels.is_gpu() ? std::clamp<int64_t>((call.rows + 63) / 64, 1, 128)
                                          : cpu::BlockCount(call.rows);
  return {.bytes = Bytes(call.rows * call.cols, call.dtype),
          .scratch = blocks * call.cols * kFloat};
}

// On a GPU the blocks are GradientPieces of norm_backward_cuda.cu, and RMS norm, which has no mean,
// has one sum.
KernelCost CostOf(const NormBackwardCall& call, const PlannedKernels& kernels,
                  CallTensors tensors) {
  const int64_t blocks =
      kernels.is_gpu() ? std::clamp<int64_t>(call.rows / 32, 1, 512) : cpu::BlockCount(call.rows);
  const int64_t sums = kernels.is_gpu() && call.mean == nullptr ? 1 : 2;
  return {.bytes = Bytes(tensors), .scratch = sums * blocks * call.dim * kFloat};
}

// Returns the FLOPs of forward's two matmuls over the scores that mask and window leave.
double AttentionFlops(const AttentionShape& shape) {
  const auto seq = static_cast<double>(shape.seq);
  const double window = shape.window == 0 ? seq : std::min(seq, static_cast<double>(shape.window));
  const double pairs = window * (seq - window / 2);
  return 4 * pairs * static_cast<double>(shape.batch * shape.heads * shape.head_dim);
}

int64_t AttentionThreads(const PlannedKernels& kernels, int64_t items) {
  return std::min<int64_t>(items, kernels.threads());
}

double AttentionRate(const AttentionShape& shape, DType dtype, const PlannedKernels& kernels) {
  // On a GPU, capped scores are left to the kernel that computes in fp32.
  const DType computes = kernels.is_gpu() && shape.cap > 0 ? DType::kFloat32 : dtype;
  return kernels.FlopsPerSecond(computes) * kernels.machine().attention_share;
}

KernelCost CostOf(const AttentionCall& call, const PlannedKernels& kernels, CallTensors tensors) {
  const AttentionShape& shape = call.shape;
  KernelCost cost{.flops = AttentionFlops(shape),
                  .flops_per_second = AttentionRate(shape, call.dtype, kernels),
                  .bytes = Bytes(tensors),
                  .hides_memory = !kernels.is_gpu()};
  if (!kernels.is_gpu()) {
    cost.scratch = cpu::ForwardScratch::Floats(cpu::AttentionLayout(shape)) *
                   AttentionThreads(kernels, shape.batch * shape.heads) * kFloat;
  }
  return cost;
}

// Workspace on a GPU: cuDNN's where cuDNN computes backward, otherwise one float for each row.
int64_t GpuBackwardScratch(const AttentionBackwardCall& call, const PlannedKernels& kernels) {
  const AttentionShape& shape = call.shape;
  const int64_t own = shape.batch * shape.heads * shape.seq * kFloat;
  if (kernels.options().attention == AttentionBackend::kFlash || IsEmpty(shape) ||
      !CheckCudnnAttention(shape, call.dtype, /*packed_documents=*/call.starts != nullptr).ok()) {
    return own;
  }
  const CudnnBackward engine = CudnnBackwardOf(kernels.machine().attention_keeps_scores,
                                               kernels.options().attention_determinism);
  const int64_t sequence = CudnnBackwardWorkspace(shape, engine);
  const AttentionPart part = PartThatFits(shape, static_cast<size_t>(sequence));
  return part.kv_heads == 0 ? own : part.sequences * (sequence / shape.kv_heads) * part.kv_heads;
}

KernelCost CostOf(const AttentionBackwardCall& call, const PlannedKernels& kernels,
                  CallTensors tensors) {
  const AttentionShape& shape = call.shape;
  // Five matmuls for the forward's two: the scores again, and a gradient of each operand.
  KernelCost cost{.flops = 2.5 * AttentionFlops(shape),
                  .flops_per_second = AttentionRate(shape, call.dtype, kernels),
                  .bytes = Bytes(tensors),
                  .hides_memory = !kernels.is_gpu(),
                  .launches = 2};
  cost.scratch = kernels.is_gpu()
                     ? GpuBackwardScratch(call, kernels)
                     : cpu::BackwardScratch::Floats(cpu::AttentionLayout(shape)) *
                           AttentionThreads(kernels, shape.batch * shape.kv_heads) * kFloat;
  return cost;
}

// Returns the bytes of the logits, of their softmax, of its gradient and of the logits' gradient.
int64_t UnfusedLossBytes(const LinearCrossEntropyCall& call, const UnfusedLoss& loss) {
  const auto type = static_cast<int64_t>(SizeOf(call.dtype));
  const auto softmax_type = static_cast<int64_t>(SizeOf(loss.softmax_dtype));
  return call.rows * call.vocab * (type + 3 * softmax_type);
}

// Returns the bytes that are allocated now, but would not be at the peak of an unfused loss:
// gathered units, the buffers of collectives, and the memory of gradients that begin with this
// call.
int64_t AbsentBytes(const LinearCrossEntropyCall& call, const UnfusedLoss& loss,
                    const PlannedKernels& kernels, CallTensors tensors) {
  const MemoryStats now = kernels.planned_device().allocator().stats();
  int64_t bytes = now[MemoryCategory::kCommunication].current_bytes;
  if (loss.frees_gathered) bytes += now[MemoryCategory::kGatheredParameters].current_bytes;
  const bool begins = call.dweight != nullptr && !call.accumulate_dweight;
  if (!begins || !loss.gradient_begins_later) return bytes;
  for (const Tensor* tensor : tensors) {
    if (tensor->raw_data() != call.dweight) continue;
    bytes += static_cast<int64_t>(tensor->buffer()->bytes());
    break;
  }
  return bytes;
}

KernelCost CostOf(const LinearCrossEntropyCall& call, const PlannedKernels& kernels,
                  CallTensors tensors) {
  if (call.rows == 0) return {};
  const LossPlan on_gpu = PlanLoss(call);
  const int64_t chunk = kernels.is_gpu() ? on_gpu.chunk_rows
                                         : cpu::LinearCrossEntropyChunkRows(call.rows, call.vocab);
  const auto chunks = static_cast<double>((call.rows + chunk - 1) / chunk);
  const int matmuls = 1 + (call.dhidden != nullptr ? 1 : 0) + (call.dweight != nullptr ? 1 : 0);
  const int64_t words = kernels.is_gpu() ? on_gpu.words : call.vocab;
  const bool rounds_once = call.grad_dtype != DType::kFloat32 && chunk < call.rows;
  const bool sums_beside = call.dweight != nullptr && (rounds_once || words > call.vocab);
  const double logits = static_cast<double>(call.rows) * static_cast<double>(call.vocab);
  const double type = static_cast<double>(SizeOf(call.dtype));
  // The kernel writes the logits, reads them twice, and overwrites them with their gradients. The
  // matmuls need those, so none of these passes overlaps a matmul.
  const std::optional<UnfusedLoss>& unfused = kernels.planned_device().unfused_loss();
  const double passed = unfused.has_value()
                            ? 2 * static_cast<double>(UnfusedLossBytes(call, *unfused))
                            : logits * (3.0 * kFloat + type);
  KernelCost cost;
  cost.flops = matmuls * MatmulFlops(call.rows, call.vocab, call.dim);
  cost.flops_per_second =
      kernels.FlopsPerSecond(call.dtype) * kernels.Fill(chunk, call.vocab, call.dim);
  cost.bytes = passed;
  cost.hides_memory = false;
  cost.launches = static_cast<int>(chunks) * (matmuls + 1);
  cost.scratch = chunk * words * kFloat;
  if (sums_beside) cost.scratch += words * call.dim * kFloat;
  if (words > call.vocab) {
    cost.scratch += words * call.dim * static_cast<int64_t>(SizeOf(call.dtype));
  }
  if (unfused.has_value()) {
    const int64_t bytes = UnfusedLossBytes(call, *unfused);
    cost.scratch = std::max<int64_t>(0, bytes - AbsentBytes(call, *unfused, kernels, tensors));
  }
  return cost;
}

KernelCost CostOf(const EmbeddingCall& call, const PlannedKernels&, CallTensors) {
  return {.bytes = 2 * Bytes(call.batch * call.seq * call.dim, call.dtype)};
}

KernelCost CostOf(const EmbeddingBackwardCall& call, const PlannedKernels& kernels,
                  CallTensors tensors) {
  const int64_t places = call.batch * call.seq;
  constexpr int64_t kSortCopies = 4;  // of keys and places, on a GPU
  return {.bytes = Bytes(tensors),
          .scratch = (kernels.is_gpu() ? kSortCopies * places : call.rows + places) *
                     static_cast<int64_t>(sizeof(int32_t))};
}

// Returns whether Zeroth's own kernels are planned. False if the plan is of another system, which
// builds its loss from PyTorch operations and compiles them.
bool AreOwn(const PlannedKernels& kernels) {
  return !kernels.planned_device().unfused_loss().has_value();
}

// Our kernels read the values twice: for the largest magnitude, and for the codes. torch.compile
// computes the largest magnitude in the kernel that writes the values.
KernelCost CostOf(const CastFp8Call& call, const PlannedKernels& kernels, CallTensors tensors) {
  if (!AreOwn(kernels)) return {.bytes = Bytes(tensors)};
  return {.bytes = Bytes(tensors) + Bytes(call.rows * call.cols, call.dtype), .launches = 3};
}

KernelCost CostOf(const Fp8GemmCall& call, const PlannedKernels& kernels, CallTensors) {
  return {.flops = MatmulFlops(call.m, call.n, call.k),
          .flops_per_second = kernels.machine().fp8_flops * kernels.Fill(call.m, call.n, call.k),
          .bytes = static_cast<double>(call.m * call.k + call.k * call.n) +
                   Bytes(call.m * call.n, call.c_dtype)};
}

// On a GPU a kernel chooses the experts and numbers the pairs, CUB sorts the pairs by expert in a
// pass of three kernels and three fills, and a kernel places them: seven accesses to each pair.
KernelCost CostOf(const RouteCall& call, const PlannedKernels& kernels, CallTensors tensors) {
  if (!kernels.is_gpu() || !AreOwn(kernels)) return {.bytes = Bytes(tensors)};
  const int64_t pairs = call.tokens * call.top_k;
  return {.bytes = Bytes(tensors) + Bytes(7 * pairs, DType::kInt32),
          .launches = 8,
          .scratch = 3 * pairs * static_cast<int64_t>(sizeof(int32_t))};
}

// Step times of a model with 128 experts on an H200 put grouped_gemm.cu at 120 to 150 TFLOP/s.
KernelCost GroupedCost(double flops, double bytes, DType dtype, const PlannedKernels& kernels) {
  constexpr double kReachedOnGpu = 140e12;
  const double gemm = kernels.FlopsPerSecond(dtype);
  const bool is_own = kernels.is_gpu() && AreOwn(kernels);
  return {.flops = flops,
          .flops_per_second = is_own ? std::min(gemm, kReachedOnGpu) : gemm,
          .bytes = bytes,
          .place = KernelCost::kMatmuls};
}

// A call for some of the experts accesses their share of the rows.
KernelCost CostOf(const GroupedGemmCall& call, const PlannedKernels& kernels, CallTensors tensors) {
  const double part = static_cast<double>(call.b.size()) / static_cast<double>(call.experts);
  const double rows =
      Bytes(call.rows * call.k, call.dtype) + Bytes(call.rows * call.n, call.c_dtype);
  return GroupedCost(part * MatmulFlops(call.rows, call.n, call.k),
                     Bytes(tensors) - (1 - part) * rows, call.dtype, kernels);
}

KernelCost CostOf(const GroupedGradientCall& call, const PlannedKernels& kernels,
                  CallTensors tensors) {
  return GroupedCost(MatmulFlops(call.rows, call.m, call.n), Bytes(tensors), call.dtype, kernels);
}

// Registers an operation of the planned device, which notes the cost of a call.
template <typename Call>
class Planned {
 public:
  explicit Planned(const char* name) : registration_(kPlannedDeviceType, Note) { name_ = name; }

 private:
  static absl::Status Note(Kernels& kernels, const Call& call, CallTensors tensors) {
    auto& planned = static_cast<PlannedKernels&>(kernels);
    return planned.Note(name_, CostOf(call, planned, tensors));
  }

  static inline const char* name_ = "";
  const typename KernelTable<Call>::Registration registration_;
};

const Planned<GemmCall> gemm("a matmul");
const Planned<BiasGradientCall> bias_gradient("a bias gradient");
const Planned<NormCall> norm("a norm");
const Planned<NormBackwardCall> norm_backward("a norm's backward");
const Planned<RmsSumsCall> rms_sums("the sums of a divided norm");
const Planned<AttentionCall> attention("attention");
const Planned<AttentionBackwardCall> attention_backward("attention's backward");
const Planned<AttentionSinksCall> attention_sinks("attention sinks");
const Planned<SinkGradientCall> sink_gradient("the gradient of attention sinks");
const Planned<LinearCrossEntropyCall> loss("the loss");
const Planned<EmbeddingCall> embedding("the embedding");
const Planned<EmbeddingBackwardCall> embedding_backward("the embedding's backward");
const Planned<PositionBackwardCall> position_backward("the positions' backward");
const Planned<LocalIdsCall> local_ids("tokens of a divided vocabulary");
const Planned<SoftmaxStatisticsCall> softmax_statistics("the statistics of a divided softmax");
const Planned<SoftmaxGradientCall> softmax_gradient("the gradient of a divided softmax");
const Planned<MeanLossCall> mean_loss("the mean loss");
const Planned<DistillStatisticsCall> distill_statistics("the statistics of distillation");
const Planned<DistillGradientCall> distill_gradient("the gradient of distillation");
const Planned<DivergenceStatisticsCall> divergence_statistics("the statistics of a divergence");
const Planned<DivergenceGradientCall> divergence_gradient("the gradient of a divergence");
const Planned<PreferenceLossCall> preference_loss("the loss of pairs");
const Planned<ShortConvolutionCall> short_convolution("a short convolution");
const Planned<ShortConvolutionBackwardCall> short_convolution_backward(
    "a short convolution's backward");
const Planned<GatedDeltaRuleCall> gated_delta_rule("the gated delta rule");
const Planned<GatedDeltaRuleBackwardCall> gated_delta_rule_backward(
    "the gated delta rule's backward");
const Planned<GeluCall> gelu("GELU");
const Planned<SwiGluCall> swiglu("SwiGLU");
const Planned<AddCall> add("an addition");
const Planned<ScaleCall> scale("a scaling");
const Planned<LerpCall> lerp("the average of weights");
const Planned<CastCall> cast("a cast");
const Planned<BasicCall> basic("an elementwise operation");
const Planned<QuantizeCall> quantize("quantizing");
const Planned<DequantizeCall> dequantize("dequantizing");
const Planned<SumQuantizedCall> sum_quantized("a sum of int8");
const Planned<UnpackCall> unpack("unpacking");
const Planned<AddSquaresCall> add_squares("the gradient norm");
const Planned<ClipFactorCall> clip_factor("the clip factor");
const Planned<AdamWCall> adamw("AdamW");
const Planned<CastFp8Call> cast_fp8("a cast to fp8");
const Planned<Fp8GemmCall> fp8_gemm("an fp8 matmul");
const Planned<RouteCall> route("routing");
const Planned<RouteBackwardCall> route_backward("routing's backward");
const Planned<RouterZLossCall> router_z_loss("the router's z-loss");
const Planned<CountExpertsCall> count_experts("counting tokens of experts");
const Planned<ScatterCall> scatter("grouping tokens");
const Planned<CombineCall> combine("combining experts");
const Planned<RowDotsCall> row_dots("gradients of routing weights");
const Planned<GroupedGemmCall> grouped_gemm("a grouped matmul");
const Planned<GroupedGradientCall> grouped_gradient("a grouped gradient");
const Planned<GroupedBiasGradientCall> grouped_bias_gradient("a grouped bias gradient");
const Planned<MuonMomentumCall> muon_momentum("Muon's momentum");
const Planned<MuonUpdateCall> muon_update("Muon's update");
const Planned<MuonNormaliseCall> muon_normalise("Muon's normalisation");
const Planned<MuonPolynomialCall> muon_polynomial("Muon's polynomial");
const Planned<MuonMirrorCall> muon_mirror("Muon's mirror");

absl::Status SupportsFp8(Kernels& kernels, const SupportsFp8Call&, CallTensors) {
  const Machine& machine = static_cast<PlannedKernels&>(kernels).machine();
  if (machine.fp8_flops > 0) return absl::OkStatus();
  return Unimplemented(machine.name, " has no matmuls of 8-bit floats; leave --fp8 out");
}
const KernelTable<SupportsFp8Call>::Registration supports_fp8(kPlannedDeviceType, SupportsFp8);

absl::Status PlanDividedLoss(Kernels& kernels, const PlanDividedLossCall& call, CallTensors) {
  const bool is_gpu = static_cast<PlannedKernels&>(kernels).is_gpu();
  *call.plan = is_gpu ? PlanDividedLossOnGpu(call) : PlanDividedLossOnCpu(call);
  return absl::OkStatus();
}
const KernelTable<PlanDividedLossCall>::Registration plan_divided_loss(kPlannedDeviceType,
                                                                       PlanDividedLoss);

}  // namespace
}  // namespace zeroth
