#include <hearth/streams/lane.hpp>

#include "lane_definition.hpp"

#include <hearth/runtime/base/thread_context.hpp>

namespace hearth {

detail::Parker& LanePolicy::current_parker() noexcept {
  return detail::current_context().parker();
}

template class BasicLane<LanePolicy>;

}  // namespace hearth
