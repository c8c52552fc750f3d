// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/plan/machine_measure.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/comm_stats.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/gemm/gemm.h"

namespace zeroth {
namespace {

constexpr int kRounds = 9;  // the machine may be busy in some
constexpr char kLabel[] = "measuring";

absl::StatusOr<Tensor> Zeros(Device& device, Shape shape, DType dtype) {
  return Tensor::Zeros(device, shape, dtype, MemoryCategory::kWorkspace);
}

// Returns the elementwise maximum over the ranks.
absl::StatusOr<std::vector<double>> Max(Communicator& world, Device& device,
                                        const std::vector<double>& values) {
  if (world.size() == 1) return values;
  const std::vector<float> mine(values.begin(), values.end());
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor all, Tensor::FromHost<float>(device, Shape({static_cast<int64_t>(mine.size())}),
                                                mine, MemoryCategory::kWorkspace));
  ZEROTH_RETURN_IF_ERROR(
      world.AllReduce(all, ReduceOp::kMax, device.compute_stream(), "GEMM rate"));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> result, all.ToHost<float>());
  return std::vector<double>(result.begin(), result.end());
}

// Returns the seconds that `work` takes on the device's compute stream: the median over `rounds`
// rounds, each of which does the work `times` times. Does it once before, since the first time
// makes one-time allocations. All ranks begin a round together, and the round ends with the last of
// them; otherwise ranks that share a core would each count it as theirs. Collective; all ranks get
// the same value.
absl::StatusOr<double> MedianSeconds(Communicator& world, Device& device,
                                     const std::function<absl::Status()>& work, int rounds,
                                     int times) {
  Stream& stream = device.compute_stream();
  std::vector<double> seconds;
  for (int round = 0; round <= rounds; ++round) {
    const int repeats = round == 0 ? 1 : times;
    if (world.size() > 1) ZEROTH_RETURN_IF_ERROR(world.Barrier(stream, kLabel));
    ZEROTH_RETURN_IF_ERROR(stream.Synchronize());
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) ZEROTH_RETURN_IF_ERROR(work());
    ZEROTH_RETURN_IF_ERROR(stream.Synchronize());
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (round > 0) seconds.push_back(std::max(taken.count(), 1e-9) / times);
  }
  ZEROTH_ASSIGN_OR_RETURN(seconds, Max(world, device, seconds));
  const auto middle = seconds.begin() + rounds / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

// Returns [size, size] of values like those of weights: zeros need less power, and a device that is
// limited by power would multiply them faster.
absl::StatusOr<Tensor> RandomMatrix(Device& device, Kernels& kernels, int64_t size, DType dtype) {
  const int64_t block = std::min(size * size, int64_t{1} << 20);
  std::vector<float> values(static_cast<size_t>(block));
  CounterRng(/*seed=*/1, "GEMM rate").FillNormal(0, 0.02f, absl::MakeSpan(values));
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor random,
      Tensor::FromHost<float>(device, Shape({block}), values, MemoryCategory::kWorkspace));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor matrix, Tensor::Empty(device, Shape({size, size}), dtype,
                                                             MemoryCategory::kWorkspace));
  for (int64_t at = 0; at < size * size; at += block) {
    ZEROTH_RETURN_IF_ERROR(kernels::Cast(kernels, random, matrix.View(at, Shape({block}))));
  }
  return matrix;
}

// Makes matrices [size, size] on every rank; nullopt on all ranks if one has no memory for them.
absl::StatusOr<std::optional<GemmArgs>> MakeGemm(Communicator& world, Device& device,
                                                 Kernels& kernels, int64_t size, DType dtype) {
  GemmArgs gemm;
  std::vector<double> lacking = {0};
  for (Matrix* matrix : {&gemm.a, &gemm.b, &gemm.c}) {
    const absl::StatusOr<Tensor> tensor = RandomMatrix(device, kernels, size, dtype);
    if (absl::IsResourceExhausted(tensor.status())) {
      lacking = {1};
      break;
    }
    ZEROTH_RETURN_IF_ERROR(tensor.status());
    *matrix = *tensor;
  }
  // All ranks must compute at once, or none.
  ZEROTH_ASSIGN_OR_RETURN(lacking, Max(world, device, lacking));
  if (lacking[0] > 0) return std::optional<GemmArgs>();
  return std::optional<GemmArgs>(std::move(gemm));
}

// Returns the seconds of one of `times` consecutive copies of `bytes` on every rank.
absl::StatusOr<double> CopySeconds(Communicator& world, Device& device, int64_t bytes, int times) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor from, Zeros(device, Shape({bytes}), DType::kUInt8));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor to, Zeros(device, Shape({bytes}), DType::kUInt8));
  const auto copy = [&] {
    return device.Copy(to.raw_data(), from.raw_data(), static_cast<size_t>(bytes),
                       device.compute_stream());
  };
  return MedianSeconds(world, device, copy, kRounds, times);
}

// Returns the seconds of attention's forward and backward on every rank.
absl::StatusOr<double> AttentionSeconds(Communicator& world, Device& device, Kernels& kernels,
                                        DType dtype, const AttentionShape& shape) {
  const Shape outputs({shape.batch, shape.seq, shape.heads * shape.head_dim});
  const Shape packed({shape.batch, shape.seq, shape.packed_dim()});
  AttentionBackwardArgs args;
  args.shape = shape;
  ZEROTH_ASSIGN_OR_RETURN(args.qkv, Zeros(device, packed, dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.dqkv, Zeros(device, packed, dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.out, Zeros(device, outputs, dtype));
  ZEROTH_ASSIGN_OR_RETURN(args.dout, Zeros(device, outputs, dtype));
  ZEROTH_ASSIGN_OR_RETURN(
      args.lse, Zeros(device, Shape({shape.batch, shape.heads, shape.seq}), DType::kFloat32));
  const auto both = [&]() -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(kernels::Attention(
        kernels,
        {.shape = shape, .qkv = args.qkv, .starts = {}, .out = args.out, .lse = args.lse}));
    return kernels::AttentionBackward(kernels, args);
  };
  return MedianSeconds(world, device, both, kRounds, 1);
}

// Sets attention_share, attention's rate relative to `matmul_rate`, the matmul rate of all ranks
// together in `dtype`; and attention_keeps_scores. On a GPU, subtracts the time to read and write
// attention's tensors at a rank's `bandwidth`.
absl::Status MeasureAttention(Communicator& world, Device& device, Kernels& kernels, DType dtype,
                              double matmul_rate, double bandwidth, Machine& machine) {
  // A shorter call would measure the overhead of launching, as with matmuls.
  constexpr double kLongEnough = 2e-3;
  constexpr int64_t kMostSequences = 256;
  AttentionShape shape;
  shape.seq = machine.is_gpu ? 2048 : 512;
  shape.heads = shape.kv_heads = 8;
  shape.head_dim = machine.is_gpu ? 128 : 64;
  double rate = 0;
  machine.attention_keeps_scores = false;
  Allocator& allocator = device.allocator();
  constexpr MemoryCategory kWorkspace = MemoryCategory::kWorkspace;
  const int64_t before = allocator.stats()[kWorkspace].current_bytes;
  allocator.ResetPeaks();
  for (shape.batch = 1; shape.batch <= kMostSequences; shape.batch *= 4) {
    ZEROTH_ASSIGN_OR_RETURN(const double seconds,
                            AttentionSeconds(world, device, kernels, dtype, shape));
    // Counts FLOPs as plans do: two matmuls forward and five backward, half of each masked.
    const auto pairs = static_cast<double>(shape.seq * shape.seq) / 2;
    const double flops =
        3.5 * 4 * pairs * static_cast<double>(shape.batch * shape.heads * shape.head_dim);
    // Forward accesses its tensors once, and backward twice: the tensors and their gradients.
    const int64_t elements =
        3 * shape.batch * shape.seq * (shape.packed_dim() + shape.heads * shape.head_dim);
    const auto bytes = static_cast<double>(elements) * static_cast<double>(SizeOf(dtype));
    const double beside = machine.is_gpu ? bytes / bandwidth : 0;
    rate = flops * world.size() / std::max(seconds - beside, 0.5 * seconds);
    // If the scores of a batch exceed the workspace, its sequences are computed one after another.
    const int64_t scores = shape.batch * shape.heads * shape.seq * shape.seq;
    machine.attention_keeps_scores |=
        machine.is_gpu && allocator.stats()[kWorkspace].peak_bytes - before >= 2 * scores;
    if (seconds >= kLongEnough) break;
  }
  machine.attention_share = std::min(1.0, rate / matmul_rate);
  return absl::OkStatus();
}

// Returns the seconds of an in-place collective on a buffer of `floats`. On a CPU each call is
// timed by itself, since a step has other work around it. On a GPU calls are timed in a row,
// because the host's part of a call hides behind earlier work.
absl::StatusOr<double> CollectiveSeconds(Communicator& world, Device& device, CollectiveOp op,
                                         int64_t floats) {
  constexpr double kMostSeconds = 1;
  constexpr int kMostRounds = 25;
  constexpr int kMostInARow = 20;
  const int64_t piece = std::max<int64_t>(1, floats / world.size());
  ZEROTH_ASSIGN_OR_RETURN(const Tensor all,
                          Zeros(device, Shape({piece * world.size()}), DType::kFloat32));
  const Tensor mine = all.View(world.rank() * piece, Shape({piece}));
  Stream& stream = device.compute_stream();
  const auto call = [&]() -> absl::Status {
    return op == CollectiveOp::kAllGather ? world.AllGather(mine, all, stream, kLabel)
           : op == CollectiveOp::kReduceScatter
               ? world.ReduceScatter(all, mine, ReduceOp::kMean, stream, kLabel)
               : world.AllReduce(all, ReduceOp::kMean, stream, kLabel);
  };
  // All ranks have the same seconds, and so make the same calls.
  ZEROTH_ASSIGN_OR_RETURN(const double once, MedianSeconds(world, device, call, 1, 1));
  const double calls = std::clamp(kMostSeconds / once, 3.0, double{kMostRounds} * kMostInARow);
  const int rounds = std::min(kMostRounds, static_cast<int>(calls));
  const int in_a_row = device.type() == "cpu" ? 1 : static_cast<int>(calls) / rounds;
  return MedianSeconds(world, device, call, rounds, in_a_row);
}

// Returns the mean seconds of an all-gather and a reduce-scatter of one float per rank.
absl::StatusOr<double> LatencyOf(Communicator& world, Device& device) {
  double sum = 0;
  for (const CollectiveOp op : {CollectiveOp::kAllGather, CollectiveOp::kReduceScatter}) {
    ZEROTH_ASSIGN_OR_RETURN(const double seconds,
                            CollectiveSeconds(world, device, op, world.size()));
    sum += seconds;
  }
  return sum / 2;
}

// Returns the bytes per second that a rank sends, not counting the latency.
absl::StatusOr<double> CollectiveRate(Communicator& world, Device& device, CollectiveOp op,
                                      int64_t floats, double latency) {
  ZEROTH_ASSIGN_OR_RETURN(const double seconds, CollectiveSeconds(world, device, op, floats));
  const int64_t bytes = CollectiveBytes(op, floats * int64_t{sizeof(float)}, world.size());
  return static_cast<double>(bytes) / std::max(seconds - latency, 0.1 * seconds);
}

// Measures latencies and rates so that PlannedCommunicator, which counts one step of a ring for
// each other rank, predicts the measured times (between nodes, of gathers). Measures links inside a
// node and between nodes separately.
absl::Status MeasureLinks(Communicator& world, Device& device, int ranks_per_node,
                          Machine& machine) {
  const int nodes = (world.size() + ranks_per_node - 1) / ranks_per_node;
  const auto both = [](double gather, double scatter) { return 2 / (1 / gather + 1 / scatter); };
  if (ranks_per_node > 1) {
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> node,
                            world.Split(world.rank() / ranks_per_node, world.rank()));
    ZEROTH_ASSIGN_OR_RETURN(const double latency, LatencyOf(*node, device));
    machine.link_latency = latency / (ranks_per_node - 1);
    const double tree = std::ceil(std::log2(ranks_per_node)) * machine.link_latency;
    const int64_t largest = machine.is_gpu ? 256 : 64;
    machine.link_rates.clear();
    for (int64_t mebibytes = 1; mebibytes <= largest; mebibytes *= 4) {
      const int64_t floats = (mebibytes << 20) / int64_t{sizeof(float)};
      LinkRate rate = {.bytes = static_cast<double>(mebibytes << 20)};
      for (const auto& [op, of, alone] :
           {std::tuple(CollectiveOp::kAllGather, &LinkRate::all_gather, latency),
            std::tuple(CollectiveOp::kReduceScatter, &LinkRate::reduce_scatter, latency),
            std::tuple(CollectiveOp::kAllReduce, &LinkRate::all_reduce,
                       2 * std::min(latency, tree))}) {
        ZEROTH_ASSIGN_OR_RETURN(rate.*of, CollectiveRate(*node, device, op, floats, alone));
      }
      machine.link_rates.push_back(rate);
    }
    const LinkRate& last = machine.link_rates.back();
    machine.link_bandwidth = both(last.all_gather, last.reduce_scatter);
  }
  if (nodes == 1) return absl::OkStatus();
  // About the size of a unit of the models that are trained there.
  const int64_t floats = int64_t{machine.is_gpu ? 64 : 4} << 20;
  ZEROTH_ASSIGN_OR_RETURN(const double latency, LatencyOf(world, device));
  ZEROTH_ASSIGN_OR_RETURN(const double gather,
                          CollectiveRate(world, device, CollectiveOp::kAllGather, floats, latency));
  const double between = latency - (world.size() - nodes) * machine.link_latency;
  machine.network_latency = std::max(between / (nodes - 1), machine.link_latency);
  // Two-level reductions send a different number of bytes; plans derive their time from this rate.
  machine.network_bandwidth = gather / ranks_per_node;
  return absl::OkStatus();
}

// Returns the one-way rate of transfers of offloaded state.
absl::StatusOr<double> HostBandwidth(Communicator& world, Device& device) {
  constexpr int64_t kBytes = int64_t{32} << 20;
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<OffloadStore> store, device.CreateOffloadStore({}));
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<OffloadRegion> region, store->Reserve(kBytes));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor state, Zeros(device, Shape({kBytes}), DType::kUInt8));
  Stream& stream = device.compute_stream();
  const auto move = [&]() -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(region->Write(0, state.raw_data(), kBytes, stream));
    return region->Read(0, state.raw_data(), kBytes, stream);
  };
  ZEROTH_ASSIGN_OR_RETURN(const double seconds, MedianSeconds(world, device, move, kRounds, 1));
  return 2.0 * kBytes / seconds;
}

}  // namespace

absl::StatusOr<double> MeasureGemmRate(Communicator& world, Device& device, Kernels& kernels,
                                       DType dtype) {
  // An emulated device needs `slow` seconds for a small matmul, and minutes for large ones.
  constexpr int64_t kProbe = 256;
  const double slow = device.type() == "cpu" ? 0.25 : 0.005;
  constexpr int64_t kSmallest = 1024;  // reaches full speed on one core
  constexpr int64_t kLargest = 16384;
  constexpr double kLongEnough = 2e-3;  // shorter ones measure the overhead of launching
  constexpr double kRoundSeconds = 20e-3;
  // More rounds help on a busy machine. Those of ranks that share a core are long, and few.
  constexpr int kFewestRounds = 5;
  constexpr int kMostRounds = 15;
  constexpr double kAllRoundsSeconds = 0.4;
  double rate = 0;
  for (int64_t size = kProbe; size <= kLargest; size = std::max(kSmallest, 2 * size)) {
    ZEROTH_ASSIGN_OR_RETURN(const std::optional<GemmArgs> gemm,
                            MakeGemm(world, device, kernels, size, dtype));
    if (!gemm.has_value()) break;
    const auto multiply = [&] { return kernels::Gemm(kernels, *gemm); };
    ZEROTH_ASSIGN_OR_RETURN(double seconds, MedianSeconds(world, device, multiply, 3, 1));
    // All ranks have the same seconds, so all use the same branch.
    if (size == kProbe && seconds < slow) continue;
    const bool is_last = seconds >= kLongEnough || size == kLargest;
    if (is_last && size != kProbe) {
      const auto matmuls = static_cast<int>(std::clamp(kRoundSeconds / seconds, 1.0, 100.0));
      const int rounds = static_cast<int>(
          std::clamp<double>(kAllRoundsSeconds / (seconds * matmuls), kFewestRounds, kMostRounds));
      ZEROTH_ASSIGN_OR_RETURN(seconds, MedianSeconds(world, device, multiply, rounds, matmuls));
    }
    rate = 2 * std::pow(size, 3) * world.size() / seconds;
    if (is_last) break;
  }
  return rate;
}

absl::Status MeasureRanks(Communicator& world, Device& device, int ranks_per_node,
                          Machine& machine) {
  const int64_t copied = int64_t{machine.is_gpu ? 512 : 32} << 20;  // larger than caches
  const int on_node = std::min(ranks_per_node, world.size());
  const int nodes = (world.size() + on_node - 1) / on_node;
  // The devices behind these rates: one for each rank, but on CPUs at most one for each core.
  const int units =
      nodes * (machine.is_gpu ? on_node : std::min(on_node, machine.devices_per_node));
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Kernels> kernels,
                          KernelRegistry::Create(device, device.compute_stream()));
  ZEROTH_ASSIGN_OR_RETURN(const double fp32,
                          MeasureGemmRate(world, device, *kernels, DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(const double bf16,
                          MeasureGemmRate(world, device, *kernels, DType::kBFloat16));
  machine.fp32_flops = machine.tf32_flops = fp32 / units;
  machine.bf16_flops = bf16 / units;
  const KernelOptions tf32 = {.fp32_precision = Fp32Precision::kTf32};
  if (KernelRegistry::Check(device.type(), tf32).ok()) {
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Kernels> rounding,
                            KernelRegistry::Create(device, device.compute_stream(), tf32));
    ZEROTH_ASSIGN_OR_RETURN(const double rate,
                            MeasureGemmRate(world, device, *rounding, DType::kFloat32));
    machine.tf32_flops = rate / units;
  }
  ZEROTH_ASSIGN_OR_RETURN(machine.launch_seconds, CopySeconds(world, device, /*bytes=*/64, 1000));
  ZEROTH_ASSIGN_OR_RETURN(const double copy, CopySeconds(world, device, copied, 1));
  const double bandwidth = 2.0 * static_cast<double>(copied) / copy;
  machine.memory_bandwidth = bandwidth * world.size() / units;
  const DType trained = machine.is_gpu ? DType::kBFloat16 : DType::kFloat32;
  ZEROTH_RETURN_IF_ERROR(MeasureAttention(world, device, *kernels, trained,
                                          machine.is_gpu ? bf16 : fp32, bandwidth, machine));
  machine.host_bandwidth = machine.memory_bandwidth / 2;
  if (machine.is_gpu) {
    ZEROTH_ASSIGN_OR_RETURN(machine.host_bandwidth, HostBandwidth(world, device));
  }
  return MeasureLinks(world, device, on_node, machine);
}

Machine LocalCpu() {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  Machine cpu;
  cpu.name = absl::StrCat("this CPU of ", cores, cores == 1 ? " core" : " cores");
  cpu.is_gpu = false;
  cpu.devices_per_node = cores;
  cpu.memory_bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  cpu.network_bandwidth = cpu.link_bandwidth = 1.1e9;
  cpu.network_latency = cpu.link_latency = 50e-6;
  return cpu;
}

absl::StatusOr<Machine> MeasureCpu() {
  Machine cpu = LocalCpu();
  // A link needs two ends.
  const int ranks = std::max(2, cpu.devices_per_node);
  const absl::Status status = RunLocalRanks(ranks, [&](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create("cpu", DeviceOptions()));
    device->BindThread();
    Machine measured = LocalCpu();
    ZEROTH_RETURN_IF_ERROR(MeasureRanks(world, *device, ranks, measured));
    if (world.rank() == 0) cpu = measured;
    return absl::OkStatus();
  });
  ZEROTH_RETURN_IF_ERROR(status);
  return cpu;
}

}  // namespace zeroth
