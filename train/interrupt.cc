// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/interrupt.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>

namespace zeroth {
namespace {

constexpr size_t kMaxText = 4096;

struct Announcement {
  char first[kMaxText];
  char second[kMaxText];
};

// Used alternately: a handler may be reading one while the other is filled.
Announcement announcements[2];
std::atomic<const Announcement*> announcement{nullptr};
std::atomic<bool> interrupted{false};
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1};
std::atomic<bool> was_signalled[std::size(kSignals)];  // launchers may send one after the other
static_assert(std::atomic<bool>::is_always_lock_free &&
                  std::atomic<const Announcement*>::is_always_lock_free,
              "a signal handler may only touch lock-free atomics");

void OnSignal(int signal) {
  const int error = errno;
  const bool is_first = !interrupted.exchange(true);
  const auto place = std::find(std::begin(kSignals), std::end(kSignals), signal);
  const bool again = was_signalled[place - std::begin(kSignals)].exchange(true);
  const Announcement* const said = announcement.load();
  if (said != nullptr && (is_first || again)) {
    const char* const text = again ? said->second : said->first;
    // An error here cannot be handled.
    if (write(STDERR_FILENO, text, strlen(text)) < 0) errno = 0;
  }
  if (again) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  errno = error;
}

void Fill(char* to, const std::string& text) {
  const size_t length = std::min(text.size(), kMaxText - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

}  // namespace

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

void AnnounceOnInterrupt(const std::string& first, const std::string& second) {
  Announcement& next =
      announcement.load() == &announcements[0] ? announcements[1] : announcements[0];
  Fill(next.first, first);
  Fill(next.second, second);
  announcement.store(&next);
}

bool Interrupted() { return interrupted.load(); }

}  // namespace zeroth
