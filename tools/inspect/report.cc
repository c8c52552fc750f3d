// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/tools/inspect/inspected_file.h"

namespace zeroth {
namespace {

constexpr int64_t kChunkNumel = int64_t{1} << 20;

std::string Dims(const InspectedTensor& tensor) {
  return absl::StrCat("[", absl::StrJoin(tensor.shape, ", "), "]");
}

std::string Kind(const InspectedTensor& tensor) {
  return absl::StrCat(tensor.type, " ", Dims(tensor));
}

struct Norms {
  double squares = 0;
  float largest = 0;
  int64_t not_finite = 0;
};

absl::StatusOr<Norms> NormsOf(const InspectedTensor& tensor) {
  Norms norms;
  std::vector<uint8_t> bytes;
  std::vector<float> values;
  for (int64_t begin = 0; begin < tensor.numel; begin += kChunkNumel) {
    const int64_t count = std::min(kChunkNumel, tensor.numel - begin);
    ZEROTH_RETURN_IF_ERROR(tensor.read(begin, count, bytes));
    values.resize(static_cast<size_t>(count));
    ConvertToFloat32(tensor.dtype, bytes.data(), absl::MakeSpan(values));
    for (const float value : values) {
      if (!std::isfinite(value)) {
        ++norms.not_finite;
        continue;
      }
      norms.squares += double{value} * double{value};
      norms.largest = std::max(norms.largest, std::abs(value));
    }
  }
  return norms;
}

// The number of elements that differ, and the largest difference.
struct Difference {
  int64_t elements = 0;
  double most = 0;
};

// Compares bit by bit where the types are the same, and otherwise by values: both types convert to
// float32 then.
absl::StatusOr<Difference> Compare(const InspectedTensor& a, const InspectedTensor& b) {
  struct Side {
    const InspectedTensor& tensor;
    std::vector<uint8_t> bytes = {};
    std::vector<float> values = {};  // empty unless the type converts to float32
  };
  Side left{a};
  Side right{b};
  const bool same_type = a.type == b.type;
  const bool has_values = ConvertsToFloat32(a.dtype);
  const auto size = static_cast<size_t>(BitsOf(a.dtype) / 8);
  Difference difference;
  for (int64_t begin = 0; begin < a.numel; begin += kChunkNumel) {
    const auto count = static_cast<size_t>(std::min(kChunkNumel, a.numel - begin));
    for (Side* const side : {&left, &right}) {
      ZEROTH_RETURN_IF_ERROR(side->tensor.read(begin, static_cast<int64_t>(count), side->bytes));
    }
    if (same_type && left.bytes == right.bytes) continue;
    for (Side* const side : {&left, &right}) {
      if (!has_values) break;
      side->values.resize(count);
      ConvertToFloat32(side->tensor.dtype, side->bytes.data(), absl::MakeSpan(side->values));
    }
    for (size_t i = 0; i < count; ++i) {
      const bool equal = same_type
                             ? std::memcmp(&left.bytes[i * size], &right.bytes[i * size], size) == 0
                             : left.values[i] == right.values[i] ||
                                   (std::isnan(left.values[i]) && std::isnan(right.values[i]));
      if (equal) continue;
      ++difference.elements;
      if (!has_values) continue;
      difference.most =
          std::max(difference.most, std::abs(double{left.values[i]} - double{right.values[i]}));
    }
  }
  return difference;
}

// Whether two tensors, quantised in the same type, have the same bytes.
absl::StatusOr<bool> SameBlocks(const InspectedTensor& a, const InspectedTensor& b) {
  for (int64_t begin = 0;; begin += kChunkNumel) {
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<uint8_t> left,
                            a.read_blocks(begin, begin + kChunkNumel));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<uint8_t> right,
                            b.read_blocks(begin, begin + kChunkNumel));
    if (left != right) return false;
    if (left.empty()) return true;
  }
}

using TensorsByName = std::map<std::string, const InspectedTensor*>;

TensorsByName ByName(const InspectedFile& file) {
  TensorsByName tensors;
  for (const InspectedTensor& tensor : file.tensors) tensors[tensor.name] = &tensor;
  return tensors;
}

bool HasState(const InspectedFile& file) {
  return std::any_of(file.tensors.begin(), file.tensors.end(),
                     [](const InspectedTensor& tensor) { return tensor.is_state; });
}

}  // namespace

absl::StatusOr<std::string> TableOf(const InspectedFile& file, bool norms) {
  size_t name_width = 6;
  size_t dims_width = 5;
  size_t type_width = 4;
  size_t where_width = 5;
  for (const InspectedTensor& tensor : file.tensors) {
    name_width = std::max(name_width, tensor.name.size());
    type_width = std::max(type_width, tensor.type.size());
    dims_width = std::max(dims_width, Dims(tensor).size());
    where_width = std::max(where_width, tensor.where.size());
  }
  const auto line = [&](const std::string& name, const std::string& type, const std::string& dims,
                        const std::string& where, const std::string& rest) {
    std::string text =
        absl::StrFormat("%-*s  %-*s  %-*s  %-*s  %s", static_cast<int>(name_width), name,
                        static_cast<int>(type_width), type, static_cast<int>(dims_width), dims,
                        static_cast<int>(where_width), where, rest);
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string table;
  for (const std::string& note : file.notes) absl::StrAppend(&table, note, "\n");
  table += line("tensor", "type", "shape", "where", norms ? "norm         largest" : "");
  for (const InspectedTensor& tensor : file.tensors) {
    std::string rest;
    if (norms && ConvertsToFloat32(tensor.dtype)) {
      ZEROTH_ASSIGN_OR_RETURN(const Norms of, NormsOf(tensor));
      rest = absl::StrFormat("%-11.5g  %-11.5g", std::sqrt(of.squares), of.largest);
      if (of.not_finite > 0) absl::StrAppendFormat(&rest, "  %d not finite", of.not_finite);
    }
    table += line(tensor.name, tensor.type, Dims(tensor), tensor.where, rest);
  }
  return table;
}

std::string VerifyReport(const InspectedFile& file, bool& damaged) {
  const absl::StatusOr<std::vector<absl::Status>> found = file.verify();
  damaged = found.ok() && !found->empty();
  if (!found.ok()) return absl::StrCat(found.status().message(), "\n");
  if (found->empty()) return "every checksum is right\n";
  std::string report;
  for (const absl::Status& damage : *found) absl::StrAppend(&report, damage.message(), "\n");
  return report;
}

absl::StatusOr<std::string> DiffReport(const InspectedFile& a, const InspectedFile& b,
                                       bool& differ) {
  const TensorsByName in_a = ByName(a);
  const TensorsByName in_b = ByName(b);
  std::string report;
  int64_t equal = 0;
  int64_t uncompared = 0;
  const bool compare_states = HasState(a) == HasState(b);
  for (const auto& [name, tensor] : in_a) {
    const auto other = in_b.find(name);
    if (other == in_b.end() && tensor->is_state && !compare_states) {
      ++uncompared;
      continue;
    }
    if (other == in_b.end()) {
      absl::StrAppend(&report, name, ": only in the first\n");
      continue;
    }
    const InspectedTensor& x = *tensor;
    const InspectedTensor& y = *other->second;
    const bool comparable =
        x.type == y.type || (ConvertsToFloat32(x.dtype) && ConvertsToFloat32(y.dtype));
    if (!comparable || x.shape != y.shape) {
      absl::StrAppend(&report, name, ": ", Kind(x), " and ", Kind(y), "\n");
      continue;
    }
    std::string kinds = x.type == y.type ? "" : absl::StrCat(Kind(x), " and ", Kind(y), ", ");
    if (kinds.empty() && x.read_blocks && y.read_blocks) {
      ZEROTH_ASSIGN_OR_RETURN(const bool same, SameBlocks(x, y));
      if (same) {
        ++equal;
        continue;
      }
      kinds = absl::StrCat(Kind(x), ", blocks differ, ");
      if (!x.read) {
        absl::StrAppend(&report, name, ": ", kinds, "values cannot be unpacked\n");
        continue;
      }
    }
    ZEROTH_ASSIGN_OR_RETURN(const Difference difference, Compare(x, y));
    if (difference.elements == 0) {
      if (kinds.empty()) {
        ++equal;
      } else {
        absl::StrAppend(&report, name, ": ", kinds, "all values equal\n");
      }
      continue;
    }
    absl::StrAppendFormat(&report, "%s: %s%d of %d elements differ", name, kinds,
                          difference.elements, x.numel);
    if (ConvertsToFloat32(x.dtype)) {
      absl::StrAppendFormat(&report, ", by at most %.5g", difference.most);
    }
    report += "\n";
  }
  for (const auto& [name, tensor] : in_b) {
    if (in_a.count(name) > 0) continue;
    if (tensor->is_state && !compare_states) {
      ++uncompared;
    } else {
      absl::StrAppend(&report, name, ": only in the second\n");
    }
  }
  differ = !report.empty();
  if (uncompared > 0) {
    absl::StrAppend(&report, uncompared,
                    " tensors of optimizer state, which one of the two has, are not compared\n");
  }
  absl::StrAppend(&report, equal, " tensors are equal, bit for bit\n");
  return report;
}

}  // namespace zeroth
