#include <hearth/runtime/weight_scope.hpp>

#include "runtime/client/stream_state.hpp"

namespace hearth {

WeightScope::WeightScope(const Device& device)
    : stream_(&current_stream(device.endpoint())), previous_flags_(stream_->record_flags()) {
  stream_->set_record_flags(
      static_cast<std::uint16_t>(previous_flags_ | static_cast<unsigned>(RecordFlag::exclusive)));
}

WeightScope::~WeightScope() {
  stream_->set_record_flags(previous_flags_);
}

}  // namespace hearth
