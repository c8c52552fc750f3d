// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The few MPI functions that the back end uses, from the MPI implementation of this machine. The
// library is loaded on first use, so a program that does not use it runs without MPI. The same
// program runs under Open MPI and under MPICH and its relatives (Intel MPI, MVAPICH, Cray MPICH),
// whose binary interfaces differ.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/comm/process/process_environment.h"

namespace zeroth::mpi {

// Bytes to or from another rank. Does not own.
struct Message {
  enum class Direction : uint8_t { kSend, kReceive };
  Direction direction = Direction::kSend;
  int peer = 0;  // a rank of MPI's world
  void* data = nullptr;
  int64_t bytes = 0;
};

// A message in flight: the library's request handle.
struct Request {
  uintptr_t handle = 0;
};

// Errors are Unavailable, with the function's name and the library's message, unless stated
// otherwise. Messages use a duplicate of MPI_COMM_WORLD, which the rest of the program cannot
// reach. Not thread-safe: one thread makes all calls.
class Library {
 public:
  virtual ~Library() = default;

  // Loads the library that the environment variable ZEROTH_MPI_LIBRARY names, otherwise that of
  // this process's launcher, otherwise any. FailedPrecondition says which libraries were tried, or
  // that the binary interface of the one found is unknown. The library is never unloaded.
  static absl::StatusOr<std::unique_ptr<Library>> Load();

  // The names that Load tries, in order. For tests.
  static std::vector<std::string> Candidates(const ProcessEnvironment::Lookup& lookup);

  // "Open MPI v4.1.4 (libmpi.so.40)".
  const std::string& description() const { return description_; }

  // Initializes MPI on this thread. If the program has initialized it itself, FailedPrecondition
  // unless it asked for MPI_THREAD_MULTIPLE.
  virtual absl::Status Initialize() = 0;
  // Finalizes MPI, with all other ranks, unless the program has initialized it itself.
  virtual absl::Status Finalize() = 0;

  // Known once MPI is initialized.
  int rank() const { return rank_; }
  int size() const { return size_; }
  // Tags are [0, this].
  int greatest_tag() const { return greatest_tag_; }

  // Starts a message of [1, 2^31) bytes. Its data must stay valid until Test returns true.
  virtual absl::StatusOr<Request> Start(const Message& message, int tag) = 0;
  // Returns true, once, when the message is done. Also makes progress on all other messages.
  virtual absl::StatusOr<bool> Test(Request& request) = 0;

 protected:
  explicit Library(std::string description) : description_(std::move(description)) {}

  int rank_ = 0;
  int size_ = 1;
  int greatest_tag_ = 32767;  // the least that the standard allows

 private:
  const std::string description_;
};

}  // namespace zeroth::mpi
