// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The format in which tests and Python scripts exchange a file's contents: sorted lines of text,
// which both languages write without shared code.
//
//   tensor <name in hex> <dtype> <dims, comma-separated> <bytes in hex>
//   pair <key in hex> <value in hex>

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace zeroth {

struct ListedTensor {
  std::string dtype;  // as safetensors spells it
  std::vector<int64_t> dims;
  std::string bytes;

  friend bool operator==(const ListedTensor& a, const ListedTensor& b) {
    return a.dtype == b.dtype && a.dims == b.dims && a.bytes == b.bytes;
  }
};

struct TensorListing {
  std::map<std::string, ListedTensor> tensors;
  std::map<std::string, std::string> pairs;

  std::string ToText() const {
    std::string text;
    for (const auto& [name, tensor] : tensors) {
      absl::StrAppend(&text, "tensor ", absl::BytesToHexString(name), " ", tensor.dtype, " ",
                      absl::StrJoin(tensor.dims, ","), " ", absl::BytesToHexString(tensor.bytes),
                      "\n");
    }
    for (const auto& [key, value] : pairs) {
      absl::StrAppend(&text, "pair ", absl::BytesToHexString(key), " ",
                      absl::BytesToHexString(value), "\n");
    }
    return text;
  }
};

}  // namespace zeroth
