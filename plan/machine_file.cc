// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/plan/machine_file.h"

// Makes toml++ return errors as values.
#define TOML_EXCEPTIONS 0

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "toml.hpp"

#include "zeroth/core/base/did_you_mean.h"
#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/plan/machine_measure.h"

namespace zeroth {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr double kMicro = 1e-6;
constexpr double kMost = 1e30;
constexpr char kLinkRates[] = "link_rates";

// Memory of a process's CUDA context, and of NCCL's buffers, which NCCL allocates at its first
// call.
constexpr double kReserved = 2.05 * kGiB;

// A GPU and the machines that usually have it.
struct Preset {
  const char* name;
  int devices_per_node;
  double gib;
  // In TFLOP/s.
  double fp32, tf32, bf16, fp8;
  double attention_share;
  bool attention_keeps_scores;
  int multiprocessors;
  // In GB/s.
  double memory, link, network, host;
  double launch_micros;
};

// Sources:
// - Matmuls in bf16 and fp8: the best that was measured over shapes, "Maximum Achievable Matmul
//   FLOPS" of S. Bekman's "Machine Learning Engineering"; TF32 and fp32 are the vendor's peaks
//   times the same fraction.
// - H100 and H200: the sustained rate of bf16 GEMMs, the memory's bandwidth, attention's share and
//   the time of a launch are what this trainer reached on one card of each (docs/gpu_results.md).
//   tests/plan/measured_rows_test.cc compares plans with the steps measured there.
// - Memory, SMs, and 85 % of the memory bandwidth of the others: the vendors' data sheets.
// - RTX4090: its data sheet, with 88 % of the peak in GEMMs (with fp32 accumulation), as A100
//   reaches; links over PCIe 4 without peer-to-peer, and a network of 10 Gb/s.
// - Attention on the others: forward and backward of FlashAttention-2 (Dao, 2023) on A100 and
//   MI300X and FlashAttention-3 (Shah et al., 2024) on Blackwell, relative to the matmul rate.
// - Scores that attention keeps: workspace of cuDNN 9's deterministic backward, by its own plans.
// - SMs of a collective: NCCL's kernel has a thread block for each channel, and 16 channels over
//   nodes of eight network cards ("16 coll channels" in its log).
// - Links: bus bandwidth of large calls in nccl-tests and rccl-tests, near 80 % of the data
//   sheets'. The network has a card for each GPU: 200 Gb/s with A100, 400 Gb/s with the others. The
//   72 GPUs of a GB200 are one domain of NVLink.
// - Latencies: a step of a ring in NCCL's own model (graph/tuning.cc, protocol Simple).
constexpr Preset kPresets[] = {
    // name, devices, GiB, fp32, tf32, bf16, fp8, attention and whether it keeps scores,
    // multiprocessors, memory, link, network, host, launch
    {"A100-40", 8, 39.4, 17, 135, 271, 0, 0.65, true, 108, 1322, 235, 24, 24, 2},
    {"A100-80", 8, 79.2, 17, 135, 271, 0, 0.65, true, 108, 1733, 235, 24, 24, 2},
    {"H100", 8, 79.2, 51, 397, 700, 1403, 0.3, true, 132, 2500, 360, 48, 50, 5},
    {"H200", 8, 139.8, 51, 415, 690, 1453, 0.43, true, 132, 4000, 360, 48, 50, 5},
    {"B200", 8, 178, 62, 872, 1745, 3433, 0.7, false, 148, 6800, 700, 48, 50, 2},
    {"GB200", 72, 178, 62, 911, 1822, 3433, 0.7, false, 148, 6800, 700, 48, 50, 2},
    {"RTX4090", 4, 23.6, 73, 73, 145, 290, 0.65, true, 128, 857, 12, 0.3, 24, 5},
    {"MI300X", 8, 191.5, 80, 334, 668, 0, 0.6, false, 304, 4505, 310, 48, 50, 2},
};

Machine MachineOf(const Preset& preset) {
  Machine machine;
  machine.name = preset.name;
  machine.devices_per_node = preset.devices_per_node;
  machine.memory_bytes = preset.gib * kGiB;
  machine.reserved_bytes = kReserved;
  machine.fp32_flops = preset.fp32 * kTera;
  machine.tf32_flops = preset.tf32 * kTera;
  machine.bf16_flops = preset.bf16 * kTera;
  machine.fp8_flops = preset.fp8 * kTera;
  machine.attention_share = preset.attention_share;
  machine.attention_keeps_scores = preset.attention_keeps_scores;
  machine.multiprocessors = preset.multiprocessors;
  machine.collective_multiprocessors = 16;
  machine.memory_bandwidth = preset.memory * kGiga;
  machine.launch_seconds = preset.launch_micros * kMicro;
  machine.link_bandwidth = preset.link * kGiga;
  machine.link_latency = 3.4 * kMicro;
  machine.network_bandwidth = preset.network * kGiga;
  machine.network_latency = 14 * kMicro;
  machine.host_bandwidth = preset.host * kGiga;
  return machine;
}

// A field of a machine file. Exactly one of the three member pointers is set.
struct Field {
  const char* name;
  double Machine::*number = nullptr;
  int Machine::*count = nullptr;
  bool Machine::*flag = nullptr;
  bool may_be_zero = false;
};

constexpr Field kFields[] = {
    {.name = "is_gpu", .flag = &Machine::is_gpu},
    {.name = "devices_per_node", .count = &Machine::devices_per_node},
    {"memory_bytes", &Machine::memory_bytes},
    {.name = "reserved_bytes", .number = &Machine::reserved_bytes, .may_be_zero = true},
    {"fp32_flops", &Machine::fp32_flops},
    {"tf32_flops", &Machine::tf32_flops},
    {"bf16_flops", &Machine::bf16_flops},
    {.name = "fp8_flops", .number = &Machine::fp8_flops, .may_be_zero = true},
    {"attention_share", &Machine::attention_share},
    {.name = "attention_keeps_scores", .flag = &Machine::attention_keeps_scores},
    {.name = "multiprocessors", .count = &Machine::multiprocessors, .may_be_zero = true},
    {.name = "collective_multiprocessors",
     .count = &Machine::collective_multiprocessors,
     .may_be_zero = true},
    {"memory_bandwidth", &Machine::memory_bandwidth},
    {.name = "launch_seconds", .number = &Machine::launch_seconds, .may_be_zero = true},
    {"link_bandwidth", &Machine::link_bandwidth},
    {.name = "link_latency", .number = &Machine::link_latency, .may_be_zero = true},
    {"network_bandwidth", &Machine::network_bandwidth},
    {.name = "network_latency", .number = &Machine::network_latency, .may_be_zero = true},
    {"host_bandwidth", &Machine::host_bandwidth},
};

absl::StatusOr<Machine> PresetNamed(absl::string_view name) {
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return MachineOf(preset);
  }
  return InvalidArgument("unknown machine '", name, "'", InsteadOf(name, {}, MachineNames()),
                         "; or a file that describes one, whose name ends in .toml");
}

absl::Status SetLinkRates(const toml::node& node, Machine& machine) {
  machine.link_rates.clear();
  const toml::array* const rows = node.as_array();
  for (size_t i = 0; rows != nullptr && i < rows->size(); ++i) {
    const toml::array* const row = (*rows)[i].as_array();
    std::vector<double> numbers;
    for (size_t j = 0; row != nullptr && j < row->size(); ++j) {
      numbers.push_back((*row)[j].value<double>().value_or(0));
    }
    const bool in_range = std::all_of(numbers.begin(), numbers.end(),
                                      [](double number) { return number > 0 && number < kMost; });
    const double last = machine.link_rates.empty() ? 0 : machine.link_rates.back().bytes;
    if (numbers.size() != 4 || !in_range || numbers[0] <= last) break;
    machine.link_rates.push_back({numbers[0], numbers[1], numbers[2], numbers[3]});
  }
  if (rows != nullptr && machine.link_rates.size() == rows->size()) return absl::OkStatus();
  return InvalidArgument(
      kLinkRates,
      ": expected rows of four numbers above 0, as [[1048576, 4e10, 3e10, 5e10]]: the bytes, which "
      "grow, and the rates of all-gather, reduce-scatter and all-reduce");
}

absl::Status SetField(const std::string& key, const toml::node& node, Machine& machine) {
  if (key == kLinkRates) return SetLinkRates(node, machine);
  const auto* const field = std::find_if(std::begin(kFields), std::end(kFields),
                                         [&](const Field& known) { return key == known.name; });
  if (field == std::end(kFields)) {
    return InvalidArgument("there is no field ", Shorten(key), "; there are like, name, ",
                           kLinkRates, ", ",
                           absl::StrJoin(kFields, ", ", [](std::string* out, const Field& known) {
                             absl::StrAppend(out, known.name);
                           }));
  }
  if (field->flag != nullptr) {
    if (!node.is_boolean()) {
      return InvalidArgument(key, ": expected true or false");
    }
    machine.*field->flag = node.ref<bool>();
    return absl::OkStatus();
  }
  const std::optional<double> value = node.value<double>();
  const double least = field->count != nullptr ? 1 : 1e-12;
  if (!node.is_number() || !value.has_value() || !(*value >= 0) || *value > kMost ||
      (*value < least && !(field->may_be_zero && *value == 0))) {
    return InvalidArgument(key, ": expected a number above 0", field->may_be_zero ? ", or 0" : "");
  }
  if (field->count != nullptr) {
    machine.*field->count = static_cast<int>(std::min(*value, 1e6));
  } else {
    machine.*field->number = *value;
  }
  return absl::OkStatus();
}

// The escapes of JSON are also TOML's. A path need not be UTF-8.
std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<Machine> ReadMachine(const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMostBytes));
  const toml::parse_result parsed = toml::parse(std::string_view(text), std::string_view(path));
  if (!parsed) {
    const toml::source_position place = parsed.error().source().begin;
    return InvalidArgument(path, ":", place.line, ":", place.column, ": ",
                           std::string(parsed.error().description()),
                           "; expected lines as link_bandwidth = 3.6e11");
  }
  for (const char* const key : {"like", "name"}) {
    const auto node = parsed.table()[key];
    if (!node || node.is_string()) continue;
    return InvalidArgument(path, ":", node.node()->source().begin.line, ": ", key,
                           " is not a text; expected one in quotes, as ", key, " = \"H100\"");
  }
  Machine machine;
  if (const std::optional<std::string> like = parsed.table()["like"].value<std::string>()) {
    ZEROTH_ASSIGN_OR_RETURN(machine, PresetNamed(*like));
  }
  machine.name = parsed.table()["name"].value_or(path);
  for (const auto& [key, node] : parsed.table()) {
    const std::string name(key.str());
    if (name == "like" || name == "name") continue;
    ZEROTH_RETURN_IF_ERROR_WITH(SetField(name, node, machine),
                                absl::StrCat(path, ":", key.source().begin.line));
  }
  std::vector<std::string> missing;
  for (const Field& field : kFields) {
    if (field.number != nullptr && !field.may_be_zero && machine.*field.number <= 0) {
      missing.push_back(field.name);
    }
  }
  if (machine.multiprocessors > 0 &&
      machine.collective_multiprocessors >= machine.multiprocessors) {
    return InvalidArgument(path, ": collective_multiprocessors is ",
                           machine.collective_multiprocessors, ", expected fewer than the ",
                           machine.multiprocessors, " of multiprocessors");
  }
  if (machine.reserved_bytes >= machine.memory_bytes && machine.memory_bytes > 0) {
    return InvalidArgument(path, ": memory_bytes is ", machine.memory_bytes,
                           ", expected more than the ", machine.reserved_bytes,
                           " of reserved_bytes, which no run has");
  }
  if (missing.empty()) return machine;
  return InvalidArgument(path, " lacks ", absl::StrJoin(missing, ", "),
                         "; give them, or like = \"H100\" to take them from a known machine");
}

}  // namespace

absl::StatusOr<Machine> OpenMachine(const std::string& machine) {
  if (machine.empty() || machine == "cpu") return MeasureCpu();
  if (absl::EndsWith(machine, ".toml")) return ReadMachine(machine);
  return PresetNamed(machine);
}

std::vector<std::string> MachineNames() {
  std::vector<std::string> names = {"cpu"};
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

std::string MachineText(const Machine& machine) {
  std::string text = absl::StrCat("name = ", Quoted(machine.name), "\n");
  for (const Field& field : kFields) {
    absl::StrAppend(&text, field.name, " = ");
    if (field.flag != nullptr) {
      absl::StrAppend(&text, machine.*field.flag ? "true" : "false");
    } else if (field.count != nullptr) {
      absl::StrAppend(&text, machine.*field.count);
    } else {
      // The shortest text that reads back as this number.
      std::array<char, 32> digits = {};
      const auto end = std::to_chars(digits.begin(), digits.end(), machine.*field.number).ptr;
      text.append(digits.begin(), end);
    }
    absl::StrAppend(&text, "\n");
  }
  if (machine.link_rates.empty()) return text;
  const auto row = [](std::string* out, const LinkRate& rate) {
    absl::StrAppendFormat(out, "  [%.6g, %.6g, %.6g, %.6g]", rate.bytes, rate.all_gather,
                          rate.reduce_scatter, rate.all_reduce);
  };
  absl::StrAppend(&text,
                  "# inside a node, for link_bandwidth: bytes, and the rates of all-gather, ",
                  "reduce-scatter and all-reduce\n", kLinkRates, " = [\n",
                  absl::StrJoin(machine.link_rates, ",\n", row), "\n]\n");
  return text;
}

}  // namespace zeroth
