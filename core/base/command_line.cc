// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/command_line.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <set>
#include <utility>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/did_you_mean.h"

namespace zeroth {
namespace {

// Names of the programs' flags in transformers, llama.cpp, lm-evaluation-harness and the trainer,
// for did-you-mean hints.
constexpr NamedElsewhere kElsewhere[] = {
    {"--model", "model_name_or_path pretrained model_path m init_from"},
    {"--model (it takes the directory of an adapter, too)",
     "adapter lora lora_path adapter_path peft peft_model init_adapter"},
    {"--precision", "torch_dtype param_dtype"},
    {"--dtype", "outtype torch_dtype param_dtype"},
    {"--max_tokens", "max_new_tokens max_length n_predict num_predict sample_tokens"},
    {"--seed", "random_seed"},
    {"--seq_len", "max_length max_seq_len context_length block_size"},
    {"--data", "dataset eval_data"},
    {"--limit", "num_samples"},
    {"--in", "input infile file src"},
    {"--out", "output outfile output_dir out_dir dst"},
    {"--max_shard_size", "split_max_size"},
    {"--threads", "num_threads workers num_workers"},
};

// Returns the flag of this name. "no" before the name of a Boolean flag turns it off.
const absl::CommandLineFlag* FindFlag(absl::string_view name) {
  if (const absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name)) return flag;
  if (!absl::ConsumePrefix(&name, "no")) return nullptr;
  const absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name);
  return flag != nullptr && flag->IsOfType<bool>() ? flag : nullptr;
}

// Returns a hint for an unknown flag, from the flags that are defined in `source`.
std::string HintAt(absl::string_view name, const std::string& source) {
  std::vector<std::string> names;
  for (const auto& [own, flag] : absl::GetAllFlags()) {
    if (absl::StrContains(flag->Filename(), source)) names.emplace_back(own);
  }
  std::sort(names.begin(), names.end());
  std::vector<NamedElsewhere> elsewhere;
  for (const NamedElsewhere& known : kElsewhere) {
    absl::string_view ours = absl::StripPrefix(known.ours, "--");
    ours = ours.substr(0, ours.find(' '));  // a remark may follow the name
    if (std::binary_search(names.begin(), names.end(), ours)) elsewhere.push_back(known);
  }
  return DidYouMean(name, elsewhere, names, "--");
}

// Runs first, because Abseil ends the program at an unknown flag, and older versions give no hint.
absl::Status CheckThatFlagsExist(const std::string& source, int argc, char** argv) {
  std::vector<std::string> wrong;
  std::set<absl::string_view> files;
  for (int i = 1; i < argc; ++i) {
    absl::string_view word = argv[i];
    if (word == "--") break;
    if (word == "-" || !absl::ConsumePrefix(&word, "-")) continue;
    absl::ConsumePrefix(&word, "-");
    const absl::string_view name = word.substr(0, word.find('='));
    // --undefok lists flags that need not exist.
    if (name == "undefok") return absl::OkStatus();
    // Abseil handles these without registering them.
    if (absl::StartsWith(name, "help") || name == "version") continue;
    const absl::CommandLineFlag* const flag = FindFlag(name);
    // A repeated flag keeps its last value, which for these would drop files silently.
    if ((name == "in" || name == "data") && !files.insert(name).second) {
      wrong.push_back(absl::StrCat(
          "--", name, " is given more than once; give it once, with commas if it takes several"));
    }
    if (flag == nullptr) {
      wrong.push_back(absl::StrCat("there is no flag --", name, HintAt(name, source)));
    } else if (name.size() == word.size() && !flag->IsOfType<bool>()) {
      ++i;  // the next word is its value
    }
  }
  return RefusedFlags(wrong);
}

// True if standard output has been written, or nobody reads its pipe.
bool FlushStdout() {
  const bool printed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  struct stat out = {};
  return printed ||
         (fstat(STDOUT_FILENO, &out) == 0 && (S_ISFIFO(out.st_mode) || S_ISSOCK(out.st_mode)));
}

}  // namespace

absl::Status RefusedFlags(const std::vector<std::string>& wrong) {
  if (wrong.empty()) return absl::OkStatus();
  const bool asks = absl::EndsWith(wrong.back(), "?");
  const absl::string_view between = wrong.size() > 1 ? "\n  " : asks ? " " : "; ";
  return absl::InvalidArgumentError(
      absl::StrCat(absl::StrJoin(wrong, "\n  "), between, "--help lists all flags"));
}

absl::StatusOr<std::vector<std::string>> ParseFlagsAndWords(absl::string_view usage,
                                                            std::string source, int argc,
                                                            char** argv) {
  const absl::Status exist = CheckThatFlagsExist(source, argc, argv);
  if (!exist.ok()) return exist;
  absl::SetProgramUsageMessage(usage);
  absl::FlagsUsageConfig config;
  config.contains_helpshort_flags = [source = std::move(source)](absl::string_view file) {
    return absl::StrContains(file, source);
  };
  config.contains_help_flags = config.contains_helpshort_flags;
  config.version_string = [] { return absl::StrCat("Zeroth ", kVersion, "\n"); };
  absl::SetFlagsUsageConfig(config);
  const std::vector<char*> words = absl::ParseCommandLine(argc, argv);
  return std::vector<std::string>(words.begin() + 1, words.end());
}

absl::Status ParseFlags(absl::string_view usage, std::string source, absl::string_view example,
                        int argc, char** argv) {
  const auto words = ParseFlagsAndWords(usage, std::move(source), argc, argv);
  if (!words.ok()) return words.status();
  if (words->empty()) return EnterUsersDirectory();
  return absl::InvalidArgumentError(absl::StrCat("unexpected argument '", words->front(),
                                                 "': flags start with --, as in ", example,
                                                 "; see --help"));
}

int RunProgram(absl::FunctionRef<absl::Status()> program) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  // Without this, a file opened later would get the number of a closed standard stream, and the
  // text printed to it.
  int unused = -1;
  do unused = open("/dev/null", O_RDWR);
  while (unused >= 0 && unused <= STDERR_FILENO);
  close(unused);
  std::string error;
  try {
    const absl::Status status = program();
    if (status.ok() && FlushStdout()) return 0;
    error = status.ok() ? "standard output could not be written in full, as to a full disk; free "
                          "space there, or write elsewhere"
                        : std::string(status.message());
  } catch (const std::bad_alloc&) {
    error = "there is not enough memory for this; the system gave no more";
  } catch (const std::exception& exception) {
    error = absl::StrCat("threw an exception: ", exception.what());
  }
  std::fprintf(stderr, "error: %s\n", error.c_str());
  return 1;
}

absl::Status EnterUsersDirectory() {
  const char* directory = std::getenv("BUILD_WORKING_DIRECTORY");
  if (directory == nullptr || chdir(directory) == 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("cannot enter ", directory, ": ", std::strerror(errno)));
}

}  // namespace zeroth
