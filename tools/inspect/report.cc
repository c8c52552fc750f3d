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
#include "zeroth/tools/inspect/inspected.h"

namespace zeroth {
namespace {

constexpr int64_t kChunkNumel = int64_t{1} << 20;

std::string Dims(const InspectedTensor& tensor) {
  return absl::StrCat("[", absl::StrJoin(tensor.shape, ", "), "]");
}

std::string Kind(const InspectedTensor& tensor) {
  return absl::StrCat(SafetensorsDTypeName(tensor.dtype), " ", Dims(tensor));
}

struct Norms {
  double squares = 0;
  float largest = 0;
  int64_t not_finite = 0;
};

absl::StatusOr<Norms> NormsOf(Inspected& file, size_t index) {
  const InspectedTensor& tensor = file.tensors()[index];
  Norms norms;
  std::vector<uint8_t> bytes;
  std::vector<float> values;
  for (int64_t begin = 0; begin < tensor.numel; begin += kChunkNumel) {
    const int64_t count = std::min(kChunkNumel, tensor.numel - begin);
    ZEROTH_RETURN_IF_ERROR(file.Read(index, begin, count, bytes));
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
absl::StatusOr<Difference> Compare(Inspected& a, size_t in_a, Inspected& b, size_t in_b) {
  struct Side {
    Inspected& file;
    size_t index;
    std::vector<uint8_t> bytes = {};
    std::vector<float> values = {};  // empty unless the type converts to float32
  };
  Side left{a, in_a};
  Side right{b, in_b};
  const SafetensorsDType dtype = a.tensors()[in_a].dtype;
  const bool same_type = dtype == b.tensors()[in_b].dtype;
  const bool has_values = ConvertsToFloat32(dtype);
  const auto size = static_cast<size_t>(BitsOf(dtype) / 8);
  const int64_t numel = a.tensors()[in_a].numel;
  Difference difference;
  for (int64_t begin = 0; begin < numel; begin += kChunkNumel) {
    const auto count = static_cast<size_t>(std::min(kChunkNumel, numel - begin));
    for (Side* const side : {&left, &right}) {
      ZEROTH_RETURN_IF_ERROR(
          side->file.Read(side->index, begin, static_cast<int64_t>(count), side->bytes));
    }
    if (same_type && left.bytes == right.bytes) continue;
    for (Side* const side : {&left, &right}) {
      if (!has_values) break;
      side->values.resize(count);
      ConvertToFloat32(side->file.tensors()[side->index].dtype, side->bytes.data(),
                       absl::MakeSpan(side->values));
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

std::map<std::string, size_t> ByName(const Inspected& file) {
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < file.tensors().size(); ++i) index[file.tensors()[i].name] = i;
  return index;
}

}  // namespace

absl::StatusOr<std::string> TableOf(Inspected& file, bool norms) {
  size_t name_width = 6;
  size_t dims_width = 5;
  size_t where_width = 5;
  for (const InspectedTensor& tensor : file.tensors()) {
    name_width = std::max(name_width, tensor.name.size());
    dims_width = std::max(dims_width, Dims(tensor).size());
    where_width = std::max(where_width, tensor.where.size());
  }
  const auto line = [&](const std::string& name, const std::string& dtype, const std::string& dims,
                        const std::string& where, const std::string& rest) {
    std::string text = absl::StrFormat("%-*s  %-4s  %-*s  %-*s  %s", static_cast<int>(name_width),
                                       name, dtype, static_cast<int>(dims_width), dims,
                                       static_cast<int>(where_width), where, rest);
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string table;
  for (const std::string& note : file.notes()) absl::StrAppend(&table, note, "\n");
  table += line("tensor", "type", "shape", "where", norms ? "norm         largest" : "");
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const InspectedTensor& tensor = file.tensors()[i];
    std::string rest;
    if (norms && ConvertsToFloat32(tensor.dtype)) {
      ZEROTH_ASSIGN_OR_RETURN(const Norms of, NormsOf(file, i));
      rest = absl::StrFormat("%-11.5g  %-11.5g", std::sqrt(of.squares), of.largest);
      if (of.not_finite > 0) absl::StrAppendFormat(&rest, "  %d not finite", of.not_finite);
    }
    table += line(tensor.name, std::string(SafetensorsDTypeName(tensor.dtype)), Dims(tensor),
                  tensor.where, rest);
  }
  return table;
}

std::string VerifyReport(Inspected& file, bool& damaged) {
  const absl::StatusOr<std::vector<absl::Status>> found = file.Verify();
  damaged = found.ok() && !found->empty();
  if (!found.ok()) return absl::StrCat(found.status().message(), "\n");
  if (found->empty()) return "every checksum is right\n";
  std::string report;
  for (const absl::Status& damage : *found) absl::StrAppend(&report, damage.message(), "\n");
  return report;
}

absl::StatusOr<std::string> DiffReport(Inspected& a, Inspected& b, bool& differ) {
  const std::map<std::string, size_t> in_a = ByName(a);
  const std::map<std::string, size_t> in_b = ByName(b);
  std::string report;
  int64_t equal = 0;
  for (const auto& [name, index] : in_a) {
    const auto other = in_b.find(name);
    if (other == in_b.end()) {
      absl::StrAppend(&report, name, ": only in the first\n");
      continue;
    }
    const InspectedTensor& x = a.tensors()[index];
    const InspectedTensor& y = b.tensors()[other->second];
    const bool comparable =
        x.dtype == y.dtype || (ConvertsToFloat32(x.dtype) && ConvertsToFloat32(y.dtype));
    if (!comparable || x.shape != y.shape) {
      absl::StrAppend(&report, name, ": ", Kind(x), " and ", Kind(y), "\n");
      continue;
    }
    ZEROTH_ASSIGN_OR_RETURN(const Difference difference, Compare(a, index, b, other->second));
    const std::string kinds =
        x.dtype == y.dtype ? "" : absl::StrCat(Kind(x), " and ", Kind(y), ", ");
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
  for (const auto& [name, index] : in_b) {
    if (in_a.count(name) == 0) absl::StrAppend(&report, name, ": only in the second\n");
  }
  differ = !report.empty();
  absl::StrAppend(&report, equal, " tensors are equal, bit for bit\n");
  return report;
}

}  // namespace zeroth
