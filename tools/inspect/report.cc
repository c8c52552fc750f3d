// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tools/inspect/report.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/status_macros.h"

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

// Elements that differ, and by how much at the most.
struct Difference {
  int64_t elements = 0;
  double most = 0;
};

// As float32, of tensors that convert to it.
absl::StatusOr<Difference> CompareValues(Inspected& a, size_t in_a, Inspected& b, size_t in_b) {
  Difference difference;
  std::vector<uint8_t> bytes;
  std::vector<float> left;
  std::vector<float> right;
  const auto read = [&](Inspected& file, size_t index, int64_t begin, std::vector<float>& values) {
    ZEROTH_RETURN_IF_ERROR(file.Read(index, begin, static_cast<int64_t>(values.size()), bytes));
    ConvertToFloat32(file.tensors()[index].dtype, bytes.data(), absl::MakeSpan(values));
    return absl::OkStatus();
  };
  const int64_t numel = a.tensors()[in_a].numel;
  for (int64_t begin = 0; begin < numel; begin += kChunkNumel) {
    left.resize(static_cast<size_t>(std::min(kChunkNumel, numel - begin)));
    right.resize(left.size());
    ZEROTH_RETURN_IF_ERROR(read(a, in_a, begin, left));
    ZEROTH_RETURN_IF_ERROR(read(b, in_b, begin, right));
    for (size_t i = 0; i < left.size(); ++i) {
      if (left[i] == right[i] || (std::isnan(left[i]) && std::isnan(right[i]))) continue;
      ++difference.elements;
      difference.most = std::max(difference.most, std::abs(double{left[i]} - double{right[i]}));
    }
  }
  return difference;
}

// By any bit; by values where the types differ.
absl::StatusOr<Difference> Compare(Inspected& a, size_t in_a, Inspected& b, size_t in_b) {
  const InspectedTensor& tensor = a.tensors()[in_a];
  if (tensor.dtype != b.tensors()[in_b].dtype) return CompareValues(a, in_a, b, in_b);
  const auto size = static_cast<size_t>(BitsOf(tensor.dtype) / 8);
  Difference difference;
  std::vector<uint8_t> bytes[2];
  for (int64_t begin = 0; begin < tensor.numel; begin += kChunkNumel) {
    const int64_t count = std::min(kChunkNumel, tensor.numel - begin);
    ZEROTH_RETURN_IF_ERROR(a.Read(in_a, begin, count, bytes[0]));
    ZEROTH_RETURN_IF_ERROR(b.Read(in_b, begin, count, bytes[1]));
    if (bytes[0] == bytes[1]) continue;
    for (size_t i = 0; i < bytes[0].size(); i += size) {
      if (std::memcmp(bytes[0].data() + i, bytes[1].data() + i, size) == 0) continue;
      ++difference.elements;
      if (!ConvertsToFloat32(tensor.dtype)) continue;
      float values[2];
      for (int k : {0, 1}) {
        ConvertToFloat32(tensor.dtype, bytes[k].data() + i, absl::MakeSpan(&values[k], 1));
      }
      difference.most = std::max(difference.most, std::abs(double{values[0]} - double{values[1]}));
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
