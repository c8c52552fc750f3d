// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/testing/resource_usage.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace zeroth::cuda {
namespace {

constexpr int kRegisterPortion = 8;
// The most threads of a block for a kernel without __launch_bounds__.
constexpr int kMostBlockThreads = 1024;

bool MatchesAny(const KernelCode& kernel, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return Matches(kernel, pattern); });
}

}  // namespace

int BlocksByRegisters(const KernelCode& kernel, int threads) {
  const int portions = (kernel.registers + kRegisterPortion - 1) / kRegisterPortion;
  return std::min(kRegistersOfMultiprocessor / (portions * kRegisterPortion * threads),
                  kThreadsOfMultiprocessor / threads);
}

bool Matches(const KernelCode& kernel, const std::string& pattern) {
  absl::string_view rest = kernel.name;
  const std::vector<std::string> parts = absl::StrSplit(pattern, '*');
  if (!absl::ConsumePrefix(&rest, parts.front())) return false;
  if (parts.size() == 1) return rest.empty();
  for (size_t i = 1; i + 1 < parts.size(); ++i) {
    const size_t found = rest.find(parts[i]);
    if (found == absl::string_view::npos) return false;
    rest.remove_prefix(found + parts[i].size());
  }
  return absl::ConsumeSuffix(&rest, parts.back());
}

std::string ResourceUsageTest::Describe(const Cubin& cubin, const KernelCode& kernel) {
  return absl::StrCat("sm_", cubin.capability, " ", kernel.name, ": ", kernel.registers,
                      " registers, ", kernel.frame_bytes, " bytes of local memory, ",
                      kernel.shared_bytes, " of static shared memory, blocks of up to ",
                      kernel.block_threads);
}

void ResourceUsageTest::SetUp() {
  const char* const paths = std::getenv("CUBINS");
  ASSERT_NE(paths, nullptr) << "the rule cuda_code_test sets CUBINS";
  const std::vector<std::string> files = absl::StrSplit(paths, ' ', absl::SkipEmpty());
  ASSERT_FALSE(files.empty());
  for (const std::string& path : files) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    absl::StatusOr<Cubin> cubin = ReadCubin(bytes);
    if (absl::IsUnimplemented(cubin.status())) GTEST_SKIP() << path << ": " << cubin.status();
    ASSERT_TRUE(cubin.ok()) << path << ": " << cubin.status();
    ASSERT_FALSE(cubin->kernels.empty()) << path;
    cubins_.push_back(*std::move(cubin));
  }
}

void ResourceUsageTest::ExpectEverywhere(const std::string& pattern) const {
  std::set<int> capabilities;
  std::set<int> found;
  for (const Cubin& cubin : cubins_) {
    capabilities.insert(cubin.capability);
    for (const KernelCode& kernel : cubin.kernels) {
      if (Matches(kernel, pattern)) found.insert(cubin.capability);
    }
  }
  EXPECT_EQ(found, capabilities) << "where there are kernels '" << pattern << "'";
}

void ResourceUsageTest::CheckAll(const std::vector<std::string>& local,
                                 const std::vector<std::string>& doubles) {
  for (const std::string& pattern : local) ExpectEverywhere(pattern);
  for (const std::string& pattern : doubles) ExpectEverywhere(pattern);
  for (const Cubin& cubin : cubins_) {
    for (const KernelCode& kernel : cubin.kernels) {
      SCOPED_TRACE(Describe(cubin, kernel));
      const int threads = kernel.block_threads > 0 ? kernel.block_threads : kMostBlockThreads;
      EXPECT_GE(BlocksByRegisters(kernel, threads), 1);
      EXPECT_LE(kernel.shared_bytes, kStaticSharedLimit);
      if (!MatchesAny(kernel, local)) {
        EXPECT_EQ(kernel.frame_bytes, 0);
        EXPECT_EQ(kernel.instructions.local_accesses, 0);
      }
      if (!MatchesAny(kernel, doubles)) {
        EXPECT_EQ(kernel.instructions.double_operations, 0);
      }
    }
  }
}

}  // namespace zeroth::cuda
