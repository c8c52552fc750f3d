// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/file/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <system_error>

namespace zeroth {

uint64_t RaiseDescriptorLimit(uint64_t wanted) {
  rlimit limit = {};
  // Only a bad argument could make this fail.
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<uint64_t>::max();
  if (limit.rlim_cur >= wanted || limit.rlim_cur >= limit.rlim_max) return limit.rlim_cur;
  const rlimit raised = {std::min<rlim_t>(wanted, limit.rlim_max), limit.rlim_max};
  return setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

uint64_t OpenDescriptors() {
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  if (error) return 0;
  return static_cast<uint64_t>(std::distance(begin(open), end(open)));
}

}  // namespace zeroth
