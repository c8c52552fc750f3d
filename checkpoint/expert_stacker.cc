// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/expert_stacker.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/shape.h"

namespace zeroth {
namespace {

// The declarations of the tensors of one stack, by expert and first row.
struct Stack {
  std::map<std::pair<int64_t, int64_t>, const TensorDeclaration*> tensors;
  int64_t step = 1;
};

// Returns the shape of a stack whose tensors are complete and alike.
absl::StatusOr<Shape> ShapeOfStack(absl::string_view name, const Stack& stack) {
  const TensorDeclaration& first = *stack.tensors.begin()->second;
  int64_t next = 0;
  for (const auto& [place, tensor] : stack.tensors) {
    if (place != std::pair(next / stack.step, next % stack.step)) {
      return InvalidArgument("\"", name, "\" is made of tensors such as \"", first.name,
                             "\", expected each of ", stack.step, " for each expert from 0 on; \"",
                             tensor->name, "\" follows a gap");
    }
    if (tensor->shape != first.shape || tensor->dtype != first.dtype) {
      return InvalidArgument("\"", tensor->name, "\" ", tensor->shape.ToString(), " in ",
                             DTypeName(tensor->dtype), " cannot be stacked in \"", name,
                             "\" with \"", first.name, "\" ", first.shape.ToString(), " in ",
                             DTypeName(first.dtype));
    }
    ++next;
  }
  if (next % stack.step != 0) {
    return InvalidArgument("\"", name, "\" is made of ", next, " tensors, such as \"", first.name,
                           "\", expected ", stack.step, " for each expert");
  }
  const int64_t experts = next / stack.step;
  const int64_t rows = first.shape.dim(0) * stack.step;
  return first.shape.rank() == 1 ? Shape({experts, rows})
                                 : Shape({experts, first.shape.dim(1), rows});
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExpertStacker>> ExpertStacker::Create(
    std::vector<TensorDeclaration>* tensors) {
  std::unique_ptr<ExpertStacker> stacker(new ExpertStacker());
  std::map<std::string, Stack> stacks;
  for (const TensorDeclaration& tensor : *tensors) {
    std::optional<ExpertPart> part = ExpertPartOf(tensor.name);
    if (!part.has_value()) continue;
    if (tensor.shape.rank() != (part->is_bias ? 1 : 2)) {
      return InvalidArgument("\"", tensor.name, "\" has shape ", tensor.shape.ToString(),
                             ", expected ", part->is_bias ? "one dimension" : "two dimensions");
    }
    Stack& stack = stacks[part->StackName()];
    stack.step = part->step;
    if (!stack.tensors.emplace(std::pair(part->expert, part->first), &tensor).second) {
      return InvalidArgument("tensor \"", tensor.name, "\" is declared twice; expected each once");
    }
    stacker->parts_[tensor.name].part = *std::move(part);
  }
  std::map<std::string, Shape> shapes;
  for (const auto& [name, stack] : stacks) {
    ZEROTH_ASSIGN_OR_RETURN(const Shape shape, ShapeOfStack(name, stack));
    shapes.emplace(name, shape);
  }
  std::vector<TensorDeclaration> stored;
  for (const TensorDeclaration& tensor : *tensors) {
    const auto found = stacker->parts_.find(tensor.name);
    if (found == stacker->parts_.end()) {
      stored.push_back(tensor);
      continue;
    }
    const ExpertPart& part = found->second.part;
    const std::string name = part.StackName();
    const Shape& shape = shapes.at(name);
    if (&tensor == stacks[name].tensors.begin()->second) {
      stored.push_back({name, tensor.dtype, shape});
    }
    Slice& slice = stacker->slices_[absl::StrCat(name, ".", part.expert)];
    slice.stack = name;
    slice.rows = shape.dim(-1);
    slice.columns = part.is_bias ? 1 : shape.dim(1);
    slice.missing = slice.rows * slice.columns;
    slice.begin = part.expert * slice.missing;
    found->second.slice = &slice;
  }
  *tensors = std::move(stored);
  return stacker;
}

absl::Status ExpertStacker::Write(absl::string_view name, int64_t begin,
                                  absl::Span<const float> values, TensorSink sink) {
  Part& part = parts_.find(name)->second;
  Slice& slice = *part.slice;
  const auto count = static_cast<int64_t>(values.size());
  const int64_t numel = slice.rows / part.part.step * slice.columns;
  if (begin < 0 || count > numel || begin > numel - count) {
    return absl::OutOfRangeError(absl::StrCat("elements [", begin, ", ", begin, " + ", count,
                                              ") of tensor \"", name, "\", which has ", numel));
  }
  if (count == 0) return absl::OkStatus();
  std::vector<float> complete;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!part.taken.Insert(begin, begin + count)) {
      return absl::AlreadyExistsError(absl::StrCat("elements [", begin, ", ", begin + count,
                                                   ") of tensor \"", name,
                                                   "\" were written before"));
    }
    slice.values.resize(static_cast<size_t>(slice.rows * slice.columns));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = part.part.first + part.part.step * ((begin + i) / slice.columns);
      const int64_t column = (begin + i) % slice.columns;
      slice.values[static_cast<size_t>(column * slice.rows + row)] = values[static_cast<size_t>(i)];
    }
    slice.missing -= count;
    if (slice.missing > 0) return absl::OkStatus();
    complete = std::exchange(slice.values, {});
  }
  return sink(slice.stack, slice.begin, complete);
}

}  // namespace zeroth
