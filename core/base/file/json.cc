// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/file/json.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using nlohmann::json;

// Builds the value from parser events, so that a limit stops the parser at once.
class Builder final : public nlohmann::json_sax<json> {
 public:
  explicit Builder(int max_depth) : max_depth_(max_depth) {}

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override { return Add(value); }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t&) override { return Fail("binary values are not JSON"); }
  bool start_object(size_t) override { return Open(json::object()); }
  bool start_array(size_t) override { return Open(json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    auto [member, inserted] = open_.back()->get_ref<json::object_t&>().emplace(name, nullptr);
    if (!inserted) return Fail(absl::StrCat("the key \"", name, "\" appears twice in one object"));
    member_ = &member->second;
    return true;
  }

  bool parse_error(size_t position, const std::string& last_token,
                   const nlohmann::detail::exception& error) override {
    (void)last_token;
    error_position_ = position;
    // The library's text begins with its own bracketed error number and ends with the reason.
    absl::string_view reason = error.what();
    if (const size_t dash = reason.find(" - "); dash != absl::string_view::npos)
      reason.remove_prefix(dash + 3);
    return Fail(std::string(reason));
  }

  json& root() { return root_; }
  const std::string& error() const { return error_; }
  size_t error_position() const { return error_position_; }

 private:
  bool Fail(std::string error) {
    error_ = std::move(error);
    return false;
  }

  json* Place(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *member_ = std::move(value);
    return member_;
  }

  bool Add(json value) {
    Place(std::move(value));
    return true;
  }

  bool Open(json value) {
    if (static_cast<int>(open_.size()) >= max_depth_) {
      return Fail(absl::StrCat("nested deeper than ", max_depth_, " levels"));
    }
    // A parent does not grow while a child of it is open, so the address stays valid.
    open_.push_back(Place(std::move(value)));
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const int max_depth_;
  json root_;
  std::vector<json*> open_;
  json* member_ = nullptr;
  std::string error_;
  size_t error_position_ = 0;
};

std::string LineOf(absl::string_view text, size_t position) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(position, text.size()));
  return absl::StrCat("line ", 1 + std::count(text.begin(), end, '\n'));
}

}  // namespace

absl::StatusOr<json> ParseJson(absl::string_view text, absl::string_view where,
                               const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return InvalidArgument(where, ": ", text.size(), " bytes of JSON, expected at most ",
                           limits.max_bytes);
  }
  Builder builder(limits.max_depth);
  if (!json::sax_parse(text.begin(), text.end(), &builder)) {
    const std::string line =
        builder.error_position() > 0
            ? absl::StrCat(" (", LineOf(text, builder.error_position() - 1), ")")
            : "";
    return InvalidArgument(where, ": bad JSON", line, ": ", builder.error());
  }
  return std::move(builder.root());
}

absl::StatusOr<json> ReadJsonFile(const std::string& path, const JsonLimits& limits) {
  ZEROTH_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, limits.max_bytes));
  return ParseJson(text, path, limits);
}

}  // namespace zeroth
