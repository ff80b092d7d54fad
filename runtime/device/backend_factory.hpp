// BackendFactory: where a Runtime gets its backends from when the builtin table will not do: the
// runtime's own tests plan faults and stop time with it. Private to runtime and its tests.
// Threads: the one that makes the Runtime.
#pragma once

#include <functional>
#include <memory>

#include <hearth/backends/backend.hpp>
#include <hearth/backends/builtin/builtin.hpp>

namespace hearth::detail {

struct BackendFactory {
  /// A null result means the builtin one.
  std::function<std::unique_ptr<Backend>(const BackendRequest& request)> make;
};

}  // namespace hearth::detail
