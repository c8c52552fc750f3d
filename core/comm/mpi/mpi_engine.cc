// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/mpi/mpi_engine.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/thread.h"

namespace zeroth::mpi {
namespace {

using Clock = std::chrono::steady_clock;

// Fits MPI's int counts, and is small enough that some piece is done every few milliseconds.
constexpr int64_t kPieceBytes = int64_t{8} << 20;
// If nothing was done for this long, the peers are slow, and the thread leaves its core to others.
constexpr auto kBusyFor = std::chrono::milliseconds(5);
constexpr auto kNap = std::chrono::microseconds(20);
// How long other threads wait for the engine's thread, which may hang in the library, and how long
// the end of the program waits for the other ranks after an error.
constexpr auto kPatience = std::chrono::seconds(5);

}  // namespace

class Engine::Exchange {
 public:
  Exchange(int tag, const std::vector<Message>& messages) : tag_(tag) {
    for (const Message& message : messages) {
      for (int64_t at = 0; at < message.bytes; at += kPieceBytes) {
        Message piece = message;
        piece.data = static_cast<char*>(message.data) + at;
        piece.bytes = std::min(kPieceBytes, message.bytes - at);
        pieces_.push_back({piece, {}});
      }
    }
  }

  // These run on the engine's thread:
  absl::Status Begin(Library& library) {
    // Receives start first: the library copies a message that arrives before its receive.
    for (const Message::Direction direction :
         {Message::Direction::kReceive, Message::Direction::kSend}) {
      for (Piece& piece : pieces_) {
        if (piece.message.direction != direction) continue;
        ZEROTH_ASSIGN_OR_RETURN(piece.request, library.Start(piece.message, tag_));
      }
    }
    return absl::OkStatus();
  }

  // Returns the number of pieces that have become done.
  absl::StatusOr<size_t> Test(Library& library) {
    const size_t before = pieces_.size();
    for (size_t i = 0; i < pieces_.size();) {
      ZEROTH_ASSIGN_OR_RETURN(const bool done, library.Test(pieces_[i].request));
      if (done) {
        pieces_[i] = pieces_.back();
        pieces_.pop_back();
      } else {
        ++i;
      }
    }
    return before - pieces_.size();
  }

  bool IsEmpty() const { return pieces_.empty(); }

  // In ascending order.
  std::vector<int> Peers() const {
    std::set<int> peers;
    for (const Piece& piece : pieces_) peers.insert(piece.message.peer);
    return {peers.begin(), peers.end()};
  }

 private:
  friend class Engine;
  struct Piece {
    Message message;
    Request request;
  };

  const int tag_;
  std::vector<Piece> pieces_;  // those that are not done

  // Guarded by the engine's mutex:
  bool over_ = false;
  bool failed_ = false;
  bool asked_ = false;      // another thread waits for peers_
  std::vector<int> peers_;  // as of the last request
};

absl::StatusOr<Engine*> Engine::Get(absl::Duration timeout) {
  // Never destroyed, because its thread may be in the library when the program ends.
  static Engine* const engine = [&] {
    auto* const created = new Engine;
    created->Run(timeout);
    return created;
  }();
  ZEROTH_RETURN_IF_ERROR(engine->status());
  return engine;
}

void Engine::Run(absl::Duration timeout) {
  absl::StatusOr<std::thread> thread = StartThread("MPI", [this] {
    static_cast<void>(pthread_setname_np(pthread_self(), kThreadName));
    absl::StatusOr<std::unique_ptr<Library>> library = Library::Load();
    if (library.ok()) library_ = *std::move(library);
    const absl::Status started = library.ok() ? library_->Initialize() : library.status();
    const bool serves = started.ok();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      started_ = true;
      if (!serves) failure_ = SharedError(started);
      changed_.notify_all();
    }
    if (serves) Serve();
  });
  if (!thread.ok()) {
    failure_ = SharedError(thread.status());
    return;
  }
  thread->detach();
  std::unique_lock<std::mutex> lock(mutex_);
  // Limited, because a longer timeout would overflow the clock.
  const auto most = absl::ToChronoMilliseconds(std::min(timeout, absl::Hours(24)));
  if (!changed_.wait_for(lock, most, [&] { return started_; })) {
    failure_ = SharedError(absl::DeadlineExceededError(
        absl::StrCat("timeout after ", absl::FormatDuration(timeout),
                     ": MPI has not started, which waits for all ranks; have all been started, by "
                     "one launcher, and has none ended since?")));
  }
  if (started_ && failure_.has_value()) return;
  // MPI must be finalized, but not by a fork of this process.
  process_ = getpid();
  on_exit([](int exit_code, void* engine) { static_cast<Engine*>(engine)->Leave(exit_code); },
          this);
}

void Engine::Serve() {
  std::vector<std::shared_ptr<Exchange>> active;
  Clock::time_point last_progress = Clock::now();
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (active.empty()) {
      work_.wait(lock, [&] { return !submitted_.empty() || leaving_ || failure_.has_value(); });
      last_progress = Clock::now();
    }
    if (failure_.has_value()) {
      FailAllLocked(active);
      return;
    }
    if (leaving_ && submitted_.empty() && active.empty()) break;
    std::vector<std::shared_ptr<Exchange>> begun = std::exchange(submitted_, {});
    in_library_ = true;
    lock.unlock();
    absl::Status moved;
    last_call_ = "MPI_Isend or MPI_Irecv";
    for (const std::shared_ptr<Exchange>& exchange : begun) {
      moved.Update(exchange->Begin(*library_));
    }
    active.insert(active.end(), begun.begin(), begun.end());
    bool progress = !begun.empty();
    last_call_ = "MPI_Test";
    for (size_t i = 0; i < active.size() && moved.ok(); ++i) {
      const absl::StatusOr<size_t> done = active[i]->Test(*library_);
      moved = done.status();
      if (done.ok()) progress |= *done > 0;
    }
    if (progress) {
      last_progress = Clock::now();
    } else if (Clock::now() - last_progress < kBusyFor) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
    lock.lock();
    in_library_ = false;
    if (!moved.ok() && !failure_.has_value()) failure_ = SharedError(moved);
    const auto over = std::stable_partition(active.begin(), active.end(),
                                            [](const auto& e) { return !e->IsEmpty(); });
    for (auto done = over; done != active.end(); ++done) (*done)->over_ = true;
    bool news = over != active.end() || failure_.has_value();
    active.erase(over, active.end());
    for (const std::shared_ptr<Exchange>& exchange : active) {
      if (!exchange->asked_) continue;
      exchange->peers_ = exchange->Peers();
      exchange->asked_ = false;
      news = true;
    }
    if (news) changed_.notify_all();
  }
  lock.unlock();
  const absl::Status ended = library_->Finalize();
  if (!ended.ok()) std::fprintf(stderr, "%s\n", ended.ToString().c_str());
  lock.lock();
  left_ = true;
  changed_.notify_all();
}

void Engine::FailAllLocked(std::vector<std::shared_ptr<Exchange>>& active) {
  for (auto* exchanges : {&active, &submitted_}) {
    for (const std::shared_ptr<Exchange>& exchange : *exchanges) {
      exchange->over_ = true;
      exchange->failed_ = true;
    }
    exchanges->clear();
  }
  changed_.notify_all();
}

std::shared_ptr<Engine::Exchange> Engine::Start(int tag, const std::vector<Message>& messages) {
  auto exchange = std::make_shared<Exchange>(tag, messages);
  std::lock_guard<std::mutex> lock(mutex_);
  exchange->failed_ = failure_.has_value();
  exchange->over_ = exchange->failed_ || exchange->IsEmpty();
  if (exchange->over_) return exchange;
  for (const Message& message : messages) {
    if (message.direction == Message::Direction::kSend) bytes_sent_[message.peer] += message.bytes;
  }
  submitted_.push_back(exchange);
  work_.notify_one();
  return exchange;
}

bool Engine::WaitFor(const Exchange& exchange, std::chrono::milliseconds most) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, most, [&] { return exchange.over_; });
}

std::vector<int> Engine::UnfinishedPeers(Exchange& exchange) {
  std::unique_lock<std::mutex> lock(mutex_);
  exchange.asked_ = true;
  changed_.wait_for(lock, kPatience, [&] { return exchange.over_ || !exchange.asked_; });
  return exchange.peers_;
}

absl::Status Engine::StatusOf(const Exchange& exchange) const {
  std::lock_guard<std::mutex> lock(mutex_);
  ZEROTH_CHECK(exchange.over_);
  return exchange.failed_ ? failure_->ToStatus() : absl::OkStatus();
}

int64_t Engine::BytesSentForTest(int peer) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = bytes_sent_.find(peer);
  return found == bytes_sent_.end() ? 0 : found->second;
}

void Engine::Abandon(const absl::Status& reason) {
  ZEROTH_CHECK(!reason.ok());
  std::unique_lock<std::mutex> lock(mutex_);
  if (!failure_.has_value()) failure_ = SharedError(reason);
  work_.notify_all();
  changed_.wait_for(lock, kPatience, [&] { return !in_library_; });
}

absl::Status Engine::status() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_.has_value() ? failure_->ToStatus() : absl::OkStatus();
}

std::string Engine::Unfinished() const {
  if (!in_library_) return "";
  return absl::StrCat("the thread that calls ", description(),
                      " has not come back from it; it was in ", last_call_.load());
}

void Engine::SetInOrder(bool in_order) {
  std::lock_guard<std::mutex> lock(mutex_);
  in_order_ = in_order;
}

void Engine::Leave(int exit_code) {
  if (getpid() != process_) return;
  std::unique_lock<std::mutex> lock(mutex_);
  if (failure_.has_value() && started_) return;
  if (!started_) {
    // The thread is still in the library, and the remaining exit handlers could wait for it.
    std::fflush(nullptr);
    _exit(exit_code);
  }
  leaving_ = true;
  work_.notify_all();
  if (in_order_ && exit_code == 0) {
    changed_.wait(lock, [&] { return left_; });
    return;
  }
  if (changed_.wait_for(lock, kPatience, [&] { return left_; })) return;
  // Destroys nothing more, because the thread in the library may still use it.
  std::fflush(nullptr);
  _exit(exit_code);
}

}  // namespace zeroth::mpi
