// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/mpi/testing/mpirun.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "zeroth/core/base/check.h"

namespace zeroth::testing {
namespace {

// Returns the path of a program; none if it is not on PATH.
std::optional<std::string> OnPath(const std::string& name) {
  const char* const path = std::getenv("PATH");
  const std::string folders = path == nullptr ? "" : path;
  for (const absl::string_view folder : absl::StrSplit(folders, ':', absl::SkipEmpty())) {
    const std::string candidate = absl::StrCat(folder, "/", name);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return std::nullopt;
}

std::string OutputOf(const std::string& command) {
  std::string output;
  FILE* const pipe = popen(absl::StrCat(command, " 2>&1").c_str(), "r");
  if (pipe == nullptr) return output;
  for (int letter = std::fgetc(pipe); letter != EOF; letter = std::fgetc(pipe)) {
    output.push_back(static_cast<char>(letter));
  }
  pclose(pipe);
  return output;
}

// Debian has both, under different names.
std::optional<std::string> FindMpirun(MpiKind kind) {
  const bool open_mpi = kind == MpiKind::kOpenMpi;
  if (const auto own = OnPath(open_mpi ? "mpirun.openmpi" : "mpirun.mpich"); own.has_value()) {
    return own;
  }
  const std::optional<std::string> any = OnPath("mpirun");
  if (!any.has_value()) return std::nullopt;
  const std::string version = OutputOf(absl::StrCat(*any, " --version"));
  return absl::StrContains(version, open_mpi ? "Open MPI" : "HYDRA") ? any : std::nullopt;
}

// Flags for a machine without a network, with fewer cores than ranks, and for a test that may be
// root.
std::vector<std::string> FlagsOf(MpiKind kind) {
  if (kind == MpiKind::kMpich) return {"-launcher", "fork", "-iface", "lo"};
  return {"--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader"};
}

// Open MPI 5 has another launcher, which has other options.
std::vector<std::string> FlagsToKeepOthers(const std::string& mpirun) {
  if (absl::StrContains(OutputOf(absl::StrCat(mpirun, " --version")), ") 4.")) {
    return {"--mca", "orte_enable_recovery", "1"};
  }
  return {"--rtos", "recoverable"};
}

// The directory for Open MPI's sockets and shared memory. Their names must be short, so it is not
// inside the test's own directory. Each test program has another one: names hold the number of
// mpirun's process, which is the same in several of Bazel's sandboxes, and a run that opens another
// one's shared memory crashes.
class OpenMpiDirectory {
 public:
  OpenMpiDirectory() {
    const char* const made = mkdtemp(path_);
    ZEROTH_CHECK(made != nullptr);
  }
  ~OpenMpiDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/zeroth-mpi-XXXXXX";
};

const OpenMpiDirectory& Directory() {
  static const OpenMpiDirectory directory;
  return directory;
}

void SetEnvironment(const Mpirun& run) {
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("GTEST_COLOR", "no", 1);
  setenv("TMPDIR", Directory().path(), 1);
  // The names of this option in Open MPI 4 and in Open MPI 5.
  setenv("OMPI_MCA_btl_vader_backing_directory", Directory().path(), 1);
  setenv("OMPI_MCA_btl_sm_backing_directory", Directory().path(), 1);
  // Open MPI 5 does not start without HOME, and Bazel does not set it for tests.
  setenv("HOME", Directory().path(), 0);
  // UCX, which MPICH uses, patches the calls that map memory, for networks that tests do not have.
  // The thread sanitizer crashes with those patches.
  setenv("UCX_MEM_EVENTS", "n", 1);
  // MPI libraries leak, and are unloaded when leaks are searched, so that they cannot be suppressed
  // by name.
  const char* const sanitizer = std::getenv("ASAN_OPTIONS");
  setenv("ASAN_OPTIONS",
         absl::StrCat(sanitizer == nullptr ? "" : sanitizer, ":detect_leaks=0").c_str(), 1);
  // Ranks must not see the variables that tell a test where to write its results.
  for (const char* name : {"GTEST_OUTPUT", "XML_OUTPUT_FILE", "TEST_PREMATURE_EXIT_FILE",
                           "TEST_SHARD_STATUS_FILE", "GTEST_SHARD_STATUS_FILE", "TEST_SHARD_INDEX",
                           "TEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX", "GTEST_TOTAL_SHARDS"}) {
    unsetenv(name);
  }
  for (const auto& [name, value] : run.environment) setenv(name.c_str(), value.c_str(), 1);
}

}  // namespace

std::string MpiKindName(MpiKind kind) { return kind == MpiKind::kOpenMpi ? "open_mpi" : "mpich"; }

std::ostream& operator<<(std::ostream& out, MpiKind kind) { return out << MpiKindName(kind); }

bool HasMpirun(MpiKind kind) { return FindMpirun(kind).has_value(); }

pid_t StartMpirun(const Mpirun& run, const std::string& log) {
  const std::string path = FindMpirun(run.kind).value_or("mpirun");
  // Only the name, because Open MPI takes a path for another installation.
  std::vector<std::string> words = {path.substr(path.rfind('/') + 1), "-n",
                                    absl::StrCat(run.ranks)};
  std::vector<std::string> keeps;
  if (run.keeps_others) keeps = FlagsToKeepOthers(path);
  for (const std::vector<std::string>& more : {FlagsOf(run.kind), keeps, run.program}) {
    words.insert(words.end(), more.begin(), more.end());
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  Directory();  // created by this process, not by the child
  const pid_t child = fork();
  if (child != 0) return child;
  const int out = open(log.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  SetEnvironment(run);
  execv(path.c_str(), arguments.data());
  _exit(127);
}

MpirunOutcome AwaitMpirun(pid_t mpirun, const std::string& log) {
  int state = 0;
  while (waitpid(mpirun, &state, 0) < 0 && errno == EINTR) {
  }
  std::ifstream file(log);
  return {WIFEXITED(state) ? WEXITSTATUS(state) : -1,
          std::string((std::istreambuf_iterator<char>(file)), {})};
}

MpirunOutcome RunMpirun(const Mpirun& run) {
  static std::atomic<int> count{0};
  namespace fs = std::filesystem;
  const fs::path folder = absl::StrCat(::testing::TempDir(), "/mpirun.", getpid(), ".", ++count);
  fs::create_directories(folder);
  // A file for each rank, because ranks would mix their lines in one.
  Mpirun apart = run;
  const std::string redirect = absl::StrCat("exec \"$@\" > '", folder.string(), "/rank'.$$ 2>&1");
  apart.program.insert(apart.program.begin(), {"/bin/sh", "-c", redirect, "sh"});
  const std::string log = (folder / "mpirun").string();
  MpirunOutcome outcome = AwaitMpirun(StartMpirun(apart, log), log);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path() == log) continue;
    std::ifstream file(entry.path());
    outcome.output.append((std::istreambuf_iterator<char>(file)), {});
  }
  return outcome;
}

void ExpectRanksPass(const Mpirun& run, const std::string& filter,
                     const std::string& representative) {
  Mpirun filtered = run;
  filtered.program.push_back(absl::StrCat("--gtest_filter=", filter));
  const MpirunOutcome outcome = RunMpirun(filtered);
  const std::string passed = absl::StrCat("[       OK ] ", representative);
  EXPECT_TRUE(outcome.exit_code == 0 && absl::StrContains(outcome.output, passed))
      << "exit code " << outcome.exit_code << ":\n"
      << outcome.output;
}

}  // namespace zeroth::testing
