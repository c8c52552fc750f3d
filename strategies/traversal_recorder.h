// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_STRATEGIES_TRAVERSAL_RECORDER_H_
#define ZEROTH_STRATEGIES_TRAVERSAL_RECORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "zeroth/strategies/unit.h"

namespace zeroth {

// Learns the order in which steps use units, along which the scheduler prefetches. A traversal ends
// when a unit comes again, or when the direction changes. Neighbours are units that follow each
// other within one traversal.
class TraversalRecorder {
 public:
  explicit TraversalRecorder(size_t units) : of_unit_(units) {}

  // Records that a unit's forward, or backward, begins. Until the first backward, its order is
  // taken to be the forward's order reversed.
  void RecordForward(Unit& unit);
  void RecordBackward(Unit& unit);
  // The unit that came after this one the last time; nullptr if there was none, or none is known.
  Unit* NextInForward(const Unit& unit) const { return links(unit).next_in_forward; }
  Unit* NextInBackward(const Unit& unit) const { return links(unit).next_in_backward; }
  // True if the current traversal has come to the unit.
  bool HasSeen(const Unit& unit) const { return links(unit).seen; }

  // From now on the unit comes after no other one, until it does so again.
  void ForgetLinksTo(const Unit& unit);
  // Makes the next unit begin a traversal.
  void EndTraversal() { StartTraversal(Direction::kNone); }
  // Forgets everything.
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
  // Returns the unit before this one in the same traversal, or nullptr.
  Unit* Record(Unit& unit, Direction direction);

  std::vector<Links> of_unit_;  // by unit index
  Direction direction_ = Direction::kNone;
  Unit* last_ = nullptr;
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_TRAVERSAL_RECORDER_H_
