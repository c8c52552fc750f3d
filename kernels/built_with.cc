// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/built_with.h"

#include <cstdint>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "hwy/highway.h"
#include "oneapi/dnnl/dnnl.h"

namespace zeroth {
namespace {

constexpr int64_t kBuilt = HWY_TARGETS;

std::string InstructionSets() {
  std::string built;
  std::string used;
  // A lower bit is a better set.
  for (int bit = 0; bit < 63; ++bit) {
    const int64_t target = int64_t{1} << bit;
    if ((kBuilt & target) == 0) continue;
    absl::StrAppend(&built, built.empty() ? "" : ", ", hwy::TargetName(target));
    if (used.empty() && (hwy::SupportedTargets() & target) != 0) used = hwy::TargetName(target);
  }
  return absl::StrCat(built, "; this processor runs ", used);
}

std::string AbseilVersion() {
#ifdef ABSL_LTS_RELEASE_VERSION
  return absl::StrCat(ABSL_LTS_RELEASE_VERSION);
#else
  return "from its main branch";
#endif
}

}  // namespace

std::string BuiltWith() {
#ifdef __clang__
  const char* const compiler = "Clang ";
#else
  const char* const compiler = "GCC ";
#endif
  const dnnl_version_t* const onednn = dnnl_version();
  return absl::StrCat("compiler      ", compiler, __VERSION__, "\nlibraries     Abseil ",
                      AbseilVersion(), ", Highway ", HWY_MAJOR, ".", HWY_MINOR, ".", HWY_PATCH,
                      ", oneDNN ", onednn->major, ".", onednn->minor, ".", onednn->patch,
                      "\ninstructions  ", InstructionSets(), "\n");
}

}  // namespace zeroth
