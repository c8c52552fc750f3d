// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// When peers are gone, a communication library cannot always be stopped: a call may not return, or
// a device may wait for ever. Then only the end of the process frees what it holds, and tells the
// launcher.

#ifndef ZEROTH_CORE_COMM_PROCESS_LAST_RESORT_H_
#define ZEROTH_CORE_COMM_PROCESS_LAST_RESORT_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "absl/time/time.h"

namespace zeroth {

// Ends the process with exit code 1 unless it is destroyed within kTime. It then calls `what`, on a
// thread of its own, and prints the result as the last line on standard error. `what` must not
// block.
class LastResort {
 public:
  static constexpr absl::Duration kTime = absl::Seconds(60);

  explicit LastResort(std::function<std::string()> what);
  ~LastResort();
  LastResort(const LastResort&) = delete;
  LastResort& operator=(const LastResort&) = delete;

  // Applies to objects that are created from now on in this process.
  static void ShortenForTest(absl::Duration time);

 private:
  void Watch(absl::Duration time, const std::function<std::string()>& what);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool in_time_ = false;
  std::thread thread_;  // last: it starts when everything above exists
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_PROCESS_LAST_RESORT_H_
