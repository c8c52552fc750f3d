// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tests/interop/python.h"

#include <sys/wait.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

std::string Quoted(const std::string& word) {
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

// The BUILD file says where the repository's answer is.
const std::string& Interpreter() {
  static const std::string interpreter = [] {
    const char* const file = std::getenv("INTERPRETER_FILE");
    std::string found(
        absl::StripSuffix(file == nullptr ? std::string() : ReadTestFile(file), "\n"));
    return found.empty() ? std::string("python3") : found;
  }();
  return interpreter;
}

PythonOutcome RunInterpreter(const std::vector<std::string>& arguments) {
  const TemporaryDirectory dir;
  std::string command = Quoted(Interpreter());
  for (const std::string& argument : arguments) absl::StrAppend(&command, " ", Quoted(argument));
  const std::string output = dir.Write("output", "");
  const std::string errors = dir.Write("errors", "");
  absl::StrAppend(&command, " >", Quoted(output), " 2>", Quoted(errors));
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadTestFile(output), ReadTestFile(errors)};
}

}  // namespace

PythonOutcome RunPython(const std::string& script, const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {absl::StrCat("tests/interop/", script)};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return RunInterpreter(all);
}

bool PythonHas(const std::string& module) {
  return RunInterpreter({"-c", absl::StrCat("import ", module)}).ok();
}

std::string HowToGetPythonPackages() {
  return absl::StrCat(
      Interpreter(),
      " lacks the packages that this test compares with. `./bazelw test` installs them where there "
      "is a network (third_party/python); or set ZEROTH_PYTHON to a Python that has them.");
}

std::string HowToGetTransformers() {
  return absl::StrCat(Interpreter(),
                      " lacks torch and transformers, which are gigabytes: set ZEROTH_PYTHON to a "
                      "Python in which you ran pip install -r third_party/python/transformers.txt, "
                      "as .ci/nightly does");
}

}  // namespace zeroth
