// Ids of different kinds are different types.
#include <hearth/runtime/base/ids.hpp>

int main() {
  const hearth::SlotId slot{1};
#ifdef HEARTH_MUST_FAIL
  const hearth::LaneId lane = slot;
#else
  const hearth::SlotId lane = slot;
#endif
  return lane.value == slot.value ? 0 : 1;
}
