// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace zeroth {

// Reads the rows of a parquet file one after the other, as objects of JSON with a key for each
// column. Lists become arrays, structs objects, and bytes text if they are UTF-8. A value of a type
// that JSON lacks, such as a date, becomes an object {"TYPE": "text as Arrow prints it"}, which no
// kind of record reads as text. Memory depends on the size of a page and of a few rows, not on that
// of the file or of its row groups. Movable. Not thread-safe.
class ParquetReader {
 public:
  // Unimplemented if the build has no Arrow (third_party/arrow). InvalidArgument names the file if
  // it is damaged or encrypted. NotFound if it does not exist.
  static absl::StatusOr<ParquetReader> Open(const std::string& path);
  ParquetReader(ParquetReader&&);
  ParquetReader& operator=(ParquetReader&&);
  ~ParquetReader();

  int64_t rows() const;
  // Reads the next row; false at the end. InvalidArgument names the file and the first row that
  // could not be read, or whose text is not UTF-8.
  absl::StatusOr<bool> Next(nlohmann::ordered_json* row);
  // Goes to the row after the first `row` rows.
  absl::Status Seek(int64_t row);

 private:
  struct State;
  explicit ParquetReader(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace zeroth
