// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run_progress.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using Json = nlohmann::json;

// Reads members of one object, and remembers the first that was not what it should be.
class Members {
 public:
  Members(const Json& object, absl::string_view where) : object_(object), where_(where) {
    if (!object.is_object()) Wrong("", "an object");
  }

  int64_t Count(const char* key) {
    return Get<int64_t>(key, "a count", [](const Json& member) {
      return member.is_number_integer() &&
             (member.is_number_unsigned() || member.get<int64_t>() >= 0) &&
             member.get<uint64_t>() <= uint64_t{1} << 62;
    });
  }
  uint64_t Unsigned(const char* key) {
    return Get<uint64_t>(key, "an unsigned integer", &Json::is_number_unsigned);
  }
  bool Bool(const char* key) { return Get<bool>(key, "true or false", &Json::is_boolean); }
  double Number(const char* key) { return Get<double>(key, "a number", &Json::is_number); }
  std::string Text(const char* key) { return Get<std::string>(key, "a string", &Json::is_string); }
  Json Object(const char* key) { return Get<Json>(key, "an object", &Json::is_object); }
  std::vector<double> Numbers(const char* key) {
    return Get<std::vector<double>>(key, "an array of numbers", [](const Json& member) {
      return member.is_array() &&
             std::all_of(member.begin(), member.end(), std::mem_fn(&Json::is_number));
    });
  }

  const absl::Status& status() const { return status_; }

 private:
  template <typename T, typename Is>
  T Get(const char* key, const char* expected, Is is) {
    const auto found = object_.find(key);
    if (status_.ok() && found != object_.end() && std::invoke(is, *found)) return found->get<T>();
    Wrong(key, expected);
    return T();
  }
  void Wrong(const char* key, const char* expected) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(
        absl::StrCat(where_, ": \"", key, "\" is missing or no such thing, expected ", expected,
                     "; was this checkpoint written by the trainer?"));
  }

  const Json& object_;
  const std::string where_;
  absl::Status status_;
};

Json WindowJson(const OutlierDetector::State& state) {
  return {{"taken", state.taken}, {"window", state.window}};
}

absl::StatusOr<OutlierDetector::State> ReadWindow(const Json& json, const std::string& where) {
  Members members(json, where);
  OutlierDetector::State state;
  state.taken = members.Count("taken");
  state.window = members.Numbers("window");
  ZEROTH_RETURN_IF_ERROR(members.status());
  return state;
}

}  // namespace

std::vector<std::string> DataOrder::Differences(const DataOrder& before) const {
  std::vector<std::string> differences;
  const auto add = [&](absl::string_view name, const auto& now, const auto& then) {
    if (now != then) differences.push_back(absl::StrCat(name, " is ", now, ", was ", then));
  };
  if (tokens != before.tokens) {
    add("--data: the number of tokens", tokens, before.tokens);
  } else if (before.content != 0 && content != before.content) {
    differences.push_back("--data: as many tokens, but others");
  }
  add("--seq_len", seq_len, before.seq_len);
  add("--seed", seed, before.seed);
  add("--shuffle", shuffle ? "true" : "false", before.shuffle ? "true" : "false");
  return differences;
}

Json RunProgress::ToJson() const {
  Json json = {{"steps", steps},
               {"skipped_steps", skipped_steps},
               {"sequences", sequences},
               {"data",
                {{"tokens", data.tokens},
                 {"content", ChecksumText(data.content)},
                 {"seq_len", data.seq_len},
                 {"seed", data.seed},
                 {"shuffle", data.shuffle}}},
               {"optimizer_steps", trainer.optimizer_steps},
               {"ema_updates", trainer.ema_updates},
               {"losses", WindowJson(trainer.losses)},
               {"grad_norms", WindowJson(trainer.grad_norms)},
               {"flags", flags},
               {"model", model}};
  if (trainer.loss_scaler.has_value()) {
    json["loss_scaler"] = {{"scale", trainer.loss_scaler->scale},
                           {"finite_steps", trainer.loss_scaler->finite_steps}};
  }
  return json;
}

absl::StatusOr<RunProgress> RunProgress::FromJson(const Json& json, absl::string_view where) {
  RunProgress progress;
  Members members(json, where);
  progress.steps = members.Count("steps");
  progress.trainer.optimizer_steps = members.Count("optimizer_steps");
  progress.trainer.ema_updates = members.Count("ema_updates");
  const Json losses = members.Object("losses");
  const Json grad_norms = members.Object("grad_norms");
  progress.skipped_steps = members.Count("skipped_steps");
  progress.sequences = members.Count("sequences");
  progress.flags = members.Object("flags");
  const Json data_json = members.Object("data");
  ZEROTH_RETURN_IF_ERROR(members.status());
  Members data(data_json, absl::StrCat(where, ": \"data\""));
  progress.data.tokens = data.Count("tokens");
  progress.data.seq_len = data.Count("seq_len");
  progress.data.seed = data.Unsigned("seed");
  progress.data.shuffle = data.Bool("shuffle");
  ZEROTH_RETURN_IF_ERROR(data.status());
  // Checkpoints of earlier versions have neither.
  if (data_json.contains("content")) {
    const std::string content = data.Text("content");
    ZEROTH_RETURN_IF_ERROR(data.status());
    ZEROTH_ASSIGN_OR_RETURN(progress.data.content, ParseChecksum(content));
  }
  if (json.contains("model")) progress.model = members.Object("model");
  ZEROTH_RETURN_IF_ERROR(members.status());
  if (const auto found = json.find("loss_scaler"); found != json.end()) {
    Members scaler(*found, absl::StrCat(where, ": \"loss_scaler\""));
    LossScaler::State state;
    state.scale = scaler.Number("scale");
    state.finite_steps = scaler.Count("finite_steps");
    ZEROTH_RETURN_IF_ERROR(scaler.status());
    progress.trainer.loss_scaler = state;
  }
  ZEROTH_ASSIGN_OR_RETURN(progress.trainer.losses,
                          ReadWindow(losses, absl::StrCat(where, ": \"losses\"")));
  ZEROTH_ASSIGN_OR_RETURN(progress.trainer.grad_norms,
                          ReadWindow(grad_norms, absl::StrCat(where, ": \"grad_norms\"")));
  return progress;
}

}  // namespace zeroth
