// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_NPY_HEADER_H_
#define ZEROTH_DATA_NPY_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace zeroth {

inline constexpr char kNpyMagic[] = "\x93NUMPY";

// What the header of a NumPy .npy file says (NEP 1).
struct NpyHeader {
  std::string descr;  // element type, such as "<i4"
  bool fortran_order = false;
  std::vector<int64_t> shape;
  size_t data_begin = 0;  // bytes before the first element
};

// Parses the header at the start of `file`, versions 1 to 3. Structured element types are refused.
// Says nothing about the data that follow. InvalidArgument says what is wrong at which byte,
// without the file's name.
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::Span<const uint8_t> file);

}  // namespace zeroth

#endif  // ZEROTH_DATA_NPY_HEADER_H_
