#include <hearth/runtime/weight_scope.hpp>

#include <hearth/runtime/base/fiber_mark.hpp>

#include "runtime/client/stream_state.hpp"

namespace hearth {
namespace {

// The layer of ops that initialise weights, in traces.
constexpr std::string_view kLayer = "initialisation";

[[nodiscard]] bool is_scope_open(std::uint16_t flags) {
  return (flags & static_cast<unsigned>(RecordFlag::exclusive)) != 0;
}

}  // namespace

WeightScope::WeightScope(const Device& device)
    : stream_(&current_stream(device.endpoint())), previous_flags_(stream_->record_flags()) {
  RuntimeTables& tables = device.endpoint().tables();
  if (!is_scope_open(previous_flags_) && stream_->path() == PathId() &&
      tables.trace().wants_layers()) {
    static_cast<void>(stream_->exchange_path(tables.paths.intern(kLayer)));
  }
  detail::enter_thread_scope("WeightScope");
  stream_->set_record_flags(
      static_cast<std::uint16_t>(previous_flags_ | static_cast<unsigned>(RecordFlag::exclusive)));
}

WeightScope::~WeightScope() {
  // A label set outside of the scopes stays.
  if (!is_scope_open(previous_flags_) && stream_->path() != PathId() &&
      stream_->endpoint().tables().paths.path(stream_->path()) == kLayer) {
    static_cast<void>(stream_->exchange_path(PathId()));
  }
  stream_->set_record_flags(previous_flags_);
  detail::leave_thread_scope();
}

}  // namespace hearth
