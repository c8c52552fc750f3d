// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The few MPI functions that the back end uses, from the MPI implementation of this machine. The
// library is loaded on first use, so a program that does not use it runs without MPI. The same
// program runs under Open MPI and under MPICH and its relatives (Intel MPI, MVAPICH, Cray MPICH),
// whose binary interfaces differ.

#ifndef ZEROTH_CORE_COMM_MPI_MPI_LIBRARY_H_
#define ZEROTH_CORE_COMM_MPI_MPI_LIBRARY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroth::mpi {

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
  using Lookup = std::function<std::optional<std::string>(const std::string& variable)>;
  static std::vector<std::string> Candidates(const Lookup& lookup);

  // "Open MPI v4.1.4 (libmpi.so.40)".
  const std::string& description() const { return description_; }

  // Initializes MPI on this thread. If the program has initialized it itself, FailedPrecondition
  // unless it asked for MPI_THREAD_MULTIPLE.
  virtual absl::Status Initialize() = 0;
  // Finalizes MPI, together with all other ranks, unless the program has initialized it itself.
  virtual absl::Status Finalize() = 0;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Tags are [0, this].
  virtual int greatest_tag() const = 0;

  // Starts a message of `bytes`, in [1, 2^31). `data` must stay valid until Test returns true.
  virtual absl::StatusOr<Request> Send(const void* data, int64_t bytes, int peer, int tag) = 0;
  virtual absl::StatusOr<Request> Receive(void* data, int64_t bytes, int peer, int tag) = 0;
  // Returns true, once, when the message is done. Also makes progress on all other messages.
  virtual absl::StatusOr<bool> Test(Request& request) = 0;

 protected:
  explicit Library(std::string description) : description_(std::move(description)) {}

 private:
  const std::string description_;
};

}  // namespace zeroth::mpi

#endif  // ZEROTH_CORE_COMM_MPI_MPI_LIBRARY_H_
