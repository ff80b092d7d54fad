#include <hearth/streams/doorbell.hpp>

#include "doorbell_definition.hpp"

namespace hearth {

template class BasicDoorbell<LanePolicy>;

}  // namespace hearth
