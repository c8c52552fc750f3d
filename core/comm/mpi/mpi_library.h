// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The few functions of MPI that are used, out of whichever implementation this machine has. It is
// loaded when it is asked for, so that a program which never asks runs where there is none, and one
// program runs under Open MPI and under MPICH and its kin (Intel MPI, MVAPICH, Cray MPICH), whose
// binary interfaces differ.

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

// A message under way, as the library that moves it knows it.
struct Request {
  uintptr_t handle = 0;
};

// Errors are Unavailable, with the function's name and the library's words, unless said otherwise.
// Messages go between ranks of a communicator of our own, which the rest of the program cannot
// reach. Not thread-safe: one thread makes all calls.
class Library {
 public:
  virtual ~Library() = default;

  // Loads the library named by the environment variable ZEROTH_MPI_LIBRARY, or else that of the
  // program which has started this process, or else any. NotFound says what was looked for;
  // FailedPrecondition that what was found is no MPI whose binary interface is known. Once loaded,
  // it stays.
  static absl::StatusOr<std::unique_ptr<Library>> Load();

  // Where the libraries of Load are looked for, in order. For tests.
  using Lookup = std::function<std::optional<std::string>(const std::string& variable)>;
  static std::vector<std::string> Candidates(const Lookup& lookup);

  // "Open MPI v4.1.4 (libmpi.so.40)".
  const std::string& description() const { return description_; }

  // Starts MPI for this process and thread. Where the program has done so itself,
  // FailedPrecondition unless it has asked for MPI_THREAD_MULTIPLE.
  virtual absl::Status Initialize() = 0;
  // Ends it, together with all other ranks, unless the program has started it itself.
  virtual absl::Status Finalize() = 0;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Tags are [0, this].
  virtual int greatest_tag() const = 0;

  // Begins a message of `bytes`, in [1, 2^31); `data` must stay until Test says that it is done.
  virtual absl::StatusOr<Request> Send(const void* data, int64_t bytes, int peer, int tag) = 0;
  virtual absl::StatusOr<Request> Receive(void* data, int64_t bytes, int peer, int tag) = 0;
  // True, once, when it is done. Also moves on whatever else is under way.
  virtual absl::StatusOr<bool> Test(Request& request) = 0;

 protected:
  explicit Library(std::string description) : description_(std::move(description)) {}

 private:
  const std::string description_;
};

}  // namespace zeroth::mpi

#endif  // ZEROTH_CORE_COMM_MPI_MPI_LIBRARY_H_
