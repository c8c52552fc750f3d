// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <type_traits>

#include "absl/strings/str_cat.h"

#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr size_t kArrayType = 9;

class HeaderBytes {
 public:
  template <typename T>
  void Add(const T& value) {
    static_assert(std::is_arithmetic_v<T>);
    text_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }

  void Add(const std::string& value) {
    Add(static_cast<uint64_t>(value.size()));
    text_ += value;
  }

  void Add(bool value) { Add(static_cast<uint8_t>(value)); }

  void Add(const GgufArray& array) {
    Add(static_cast<uint32_t>(array.items.index()));
    std::visit(
        [this](const auto& items) {
          Add(static_cast<uint64_t>(items.size()));
          for (const auto& item : items) Add(item);
        },
        array.items);
  }

  void AddValue(const GgufValue& value) {
    Add(static_cast<uint32_t>(value.index()));
    std::visit([this](const auto& item) { Add(item); }, value);
  }

  std::string& text() { return text_; }

 private:
  std::string text_;
};

int Depth(const GgufArray& array) {
  const auto* inner = std::get_if<kArrayType>(&array.items);
  if (inner == nullptr) return 1;
  int deepest = 0;
  for (const GgufArray& item : *inner) deepest = std::max(deepest, Depth(item));
  return 1 + deepest;
}

absl::Status CheckPair(const std::string& key, const GgufValue& value) {
  if (key.empty() || key.size() > kMaxGgufKey) {
    return InvalidArgument("a metadata key has ", key.size(), " bytes, expected 1 to ",
                           kMaxGgufKey);
  }
  const auto* array = std::get_if<GgufArray>(&value);
  if (array != nullptr && Depth(*array) > kMaxGgufDepth) {
    return InvalidArgument("key ", EscapeForMessage(key), ": arrays are nested deeper than ",
                           kMaxGgufDepth, " levels");
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> TypeNumber(const std::string& name, const SafetensorsEntry& entry,
                                    const GgufBlockTypes& blocks) {
  const auto block = blocks.find(name);
  if (block != blocks.end()) return static_cast<uint32_t>(block->second);
  return GgmlNumberOf(entry.dtype);
}

absl::Status AddTensor(const std::string& name, const SafetensorsEntry& entry,
                       const GgufBlockTypes& blocks, HeaderBytes* out) {
  if (name.empty() || name.size() > kMaxGgufTensorName) {
    return InvalidArgument("tensor ", EscapeForMessage(name), " has a name of ", name.size(),
                           " bytes, expected 1 to ", kMaxGgufTensorName);
  }
  if (entry.shape.rank() > kMaxGgufRank) {
    return InvalidArgument("tensor ", EscapeForMessage(name), " has the shape ",
                           entry.shape.ToString(), ", expected at most ", kMaxGgufRank,
                           " dimensions");
  }
  const absl::StatusOr<uint32_t> type = TypeNumber(name, entry, blocks);
  if (!type.ok()) return Annotate(type.status(), absl::StrCat("tensor ", EscapeForMessage(name)));
  out->Add(name);
  out->Add(static_cast<uint32_t>(entry.shape.rank()));
  for (int i = entry.shape.rank(); i-- > 0;) out->Add(static_cast<uint64_t>(entry.shape.dim(i)));
  out->Add(*type);
  out->Add(static_cast<uint64_t>(entry.begin));
  return absl::OkStatus();
}

// Declares a tensor in blocks as bytes: its last dimension becomes the bytes of a row's blocks.
absl::StatusOr<TensorDeclaration> AsBytes(const TensorDeclaration& tensor, GgufBlock block) {
  const GgufBlockSize size = SizeOf(block);
  std::vector<int64_t> dims(tensor.shape.dims().begin(), tensor.shape.dims().end());
  if (dims.empty() || dims.back() % size.elements != 0) {
    return InvalidArgument("tensor ", EscapeForMessage(tensor.name), " has the shape ",
                           tensor.shape.ToString(), ", expected rows of whole blocks of ",
                           size.elements, " elements, as ",
                           QuantizedTypeName(static_cast<uint32_t>(block)), " has");
  }
  dims.back() = dims.back() / size.elements * size.bytes;
  return TensorDeclaration{tensor.name, DType::kUInt8, Shape(dims)};
}

}  // namespace

absl::StatusOr<std::string> SerializeGgufHeader(
    const GgufMetadata& metadata,
    const std::vector<std::pair<std::string, SafetensorsEntry>>& tensors,
    const GgufBlockTypes& blocks) {
  ZEROTH_ASSIGN_OR_RETURN(const int64_t alignment, GgufAlignment(metadata));
  HeaderBytes out;
  out.text() += std::string(kGgufMagic);
  out.Add(kGgufVersion);
  out.Add(static_cast<uint64_t>(tensors.size()));
  out.Add(static_cast<uint64_t>(metadata.values().size()));
  for (const auto& [key, value] : metadata.values()) {
    ZEROTH_RETURN_IF_ERROR(CheckPair(key, value));
    out.Add(key);
    out.AddValue(value);
  }
  for (const auto& [name, entry] : tensors) {
    ZEROTH_RETURN_IF_ERROR(AddTensor(name, entry, blocks, &out));
  }
  const auto padded = (static_cast<int64_t>(out.text().size()) + alignment - 1) / alignment;
  out.text().resize(static_cast<size_t>(padded * alignment), '\0');
  return std::move(out.text());
}

absl::StatusOr<std::unique_ptr<TensorFileWriter>> GgufWriter::Create(
    const std::string& path, const GgufMetadata& metadata,
    const std::vector<TensorDeclaration>& tensors, const GgufBlockTypes& blocks) {
  auto alignment = GgufAlignment(metadata);
  if (!alignment.ok()) return Annotate(alignment.status(), path);
  std::vector<TensorDeclaration> stored = tensors;
  for (TensorDeclaration& tensor : stored) {
    const auto block = blocks.find(tensor.name);
    if (block == blocks.end()) continue;
    auto bytes = AsBytes(tensor, block->second);
    if (!bytes.ok()) return Annotate(bytes.status(), path);
    tensor = *std::move(bytes);
  }
  ZEROTH_ASSIGN_OR_RETURN(TensorLayout layout, LayOutTensors(path, stored, *alignment));
  std::vector<std::pair<std::string, SafetensorsEntry>> order;
  for (const TensorDeclaration& tensor : tensors) {
    order.emplace_back(tensor.name, layout.entries.at(tensor.name));
    order.back().second.shape = tensor.shape;
  }
  auto header = SerializeGgufHeader(metadata, order, blocks);
  if (!header.ok()) return Annotate(header.status(), path);
  return TensorFileWriter::Create(path, *std::move(header), std::move(layout));
}

}  // namespace zeroth
