// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/nccl/emulation/elements.h"

#include <cstring>
#include <type_traits>

#include "zeroth/core/base/dtype.h"

namespace zeroth::nccl::emulation {
namespace {

template <typename T>
void AddTo(char* sum, const char* more, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    T a{};
    T b{};
    std::memcpy(&a, sum + i * sizeof(T), sizeof(T));
    std::memcpy(&b, more + i * sizeof(T), sizeof(T));
    if constexpr (std::is_same_v<T, BFloat16>) {
      a = ToBFloat16(ToFloat(a) + ToFloat(b));
    } else if constexpr (std::is_same_v<T, Float16>) {
      a = ToFloat16(ToFloat(a) + ToFloat(b));
    } else {
      a = a + b;
    }
    std::memcpy(sum + i * sizeof(T), &a, sizeof(T));
  }
}

}  // namespace

size_t Size(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 4;
  }
}

bool Add(ncclDataType_t type, char* sum, const char* more, size_t count) {
  switch (type) {
    case ncclFloat32:
      AddTo<float>(sum, more, count);
      return true;
    case ncclBfloat16:
      AddTo<BFloat16>(sum, more, count);
      return true;
    case ncclFloat16:
      AddTo<Float16>(sum, more, count);
      return true;
    default:
      return false;
  }
}

}  // namespace zeroth::nccl::emulation
