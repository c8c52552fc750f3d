// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_STRATEGIES_TRAVERSAL_RECORDER_H_
#define ZEROTH_STRATEGIES_TRAVERSAL_RECORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "zeroth/strategies/unit.h"

namespace zeroth {

// The order in which a step uses units, learned from the steps before it: along it the scheduler
// prefetches. Units are recorded as they come, until one comes again or the direction changes: that
// starts another traversal, and the last unit of one is not the neighbour of the first of the next.
class TraversalRecorder {
 public:
  explicit TraversalRecorder(size_t units) : of_unit_(units) {}

  // A unit's forward, or backward, begins. Until a backward has shown its order, it is taken to be
  // forward's, reversed.
  void RecordForward(Unit& unit);
  void RecordBackward(Unit& unit);
  // What came after the unit the last time; nullptr: nothing, or nobody knows.
  Unit* NextInForward(const Unit& unit) const { return links(unit).next_in_forward; }
  Unit* NextInBackward(const Unit& unit) const { return links(unit).next_in_backward; }
  // Whether the traversal that is being recorded has come to the unit.
  bool HasSeen(const Unit& unit) const { return links(unit).seen; }

  // Nothing leads to the unit any more.
  void ForgetLinksTo(const Unit& unit);
  // The next unit begins a traversal.
  void EndTraversal() { StartTraversal(Direction::kNone); }
  // As new.
  void Forget();

 private:
  enum class Direction : uint8_t { kNone, kForward, kBackward };
  struct Links {
    bool seen = false;
    Unit* next_in_forward = nullptr;
    Unit* next_in_backward = nullptr;
  };

  const Links& links(const Unit& unit) const { return of_unit_[static_cast<size_t>(unit.index())]; }
  Links& links(const Unit& unit) { return of_unit_[static_cast<size_t>(unit.index())]; }
  void StartTraversal(Direction direction);
  // The unit before this one in the same traversal, or nullptr.
  Unit* Record(Unit& unit, Direction direction);

  std::vector<Links> of_unit_;  // by unit index
  Direction direction_ = Direction::kNone;
  Unit* last_ = nullptr;
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_TRAVERSAL_RECORDER_H_
