// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The part of Jinja that chat templates use, as a tree.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

struct JinjaNode {
  enum class Kind {
    // Expressions. `text` is the operator or name.
    kString,   // text
    kInteger,  // integer
    kName,
    kList,    // items; tuples are lists
    kMap,     // keys and values in turns
    kMember,  // object.text
    kIndex,   // object, index
    kSlice,   // object, begin, end and step; kNothing where left out
    kCall,    // the callee, arguments; kKeyword for named ones
    kKeyword,
    kFilter,  // object, arguments
    kTest,    // object, arguments
    kUnary,   // "not", "-"
    kBinary,
    kChoice,  // value, condition, and the value of else or kNothing
    kNothing,
    // Statements.
    kBody,   // statements
    kText,   // text
    kPrint,  // an expression
    kIf,     // condition and body in turns, then maybe the body of else
    kFor,    // iterable, filter or kNothing, body, body of else; names
    kSet,    // target, value
    kSetBlock,
    kMacro,       // body, then the default values of the last parameters; text and names
    kGeneration,  // statements
    kBreak,
    kContinue,
  };

  Kind kind = Kind::kNothing;
  int line = 0;
  int depth = 1;  // of the tree below, itself included
  int64_t integer = 0;
  std::string text{};
  std::vector<std::string> names{};
  std::vector<JinjaNode> kids{};
};

// Parses a template under transformers' settings (trim_blocks, lstrip_blocks). InvalidArgument
// names the line and the construct that is unknown here, or is not Jinja.
absl::StatusOr<JinjaNode> ParseJinja(absl::string_view jinja);

}  // namespace zeroth
