// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The header of a GGUF file, llama.cpp's model format, and its checks. This is version 3; version 2
// differs only in what big-endian machines write. Everything is little-endian.
//
//   "GGUF", uint32 version, uint64 tensors, uint64 pairs
//   pairs times    key, uint32 type, value
//   tensors times  name, uint32 n, n times uint64 dimension (the fastest first), uint32 type,
//                  uint64 offset
//   padding to a multiple of general.alignment (32 where that is not set)
//   the data; offsets count from here, and each is a multiple of the alignment
//
// A string is a uint64 length and that many bytes; an array is a uint32 type, a uint64 count and
// that many values.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/gguf/gguf_blocks.h"
#include "zeroth/checkpoint/safetensors_format.h"
#include "zeroth/checkpoint/tensor_file_writer.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/kernels/packed/packed_format.h"

namespace zeroth {

// The values of one array, all of one type. The alternatives are in the order of the file's type
// numbers, so index() is the number; 9 is an array of arrays.
struct GgufArray {
  std::variant<std::vector<uint8_t>, std::vector<int8_t>, std::vector<uint16_t>,
               std::vector<int16_t>, std::vector<uint32_t>, std::vector<int32_t>,
               std::vector<float>, std::vector<bool>, std::vector<std::string>,
               std::vector<GgufArray>, std::vector<uint64_t>, std::vector<int64_t>,
               std::vector<double>>
      items;

  friend bool operator==(const GgufArray& a, const GgufArray& b) { return a.items == b.items; }
};

// One value; index() is the file's type number, as above.
using GgufValue = std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool,
                               std::string, GgufArray, uint64_t, int64_t, double>;

// "u32", "string", "array of f32", ...: for messages.
std::string GgufTypeName(const GgufValue& value);

// The key-value pairs of a file, with typed look-ups. Their errors name the file, the key, what was
// found and what was expected. Get* accept every width of integer, because writers differ. An
// absent key gives InvalidArgument, or the fallback of Get*Or. A value type.
class GgufMetadata {
 public:
  GgufMetadata() = default;
  // `where` begins the messages: normally the path.
  explicit GgufMetadata(std::string where) : where_(std::move(where)) {}

  // Replaces an earlier value.
  void Set(absl::string_view key, GgufValue value) {
    values_.insert_or_assign(std::string(key), std::move(value));
  }
  void SetUint32(absl::string_view key, uint32_t value) { Set(key, GgufValue(value)); }
  void SetFloat(absl::string_view key, float value) { Set(key, GgufValue(value)); }
  void SetString(absl::string_view key, absl::string_view value) {
    Set(key, GgufValue(std::string(value)));
  }

  // Null if absent; owned by this object.
  const GgufValue* Find(absl::string_view key) const;
  bool Has(absl::string_view key) const { return Find(key) != nullptr; }

  absl::StatusOr<bool> GetBool(absl::string_view key) const;
  absl::StatusOr<int64_t> GetInt(absl::string_view key) const;
  // Accepts F32 and F64.
  absl::StatusOr<double> GetDouble(absl::string_view key) const;
  absl::StatusOr<std::string> GetString(absl::string_view key) const;
  // Owned by this object.
  absl::StatusOr<const std::vector<std::string>*> GetStrings(absl::string_view key) const;
  absl::StatusOr<std::vector<int64_t>> GetInts(absl::string_view key) const;

  absl::StatusOr<bool> GetBoolOr(absl::string_view key, bool fallback) const {
    return Has(key) ? GetBool(key) : fallback;
  }
  absl::StatusOr<int64_t> GetIntOr(absl::string_view key, int64_t fallback) const {
    return Has(key) ? GetInt(key) : fallback;
  }
  absl::StatusOr<double> GetDoubleOr(absl::string_view key, double fallback) const {
    return Has(key) ? GetDouble(key) : fallback;
  }
  absl::StatusOr<std::string> GetStringOr(absl::string_view key, std::string fallback) const {
    return Has(key) ? GetString(key) : fallback;
  }

  const std::map<std::string, GgufValue, std::less<>>& values() const { return values_; }
  const std::string& where() const { return where_; }

 private:
  absl::Status WrongType(absl::string_view key, absl::string_view expected) const;

  std::map<std::string, GgufValue, std::less<>> values_;
  std::string where_ = "metadata";
};

// Quantised tensors of a file that can be unpacked, by name.
using GgufPackedTensors = std::map<std::string, PackedFormat, std::less<>>;

// The types of tensors that a reader accepts. kPlain: those of one number for each element.
// kUnpackable: also the blocks of kGgufFormats. kAll: all types of ggml, for listing them.
enum class GgufTypes { kPlain, kUnpackable, kAll };

struct GgufHeader {
  GgufMetadata metadata;
  // Shapes are row-major, so the last dimension is the file's first. Ranges count from
  // `data_begin`.
  TensorEntries tensors;
  // The quantised tensors among `tensors`. Their entries have dtype F32, which reads return, but
  // the byte ranges of the quantised blocks.
  GgufPackedTensors blocks;
  // ggml's names of the types of all quantised tensors, "Q4_K" or "IQ4_NL". Those that are not in
  // `blocks` have dtype U8, which no read converts.
  std::map<std::string, absl::string_view, std::less<>> quantized;
  // Offset of the first data byte in the file.
  int64_t data_begin = 0;
};

inline constexpr absl::string_view kGgufMagic = "GGUF";
inline constexpr uint32_t kGgufVersion = 3;
inline constexpr uint32_t kGgufDefaultAlignment = 32;
inline constexpr char kGgufAlignmentKey[] = "general.alignment";
// llama.cpp reads at most this many dimensions of a tensor, and bytes of its name.
inline constexpr int kMaxGgufRank = 4;
inline constexpr size_t kMaxGgufTensorName = 63;
// The longest key that the format allows, in bytes.
inline constexpr size_t kMaxGgufKey = 65535;
// More than any vocabulary needs. A damaged length in a file of many GB is an error, and not read.
inline constexpr size_t kMaxGgufHeaderBytes = size_t{256} << 20;
// Arrays of arrays are legal, but nobody writes them, and hostile nesting would eat the stack.
inline constexpr int kMaxGgufDepth = 4;

// A key or name for messages: shortened and escaped, because a hostile one may be long or hold
// control characters.
std::string EscapeForMessage(absl::string_view text);

// "Q4_K" for ggml's number of that quantised type; empty if `number` is not a quantised type.
absl::string_view QuantizedTypeName(uint32_t number);

// Returns the size of a block of that quantised type; aborts for other numbers.
GgufBlockSize SizeOfQuantizedType(uint32_t number);
// Returns the format of the blocks of ggml's type `number`; kNone if they cannot be unpacked.
PackedFormat FormatOfQuantizedType(uint32_t number);

// Returns the element type that ggml's `number` means. Unimplemented for quantised types, with the
// type's name and what to do; InvalidArgument for a number that ggml does not have.
absl::StatusOr<SafetensorsDType> DTypeOfGgml(uint32_t number);
// The inverse; InvalidArgument for a type that ggml lacks (unsigned integers, booleans, FP8).
absl::StatusOr<uint32_t> GgmlNumberOf(SafetensorsDType dtype);

// True if `head` begins with kGgufMagic.
bool HasGgufMagic(absl::Span<const uint8_t> head);

// Parses and checks the header of the file called `path`, which has `file_bytes` bytes and begins
// with `head`. Every count and length is compared with the remaining bytes before anything is
// allocated for it, so no file costs more memory than a small multiple of its size. On success
// every tensor's range lies in the file, is aligned, has exactly the size of its shape and type,
// and no two ranges overlap. InvalidArgument names the path, the key or tensor, and the byte;
// Unimplemented names a tensor's quantised type, unless `types` accepts it; OutOfRange: the header
// is longer than `head`. Rows that are not whole blocks are InvalidArgument.
absl::StatusOr<GgufHeader> ParseGgufHeader(absl::Span<const uint8_t> head, size_t file_bytes,
                                           const std::string& path,
                                           GgufTypes types = GgufTypes::kPlain);
// The value of general.alignment, or its default. InvalidArgument if it is not a power of two as
// u32.
absl::StatusOr<int64_t> GgufAlignment(const GgufMetadata& metadata);

// A GGUF file; Open checks its whole header. Names and shapes (row-major) are the file's;
// gguf_config.h maps the names to Hugging Face's. Immutable and thread-safe.
class GgufFile final : public TensorFile {
 public:
  // NotFound or PermissionDenied from the file system; else as ParseGgufHeader says.
  // ReadElements dequantises blocks, and RawBytes reads them as they are.
  static absl::StatusOr<std::unique_ptr<GgufFile>> Open(const std::string& path,
                                                        GgufTypes types = GgufTypes::kPlain);

  absl::Status ReadElements(absl::string_view name, int64_t begin,
                            absl::Span<float> out) const override;

  const GgufMetadata& metadata() const { return metadata_; }
  const GgufPackedTensors& blocks() const { return blocks_; }
  // Returns ggml's name of a quantised tensor's type; empty for other tensors.
  absl::string_view QuantizedTypeOf(absl::string_view tensor) const {
    const auto found = quantized_.find(tensor);
    return found == quantized_.end() ? absl::string_view() : found->second;
  }

 private:
  GgufFile(RandomAccessFile file, GgufHeader header)
      : TensorFile(std::move(file), header.data_begin, std::move(header.tensors)),
        metadata_(std::move(header.metadata)),
        blocks_(std::move(header.blocks)),
        quantized_(std::move(header.quantized)) {}

  const GgufMetadata metadata_;
  const GgufPackedTensors blocks_;
  const std::map<std::string, absl::string_view, std::less<>> quantized_;
};

// Serializes the header of a file, up to and including the padding before the data. `tensors` are
// in the file's order; their ranges must be aligned. `blocks` overrides the types of the tensors
// that it names. InvalidArgument for what a reader would refuse: an empty or too long key or name,
// too many dimensions, or a type that the format lacks.
absl::StatusOr<std::string> SerializeGgufHeader(
    const GgufMetadata& metadata,
    const std::vector<std::pair<std::string, SafetensorsEntry>>& tensors,
    const GgufBlockTypes& blocks = {});

// Writers of GGUF files of version 3.
struct GgufWriter {
  // Creates a temporary file beside `path`, whose directory must exist. Tensors are in the given
  // order. Those that `blocks` names are written by WriteBytes, whatever their declared type.
  // InvalidArgument for a repeated name, a size that overflows, rows that are not whole blocks, or
  // what SerializeGgufHeader refuses.
  static absl::StatusOr<std::unique_ptr<TensorFileWriter>> Create(
      const std::string& path, const GgufMetadata& metadata,
      const std::vector<TensorDeclaration>& tensors, const GgufBlockTypes& blocks = {});
};

}  // namespace zeroth
