// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/traversal_recorder.h"

namespace zeroth {

void TraversalRecorder::RecordForward(Unit& unit) {
  Unit* const previous = Record(unit, Direction::kForward);
  if (previous == nullptr) return;
  links(*previous).next_in_forward = &unit;
  if (links(unit).next_in_backward == nullptr) links(unit).next_in_backward = previous;
}

void TraversalRecorder::RecordBackward(Unit& unit) {
  Unit* const previous = Record(unit, Direction::kBackward);
  if (previous != nullptr) links(*previous).next_in_backward = &unit;
}

void TraversalRecorder::ForgetLinksTo(const Unit& unit) {
  for (Links& in : of_unit_) {
    if (in.next_in_forward == &unit) in.next_in_forward = nullptr;
    if (in.next_in_backward == &unit) in.next_in_backward = nullptr;
  }
}

void TraversalRecorder::Forget() { *this = TraversalRecorder(of_unit_.size()); }

void TraversalRecorder::StartTraversal(Direction direction) {
  direction_ = direction;
  last_ = nullptr;
  for (Links& in : of_unit_) in.seen = false;
}

Unit* TraversalRecorder::Record(Unit& unit, Direction direction) {
  if (direction != direction_ || (links(unit).seen && last_ != &unit)) StartTraversal(direction);
  Unit* const previous = last_ == &unit ? nullptr : last_;
  links(unit).seen = true;
  last_ = &unit;
  return previous;
}

}  // namespace zeroth
