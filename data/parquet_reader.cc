// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/parquet_reader.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"

#ifdef ZEROTH_HAS_ARROW
#include "arrow/api.h"
#include "arrow/io/file.h"
#include "parquet/arrow/reader.h"
#include "parquet/file_reader.h"
#include "parquet/metadata.h"
#endif

namespace zeroth {

#ifdef ZEROTH_HAS_ARROW
namespace {

// Rows that are decoded at a time.
constexpr int64_t kBatchRows = 64;
// Bytes of each column that are read at a time.
constexpr int64_t kReadBytes = int64_t{256} << 10;
// Nested deeper, a value is an attack on the stack.
constexpr int kMostDepth = 64;

// Returns the first line without its final dot; the lines after it locate the error in Arrow's
// sources.
std::string FirstLine(const arrow::Status& status) {
  const absl::string_view message = status.message();
  return std::string(absl::StripSuffix(message.substr(0, message.find('\n')), "."));
}

arrow::Result<nlohmann::ordered_json> JsonOf(const arrow::Array& array, int64_t i, int depth = 0);

arrow::Result<nlohmann::ordered_json> ListOf(const arrow::Array& values, int64_t begin,
                                             int64_t length, int depth) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (int64_t i = begin; i < begin + length; ++i) {
    ARROW_ASSIGN_OR_RAISE(list.emplace_back(), JsonOf(values, i, depth + 1));
  }
  return list;
}

template <typename ListArray>
arrow::Result<nlohmann::ordered_json> ListAt(const arrow::Array& array, int64_t i, int depth) {
  const auto& list = static_cast<const ListArray&>(array);
  return ListOf(*list.values(), list.value_offset(i), list.value_length(i), depth);
}

arrow::Result<nlohmann::ordered_json> StructAt(const arrow::Array& array, int64_t i, int depth) {
  const auto& fields = static_cast<const arrow::StructArray&>(array);
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (int field = 0; field < fields.num_fields(); ++field) {
    ARROW_ASSIGN_OR_RAISE(object[ReplaceInvalidUtf8(fields.struct_type()->field(field)->name())],
                          JsonOf(*fields.field(field), i, depth + 1));
  }
  return object;
}

template <typename Array>
nlohmann::ordered_json NumberAt(const arrow::Array& array, int64_t i) {
  return static_cast<const Array&>(array).Value(i);
}

template <typename Array>
arrow::Result<nlohmann::ordered_json> TextAt(const arrow::Array& array, int64_t i) {
  const std::string text(static_cast<const Array&>(array).GetView(i));
  if (const size_t valid = ValidUtf8Length(text); valid < text.size())
    return arrow::Status::Invalid("byte ", valid, " of a text is not UTF-8");
  return nlohmann::ordered_json(text);
}

// Some writers do not mark text as such. What is not text is refused where text is expected.
template <typename Array>
nlohmann::ordered_json BytesAt(const arrow::Array& array, int64_t i) {
  const std::string bytes(static_cast<const Array&>(array).GetView(i));
  if (ValidUtf8Length(bytes) == bytes.size()) return bytes;
  return nlohmann::ordered_json::binary({bytes.begin(), bytes.end()});
}

arrow::Result<nlohmann::ordered_json> JsonOf(const arrow::Array& array, int64_t i, int depth) {
  if (depth > kMostDepth)
    return arrow::Status::Invalid("values are nested deeper than ", kMostDepth);
  if (array.IsNull(i)) return nullptr;
  switch (array.type_id()) {
    case arrow::Type::STRING:
      return TextAt<arrow::StringArray>(array, i);
    case arrow::Type::LARGE_STRING:
      return TextAt<arrow::LargeStringArray>(array, i);
    case arrow::Type::STRING_VIEW:
      return TextAt<arrow::StringViewArray>(array, i);
    case arrow::Type::BINARY:
      return BytesAt<arrow::BinaryArray>(array, i);
    case arrow::Type::LARGE_BINARY:
      return BytesAt<arrow::LargeBinaryArray>(array, i);
    case arrow::Type::BOOL:
      return NumberAt<arrow::BooleanArray>(array, i);
    case arrow::Type::INT8:
      return NumberAt<arrow::Int8Array>(array, i);
    case arrow::Type::INT16:
      return NumberAt<arrow::Int16Array>(array, i);
    case arrow::Type::INT32:
      return NumberAt<arrow::Int32Array>(array, i);
    case arrow::Type::INT64:
      return NumberAt<arrow::Int64Array>(array, i);
    case arrow::Type::UINT8:
      return NumberAt<arrow::UInt8Array>(array, i);
    case arrow::Type::UINT16:
      return NumberAt<arrow::UInt16Array>(array, i);
    case arrow::Type::UINT32:
      return NumberAt<arrow::UInt32Array>(array, i);
    case arrow::Type::UINT64:
      return NumberAt<arrow::UInt64Array>(array, i);
    case arrow::Type::FLOAT:
      return NumberAt<arrow::FloatArray>(array, i);
    case arrow::Type::DOUBLE:
      return NumberAt<arrow::DoubleArray>(array, i);
    case arrow::Type::LIST:
      return ListAt<arrow::ListArray>(array, i, depth);
    case arrow::Type::LARGE_LIST:
      return ListAt<arrow::LargeListArray>(array, i, depth);
    case arrow::Type::FIXED_SIZE_LIST:
      return ListAt<arrow::FixedSizeListArray>(array, i, depth);
    case arrow::Type::STRUCT:
      return StructAt(array, i, depth);
    case arrow::Type::DICTIONARY: {
      const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
      return JsonOf(*dictionary.dictionary(), dictionary.GetValueIndex(i), depth + 1);
    }
    default: {
      ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::Scalar> scalar, array.GetScalar(i));
      return nlohmann::ordered_json{
          {array.type()->ToString(), ReplaceInvalidUtf8(scalar->ToString())}};
    }
  }
}

}  // namespace

struct ParquetReader::State {
  absl::Status Error(const arrow::Status& status) const {
    return InvalidArgument(path, ": row ", row + 1,
                           " of this parquet file cannot be read: ", FirstLine(status),
                           "; is the file damaged? Fetch it again");
  }
  // Goes to the first row of a group, or to the end. A reader of several groups cannot read
  // dictionaries within lists, since each group has its own.
  absl::Status Start(int at) {
    group = at;
    batch = nullptr;
    batches = nullptr;
    if (group == file->num_row_groups()) return absl::OkStatus();
    auto opened = file->GetRecordBatchReader({group});
    if (!opened.ok()) return Error(opened.status());
    batches = *std::move(opened);
    return absl::OkStatus();
  }
  // Reads until `batch` holds the next row; false at the end.
  absl::StatusOr<bool> Fill() {
    while (batch == nullptr || in_batch == batch->num_rows()) {
      if (batches == nullptr) return false;
      const arrow::Status status = batches->ReadNext(&batch);
      if (!status.ok()) return Error(status);
      in_batch = 0;
      if (batch == nullptr) ZEROTH_RETURN_IF_ERROR(Start(group + 1));
    }
    return true;
  }

  std::string path;
  std::unique_ptr<parquet::arrow::FileReader> file;
  int group = 0;
  std::unique_ptr<arrow::RecordBatchReader> batches;  // of the group; null at the end
  std::shared_ptr<arrow::RecordBatch> batch;
  int64_t in_batch = 0;  // rows of the batch that were returned
  int64_t row = 0;       // rows of the file that were returned
  int64_t rows = 0;
};

absl::StatusOr<ParquetReader> ParquetReader::Open(const std::string& path) {
  // For the errors, and the limit on open files, that all our readers have.
  ZEROTH_RETURN_IF_ERROR(RandomAccessFile::Open(path).status());
  auto state = std::make_unique<State>();
  state->path = path;
  const auto open = [&path, &state]() -> arrow::Status {
    parquet::ReaderProperties reading(arrow::system_memory_pool());
    reading.enable_buffered_stream();
    reading.set_buffer_size(kReadBytes);
    parquet::ArrowReaderProperties decoding;
    decoding.set_batch_size(kBatchRows);
    decoding.set_pre_buffer(false);
    decoding.set_use_threads(false);
    ARROW_ASSIGN_OR_RAISE(auto file,
                          arrow::io::ReadableFile::Open(path, arrow::system_memory_pool()));
    parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.Open(std::move(file), reading));
    builder.memory_pool(arrow::system_memory_pool())->properties(decoding);
    return builder.Build(&state->file);
  };
  if (const arrow::Status status = open(); !status.ok()) {
    return InvalidArgument(path, ": this parquet file cannot be read: ", FirstLine(status),
                           "; is the file damaged? Fetch it again");
  }
  state->rows = state->file->parquet_reader()->metadata()->num_rows();
  ZEROTH_RETURN_IF_ERROR(state->Start(0));
  return ParquetReader(std::move(state));
}

int64_t ParquetReader::rows() const { return state_->rows; }

absl::StatusOr<bool> ParquetReader::Next(nlohmann::ordered_json* row) {
  State& state = *state_;
  ZEROTH_ASSIGN_OR_RETURN(const bool more, state.Fill());
  if (!more) return false;
  *row = nlohmann::ordered_json::object();
  for (int column = 0; column < state.batch->num_columns(); ++column) {
    auto value = JsonOf(*state.batch->column(column), state.in_batch);
    if (!value.ok()) return state.Error(value.status());
    (*row)[ReplaceInvalidUtf8(state.batch->column_name(column))] = *std::move(value);
  }
  ++state.in_batch;
  ++state.row;
  return true;
}

absl::Status ParquetReader::Seek(int64_t row) {
  State& state = *state_;
  const auto metadata = state.file->parquet_reader()->metadata();
  int group = 0;
  int64_t before = 0;
  for (; group < metadata->num_row_groups(); ++group) {
    const int64_t rows = metadata->RowGroup(group)->num_rows();
    if (before + rows > row) break;
    before += rows;
  }
  ZEROTH_RETURN_IF_ERROR(state.Start(group));
  for (state.row = before; state.row < row; ++state.row, ++state.in_batch) {
    ZEROTH_ASSIGN_OR_RETURN(const bool more, state.Fill());
    if (!more) break;
  }
  return absl::OkStatus();
}

#else

struct ParquetReader::State {};

absl::StatusOr<ParquetReader> ParquetReader::Open(const std::string& path) {
  return absl::UnimplementedError(absl::StrCat(
      path,
      ": is a parquet file, and this program was built without Arrow, which reads them; build "
      "it by ./bazelw on a machine that can fetch Arrow, or with ARROW_HOME, or write JSON "
      "lines (datasets: Dataset.to_json)"));
}
int64_t ParquetReader::rows() const { return 0; }
absl::StatusOr<bool> ParquetReader::Next(nlohmann::ordered_json* /*row*/) { return false; }
absl::Status ParquetReader::Seek(int64_t /*row*/) { return absl::OkStatus(); }

#endif

ParquetReader::ParquetReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
ParquetReader::ParquetReader(ParquetReader&&) = default;
ParquetReader& ParquetReader::operator=(ParquetReader&&) = default;
ParquetReader::~ParquetReader() = default;

}  // namespace zeroth
