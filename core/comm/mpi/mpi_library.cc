// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/mpi/mpi_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth::mpi {
namespace {

// Alike in all implementations.
constexpr int kSuccess = 0;
constexpr int kThreadFunneled = 1;
constexpr int kThreadMultiple = 3;
// More than any implementation's MPI_MAX_ERROR_STRING and MPI_MAX_LIBRARY_VERSION_STRING.
constexpr size_t kTextBytes = 16384;

// Handles of Open MPI are pointers to objects that the library exports.
struct OpenMpiAbi {
  using Comm = void*;
  using Datatype = void*;
  using Errhandler = void*;
  using Request = void*;
  static constexpr int kTagLimitKey = 0;

  static void* IgnoreStatus() { return nullptr; }
  explicit OpenMpiAbi(void* library)
      : world(dlsym(library, "ompi_mpi_comm_world")),
        byte(dlsym(library, "ompi_mpi_byte")),
        return_errors(dlsym(library, "ompi_mpi_errors_return")) {}
  bool IsComplete() const {
    return world != nullptr && byte != nullptr && return_errors != nullptr;
  }

  const Comm world;
  const Datatype byte;
  const Errhandler return_errors;
};

// Handles of MPICH, and of all that promise its binary interface, are numbers.
struct MpichAbi {
  using Comm = int;
  using Datatype = int;
  using Errhandler = int;
  using Request = int;
  static constexpr int kTagLimitKey = 0x64400001;

  static void* IgnoreStatus() { return reinterpret_cast<void*>(uintptr_t{1}); }
  explicit MpichAbi(void*) {}
  bool IsComplete() const { return true; }

  const Comm world = 0x44000000;
  const Datatype byte = 0x4c00010d;
  const Errhandler return_errors = 0x54000001;
};

// The functions of one implementation.
template <typename Abi>
class Binding final : public Library {
 public:
  Binding(std::string description, void* library)
      : Library(std::move(description)), abi_(library), library_(library) {}

  // What the library lacks; none if it has all.
  std::optional<std::string> Bind() {
    if (!abi_.IsComplete()) return "its predefined objects";
    std::optional<std::string> missing;
    const auto bind = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library_, name));
      if (function == nullptr) missing = name;
    };
    bind(initialized_, "MPI_Initialized");
    bind(finalized_, "MPI_Finalized");
    bind(query_thread_, "MPI_Query_thread");
    bind(init_thread_, "MPI_Init_thread");
    bind(finalize_, "MPI_Finalize");
    bind(comm_dup_, "MPI_Comm_dup");
    bind(comm_free_, "MPI_Comm_free");
    bind(comm_rank_, "MPI_Comm_rank");
    bind(comm_size_, "MPI_Comm_size");
    bind(comm_get_attr_, "MPI_Comm_get_attr");
    bind(comm_set_errhandler_, "MPI_Comm_set_errhandler");
    bind(error_string_, "MPI_Error_string");
    bind(isend_, "MPI_Isend");
    bind(irecv_, "MPI_Irecv");
    bind(test_, "MPI_Test");
    return missing;
  }

  absl::Status Initialize() override {
    int initialized = 0;
    ZEROTH_RETURN_IF_ERROR(Check(initialized_(&initialized), "MPI_Initialized"));
    int level = 0;
    if (initialized != 0) {
      ZEROTH_RETURN_IF_ERROR(Check(query_thread_(&level), "MPI_Query_thread"));
      if (level < kThreadMultiple) {
        return absl::FailedPreconditionError(
            absl::StrCat("this program has started MPI with thread level ", level,
                         ", but communication has a thread of its own; start it with "
                         "MPI_THREAD_MULTIPLE (",
                         kThreadMultiple, "), or leave it to Zeroth"));
      }
    } else {
      // The thread that starts MPI is the only one to call it.
      ZEROTH_RETURN_IF_ERROR(
          Check(init_thread_(nullptr, nullptr, kThreadFunneled, &level), "MPI_Init_thread"));
      if (level < kThreadFunneled) {
        return absl::FailedPreconditionError(
            absl::StrCat(description(), " cannot be used in a program with threads"));
      }
      owns_ = true;
    }
    ZEROTH_RETURN_IF_ERROR(Check(comm_dup_(abi_.world, &comm_), "MPI_Comm_dup"));
    // Otherwise errors end the process where it stands.
    ZEROTH_RETURN_IF_ERROR(
        Check(comm_set_errhandler_(comm_, abi_.return_errors), "MPI_Comm_set_errhandler"));
    ZEROTH_RETURN_IF_ERROR(Check(comm_rank_(comm_, &rank_), "MPI_Comm_rank"));
    ZEROTH_RETURN_IF_ERROR(Check(comm_size_(comm_, &size_), "MPI_Comm_size"));
    int* limit = nullptr;
    int found = 0;
    ZEROTH_RETURN_IF_ERROR(
        Check(comm_get_attr_(abi_.world, Abi::kTagLimitKey, static_cast<void*>(&limit), &found),
              "MPI_Comm_get_attr"));
    if (found != 0 && limit != nullptr) greatest_tag_ = *limit;
    return absl::OkStatus();
  }

  absl::Status Finalize() override {
    // A program that has started MPI itself may have ended it by now.
    int finalized = 0;
    ZEROTH_RETURN_IF_ERROR(Check(finalized_(&finalized), "MPI_Finalized"));
    if (finalized != 0) return absl::OkStatus();
    ZEROTH_RETURN_IF_ERROR(Check(comm_free_(&comm_), "MPI_Comm_free"));
    return owns_ ? Check(finalize_(), "MPI_Finalize") : absl::OkStatus();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int greatest_tag() const override { return greatest_tag_; }

  absl::StatusOr<Request> Send(const void* data, int64_t bytes, int peer, int tag) override {
    typename Abi::Request request{};
    ZEROTH_RETURN_IF_ERROR(Check(
        isend_(data, static_cast<int>(bytes), abi_.byte, peer, tag, comm_, &request), "MPI_Isend"));
    return Pack(request);
  }

  absl::StatusOr<Request> Receive(void* data, int64_t bytes, int peer, int tag) override {
    typename Abi::Request request{};
    ZEROTH_RETURN_IF_ERROR(Check(
        irecv_(data, static_cast<int>(bytes), abi_.byte, peer, tag, comm_, &request), "MPI_Irecv"));
    return Pack(request);
  }

  absl::StatusOr<bool> Test(Request& request) override {
    typename Abi::Request handle{};
    std::memcpy(&handle, &request.handle, sizeof(handle));
    int done = 0;
    ZEROTH_RETURN_IF_ERROR(Check(test_(&handle, &done, Abi::IgnoreStatus()), "MPI_Test"));
    request = Pack(handle);
    return done != 0;
  }

 private:
  static Request Pack(typename Abi::Request handle) {
    static_assert(sizeof(handle) <= sizeof(Request::handle));
    Request request;
    std::memcpy(&request.handle, &handle, sizeof(handle));
    return request;
  }

  absl::Status Check(int code, const char* function) const {
    if (code == kSuccess) return absl::OkStatus();
    std::array<char, kTextBytes> text{};
    int length = 0;
    if (error_string_(code, text.data(), &length) != kSuccess) length = 0;
    return absl::UnavailableError(
        absl::StrCat(function, ": ",
                     length > 0 ? std::string(text.data(), static_cast<size_t>(length))
                                : absl::StrCat("error ", code),
                     " (", description(), ")"));
  }

  const Abi abi_;
  void* const library_;
  typename Abi::Comm comm_{};
  bool owns_ = false;
  int rank_ = 0;
  int size_ = 1;
  int greatest_tag_ = 32767;  // the least that the standard allows

  int (*initialized_)(int*) = nullptr;
  int (*finalized_)(int*) = nullptr;
  int (*query_thread_)(int*) = nullptr;
  int (*init_thread_)(int*, char***, int, int*) = nullptr;
  int (*finalize_)() = nullptr;
  int (*comm_dup_)(typename Abi::Comm, typename Abi::Comm*) = nullptr;
  int (*comm_free_)(typename Abi::Comm*) = nullptr;
  int (*comm_rank_)(typename Abi::Comm, int*) = nullptr;
  int (*comm_size_)(typename Abi::Comm, int*) = nullptr;
  int (*comm_get_attr_)(typename Abi::Comm, int, void*, int*) = nullptr;
  int (*comm_set_errhandler_)(typename Abi::Comm, typename Abi::Errhandler) = nullptr;
  int (*error_string_)(int, char*, int*) = nullptr;
  int (*isend_)(const void*, int, typename Abi::Datatype, int, int, typename Abi::Comm,
                typename Abi::Request*) = nullptr;
  int (*irecv_)(void*, int, typename Abi::Datatype, int, int, typename Abi::Comm,
                typename Abi::Request*) = nullptr;
  int (*test_)(typename Abi::Request*, int*, void*) = nullptr;
};

template <typename Abi>
absl::StatusOr<std::unique_ptr<Library>> Bind(const std::string& description, void* library) {
  auto binding = std::make_unique<Binding<Abi>>(description, library);
  if (const std::optional<std::string> missing = binding->Bind(); missing.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(description, " lacks ", *missing));
  }
  return std::unique_ptr<Library>(std::move(binding));
}

// The first line of what the library calls itself; empty if it is no MPI.
std::string VersionOf(void* library) {
  const auto get =
      reinterpret_cast<int (*)(char*, int*)>(dlsym(library, "MPI_Get_library_version"));
  std::array<char, kTextBytes> text{};
  int length = 0;
  if (get == nullptr || get(text.data(), &length) != kSuccess || length <= 0) return "";
  std::string line(text.data(), static_cast<size_t>(length));
  line.resize(std::min(line.size(), line.find_first_of(",\n\r")));
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

absl::StatusOr<std::unique_ptr<Library>> Use(const std::string& name, void* library) {
  const std::string version = VersionOf(library);
  const std::string description =
      absl::StrCat(version.empty() ? "a library without a version" : version, " (", name, ")");
  if (dlsym(library, "ompi_mpi_comm_world") != nullptr) {
    return Bind<OpenMpiAbi>(description, library);
  }
  for (const char* kin : {"MPICH", "Intel(R) MPI", "MVAPICH"}) {
    if (absl::StrContains(version, kin)) return Bind<MpichAbi>(description, library);
  }
  return absl::FailedPreconditionError(
      absl::StrCat(description,
                   " is no MPI whose binary interface is known here; expected Open MPI, or MPICH "
                   "or one that is compatible with it (Intel MPI, MVAPICH, Cray MPICH)"));
}

}  // namespace

std::vector<std::string> Library::Candidates(const Lookup& lookup) {
  if (const auto chosen = lookup("ZEROTH_MPI_LIBRARY"); chosen.has_value() && !chosen->empty()) {
    return {*chosen};
  }
  // The numbers are those of the binary interfaces. Debian calls MPICH's by another name.
  std::vector<std::string> open_mpi = {"libmpi.so.40"};
  std::vector<std::string> mpich = {"libmpi.so.12", "libmpich.so.12", "libmpi_cray.so.12"};
  const bool by_hydra =
      lookup("PMI_RANK").has_value() && !lookup("OMPI_COMM_WORLD_RANK").has_value();
  std::vector<std::string>& first = by_hydra ? mpich : open_mpi;
  std::vector<std::string>& second = by_hydra ? open_mpi : mpich;
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

absl::StatusOr<std::unique_ptr<Library>> Library::Load() {
  const std::vector<std::string> candidates =
      Candidates([](const std::string& variable) -> std::optional<std::string> {
        const char* const value = std::getenv(variable.c_str());
        if (value == nullptr) return std::nullopt;
        return std::string(value);
      });
  std::vector<std::string> problems;
  for (const std::string& name : candidates) {
    // Global, because plug-ins of the library refer to it without saying so.
    void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library != nullptr) return Use(name, library);
    problems.emplace_back(dlerror());
  }
  return absl::NotFoundError(absl::StrCat(
      "no MPI library: ", absl::StrJoin(problems, "; "),
      "; install Open MPI or MPICH (Debian: openmpi-bin), or set ZEROTH_MPI_LIBRARY to the path of "
      "the library that belongs to the mpirun or srun in use"));
}

}  // namespace zeroth::mpi
