// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/launcher.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/did_you_mean.h"
#include "zeroth/core/base/registry.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

struct BackEnd {
  Launcher launcher;
  StartedRanksSource started;
};

using BackEnds = Registry<LauncherRegistry, BackEnd>;

constexpr NamedElsewhere kElsewhere[] = {
    {"local (threads of this process)", "threads thread gloo shm"},
    {"mpi (a process per rank)", "openmpi open_mpi mpich processes process ucc tcp"},
    {"nccl", "cuda rccl"},
};

absl::StatusOr<BackEnd> Find(absl::string_view name) {
  if (std::optional<BackEnd> found = BackEnds::Global().Find(name)) return *std::move(found);
  return absl::NotFoundError(absl::StrCat("unknown communication back end '", name, "'",
                                          BackEnds::Global().Instead(name, kElsewhere)));
}

}  // namespace

absl::Status CheckLaunchOptions(const LaunchOptions& options) {
  if (options.timeout <= absl::ZeroDuration()) {
    return InvalidArgument(
        "timeout is ", absl::FormatDuration(options.timeout),
        ", expected a positive duration; absl::InfiniteDuration() waits for ever");
  }
  if (options.reduction != "tree" && options.reduction != "nccl") {
    return InvalidArgument("reduction is '", options.reduction, "', expected tree or nccl");
  }
  if (options.nccl_copy_engine != "auto" && options.nccl_copy_engine != "on" &&
      options.nccl_copy_engine != "off") {
    return InvalidArgument("nccl_copy_engine is '", options.nccl_copy_engine,
                           "', expected auto, on or off");
  }
  return absl::OkStatus();
}

absl::Status CheckLaunchOptionsWithoutNccl(const LaunchOptions& options,
                                           absl::string_view back_end) {
  ZEROTH_RETURN_IF_ERROR(CheckLaunchOptions(options));
  if (options.reduction != "tree") {
    return InvalidArgument("reduction is '", options.reduction, "', but the ", back_end,
                           " back end has only 'tree'");
  }
  if (options.nccl_copy_engine == "on") {
    return InvalidArgument("nccl_copy_engine is 'on', but the ", back_end,
                           " back end is not NCCL; expected auto or off");
  }
  return absl::OkStatus();
}

absl::Status RunRankMain(const RankMain& rank_main, Communicator& world) {
  try {
    return rank_main(world);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("threw an exception: ", error.what()));
  } catch (...) {
    return absl::InternalError("threw something that is not a std::exception");
  }
}

LauncherRegistration::LauncherRegistration(absl::string_view name, Launcher launcher,
                                           StartedRanksSource started) {
  ZEROTH_CHECK(launcher != nullptr);
  BackEnds::Global().Add(name, {std::move(launcher), std::move(started)});
}

absl::StatusOr<std::optional<StartedRanks>> LauncherRegistry::Started(absl::string_view name) {
  ZEROTH_ASSIGN_OR_RETURN(const BackEnd back_end, Find(name));
  if (back_end.started == nullptr) return std::nullopt;
  return back_end.started();
}

absl::Status LauncherRegistry::Launch(absl::string_view name, const LaunchOptions& options,
                                      const RankMain& rank_main) {
  ZEROTH_ASSIGN_OR_RETURN(const BackEnd back_end, Find(name));
  return back_end.launcher(options, rank_main);
}

std::vector<std::string> LauncherRegistry::Names() { return BackEnds::Global().Names(); }

}  // namespace zeroth
