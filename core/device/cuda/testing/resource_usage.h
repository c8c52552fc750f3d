// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What tests of machine code (cuda_code_test) have in common.

#ifndef ZEROTH_CORE_DEVICE_CUDA_TESTING_RESOURCE_USAGE_H_
#define ZEROTH_CORE_DEVICE_CUDA_TESTING_RESOURCE_USAGE_H_

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/device/cuda/testing/cubin.h"

namespace zeroth::cuda {

// Of all sizes of all devices from compute capability 8.0 to 10.3.
inline constexpr int kRegistersOfMultiprocessor = 65536;
inline constexpr int kThreadsOfMultiprocessor = 2048;
inline constexpr int kStaticSharedLimit = 48 << 10;

// Blocks of `threads` that a multiprocessor has registers and threads for. A warp gets registers in
// portions of eight for each lane.
int BlocksByRegisters(const KernelCode& kernel, int threads);

// True if the kernel's name is `pattern`, in which `*` stands for anything: "Rotate<8, *>".
bool Matches(const KernelCode& kernel, const std::string& pattern);

class ResourceUsageTest : public testing::Test {
 protected:
  // Reads what CUBINS names; skips the test if that is of devices whose code cannot be read here.
  void SetUp() override;

  // Calls check(kernel) for the kernels of all files that match; a failure if none does on a device
  // that others are compiled for.
  template <typename Check>
  void ForEach(const std::string& pattern, const Check& check) {
    for (const Cubin& cubin : cubins_) {
      for (const KernelCode& kernel : cubin.kernels) {
        if (!Matches(kernel, pattern)) continue;
        SCOPED_TRACE(Describe(cubin, kernel));
        check(kernel);
      }
    }
    ExpectEverywhere(pattern);
  }

  // No kernel but those that match one of `local` may have local memory, which spills are; none but
  // those of `doubles` may compute in double precision. All must be able to run: registers and
  // shared arrays of a block are within the limits.
  void CheckAll(const std::vector<std::string>& local, const std::vector<std::string>& doubles);

  const std::vector<Cubin>& cubins() const { return cubins_; }

 private:
  static std::string Describe(const Cubin& cubin, const KernelCode& kernel);
  void ExpectEverywhere(const std::string& pattern) const;

  std::vector<Cubin> cubins_;
};

}  // namespace zeroth::cuda

#endif  // ZEROTH_CORE_DEVICE_CUDA_TESTING_RESOURCE_USAGE_H_
