// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "oneapi/dnnl/dnnl.hpp"
#include "oneapi/dnnl/dnnl_version.h"

#include "zeroth/core/base/processor.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/gemm/gemm_blocks.h"
#include "zeroth/kernels/gemm/gemm_cpu.h"

#ifdef __SANITIZE_THREAD__
// oneDNN is not compiled for the thread sanitizer, which therefore does not see how its cache of
// primitives is protected.
extern "C" __attribute__((weak)) const char* __tsan_default_suppressions() {
  return "called_from_lib:libdnnl.so\n";
}
#endif

namespace zeroth::cpu {
namespace {

using dnnl::memory;

// oneDNN names only x86's instruction sets. For others it returns bits that mean something else.
bool Has(dnnl_cpu_isa_t needed) {
  return kIsX86 && (dnnl_get_effective_cpu_isa() & needed) == needed;
}

// Intel's cores since Sapphire Rapids are fast in bf16 only with AMX. Their VDPBF16PS does twice
// the work of a multiply-add, but starts only every second cycle, while two multiply-adds start in
// each cycle, so that fp32 is twice as fast (measured: 110 against 220 GFLOP/s on a core of Emerald
// Rapids whose AMX the hypervisor hides). AVX512_FP16 distinguishes these cores from Cooper Lake.
bool Bf16DotProductIsSlow() { return IsIntelWithAvx512Fp16(); }

bool HasAmx() { return Has(dnnl_cpu_isa_avx512_core_amx); }

// The depth of an AMX tile. oneDNN computes the tail of other depths wrongly: 2.6 executes an
// instruction that the processor refuses (oneDNN's issue 1661), and versions up to 3.14 mix data
// beyond the end of a row into other results (issue 5717).
constexpr int64_t kAmxDepth = 32;

// Everything that a prepared matmul depends on.
struct MatmulKey {
  int64_t m, n, k, lda, ldb, ldc;
  int threads;  // among which oneDNN divides the work
  bool transpose_a, transpose_b, accumulate, bias;
  DType c_dtype;

  bool operator==(const MatmulKey&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const MatmulKey& key) {
    return H::combine(std::move(h), key.m, key.n, key.k, key.lda, key.ldb, key.ldc, key.transpose_a,
                      key.threads, key.transpose_b, key.accumulate, key.bias, key.c_dtype);
  }
};

MatmulKey KeyOf(const GemmCall& call) {
  return {call.m,
          call.n,
          call.k,
          call.lda,
          call.ldb,
          call.ldc,
          omp_get_max_threads(),
          call.transpose_a,
          call.transpose_b,
          call.accumulate,
          call.bias != nullptr,
          call.c_dtype};
}

const dnnl::engine& CpuEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// Describes [rows, cols] to oneDNN, which requires a stride of at least the width even for a single
// row; calls may give a single row any stride.
memory::desc Describe(int64_t rows, int64_t cols, int64_t ld, bool transposed, DType dtype) {
  const int64_t stride = std::max(ld, transposed ? rows : cols);
  return memory::desc({rows, cols},
                      dtype == DType::kFloat32 ? memory::data_type::f32 : memory::data_type::bf16,
                      transposed ? memory::dims{1, stride} : memory::dims{stride, 1});
}

memory::desc DescribeBias(int64_t n) {
  return memory::desc({1, n}, memory::data_type::bf16, memory::dims{n, 1});
}

dnnl::matmul::primitive_desc Prepare(const MatmulKey& key) {
  const memory::desc a = Describe(key.m, key.k, key.lda, key.transpose_a, DType::kBFloat16);
  const memory::desc b = Describe(key.k, key.n, key.ldb, key.transpose_b, DType::kBFloat16);
  const memory::desc c = Describe(key.m, key.n, key.ldc, false, key.c_dtype);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (key.accumulate) {
    dnnl::post_ops add;
    add.append_sum(1.0f);
    attributes.set_post_ops(add);
  }
#if DNNL_VERSION_MAJOR >= 3
  using PrimitiveDesc = dnnl::matmul::primitive_desc;
  return key.bias ? PrimitiveDesc(CpuEngine(), a, b, DescribeBias(key.n), c, attributes)
                  : PrimitiveDesc(CpuEngine(), a, b, c, attributes);
#else
  const dnnl::matmul::desc operation =
      key.bias ? dnnl::matmul::desc(a, b, DescribeBias(key.n), c) : dnnl::matmul::desc(a, b, c);
  return dnnl::matmul::primitive_desc(operation, attributes, CpuEngine());
#endif
}

// oneDNN's prepared code for one kind of call. Run points its memory objects at the call's
// operands.
class Matmul {
 public:
  explicit Matmul(const MatmulKey& key) : Matmul(Prepare(key), key.bias) {}

  size_t scratchpad_bytes() const { return scratchpad_bytes_; }

  void Run(const GemmCall& call, void* scratchpad) {
    Point(DNNL_ARG_SRC, call.a);
    Point(DNNL_ARG_WEIGHTS, call.b);
    Point(DNNL_ARG_DST, call.c);
    Point(DNNL_ARG_SCRATCHPAD, scratchpad);
    if (call.bias != nullptr) Point(DNNL_ARG_BIAS, call.bias);
    matmul_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  Matmul(const dnnl::matmul::primitive_desc& prepared, bool bias)
      : matmul_(prepared),
        stream_(CpuEngine()),
        scratchpad_bytes_(prepared.scratchpad_desc().get_size()) {
    Add(DNNL_ARG_SRC, prepared.src_desc());
    Add(DNNL_ARG_WEIGHTS, prepared.weights_desc());
    Add(DNNL_ARG_DST, prepared.dst_desc());
    Add(DNNL_ARG_SCRATCHPAD, prepared.scratchpad_desc());
    if (bias) Add(DNNL_ARG_BIAS, prepared.bias_desc());
  }

  void Add(int argument, const memory::desc& desc) {
    arguments_.emplace(argument, memory(desc, CpuEngine(), nullptr));
  }
  void Point(int argument, const void* data) {
    arguments_.at(argument).set_data_handle(const_cast<void*>(data));
  }

  dnnl::matmul matmul_;
  dnnl::stream stream_;
  std::unordered_map<int, memory> arguments_;
  size_t scratchpad_bytes_;
};

// Returns the prepared matmul of this thread, so that no lock is needed and memory objects are not
// shared. Training repeats a few dozen shapes. Callers whose shapes never repeat pay in time, but
// not in memory.
Matmul& FindMatmul(const GemmCall& call) {
  constexpr size_t kMost = 256;
  thread_local std::unordered_map<MatmulKey, Matmul, absl::Hash<MatmulKey>> matmuls;
  const MatmulKey key = KeyOf(call);
  const auto found = matmuls.find(key);
  if (found != matmuls.end()) return found->second;
  if (matmuls.size() >= kMost) matmuls.clear();
  return matmuls.try_emplace(key, key).first->second;
}

size_t AlignUp(size_t bytes) { return (bytes + 63) / 64 * 64; }

bool NeedsEpilogue(const GemmCall& call) {
  return call.activation != Activation::kNone || call.pre_activation != nullptr ||
         call.gelu_input != nullptr;
}

// Sets the thread's OpenMP team size, and restores it.
class ScopedTeam {
 public:
  explicit ScopedTeam(int threads) { omp_set_num_threads(threads); }
  ~ScopedTeam() { omp_set_num_threads(before_); }
  ScopedTeam(const ScopedTeam&) = delete;
  ScopedTeam& operator=(const ScopedTeam&) = delete;

 private:
  const int before_ = omp_get_max_threads();
};

size_t ScratchpadBytes(const GemmCall& call) {
  return Prepare(KeyOf(call)).scratchpad_desc().get_size();
}

// The blocks of Blocked(): all rows, up to kMaxRows, of a few columns, because oneDNN packs the
// columns of b again in every call.
struct BlockSizes {
  static constexpr int64_t kMaxRows = 1024;
  static constexpr int64_t kBlockElements = 256 * 1024;
  static constexpr int64_t kColumnMultiple = 64;

  explicit BlockSizes(const GemmCall& call)
      : m(std::min(kMaxRows, call.m)),
        n(std::min(call.n, kBlockElements / m / kColumnMultiple * kColumnMultiple)) {}
  size_t bytes() const { return AlignUp(static_cast<size_t>(m * n) * sizeof(float)); }

  int64_t m, n;
};

// Returns the largest scratchpad of any block.
template <typename Bytes>
absl::StatusOr<size_t> LargestScratchpad(const GemmCall& call, const BlockSizes& sizes,
                                         Bytes&& bytes_of) {
  size_t bytes = 0;
  ZEROTH_RETURN_IF_ERROR(ForEachBlock(call, sizes.m, sizes.n, [&](const GemmBlock& block) {
    bytes = std::max(bytes, bytes_of(MatmulOfBlock(call, block, nullptr)));
    return absl::OkStatus();
  }));
  return bytes;
}

absl::Status Direct(const GemmCall& call, Workspace& workspace) {
  Matmul& matmul = FindMatmul(call);
  ZEROTH_ASSIGN_OR_RETURN(void* scratchpad, workspace.Reserve(matmul.scratchpad_bytes()));
  matmul.Run(call, scratchpad);
  return absl::OkStatus();
}

// Multiplies through fp32 blocks that stay in the L2 cache.
absl::Status Blocked(const GemmCall& call, Workspace& workspace) {
  const BlockSizes sizes(call);
  ZEROTH_ASSIGN_OR_RETURN(const size_t scratchpad_bytes,
                          LargestScratchpad(call, sizes, [](const GemmCall& part) {
                            return FindMatmul(part).scratchpad_bytes();
                          }));
  ZEROTH_ASSIGN_OR_RETURN(void* base, workspace.Reserve(sizes.bytes() + scratchpad_bytes));
  float* product = static_cast<float*>(base);
  void* scratchpad = static_cast<char*>(base) + sizes.bytes();
  return ForEachBlock(call, sizes.m, sizes.n, [&](const GemmBlock& block) {
    const GemmCall part = MatmulOfBlock(call, block, product);
    FindMatmul(part).Run(part, scratchpad);
    ApplyEpilogue(BlockOf(call, block), product, block.n);
    return absl::OkStatus();
  });
}

}  // namespace

bool HasNativeBf16Matmul(int64_t depth) {
  static const bool has_any = Has(dnnl_cpu_isa_avx512_core_bf16);
  static const bool has_amx = HasAmx();
  return has_any && (!has_amx || depth % kAmxDepth == 0);
}

bool WidensOperands(DType dtype, int64_t depth) {
  static const bool is_slow = !HasAmx() && Bf16DotProductIsSlow();
  // oneDNN has no fp16 matmul on these CPUs.
  return dtype == DType::kFloat16 ||
         (dtype == DType::kBFloat16 && (is_slow || !HasNativeBf16Matmul(depth)));
}

int64_t Bf16WorkspaceBytes(const GemmCall& call, int threads) {
  if (call.m < 1 || call.n < 1 || call.k < 1) return 0;
  const ScopedTeam team(threads);
  try {
    if (!NeedsEpilogue(call)) return static_cast<int64_t>(ScratchpadBytes(call));
    const BlockSizes sizes(call);
    return static_cast<int64_t>(sizes.bytes() +
                                LargestScratchpad(call, sizes, ScratchpadBytes).value_or(0));
  } catch (const dnnl::error&) {
    return 0;
  }
}

absl::Status Bf16Matmul(const GemmCall& call, Workspace& workspace) {
  try {
    return NeedsEpilogue(call) ? Blocked(call, workspace) : Direct(call, workspace);
  } catch (const dnnl::error& error) {
    return absl::InternalError(absl::StrCat(
        "Gemm: oneDNN refused a bf16 matmul of m = ", call.m, ", n = ", call.n, ", k = ", call.k,
        " with row strides ", call.lda, ", ", call.ldb, ", ", call.ldc, ": ", error.what(),
        " (dnnl_status_t ", static_cast<int>(error.status), ")"));
  }
}

}  // namespace zeroth::cpu
