// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_EVENT_FILE_H_
#define ZEROTH_TRAIN_EVENT_FILE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/train/appended_file.h"

namespace zeroth {

// The prefix of event files' names, by which TensorBoard finds them.
inline constexpr char kEventFilePrefix[] = "events.out.tfevents.";

// Writes an event file of TensorBoard: TFRecords (length, data and their masked CRC-32Cs) of the
// protocol buffer tensorflow.Event. Every call writes through to the file (AppendedFile). One
// thread at a time.
class EventFile {
 public:
  struct Scalar {
    absl::string_view tag;
    double value = 0;  // kept as a float
  };

  // Creates a file in `directory`, beside those of earlier runs. TensorBoard reads them together
  // and takes the steps after `last_step`, the last step of earlier runs, from this file.
  static absl::StatusOr<EventFile> Create(const std::string& directory, int64_t last_step);

  absl::Status WriteScalars(int64_t step, absl::Span<const Scalar> scalars);
  // `markdown` appears under the tag in TensorBoard's tab TEXT.
  absl::Status WriteText(int64_t step, absl::string_view tag, absl::string_view markdown);

 private:
  explicit EventFile(AppendedFile file) : file_(std::move(file)) {}
  // `rest`: all fields of the event except its time and step.
  absl::Status WriteEvent(int64_t step, const std::string& rest);

  AppendedFile file_;
};

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_EVENT_FILE_H_
