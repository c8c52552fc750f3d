// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cuda/cublaslt.h"

#include <array>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth::cuda {
namespace {

absl::Status ToStatus(cublasStatus_t status, absl::string_view expression) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const absl::StatusCode code =
      status == CUBLAS_STATUS_ALLOC_FAILED      ? absl::StatusCode::kResourceExhausted
      : status == CUBLAS_STATUS_NOT_INITIALIZED ? absl::StatusCode::kFailedPrecondition
                                                : absl::StatusCode::kInternal;
  return absl::Status(
      code, absl::StrCat("cuBLASLt: ", expression, " failed: ", cublasLtGetStatusName(status), " (",
                         cublasLtGetStatusString(status), ")"));
}

#define ZEROTH_CUBLASLT_RETURN_IF_ERROR(expression) \
  ZEROTH_RETURN_IF_ERROR(ToStatus((expression), #expression))

cudaDataType_t CudaType(DType dtype) {
  ZEROTH_CHECK(IsFloatingPoint(dtype));
  return dtype == DType::kFloat32    ? CUDA_R_32F
         : dtype == DType::kBFloat16 ? CUDA_R_16BF
                                     : CUDA_R_16F;
}

cudaDataType_t CudaType(Fp8Format format) {
  return format == Fp8Format::kE4M3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}

bool HasAux(Epilogue epilogue) {
  return epilogue == Epilogue::kGeluAux || epilogue == Epilogue::kBiasGeluAux ||
         epilogue == Epilogue::kGeluBackward;
}

bool HasBias(Epilogue epilogue) {
  return epilogue == Epilogue::kBias || epilogue == Epilogue::kBiasGelu ||
         epilogue == Epilogue::kBiasGeluAux;
}

cublasLtEpilogue_t CublasEpilogue(Epilogue epilogue) {
  static constexpr std::array<cublasLtEpilogue_t, 7> kAll = {
      CUBLASLT_EPILOGUE_DEFAULT,   CUBLASLT_EPILOGUE_BIAS,     CUBLASLT_EPILOGUE_GELU,
      CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
      CUBLASLT_EPILOGUE_DGELU};
  return kAll.at(static_cast<size_t>(epilogue));
}

template <typename Value>
absl::Status Set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                 const Value& value) {
  return ToStatus(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof(value)),
                  "cublasLtMatmulDescSetAttribute");
}

template <typename Value>
absl::Status Set(cublasLtMatmulPreference_t preference,
                 cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  return ToStatus(
      cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
      "cublasLtMatmulPreferenceSetAttribute");
}

// Returns an address of exactly this alignment, which is never accessed.
const void* AddressOfAlignment(uint32_t alignment) {
  return reinterpret_cast<const void*>(uintptr_t{1} << 16 | alignment);
}

// Sets the scales of the operands of a matmul of 8-bit floats. "Fast accumulation" stays off, which
// is the default: sums move to fp32 registers every few terms.
absl::Status SetScales(cublasLtMatmulDesc_t desc, const float* first, const float* second) {
  ZEROTH_RETURN_IF_ERROR(Set(desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, first));
  return Set(desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, second);
}

absl::Status MakeLayout(cudaDataType_t type, bool transposed, int64_t rows, int64_t columns,
                        int64_t ld, cublasLtMatrixLayout_t* layout) {
  if (transposed) std::swap(rows, columns);
  return ToStatus(cublasLtMatrixLayoutCreate(layout, type, static_cast<uint64_t>(rows),
                                             static_cast<uint64_t>(columns), ld),
                  "cublasLtMatrixLayoutCreate");
}

}  // namespace

// The descriptors of a matmul, and the algorithm chosen for it, if there is one.
struct CublasLt::Plan {
  ~Plan() {
    if (desc != nullptr) static_cast<void>(cublasLtMatmulDescDestroy(desc));
    for (cublasLtMatrixLayout_t layout : {first, second, c}) {
      if (layout != nullptr) static_cast<void>(cublasLtMatrixLayoutDestroy(layout));
    }
  }

  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t first = nullptr;
  cublasLtMatrixLayout_t second = nullptr;
  cublasLtMatrixLayout_t c = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
  bool found = false;
};

uint32_t AlignmentOf(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  uint32_t alignment = 16;
  while (address % alignment != 0) alignment /= 2;
  return alignment;
}

CublasLt::CublasLt(cudaStream_t stream, Allocator& allocator, const KernelOptions& options)
    : stream_(stream), allocator_(allocator), options_(options) {}

absl::StatusOr<std::unique_ptr<CublasLt>> CublasLt::Create(cudaStream_t stream,
                                                           Allocator& allocator,
                                                           const KernelOptions& options) {
  std::unique_ptr<CublasLt> blas(new CublasLt(stream, allocator, options));
  ZEROTH_CUBLASLT_RETURN_IF_ERROR(cublasLtCreate(&blas->handle_));
  ZEROTH_ASSIGN_OR_RETURN(blas->workspace_,
                          allocator.Allocate(kWorkspaceBytes, MemoryCategory::kWorkspace));
  return blas;
}

CublasLt::~CublasLt() {
  plans_.clear();
  recent_.clear();
  if (handle_ != nullptr) static_cast<void>(cublasLtDestroy(handle_));
}

absl::Status CublasLt::AllowSlowMatmul(const std::string& matmul) {
  if (!options_.allow_slow_kernels) {
    return Unimplemented(
        "cuBLASLt has no algorithm on this GPU for ", matmul,
        ", and a plain kernel would be about a hundred times slower; use sizes that are multiples "
        "of 8 or another type, or allow it: --allow_slow_kernels, "
        "KernelOptions::allow_slow_kernels");
  }
  slow_matmuls_.insert(matmul);
  return absl::OkStatus();
}

absl::StatusOr<float*> CublasLt::Staging() {
  if (staging_ == nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(staging_,
                            allocator_.Allocate(kStagingBytes, MemoryCategory::kWorkspace));
  }
  return static_cast<float*>(staging_->data());
}

absl::StatusOr<CublasLt::Plan*> CublasLt::FindPlan(const MatmulKey& key) {
  const auto known = plans_.find(key);
  if (known != plans_.end()) {
    recent_.splice(recent_.begin(), recent_, known->second);
    return recent_.front().second.get();
  }
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan, MakePlan(key));
  ++plans_made_;
  if (recent_.size() >= kMostPlans) {
    plans_.erase(recent_.back().first);
    recent_.pop_back();
  }
  recent_.emplace_front(key, std::move(plan));
  plans_[key] = recent_.begin();
  return recent_.front().second.get();
}

absl::StatusOr<std::unique_ptr<CublasLt::Plan>> CublasLt::MakePlan(const MatmulKey& key) {
  auto plan = std::make_unique<Plan>();
  const cublasComputeType_t compute = key.dtype == DType::kFloat32 && key.allow_tf32
                                          ? CUBLAS_COMPUTE_32F_FAST_TF32
                                          : CUBLAS_COMPUTE_32F;
  ZEROTH_CUBLASLT_RETURN_IF_ERROR(cublasLtMatmulDescCreate(&plan->desc, compute, CUDA_R_32F));
  const cublasOperation_t first_op = key.transpose_first ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second_op = key.transpose_second ? CUBLAS_OP_T : CUBLAS_OP_N;
  absl::Status status;
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    status.Update(Set(plan->desc, attribute, value));
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, first_op);
  set(CUBLASLT_MATMUL_DESC_TRANSB, second_op);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, CublasEpilogue(key.epilogue));
  // The heuristics derive the alignment of the epilogue's operands from their addresses, without
  // accessing them.
  if (HasBias(key.epilogue)) {
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CudaType(key.dtype));
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, AddressOfAlignment(key.bias_alignment));
  }
  if (HasAux(key.epilogue)) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, AddressOfAlignment(key.aux_alignment));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.rows);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, CudaType(key.c_dtype));
  }
  if (key.fp8) {
    const auto* const scale = static_cast<const float*>(AddressOfAlignment(16));
    status.Update(SetScales(plan->desc, scale, scale));
  }
  ZEROTH_RETURN_IF_ERROR(status);
  const cudaDataType_t first_type = key.fp8 ? CudaType(key.first_format) : CudaType(key.dtype);
  const cudaDataType_t second_type = key.fp8 ? CudaType(key.second_format) : CudaType(key.dtype);
  ZEROTH_RETURN_IF_ERROR(
      MakeLayout(first_type, key.transpose_first, key.rows, key.depth, key.first_ld, &plan->first));
  ZEROTH_RETURN_IF_ERROR(MakeLayout(second_type, key.transpose_second, key.depth, key.columns,
                                    key.second_ld, &plan->second));
  ZEROTH_RETURN_IF_ERROR(MakeLayout(CudaType(key.c_dtype), /*transposed=*/false, key.rows,
                                    key.columns, key.c_ld, &plan->c));
  ZEROTH_RETURN_IF_ERROR(AskForAlgorithm(key, *plan));
  return plan;
}

absl::Status CublasLt::AskForAlgorithm(const MatmulKey& key, Plan& plan) {
  cublasLtMatmulPreference_t preference = nullptr;
  ZEROTH_CUBLASLT_RETURN_IF_ERROR(cublasLtMatmulPreferenceCreate(&preference));
  const absl::Cleanup destroy = [preference] {
    static_cast<void>(cublasLtMatmulPreferenceDestroy(preference));
  };
  absl::Status status;
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    status.Update(Set(preference, attribute, value));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspaceBytes});
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.first_alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.second_alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.c_alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.c_alignment);
  ZEROTH_RETURN_IF_ERROR(status);
  cublasLtMatmulHeuristicResult_t result = {};
  int count = 0;
  const cublasStatus_t asked = cublasLtMatmulAlgoGetHeuristic(
      handle_, plan.desc, plan.first, plan.second, plan.c, plan.c, preference, 1, &result, &count);
  // This is not a failure: the combination of types, strides and epilogue has no algorithm.
  if (asked == CUBLAS_STATUS_NOT_SUPPORTED || asked == CUBLAS_STATUS_INVALID_VALUE) {
    return absl::OkStatus();
  }
  ZEROTH_RETURN_IF_ERROR(ToStatus(asked, "cublasLtMatmulAlgoGetHeuristic"));
  plan.found =
      count > 0 && result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= kWorkspaceBytes;
  plan.algorithm = result.algo;
  return absl::OkStatus();
}

absl::StatusOr<bool> CublasLt::Multiply(const MatmulKey& key, const MatmulPointers& pointers) {
  ZEROTH_ASSIGN_OR_RETURN(Plan* const plan, FindPlan(key));
  if (!plan->found) return false;
  if (HasBias(key.epilogue)) {
    ZEROTH_RETURN_IF_ERROR(Set(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointers.bias));
  }
  if (HasAux(key.epilogue)) {
    ZEROTH_RETURN_IF_ERROR(
        Set(plan->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, pointers.aux));
  }
  if (key.fp8) {
    ZEROTH_RETURN_IF_ERROR(SetScales(plan->desc, pointers.first_scale, pointers.second_scale));
  }
  const float alpha = 1.0f;
  const float beta = key.accumulate ? 1.0f : 0.0f;
  const cublasStatus_t status =
      cublasLtMatmul(handle_, plan->desc, &alpha, pointers.first, plan->first, pointers.second,
                     plan->second, &beta, pointers.c, plan->c, pointers.c, plan->c,
                     &plan->algorithm, workspace_->data(), kWorkspaceBytes, stream_);
  // The call itself may refuse what the heuristics accepted. From now on, matmuls of this key are
  // computed elsewhere.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) plan->found = false;
  if (!plan->found) return false;
  ZEROTH_RETURN_IF_ERROR(ToStatus(status, "cublasLtMatmul"));
  return true;
}

}  // namespace zeroth::cuda
