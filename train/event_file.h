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

// What the names of event files begin with; TensorBoard looks for it.
inline constexpr char kEventFilePrefix[] = "events.out.tfevents.";

// An event file of TensorBoard: TFRecords (length, data and their masked CRC-32Cs) of the protocol
// buffer tensorflow.Event. Flushed with every call, see AppendedFile. One thread at a time.
class EventFile {
 public:
  struct Scalar {
    absl::string_view tag;
    double value = 0;  // kept as a float
  };

  // A new file in `directory`, beside those of earlier runs: TensorBoard reads them together, and
  // takes this one's word for steps after `last_step`, which earlier runs have made.
  static absl::StatusOr<EventFile> Create(const std::string& directory, int64_t last_step);

  absl::Status WriteScalars(int64_t step, absl::Span<const Scalar> scalars);
  // `markdown` shows under the tag in the tab TEXT.
  absl::Status WriteText(int64_t step, absl::string_view tag, absl::string_view markdown);

 private:
  explicit EventFile(AppendedFile file) : file_(std::move(file)) {}
  // `rest`: the event's fields but its time and step.
  absl::Status WriteEvent(int64_t step, const std::string& rest);

  AppendedFile file_;
};

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_EVENT_FILE_H_
