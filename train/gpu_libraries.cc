// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/gpu_libraries.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace zeroth {
namespace {

// CUDA's functions differ in how they return a version, and this program has no headers of CUDA to
// declare them by: it is compiled once for all builds.
template <typename Function>
Function* As(void* symbol) {
  return reinterpret_cast<Function*>(symbol);
}

std::string Dotted(int64_t version, int64_t major, int64_t minor) {
  return absl::StrCat(version / major, ".", version % major / minor);
}

// "13.1.0" for 130100: cuBLASLt's way, and that of NCCL and cuDNN.
std::string OfTenThousands(int64_t version, int64_t major) {
  return absl::StrCat(Dotted(version, major, 100), ".", version % 100);
}

std::string OfThousands(int version) { return Dotted(version, 1000, 10); }

std::string FolderOf(void* symbol) {
  Dl_info info = {};
  if (dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return "an unknown folder";
  return std::filesystem::path(info.dli_fname).lexically_normal().parent_path().string();
}

std::string Line(absl::string_view name, absl::string_view version, void* symbol) {
  return absl::StrCat("              ", name, " ", version, " in ", FolderOf(symbol), "\n");
}

// Returns the line of a library that is loaded by name, from the version that `version_of` reads by
// the function `symbol`.
template <typename VersionOf>
std::string LoadedLine(absl::string_view name, const std::string& library, const char* symbol,
                       VersionOf version_of) {
  void* const handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  void* const found = handle == nullptr ? nullptr : dlsym(handle, symbol);
  if (found == nullptr) {
    const char* const error = dlerror();
    return absl::StrCat("              ", name, " not found: ", error == nullptr ? library : error,
                        "\n");
  }
  return Line(name, version_of(found), found);
}

}  // namespace

std::string GpuLibraries() {
  // A program for GPUs is linked with the first two.
  void* const cublaslt = dlsym(RTLD_DEFAULT, "cublasLtGetVersion");
  void* const nccl = dlsym(RTLD_DEFAULT, "ncclGetVersion");
  if (cublaslt == nullptr || nccl == nullptr) return "";
  const int64_t cublaslt_version = static_cast<int64_t>(As<size_t()>(cublaslt)());
  const std::string major = absl::StrCat(cublaslt_version / 10000);
  int nccl_version = 0;
  static_cast<void>(As<int(int*)>(nccl)(&nccl_version));
  std::string lines =
      absl::StrCat(Line("cuBLASLt", OfTenThousands(cublaslt_version, 10000), cublaslt),
                   Line("NCCL", OfTenThousands(nccl_version, 10000), nccl));
  absl::StrAppend(&lines, LoadedLine("cuDNN", "libcudnn.so.9", "cudnnGetVersion", [](void* symbol) {
    return OfTenThousands(static_cast<int64_t>(As<size_t()>(symbol)()), 10000);
  }));
  // cuDNN loads these two.
  const auto thousands = [](void* symbol) {
    int version = 0;
    static_cast<void>(As<int(int*)>(symbol)(&version));
    return OfThousands(version);
  };
  absl::StrAppend(&lines, LoadedLine("CUDA runtime", absl::StrCat("libcudart.so.", major),
                                     "cudaRuntimeGetVersion", thousands));
  absl::StrAppend(
      &lines,
      LoadedLine("NVRTC", absl::StrCat("libnvrtc.so.", major), "nvrtcVersion", [](void* symbol) {
        int numbers[2] = {};
        static_cast<void>(As<int(int*, int*)>(symbol)(&numbers[0], &numbers[1]));
        return absl::StrCat(numbers[0], ".", numbers[1]);
      }));
  absl::StrAppend(&lines,
                  LoadedLine("driver", "libcuda.so.1", "cuDriverGetVersion", [&](void* symbol) {
                    return absl::StrCat("for CUDA ", thousands(symbol));
                  }));
  return lines.replace(0, 4, "CUDA");
}

absl::Status WithBuildHint(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kNotFound) return status;
  return absl::NotFoundError(
      absl::StrCat(status.message(),
                   "; --device=cuda and --comm=nccl need a build with --config=cuda: install the "
                   "wheel zeroth_cuda13 beside the wheel zeroth, or build it (docs/cuda.md)"));
}

}  // namespace zeroth
