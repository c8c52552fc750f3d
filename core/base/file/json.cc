// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/file/json.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using nlohmann::json;

// Iterates over text, and records how far any copy of it got: the parser copies its iterators, and
// names a place only in some of its errors.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  Cursor& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }
  bool operator!=(const Cursor& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

// Hands the events of the value at the front of `text` to `sax`; false if it returned false. Sets
// `consumed` to the bytes that were read: up to the value's end, and one more after a number or a
// bad value. `strict`: nothing but white space may follow the value.
bool Parse(absl::string_view text, nlohmann::json_sax<json>* sax, bool strict, size_t* consumed) {
  const char* furthest = text.data();
  const bool done =
      json::sax_parse(Cursor(text.data(), &furthest), Cursor(text.data() + text.size(), &furthest),
                      sax, json::input_format_t::json, strict);
  *consumed = static_cast<size_t>(furthest - text.data());
  return done;
}

// Builds the value from parser events, so that a limit stops the parser at once.
template <typename Json>
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
  bool start_object(size_t) override { return Open(Json::object()); }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    auto& object = open_.back()->template get_ref<typename Json::object_t&>();
    bool is_new;
    if constexpr (kOrdered) {
      // A set, because an ordered object searches all of its members for a key.
      is_new = names_.back().insert(name).second;
      if (is_new) member_ = &object.emplace_back(name, nullptr).second;
    } else {
      const auto [member, inserted] = object.emplace(name, nullptr);
      is_new = inserted;
      member_ = &member->second;
    }
    return is_new || Fail(absl::StrCat("the key ", Excerpt(name), " appears twice in one object"));
  }

  bool parse_error(size_t position, const std::string& last_token,
                   const nlohmann::detail::exception& error) override {
    (void)position;
    (void)last_token;
    // The library's text begins with its own bracketed error number, and ends with the reason and
    // what was read of a bad value, which may be megabytes.
    absl::string_view reason = error.what();
    if (const size_t dash = reason.find(" - "); dash != absl::string_view::npos)
      reason.remove_prefix(dash + 3);
    reason = reason.substr(0, std::min(reason.find("; last read: "), kMostReason));
    return Fail(std::string(reason));
  }

  Json& root() { return root_; }
  const std::string& error() const { return error_; }

 private:
  static constexpr size_t kMostReason = 200;
  static constexpr bool kOrdered = std::is_same_v<Json, nlohmann::ordered_json>;

  bool Fail(std::string error) {
    error_ = std::move(error);
    return false;
  }

  Json* Place(Json value) {
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

  bool Add(Json value) {
    Place(std::move(value));
    return true;
  }

  bool Open(Json value) {
    if (static_cast<int>(open_.size()) >= max_depth_) {
      return Fail(absl::StrCat("nested deeper than ", max_depth_, " levels"));
    }
    // A parent does not grow while a child of it is open, so the address stays valid.
    open_.push_back(Place(std::move(value)));
    if (kOrdered) names_.emplace_back();
    return true;
  }

  bool Close() {
    open_.pop_back();
    if (kOrdered) names_.pop_back();
    return true;
  }

  const int max_depth_;
  Json root_;
  std::vector<Json*> open_;
  std::vector<std::unordered_set<std::string>> names_;  // of the members of each, if ordered
  Json* member_ = nullptr;
  std::string error_;
};

// Accepts any value.
class Skipper final : public nlohmann::json_sax<json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_position_ = position;
    return false;
  }

  // The number of the bad character, from 1 on: the text's end is the one after the last.
  size_t error_position() const { return error_position_; }

 private:
  size_t error_position_ = 0;
};

// Returns the line and column of byte `position`; only the column if `text` is one line.
std::string PlaceOf(absl::string_view text, size_t position) {
  const absl::string_view before = text.substr(0, position);
  const size_t column = before.size() - (before.rfind('\n') + 1) + 1;
  if (!absl::StrContains(text, '\n')) return absl::StrCat("column ", column);
  return absl::StrCat("line ", 1 + std::count(before.begin(), before.end(), '\n'), ", column ",
                      column);
}

template <typename Json>
absl::StatusOr<Json> ParseAs(absl::string_view text, absl::string_view where,
                             const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return InvalidArgument(where, ": ", text.size(), " bytes of JSON, expected at most ",
                           limits.max_bytes);
  }
  Builder<Json> builder(limits.max_depth);
  size_t consumed = 0;
  if (!Parse(text, &builder, /*strict=*/true, &consumed)) {
    const size_t last = consumed - (consumed > 0 ? 1 : 0);
    return InvalidArgument(where, ": bad JSON (", PlaceOf(text, last), "): ", builder.error(),
                           ", near ", ExcerptAround(text, last));
  }
  return std::move(builder.root());
}

}  // namespace

absl::StatusOr<json> ParseJson(absl::string_view text, absl::string_view where,
                               const JsonLimits& limits) {
  return ParseAs<json>(text, where, limits);
}

absl::StatusOr<nlohmann::ordered_json> ParseOrderedJson(absl::string_view text,
                                                        absl::string_view where,
                                                        const JsonLimits& limits) {
  return ParseAs<nlohmann::ordered_json>(text, where, limits);
}

JsonStart StartOfJson(absl::string_view text) {
  Skipper skipper;
  JsonStart start;
  start.is_whole = Parse(text, &skipper, /*strict=*/false, &start.bytes);
  start.is_json = start.is_whole || skipper.error_position() > text.size();
  return start;
}

std::string QuoteJson(const nlohmann::ordered_json& json) {
  return Shorten(json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace),
                 2 * kExcerptBytes);
}

absl::StatusOr<json> ReadJsonFile(const std::string& path, const JsonLimits& limits) {
  ZEROTH_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, limits.max_bytes));
  return ParseJson(text, path, limits);
}

}  // namespace zeroth
