// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/gguf/gguf_format.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/shape.h"

namespace zeroth {
namespace {

static_assert(std::endian::native == std::endian::little,
              "files are little-endian and read as they are");

// The minimum size of a value of type T in a file, in bytes.
template <typename T>
constexpr size_t MinBytes() {
  if constexpr (std::is_same_v<T, std::string>) return 8;
  if constexpr (std::is_same_v<T, GgufArray>) return 12;
  return sizeof(T);
}

// Reads values from the front of a file. Errors say at which byte.
class Reader {
 public:
  // `head` is the beginning of a file of `file_bytes` bytes.
  Reader(absl::Span<const uint8_t> head, size_t file_bytes)
      : head_(head), file_bytes_(file_bytes) {}

  size_t position() const { return position_; }
  size_t left() const { return file_bytes_ - position_; }

  template <typename T>
  absl::Status Read(T* value) {
    ZEROTH_RETURN_IF_ERROR(Need(sizeof(T)));
    std::memcpy(value, head_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return absl::OkStatus();
  }

  absl::Status Read(bool* value) {
    uint8_t byte = 0;
    ZEROTH_RETURN_IF_ERROR(Read(&byte));
    if (byte > 1) {
      return InvalidArgument("the boolean at byte ", position_ - 1, " is ", byte,
                             ", expected 0 or 1");
    }
    *value = byte != 0;
    return absl::OkStatus();
  }

  absl::Status Read(std::string* value) {
    uint64_t length = 0;
    ZEROTH_RETURN_IF_ERROR(Read(&length));
    ZEROTH_RETURN_IF_ERROR(Need(length));
    value->assign(reinterpret_cast<const char*>(head_.data() + position_),
                  static_cast<size_t>(length));
    position_ += static_cast<size_t>(length);
    return absl::OkStatus();
  }

  absl::Status ReadMagic() {
    if (!HasGgufMagic(head_)) {
      return absl::InvalidArgumentError("not a GGUF file: it does not begin with \"GGUF\"");
    }
    position_ += kGgufMagic.size();
    return absl::OkStatus();
  }

 private:
  absl::Status Need(uint64_t wanted) const {
    if (wanted <= head_.size() - position_) return absl::OkStatus();
    if (wanted <= left()) return absl::OutOfRangeError("the header is longer than what was read");
    return InvalidArgument("needs ", wanted, " bytes at byte ", position_, ", where ", left(),
                           " are left; is the file truncated?");
  }

  absl::Span<const uint8_t> head_;
  size_t file_bytes_;
  size_t position_ = 0;
};

absl::Status ReadArray(Reader& reader, int depth, GgufArray* array);

template <typename T>
absl::Status ReadItems(Reader& reader, uint64_t count, int depth, std::vector<T>* items) {
  if (count > reader.left() / MinBytes<T>()) {
    return InvalidArgument("an array of ", count, " elements before byte ", reader.position(),
                           ", where ", reader.left(), " bytes are left; is the file truncated?");
  }
  items->reserve(static_cast<size_t>(count));
  for (uint64_t i = 0; i < count; ++i) {
    T item{};
    if constexpr (std::is_same_v<T, GgufArray>) {
      ZEROTH_RETURN_IF_ERROR(ReadArray(reader, depth + 1, &item));
    } else {
      ZEROTH_RETURN_IF_ERROR(reader.Read(&item));
    }
    items->push_back(std::move(item));
  }
  return absl::OkStatus();
}

// Sets `*variant` to its alternative of number `type`. False if there is none.
template <size_t kIndex = 0, typename Variant>
bool Emplace(uint32_t type, Variant* variant) {
  if constexpr (kIndex < std::variant_size_v<Variant>) {
    if (type == kIndex) {
      variant->template emplace<kIndex>();
      return true;
    }
    return Emplace<kIndex + 1>(type, variant);
  }
  return false;
}

absl::Status UnknownType(uint32_t type) {
  return InvalidArgument("value type ", type, ", expected 0 to ",
                         std::variant_size_v<GgufValue> - 1);
}

absl::Status ReadArray(Reader& reader, int depth, GgufArray* array) {
  if (depth > kMaxGgufDepth) {
    return InvalidArgument("arrays are nested deeper than ", kMaxGgufDepth, " levels");
  }
  uint32_t type = 0;
  ZEROTH_RETURN_IF_ERROR(reader.Read(&type));
  if (!Emplace(type, &array->items)) return UnknownType(type);
  uint64_t count = 0;
  ZEROTH_RETURN_IF_ERROR(reader.Read(&count));
  return std::visit([&](auto& items) { return ReadItems(reader, count, depth, &items); },
                    array->items);
}

absl::StatusOr<GgufValue> ReadValue(Reader& reader) {
  uint32_t type = 0;
  ZEROTH_RETURN_IF_ERROR(reader.Read(&type));
  GgufValue value;
  if (!Emplace(type, &value)) return UnknownType(type);
  ZEROTH_RETURN_IF_ERROR(std::visit(
      [&](auto& item) {
        if constexpr (std::is_same_v<std::decay_t<decltype(item)>, GgufArray>) {
          return ReadArray(reader, 1, &item);
        } else {
          return reader.Read(&item);
        }
      },
      value));
  return value;
}

// The minimum size of a pair and of a tensor, in bytes, which bounds their counts by the file's
// length.
constexpr size_t kMinPairBytes = 8 + 1 + 4 + 1;
constexpr size_t kMinTensorBytes = 8 + 1 + 4 + 4 + 8;

absl::Status CheckCount(const Reader& reader, uint64_t count, size_t min_bytes,
                        absl::string_view what) {
  if (count <= reader.left() / min_bytes) return absl::OkStatus();
  return InvalidArgument("declares ", count, " ", what, ", more than its ", reader.left(),
                         " bytes can hold; is it truncated?");
}

absl::Status ReadPair(Reader& reader, GgufMetadata* metadata) {
  std::string key;
  ZEROTH_RETURN_IF_ERROR(reader.Read(&key));
  if (key.empty() || key.size() > kMaxGgufKey) {
    return InvalidArgument("a key of ", key.size(), " bytes before byte ", reader.position(),
                           ", expected 1 to ", kMaxGgufKey);
  }
  if (metadata->Has(key)) {
    return InvalidArgument("key ", EscapeForMessage(key), " appears twice");
  }
  auto value = ReadValue(reader);
  if (!value.ok()) return Annotate(value.status(), absl::StrCat("key ", EscapeForMessage(key)));
  metadata->Set(key, *std::move(value));
  return absl::OkStatus();
}

// The bytes of the blocks of a tensor of ggml's quantised type `number`.
absl::StatusOr<int64_t> BytesOfBlocks(uint32_t number, const std::vector<int64_t>& dims) {
  // First, since a Shape must not overflow. It counts bits, so a block's bytes, of which Q8_K has
  // the most, 292 for 256 elements, also fit 63 bits.
  const absl::StatusOr<int64_t> elements = SafetensorsBytes(SafetensorsDType::kI8, dims);
  if (!elements.ok()) return Annotate(elements.status(), QuantizedTypeName(number));
  const GgufBlockSize block = SizeOfQuantizedType(number);
  if (dims.empty() || dims.back() % block.elements != 0) {
    return InvalidArgument("shape ", Shape(dims).ToString(), " in ", QuantizedTypeName(number),
                           ", expected rows of whole blocks of ", block.elements);
  }
  return *elements / block.elements * block.bytes;
}

// Reads a tensor's declaration, and `type`, its number. Its range is not yet compared with the
// file.
absl::StatusOr<SafetensorsEntry> ReadEntry(Reader& reader, GgufTypes types, uint32_t& type) {
  uint32_t rank = 0;
  ZEROTH_RETURN_IF_ERROR(reader.Read(&rank));
  if (rank > kMaxGgufRank) {
    return InvalidArgument(rank, " dimensions, expected at most ", kMaxGgufRank);
  }
  std::vector<int64_t> dims;
  for (uint32_t i = 0; i < rank; ++i) {
    uint64_t dim = 0;
    ZEROTH_RETURN_IF_ERROR(reader.Read(&dim));
    if (dim > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return InvalidArgument("dimension ", i, " is ", dim, ", which does not fit 63 bits");
    }
    dims.push_back(static_cast<int64_t>(dim));
  }
  std::reverse(dims.begin(), dims.end());
  uint64_t offset = 0;
  ZEROTH_RETURN_IF_ERROR(reader.Read(&type));
  ZEROTH_RETURN_IF_ERROR(reader.Read(&offset));
  SafetensorsEntry entry;
  const bool unpackable = FormatOfQuantizedType(type) != PackedFormat::kNone;
  int64_t bytes = 0;
  if ((types != GgufTypes::kPlain && unpackable) ||
      (types == GgufTypes::kAll && !QuantizedTypeName(type).empty())) {
    entry.dtype = unpackable ? SafetensorsDType::kF32 : SafetensorsDType::kU8;
    ZEROTH_ASSIGN_OR_RETURN(bytes, BytesOfBlocks(type, dims));
  } else {
    ZEROTH_ASSIGN_OR_RETURN(entry.dtype, DTypeOfGgml(type));
    ZEROTH_ASSIGN_OR_RETURN(bytes, SafetensorsBytes(entry.dtype, dims));
  }
  if (offset > static_cast<uint64_t>(std::numeric_limits<int64_t>::max() - bytes)) {
    return InvalidArgument("offset ", offset, " plus ", bytes, " bytes does not fit 63 bits");
  }
  entry.shape = Shape(dims);
  entry.begin = static_cast<int64_t>(offset);
  entry.end = entry.begin + bytes;
  return entry;
}

absl::Status ReadTensor(Reader& reader, GgufTypes types, GgufHeader* header) {
  std::string name;
  ZEROTH_RETURN_IF_ERROR(reader.Read(&name));
  if (name.empty() || name.size() > kMaxGgufKey) {
    return InvalidArgument("a tensor name of ", name.size(), " bytes before byte ",
                           reader.position(), ", expected 1 to ", kMaxGgufKey);
  }
  uint32_t type = 0;
  auto entry = ReadEntry(reader, types, type);
  if (!entry.ok()) return Annotate(entry.status(), absl::StrCat("tensor ", EscapeForMessage(name)));
  if (!header->tensors.emplace(name, *std::move(entry)).second) {
    return InvalidArgument("tensor ", EscapeForMessage(name), " appears twice");
  }
  if (const absl::string_view quantized = QuantizedTypeName(type); !quantized.empty()) {
    header->quantized[name] = quantized;
    const PackedFormat format = FormatOfQuantizedType(type);
    if (format != PackedFormat::kNone) header->blocks[name] = format;
  }
  return absl::OkStatus();
}

absl::Status CheckRanges(const GgufHeader& header, int64_t alignment, int64_t file_bytes) {
  const TensorEntries::value_type* previous = nullptr;
  for (const TensorEntries::value_type* item : ByRange(header.tensors)) {
    const auto& [name, entry] = *item;
    if (entry.begin % alignment != 0) {
      return InvalidArgument("tensor ", EscapeForMessage(name), " begins at offset ", entry.begin,
                             ", expected a multiple of ", alignment);
    }
    if (previous != nullptr && entry.begin < previous->second.end) {
      return InvalidArgument("tensors ", EscapeForMessage(previous->first), " and ",
                             EscapeForMessage(name), " overlap in the data bytes [", entry.begin,
                             ", ", std::min(entry.end, previous->second.end), ")");
    }
    if (entry.end > file_bytes - header.data_begin) {
      return InvalidArgument(
          "tensor ", EscapeForMessage(name), " ", entry.shape.ToString(), " takes the data bytes [",
          entry.begin, ", ", entry.end, "), of which the file holds ",
          std::max<int64_t>(0, file_bytes - header.data_begin), "; is it truncated?");
    }
    // An empty tensor overlaps nothing.
    if (entry.end > entry.begin) previous = item;
  }
  return absl::OkStatus();
}

absl::Status CheckVersion(uint32_t version) {
  if (version == 2 || version == kGgufVersion) return absl::OkStatus();
  if ((version & 0xffffu) == 0 && version != 0) {
    return absl::UnimplementedError(
        "written on a big-endian machine, expected little-endian; convert it with gguf-py's "
        "gguf-convert-endian");
  }
  return Unimplemented("GGUF version ", version, ", expected 2 or ", kGgufVersion,
                       version == 1 ? "; llama.cpp rewrites files of the first version" : "");
}

absl::StatusOr<GgufHeader> Parse(absl::Span<const uint8_t> head, size_t file_bytes,
                                 const std::string& path, GgufTypes types) {
  Reader reader(head, file_bytes);
  uint32_t version = 0;
  uint64_t tensors = 0;
  uint64_t pairs = 0;
  ZEROTH_RETURN_IF_ERROR(reader.ReadMagic());
  ZEROTH_RETURN_IF_ERROR(reader.Read(&version));
  ZEROTH_RETURN_IF_ERROR(CheckVersion(version));
  ZEROTH_RETURN_IF_ERROR(reader.Read(&tensors));
  ZEROTH_RETURN_IF_ERROR(reader.Read(&pairs));
  GgufHeader header;
  header.metadata = GgufMetadata(path);
  ZEROTH_RETURN_IF_ERROR(CheckCount(reader, pairs, kMinPairBytes, "key-value pairs"));
  for (uint64_t i = 0; i < pairs; ++i) ZEROTH_RETURN_IF_ERROR(ReadPair(reader, &header.metadata));
  ZEROTH_RETURN_IF_ERROR(CheckCount(reader, tensors, kMinTensorBytes, "tensors"));
  for (uint64_t i = 0; i < tensors; ++i) {
    ZEROTH_RETURN_IF_ERROR(ReadTensor(reader, types, &header));
  }
  ZEROTH_ASSIGN_OR_RETURN(const int64_t alignment, GgufAlignment(header.metadata));
  const auto end = static_cast<int64_t>(reader.position());
  header.data_begin = (end + alignment - 1) / alignment * alignment;
  ZEROTH_RETURN_IF_ERROR(CheckRanges(header, alignment, static_cast<int64_t>(file_bytes)));
  return header;
}

}  // namespace

absl::StatusOr<int64_t> GgufAlignment(const GgufMetadata& metadata) {
  const GgufValue* value = metadata.Find(kGgufAlignmentKey);
  if (value == nullptr) return kGgufDefaultAlignment;
  const auto* alignment = std::get_if<uint32_t>(value);
  if (alignment == nullptr || !std::has_single_bit(*alignment)) {
    return InvalidArgument("key \"", kGgufAlignmentKey, "\" is of type ", GgufTypeName(*value),
                           alignment == nullptr ? "" : absl::StrCat(" and value ", *alignment),
                           ", expected a power of two as u32");
  }
  return *alignment;
}

bool HasGgufMagic(absl::Span<const uint8_t> head) {
  return head.size() >= kGgufMagic.size() &&
         std::memcmp(head.data(), kGgufMagic.data(), kGgufMagic.size()) == 0;
}

absl::StatusOr<GgufHeader> ParseGgufHeader(absl::Span<const uint8_t> head, size_t file_bytes,
                                           const std::string& path, GgufTypes types) {
  absl::StatusOr<GgufHeader> header = Parse(head, file_bytes, path, types);
  if (!header.ok()) return Annotate(header.status(), path);
  return header;
}

}  // namespace zeroth
