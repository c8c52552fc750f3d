// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "zeroth/strategies/unit.h"

namespace zeroth {

// Learns the order in which steps use units, along which the scheduler prefetches. A traversal ends
// when a unit repeats, or when the direction changes. Neighbours are units that follow each other
// within one traversal.
class TraversalRecorder {
 public:
  explicit TraversalRecorder(size_t units) : of_unit_(units) {}

  // Records that a unit's forward, or backward, begins. Until the first backward, its order is
  // assumed to be the reverse of forward.
  void RecordForward(Unit& unit) {
    Unit* const previous = Record(unit, Direction::kForward);
    if (previous == nullptr) return;
    links(*previous).next_in_forward = &unit;
    if (links(unit).next_in_backward == nullptr) links(unit).next_in_backward = previous;
  }
  void RecordBackward(Unit& unit) {
    Unit* const previous = Record(unit, Direction::kBackward);
    if (previous != nullptr) links(*previous).next_in_backward = &unit;
  }
  // Records a forward that is recomputed within a backward. It follows the last backward that has
  // begun, so that this one prefetches the unit.
  void RecordRecomputed(Unit& unit) {
    if (direction_ == Direction::kBackward && last_ != nullptr && last_ != &unit) {
      links(*last_).next_in_backward = &unit;
    }
    RecordForward(unit);
  }
  // Returns the unit that followed this one last time; nullptr if there was none, or none is known.
  Unit* NextInForward(const Unit& unit) const { return links(unit).next_in_forward; }
  Unit* NextInBackward(const Unit& unit) const { return links(unit).next_in_backward; }
  // True if the current traversal has reached the unit.
  bool HasSeen(const Unit& unit) const { return links(unit).seen; }

  // Forgets that the unit follows others, until it does so again.
  void ForgetLinksTo(const Unit& unit) {
    for (Links& in : of_unit_) {
      if (in.next_in_forward == &unit) in.next_in_forward = nullptr;
      if (in.next_in_backward == &unit) in.next_in_backward = nullptr;
    }
  }
  // Makes the next unit begin a traversal.
  void EndTraversal() { StartTraversal(Direction::kNone); }
  // Forgets everything.
  void Forget() { *this = TraversalRecorder(of_unit_.size()); }

 private:
  enum class Direction : uint8_t { kNone, kForward, kBackward };
  struct Links {
    bool seen = false;
    Unit* next_in_forward = nullptr;
    Unit* next_in_backward = nullptr;
  };

  const Links& links(const Unit& unit) const { return of_unit_[static_cast<size_t>(unit.index())]; }
  Links& links(const Unit& unit) { return of_unit_[static_cast<size_t>(unit.index())]; }
  void StartTraversal(Direction direction) {
    direction_ = direction;
    last_ = nullptr;
    for (Links& in : of_unit_) in.seen = false;
  }
  // Returns the unit before this one in the same traversal, or nullptr.
  Unit* Record(Unit& unit, Direction direction) {
    if (direction != direction_ || (links(unit).seen && last_ != &unit)) StartTraversal(direction);
    Unit* const previous = last_ == &unit ? nullptr : last_;
    links(unit).seen = true;
    last_ = &unit;
    return previous;
  }

  std::vector<Links> of_unit_;  // by unit index
  Direction direction_ = Direction::kNone;
  Unit* last_ = nullptr;
};

}  // namespace zeroth
