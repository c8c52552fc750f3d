// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/mpi/mpi_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth::mpi {
namespace {

// The same in all implementations.
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

// Handles of MPICH, and of libraries with its binary interface, are numbers.
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

  // Returns a function that the library lacks; none if it has all.
  std::optional<std::string> missing() const {
    return abi_.IsComplete() ? missing_ : "its predefined objects";
  }

  absl::Status Initialize() override {
    int initialized = 0;
    ZEROTH_RETURN_IF_ERROR(Call(initialized_, &initialized));
    int level = 0;
    if (initialized != 0) {
      ZEROTH_RETURN_IF_ERROR(Call(query_thread_, &level));
      if (level < kThreadMultiple) {
        return FailedPrecondition("this program has started MPI with thread level ", level,
                                  ", but communication runs on a separate thread; start it with "
                                  "MPI_THREAD_MULTIPLE (",
                                  kThreadMultiple, "), or leave it to Zeroth");
      }
    } else {
      // The thread that starts MPI is the only one to call it.
      ZEROTH_RETURN_IF_ERROR(Call(init_thread_, nullptr, nullptr, kThreadFunneled, &level));
      if (level < kThreadFunneled) {
        return FailedPrecondition(description(), " cannot be used in a program with threads");
      }
      owns_ = true;
    }
    ZEROTH_RETURN_IF_ERROR(Call(comm_dup_, abi_.world, &comm_));
    // By default an MPI error aborts the process.
    ZEROTH_RETURN_IF_ERROR(Call(comm_set_errhandler_, comm_, abi_.return_errors));
    ZEROTH_RETURN_IF_ERROR(Call(comm_rank_, comm_, &rank_));
    ZEROTH_RETURN_IF_ERROR(Call(comm_size_, comm_, &size_));
    int* limit = nullptr;
    int found = 0;
    ZEROTH_RETURN_IF_ERROR(
        Call(comm_get_attr_, abi_.world, Abi::kTagLimitKey, static_cast<void*>(&limit), &found));
    if (found != 0 && limit != nullptr) greatest_tag_ = *limit;
    return absl::OkStatus();
  }

  absl::Status Finalize() override {
    // A program that has initialized MPI itself may have finalized it by now.
    int finalized = 0;
    ZEROTH_RETURN_IF_ERROR(Call(finalized_, &finalized));
    if (finalized != 0) return absl::OkStatus();
    ZEROTH_RETURN_IF_ERROR(Call(comm_free_, &comm_));
    return owns_ ? Call(finalize_) : absl::OkStatus();
  }

  absl::StatusOr<Request> Start(const Message& message, int tag) override {
    Handle request{};
    const auto start = [&](const auto& function) {
      return Call(function, message.data, static_cast<int>(message.bytes), abi_.byte, message.peer,
                  tag, comm_, &request);
    };
    ZEROTH_RETURN_IF_ERROR(message.direction == Message::Direction::kSend ? start(isend_)
                                                                          : start(irecv_));
    return Pack(request);
  }

  absl::StatusOr<bool> Test(Request& request) override {
    Handle handle{};
    std::memcpy(&handle, &request.handle, sizeof(handle));
    int done = 0;
    ZEROTH_RETURN_IF_ERROR(Call(test_, &handle, &done, Abi::IgnoreStatus()));
    request = Pack(handle);
    return done != 0;
  }

 private:
  using Comm = typename Abi::Comm;
  using Datatype = typename Abi::Datatype;
  using Errhandler = typename Abi::Errhandler;
  using Handle = typename Abi::Request;

  // One of the library's functions, by its name.
  template <typename Signature>
  struct Function {
    Function(Binding& binding, const char* function)
        : name(function), pointer(reinterpret_cast<Signature*>(dlsym(binding.library_, function))) {
      if (pointer == nullptr) binding.missing_ = function;
    }
    const char* const name;
    Signature* const pointer;
  };
  template <typename Signature, typename... Arguments>
  absl::Status Call(const Function<Signature>& function, Arguments... arguments) const {
    return Check(function.pointer(arguments...), function.name);
  }

  static Request Pack(Handle handle) {
    static_assert(sizeof(handle) <= sizeof(Request::handle));
    Request request;
    std::memcpy(&request.handle, &handle, sizeof(handle));
    return request;
  }

  absl::Status Check(int code, const char* function) const {
    if (code == kSuccess) return absl::OkStatus();
    std::array<char, kTextBytes> text{};
    int length = 0;
    if (error_string_.pointer(code, text.data(), &length) != kSuccess) length = 0;
    return absl::UnavailableError(
        absl::StrCat(function, ": ",
                     length > 0 ? std::string(text.data(), static_cast<size_t>(length))
                                : absl::StrCat("error ", code),
                     " (", description(), ")"));
  }

  const Abi abi_;
  void* const library_;
  std::optional<std::string> missing_;
  Comm comm_{};
  bool owns_ = false;

  Function<int(int*)> initialized_{*this, "MPI_Initialized"};
  Function<int(int*)> finalized_{*this, "MPI_Finalized"};
  Function<int(int*)> query_thread_{*this, "MPI_Query_thread"};
  Function<int(int*, char***, int, int*)> init_thread_{*this, "MPI_Init_thread"};
  Function<int()> finalize_{*this, "MPI_Finalize"};
  Function<int(Comm, Comm*)> comm_dup_{*this, "MPI_Comm_dup"};
  Function<int(Comm*)> comm_free_{*this, "MPI_Comm_free"};
  Function<int(Comm, int*)> comm_rank_{*this, "MPI_Comm_rank"};
  Function<int(Comm, int*)> comm_size_{*this, "MPI_Comm_size"};
  Function<int(Comm, int, void*, int*)> comm_get_attr_{*this, "MPI_Comm_get_attr"};
  Function<int(Comm, Errhandler)> comm_set_errhandler_{*this, "MPI_Comm_set_errhandler"};
  Function<int(int, char*, int*)> error_string_{*this, "MPI_Error_string"};
  Function<int(const void*, int, Datatype, int, int, Comm, Handle*)> isend_{*this, "MPI_Isend"};
  Function<int(void*, int, Datatype, int, int, Comm, Handle*)> irecv_{*this, "MPI_Irecv"};
  Function<int(Handle*, int*, void*)> test_{*this, "MPI_Test"};
};

template <typename Abi>
absl::StatusOr<std::unique_ptr<Library>> Bind(const std::string& description, void* library) {
  auto binding = std::make_unique<Binding<Abi>>(description, library);
  if (const std::optional<std::string> missing = binding->missing(); missing.has_value()) {
    return FailedPrecondition(description, " lacks ", *missing);
  }
  return std::unique_ptr<Library>(std::move(binding));
}

// The first line of the library's version text; empty if it is not MPI.
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
  return FailedPrecondition(
      description,
      " is not an MPI library whose binary interface is known here; expected Open MPI, or MPICH "
      "or one that is compatible with it (Intel MPI, MVAPICH, Cray MPICH)");
}

}  // namespace

std::vector<std::string> Library::Candidates(const ProcessEnvironment::Lookup& lookup) {
  if (const auto chosen = lookup("ZEROTH_MPI_LIBRARY"); chosen.has_value() && !chosen->empty()) {
    return {*chosen};
  }
  // The numbers are versions of the binary interfaces. Debian has another name for MPICH's library.
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
  std::vector<std::string> problems;
  for (const std::string& name : Candidates(ProcessEnvironment::Variable)) {
    // RTLD_GLOBAL, because the library's plug-ins use its symbols without linking it.
    void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library != nullptr) return Use(name, library);
    problems.emplace_back(dlerror());
  }
  return FailedPrecondition(
      "no MPI library: ", absl::StrJoin(problems, "; "),
      "; install Open MPI or MPICH (Debian: openmpi-bin), or set ZEROTH_MPI_LIBRARY to the path of "
      "the library that belongs to the mpirun or srun in use");
}

}  // namespace zeroth::mpi
