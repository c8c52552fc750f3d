// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A libcuda.so.1 for machines without a driver, as far as cuDNN needs one to make plans: kernels
// can be loaded into it, and everything else fails as in NVIDIA's own stub of the library. It does
// not include <cuda.h>, which declares arguments that are ignored here.

namespace {

constexpr int kSuccess = 0;
constexpr int kStubLibrary = 34;  // CUDA_ERROR_STUB_LIBRARY

// The handle of everything that is loaded; nothing is ever launched.
int loaded = 0;

int Give(void** handle) {
  *handle = &loaded;
  return kSuccess;
}

}  // namespace

extern "C" {

int cuLibraryLoadData(void** library, ...) { return Give(library); }
int cuLibraryGetKernel(void** kernel, ...) { return Give(kernel); }
int cuLibraryUnload(void*) { return kSuccess; }
int cuKernelSetAttribute(...) { return kSuccess; }

// cuDNN looks these up by name when it is loaded.
int cuCtxGetCurrent(...) { return kStubLibrary; }
int cuCtxGetDevice(...) { return kStubLibrary; }
int cuCtxGetLimit(...) { return kStubLibrary; }
int cuCtxPopCurrent(...) { return kStubLibrary; }
int cuCtxPushCurrent(...) { return kStubLibrary; }
int cuDeviceGet(...) { return kStubLibrary; }
int cuDeviceGetAttribute(...) { return kStubLibrary; }
int cuDeviceGetCount(...) { return kStubLibrary; }
int cuDriverGetVersion(...) { return kStubLibrary; }
int cuGetErrorName(...) { return kStubLibrary; }
int cuGetErrorString(...) { return kStubLibrary; }
int cuKernelGetAttribute(...) { return kStubLibrary; }
int cuLaunchCooperativeKernel(...) { return kStubLibrary; }
int cuLaunchKernel(...) { return kStubLibrary; }
int cuLaunchKernelEx(...) { return kStubLibrary; }
int cuLibraryLoadFromFile(...) { return kStubLibrary; }
int cuLinkAddData(...) { return kStubLibrary; }
int cuLinkComplete(...) { return kStubLibrary; }
int cuLinkCreate(...) { return kStubLibrary; }
int cuLinkDestroy(...) { return kStubLibrary; }
int cuOccupancyMaxPotentialClusterSize(...) { return kStubLibrary; }
int cuStreamGetCtx(...) { return kStubLibrary; }

}  // extern "C"
