// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/safetensors_format.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

static_assert(std::endian::native == std::endian::little,
              "files are little-endian and read in place");

constexpr size_t kMaxRank = static_cast<size_t>(Shape::kMaxRank);
constexpr char kMetadataKey[] = "__metadata__";

struct RawEntry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<int64_t>> shape;
  std::optional<std::vector<int64_t>> offsets;
};

// Receives parser events and accepts exactly the shape that a header has. Anything else stops the
// parser where it stands, so that hostile text costs no more memory than honest text.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_float(number_float_t, const string_t& text) override {
    return Unexpected(absl::StrCat("the number ", text));
  }
  bool binary(binary_t&) override { return Unexpected("binary data"); }
  bool number_integer(number_integer_t value) override {
    return Unexpected(absl::StrCat("the number ", value));
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (list_ == nullptr) return Unexpected(absl::StrCat("the number ", value));
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Fail(absl::StrCat(Place(), ": the number ", value, " does not fit 63 bits"));
    }
    if (list_->size() == kMaxRank)
      return Fail(
          absl::StrCat(Place(), ": more than ", kMaxRank, " numbers, which is unsupported"));
    list_->push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::kMetadata) {
      metadata_[field_] = std::move(value);
      return true;
    }
    if (state_ != State::kEntry || field_ != "dtype") return Unexpected("a string");
    entries_.back().dtype = std::move(value);
    return true;
  }

  bool start_object(size_t) override {
    if (state_ == State::kStart) {
      state_ = State::kTop;
    } else if (state_ == State::kTop) {
      state_ = name_ == kMetadataKey ? State::kMetadata : State::kEntry;
      if (state_ == State::kEntry) entries_.push_back({name_, {}, {}, {}});
    } else {
      return Unexpected("an object");
    }
    return true;
  }

  bool key(string_t& key) override {
    if (state_ == State::kTop) {
      name_ = std::move(key);
      if (name_ == kMetadataKey && std::exchange(has_metadata_, true)) {
        return Fail(absl::StrCat("\"", kMetadataKey, "\" appears twice"));
      }
      return true;
    }
    field_ = std::move(key);
    if (state_ == State::kMetadata) {
      return metadata_.count(field_) == 0 || Fail(absl::StrCat(Place(), " appears twice"));
    }
    const RawEntry& entry = entries_.back();
    const bool repeated = (field_ == "dtype" && entry.dtype) ||
                          (field_ == "shape" && entry.shape) ||
                          (field_ == "data_offsets" && entry.offsets);
    if (repeated) return Fail(absl::StrCat(Place(), " appears twice"));
    if (field_ != "dtype" && field_ != "shape" && field_ != "data_offsets") {
      return Fail(absl::StrCat(Place(), " is unknown, expected dtype, shape and data_offsets"));
    }
    return true;
  }

  bool end_object() override {
    state_ = state_ == State::kTop ? State::kEnd : State::kTop;
    return true;
  }

  bool start_array(size_t) override {
    if (state_ != State::kEntry || list_ != nullptr || field_ == "dtype")
      return Unexpected("an array");
    auto& list = field_ == "shape" ? entries_.back().shape : entries_.back().offsets;
    list_ = &list.emplace();
    return true;
  }

  bool end_array() override {
    list_ = nullptr;
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    absl::string_view reason = error.what();
    if (const size_t dash = reason.find(" - "); dash != absl::string_view::npos)
      reason.remove_prefix(dash + 3);
    // The position counts from 1, and 8 bytes of length precede the text.
    return Fail(absl::StrCat("not JSON at byte ", position + 7, ": ", reason));
  }

  const std::string& error() const { return error_; }
  std::vector<RawEntry>& entries() { return entries_; }
  std::map<std::string, std::string>& metadata() { return metadata_; }

 private:
  enum class State { kStart, kTop, kMetadata, kEntry, kEnd };

  std::string Place() const {
    switch (state_) {
      case State::kMetadata:
        return absl::StrCat("\"", kMetadataKey, "\": key \"", field_, "\"");
      case State::kEntry:
        return absl::StrCat("tensor \"", name_, "\": field \"", field_, "\"");
      case State::kTop:
        return absl::StrCat("tensor \"", name_, "\"");
      default:
        return "the header";
    }
  }

  const char* Wanted() const {
    if (state_ == State::kMetadata) return "a string";
    if (state_ != State::kEntry) return "an object";
    if (list_ != nullptr) return "an unsigned integer";
    return field_ == "dtype" ? "a string" : "an array of unsigned integers";
  }

  bool Unexpected(absl::string_view found) {
    return Fail(absl::StrCat(Place(), ": expected ", Wanted(), ", found ", found));
  }

  bool Fail(std::string error) {
    error_ = std::move(error);
    return false;
  }

  State state_ = State::kStart;
  bool has_metadata_ = false;
  std::string name_;
  std::string field_;
  std::vector<int64_t>* list_ = nullptr;  // the array being read
  std::vector<RawEntry> entries_;
  std::map<std::string, std::string> metadata_;
  std::string error_;
};

std::string DimsText(absl::Span<const int64_t> dims) {
  return absl::StrCat("[", absl::StrJoin(dims, ", "), "]");
}

absl::StatusOr<SafetensorsEntry> CheckEntry(const RawEntry& raw, int64_t data_bytes) {
  if (!raw.dtype || !raw.shape || !raw.offsets) {
    const char* missing = !raw.dtype ? "dtype" : !raw.shape ? "shape" : "data_offsets";
    return absl::InvalidArgumentError(absl::StrCat("no field \"", missing, "\""));
  }
  SafetensorsEntry entry;
  ZEROTH_ASSIGN_OR_RETURN(entry.dtype, ParseSafetensorsDType(*raw.dtype));
  ZEROTH_ASSIGN_OR_RETURN(const int64_t bytes, SafetensorsBytes(entry.dtype, *raw.shape));
  if (raw.offsets->size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("data_offsets ", DimsText(*raw.offsets), ", expected [begin, end]"));
  }
  entry.shape = Shape(*raw.shape);
  entry.begin = (*raw.offsets)[0];
  entry.end = (*raw.offsets)[1];
  if (entry.begin > entry.end) {
    return absl::InvalidArgumentError(
        absl::StrCat("data_offsets ", DimsText(*raw.offsets), " end before they begin"));
  }
  if (entry.end > data_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("data_offsets ", DimsText(*raw.offsets), " leave the ", data_bytes,
                     " bytes of data that the file holds; is it truncated?"));
  }
  if (entry.end - entry.begin != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("data_offsets ", DimsText(*raw.offsets), " span ", entry.end - entry.begin,
                     " bytes, expected ", bytes, " for ", *raw.dtype, " ", DimsText(*raw.shape)));
  }
  return entry;
}

absl::Status CheckTiling(const SafetensorsHeader& header, int64_t data_bytes) {
  int64_t covered = 0;
  const std::string* previous = nullptr;
  for (const TensorEntries::value_type* item : ByRange(header.tensors)) {
    const auto& [name, entry] = *item;
    if (entry.begin < covered) {
      return absl::InvalidArgumentError(absl::StrCat("tensors \"", *previous, "\" and \"", name,
                                                     "\" overlap in the data bytes [", entry.begin,
                                                     ", ", std::min(covered, entry.end), ")"));
    }
    if (entry.begin > covered) {
      return absl::InvalidArgumentError(absl::StrCat("the data bytes [", covered, ", ", entry.begin,
                                                     ") before tensor \"", name,
                                                     "\" belong to no tensor"));
    }
    covered = entry.end;
    previous = &name;
  }
  if (covered != data_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the data bytes [", covered, ", ", data_bytes,
                                                   ") after the last tensor belong to no tensor"));
  }
  return absl::OkStatus();
}

absl::StatusOr<SafetensorsHeader> ParseHeader(absl::Span<const uint8_t> head, int64_t size) {
  if (size < 8) {
    return absl::InvalidArgumentError(
        absl::StrCat(size, " bytes, expected at least 8 for the length of the header"));
  }
  uint64_t length = 0;
  std::memcpy(&length, head.data(), sizeof(length));
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeaderBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("bytes 0 to 7 announce a header of ", length, " bytes, expected at most ",
                     kMaxSafetensorsHeaderBytes, "; is this a safetensors file?"));
  }
  if (length > static_cast<uint64_t>(size - 8)) {
    return absl::InvalidArgumentError(absl::StrCat("bytes 0 to 7 announce a header of ", length,
                                                   " bytes, but only ", size - 8,
                                                   " follow; is the file truncated?"));
  }
  if (length == 0 || head[8] != '{') {
    return absl::InvalidArgumentError("the header does not begin with \"{\" at byte 8");
  }
  const char* text = reinterpret_cast<const char*>(head.data()) + 8;
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(text, text + length, &reader))
    return absl::InvalidArgumentError(reader.error());

  SafetensorsHeader header;
  header.data_begin = 8 + static_cast<int64_t>(length);
  header.metadata = std::move(reader.metadata());
  const int64_t data_bytes = size - header.data_begin;
  for (const RawEntry& raw : reader.entries()) {
    auto entry = CheckEntry(raw, data_bytes);
    if (!entry.ok()) return Annotate(entry.status(), absl::StrCat("tensor \"", raw.name, "\""));
    if (!header.tensors.emplace(raw.name, *std::move(entry)).second) {
      return absl::InvalidArgumentError(absl::StrCat("tensor \"", raw.name, "\" appears twice"));
    }
  }
  ZEROTH_RETURN_IF_ERROR(CheckTiling(header, data_bytes));
  return header;
}

}  // namespace

std::vector<const TensorEntries::value_type*> ByRange(const TensorEntries& tensors) {
  std::vector<const TensorEntries::value_type*> order;
  order.reserve(tensors.size());
  for (const auto& item : tensors) order.push_back(&item);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  return order;
}

absl::StatusOr<int64_t> SafetensorsBytes(SafetensorsDType dtype, absl::Span<const int64_t> dims) {
  // A zero anywhere makes the tensor empty, however absurd its neighbours are.
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return 0;
  int64_t bits = BitsOf(dtype);
  for (const int64_t dim : dims) {
    if (__builtin_mul_overflow(bits, dim, &bits)) {
      return absl::InvalidArgumentError(absl::StrCat("the size of ", SafetensorsDTypeName(dtype),
                                                     " ", DimsText(dims), " overflows 63 bits"));
    }
  }
  if (bits % 8 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(SafetensorsDTypeName(dtype), " ", DimsText(dims),
                                                   " has ", bits,
                                                   " bits, which are no whole bytes"));
  }
  return bits / 8;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::Span<const uint8_t> head,
                                                         int64_t file_bytes,
                                                         const std::string& path) {
  auto header = ParseHeader(head, file_bytes);
  if (!header.ok())
    return Annotate(header.status(), absl::StrCat(path, ": not a valid safetensors file"));
  return header;
}

absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(const RandomAccessFile& file) {
  ZEROTH_ASSIGN_OR_RETURN(std::vector<uint8_t> head, file.ReadHead(8));
  uint64_t length = 0;
  if (head.size() == 8) std::memcpy(&length, head.data(), sizeof(length));
  if (length <= static_cast<uint64_t>(kMaxSafetensorsHeaderBytes)) {
    ZEROTH_ASSIGN_OR_RETURN(head, file.ReadHead(8 + static_cast<size_t>(length)));
  }
  return ParseSafetensorsHeader(head, static_cast<int64_t>(file.size()), file.path());
}

}  // namespace zeroth
