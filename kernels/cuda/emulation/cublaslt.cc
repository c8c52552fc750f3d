// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The part of cuBLASLt that this project calls, on the host: plain loops behind the library's own
// signatures, enqueued on emulated streams. It refuses what the library documents that it refuses,
// as far as that is cheap to check, so that fallbacks are tried as well.

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <vector>

#include "zeroth/core/device/cuda/emulation/emulated_stream.h"

namespace {

struct Layout {
  cudaDataType_t type;
  uint64_t rows;
  uint64_t columns;
  int64_t ld;
};

struct Desc {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t first_op = CUBLAS_OP_N;
  cublasOperation_t second_op = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  cudaDataType_t bias_type = CUDA_R_32F;
  void* aux = nullptr;
  int64_t aux_ld = 0;
  cudaDataType_t aux_type = CUDA_R_32F;
  const float* first_scale = nullptr;
  const float* second_scale = nullptr;
};

// The alignments that a caller promises for the addresses of a, b, c, d, bias and aux. An algorithm
// keeps these promises, which every call checks.
struct Alignments {
  uint32_t of[6] = {256, 256, 256, 256, 256, 256};
};
static_assert(sizeof(Alignments) <= sizeof(cublasLtMatmulAlgo_t));

// The library's opaque types hold these structs.
const Layout& At(cublasLtMatrixLayout_t layout) { return *reinterpret_cast<const Layout*>(layout); }
Desc& At(cublasLtMatmulDesc_t desc) { return *reinterpret_cast<Desc*>(desc); }
Alignments& At(cublasLtMatmulPreference_t preference) {
  return *reinterpret_cast<Alignments*>(preference);
}

float Load(const void* data, cudaDataType_t type, int64_t at) {
  switch (type) {
    case CUDA_R_16BF:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[at]);
    case CUDA_R_16F:
      return __half2float(static_cast<const __half*>(data)[at]);
    case CUDA_R_8F_E4M3:
      return static_cast<float>(static_cast<const __nv_fp8_e4m3*>(data)[at]);
    case CUDA_R_8F_E5M2:
      return static_cast<float>(static_cast<const __nv_fp8_e5m2*>(data)[at]);
    default:
      return static_cast<const float*>(data)[at];
  }
}

// Returns a float rounded to nearest with 10 bits of mantissa, as TF32 matmuls read it.
float RoundedToTf32(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (std::isfinite(value)) bits = (bits + 0x0fffu + ((bits >> 13) & 1u)) & ~0x1fffu;
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}

void Store(void* data, cudaDataType_t type, int64_t at, float value) {
  switch (type) {
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(data)[at] = __float2bfloat16_rn(value);
      break;
    case CUDA_R_16F:
      static_cast<__half*>(data)[at] = __float2half_rn(value);
      break;
    default:
      static_cast<float*>(data)[at] = value;
  }
}

bool IsFp8(cudaDataType_t type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

size_t SizeOf(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : (IsFp8(type) ? 1 : 2); }

double GeluArgument(double x) { return 0.7978845608028654 * (x + 0.044715 * x * x * x); }
double Gelu(double x) { return 0.5 * x * (1 + std::tanh(GeluArgument(x))); }
double GeluSlope(double x) {
  const double t = std::tanh(GeluArgument(x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

bool UsesBias(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_BIAS ||
         epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
bool WritesAux(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
bool AppliesGelu(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_GELU || epilogue == CUBLASLT_EPILOGUE_GELU_BIAS ||
         WritesAux(epilogue);
}

bool UsesAux(cublasLtEpilogue_t epilogue) {
  return WritesAux(epilogue) || epilogue == CUBLASLT_EPILOGUE_DGELU;
}

uint32_t AlignmentOf(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address);
  return bits == 0 ? 256 : static_cast<uint32_t>(std::min<uintptr_t>(bits & (~bits + 1), 256));
}

struct Matmul {
  Desc desc;
  Layout first;
  Layout second;
  Layout c;
  float alpha;
  float beta;
  const void* first_data;
  const void* second_data;
  void* c_data;
};

void Compute(const Matmul& p) {
  const auto depth =
      static_cast<int64_t>(p.desc.first_op == CUBLAS_OP_N ? p.first.columns : p.first.rows);
  const auto rows = static_cast<int64_t>(p.c.rows);
  const auto columns = static_cast<int64_t>(p.c.columns);
  // Converted once, since each element is used many times.
  const auto unpack = [&p](const void* data, const Layout& layout, bool by_column) {
    std::vector<float> values(layout.rows * layout.columns);
    size_t next = 0;
    const auto r_count = static_cast<int64_t>(layout.rows);
    const auto c_count = static_cast<int64_t>(layout.columns);
    if (by_column) {
      for (int64_t c = 0; c < c_count; ++c) {
        for (int64_t r = 0; r < r_count; ++r)
          values[next++] = Load(data, layout.type, c * layout.ld + r);
      }
    } else {
      for (int64_t r = 0; r < r_count; ++r) {
        for (int64_t c = 0; c < c_count; ++c)
          values[next++] = Load(data, layout.type, c * layout.ld + r);
      }
    }
    if (p.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32) {
      for (float& value : values) value = RoundedToTf32(value);
    }
    return values;
  };
  // Both operands with the depth innermost.
  const std::vector<float> first = unpack(p.first_data, p.first, p.desc.first_op == CUBLAS_OP_T);
  const std::vector<float> second =
      unpack(p.second_data, p.second, p.desc.second_op == CUBLAS_OP_N);
  float alpha = p.alpha;
  // Scales are read when the stream gets here, since work just before may write them.
  if (p.desc.first_scale != nullptr) alpha *= *p.desc.first_scale;
  if (p.desc.second_scale != nullptr) alpha *= *p.desc.second_scale;
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row) {
      const float* x = first.data() + row * depth;
      const float* y = second.data() + column * depth;
      // Sums in parts, as a device does, so that errors do not grow with the depth.
      float sum = 0;
      for (int64_t begin = 0; begin < depth; begin += 64) {
        float part = 0;
        for (int64_t i = begin; i < std::min(depth, begin + 64); ++i) part += x[i] * y[i];
        sum += part;
      }
      sum *= alpha;
      const int64_t at = column * p.c.ld + row;
      if (p.beta != 0) sum += p.beta * Load(p.c_data, p.c.type, at);
      const cublasLtEpilogue_t epilogue = p.desc.epilogue;
      if (UsesBias(epilogue)) sum += Load(p.desc.bias, p.desc.bias_type, row);
      const int64_t aux_at = column * p.desc.aux_ld + row;
      if (WritesAux(epilogue)) Store(p.desc.aux, p.desc.aux_type, aux_at, sum);
      if (AppliesGelu(epilogue)) sum = static_cast<float>(Gelu(sum));
      if (epilogue == CUBLASLT_EPILOGUE_DGELU) {
        sum *= static_cast<float>(GeluSlope(Load(p.desc.aux, p.desc.aux_type, aux_at)));
      }
      Store(p.c_data, p.c.type, at, sum);
    }
  }
}

// The requirements of the library's tensor-core kernels: rows that start on 16 bytes, an auxiliary
// matrix in steps of 8 elements, a bias of c's type. Matmuls of 8-bit floats further require the
// "TN" layout, sizes that are multiples of 16 bytes where they are contiguous, at most one e5m2
// operand, a scale for each operand, and either 16-bit result and bias, or an fp32 result without a
// bias.
bool IsSupportedFp8(const Desc& desc, const Layout& first, const Layout& second, const Layout& c) {
  if (desc.first_op != CUBLAS_OP_T || desc.second_op != CUBLAS_OP_N) return false;
  if (first.type == CUDA_R_8F_E5M2 && second.type == CUDA_R_8F_E5M2) return false;
  if (first.rows % 16 != 0 || second.rows % 16 != 0 || first.columns % 16 != 0) return false;
  if (desc.compute != CUBLAS_COMPUTE_32F || IsFp8(c.type)) return false;
  if (desc.epilogue != CUBLASLT_EPILOGUE_DEFAULT &&
      (desc.epilogue != CUBLASLT_EPILOGUE_BIAS || c.type == CUDA_R_32F)) {
    return false;
  }
  return desc.first_scale != nullptr && desc.second_scale != nullptr;
}

bool IsSupported(const Desc& desc, const Layout& first, const Layout& second, const Layout& c) {
  const bool low = first.type != CUDA_R_32F;
  for (const Layout* layout : {&first, &second, &c}) {
    if (layout->ld < static_cast<int64_t>(layout->rows)) return false;
    if (low && static_cast<size_t>(layout->ld) * SizeOf(layout->type) % 16 != 0) return false;
  }
  if (UsesBias(desc.epilogue) && desc.bias_type != c.type) return false;
  if (UsesAux(desc.epilogue) && (desc.aux_ld % 8 != 0 || desc.aux_type != c.type)) return false;
  if (desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && low) return false;
  if (IsFp8(first.type) != IsFp8(second.type)) return false;
  if (IsFp8(first.type)) return IsSupportedFp8(desc, first, second, c);
  return first.type == second.type;
}

}  // namespace

extern "C" {

const char* cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS (emulated)";
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "refused by the emulation";
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static int unique;
  *handle = reinterpret_cast<cublasLtHandle_t>(&unique);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale_type) {
  if (scale_type != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  auto* const made = new Desc;
  made->compute = compute;
  *desc = reinterpret_cast<cublasLtMatmulDesc_t>(made);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete &At(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  const auto set = [&](auto& field) {
    if (bytes != sizeof(field)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  Desc& to = At(desc);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(to.first_op);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(to.second_op);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(to.epilogue);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      return set(to.first_scale);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      return set(to.second_scale);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(to.bias);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return set(to.bias_type);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(to.aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(to.aux_ld);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return set(to.aux_type);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &At(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Alignments);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete &At(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  static const std::map<cublasLtMatmulPreferenceAttributes_t, int> kAlignments = {
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 0},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 1},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 2},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 3}};
  const auto found = kAlignments.find(attribute);
  if (found == kAlignments.end()) return CUBLAS_STATUS_SUCCESS;
  if (bytes != sizeof(uint32_t)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&At(preference).of[found->second], value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t first,
                                              cublasLtMatrixLayout_t second,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  *count = 0;
  // The library derives their alignment from their addresses; without any, it can only guess.
  const Desc& to = At(desc);
  if ((UsesBias(to.epilogue) && to.bias == nullptr) ||
      (UsesAux(to.epilogue) && to.aux == nullptr)) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  Alignments promised = At(preference);
  promised.of[4] = AlignmentOf(to.bias);
  promised.of[5] = AlignmentOf(to.aux);
  const uint32_t needed = At(first).type == CUDA_R_32F ? 4 : 16;
  for (const uint32_t alignment : promised.of) {
    if (alignment < needed) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (!IsSupported(At(desc), At(first), At(second), At(c))) return CUBLAS_STATUS_NOT_SUPPORTED;
  std::memset(&results[0], 0, sizeof(results[0]));
  std::memcpy(&results[0].algo, promised.of, sizeof(promised.of));
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* first, cublasLtMatrixLayout_t first_layout,
                              const void* second, cublasLtMatrixLayout_t second_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout,
                              void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void*, size_t,
                              cudaStream_t stream) {
  Alignments promised;
  std::memcpy(promised.of, algorithm, sizeof(promised.of));
  const void* const addresses[] = {first, second, c, d, At(desc).bias, At(desc).aux};
  for (size_t i = 0; i < std::size(addresses); ++i) {
    if (AlignmentOf(addresses[i]) < promised.of[i]) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (c != d || c_layout != d_layout ||
      !IsSupported(At(desc), At(first_layout), At(second_layout), At(c_layout))) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const Matmul matmul = {At(desc),
                         At(first_layout),
                         At(second_layout),
                         At(c_layout),
                         *static_cast<const float*>(alpha),
                         *static_cast<const float*>(beta),
                         first,
                         second,
                         d};
  const absl::Status enqueued =
      zeroth::cuda::emulation::EnqueueOnEmulatedStream(stream, [matmul] { Compute(matmul); });
  return enqueued.ok() ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
