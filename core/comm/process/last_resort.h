// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What libraries for communication do when their peers are gone cannot always be ended: a call may
// not come back, or a device may wait for ever. Then nothing in this process will, and only its end
// frees what it holds and tells whoever has started it.

#ifndef ZEROTH_CORE_COMM_PROCESS_LAST_RESORT_H_
#define ZEROTH_CORE_COMM_PROCESS_LAST_RESORT_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "absl/time/time.h"

namespace zeroth {

// Ends the process with status 1 unless it is destroyed in time. The last line on standard error is
// `what`, asked for at that moment, on a thread of its own: it must not wait for anybody.
class LastResort {
 public:
  static constexpr absl::Duration kTime = absl::Seconds(60);

  explicit LastResort(std::function<std::string()> what);
  ~LastResort();
  LastResort(const LastResort&) = delete;
  LastResort& operator=(const LastResort&) = delete;

  // Of those that are made from now on in this process.
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
