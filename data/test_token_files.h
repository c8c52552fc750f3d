// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// For tests: the bytes of a NumPy file with this element type and shape ("(3,)") in its header.
template <typename T>
std::string NpyBytes(absl::string_view descr, absl::string_view shape, const std::vector<T>& values,
                     absl::string_view fortran_order = "False") {
  std::string dict = absl::StrCat("{'descr': '", descr, "', 'fortran_order': ", fortran_order,
                                  ", 'shape': ", shape, ", }");
  while ((10 + dict.size() + 1) % 64 != 0) dict.push_back(' ');
  dict.push_back('\n');
  std::string file("\x93NUMPY\x01\x00", 8);
  file.push_back(static_cast<char>(dict.size() & 0xFF));
  file.push_back(static_cast<char>(dict.size() >> 8));
  file += dict;
  file.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return file;
}

// The bytes of an llm.c token shard: GPT-2's for uint16_t, Llama 3's for uint32_t.
template <typename T>
std::string LlmcBytes(const std::vector<T>& values) {
  std::vector<int32_t> header(256);
  header[0] = sizeof(T) == 2 ? 20240520 : 20240801;
  header[1] = sizeof(T) == 2 ? 1 : 7;
  header[2] = static_cast<int32_t>(values.size());
  std::string file(reinterpret_cast<const char*>(header.data()), 1024);
  file.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return file;
}

// The bytes of a Megatron-LM .idx file for tokens of this type's code and size.
inline std::string MegatronIndexBytes(uint8_t code, int64_t token_bytes,
                                      const std::vector<int32_t>& lengths,
                                      const std::vector<int64_t>& documents,
                                      const std::vector<int8_t>& modes = {}) {
  std::string file("MMIDIDX\0\0", 9);
  const auto append = [&file](auto value) {
    file.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  append(uint64_t{1});
  append(code);
  append(uint64_t{lengths.size()});
  append(uint64_t{documents.size()});
  for (const int32_t length : lengths) append(length);
  int64_t pointer = 0;
  for (const int32_t length : lengths) {
    append(pointer);
    pointer += length * token_bytes;
  }
  for (const int64_t document : documents) append(document);
  for (const int8_t mode : modes) append(mode);
  return file;
}

}  // namespace zeroth
