// BackendFactory: source of a Runtime's backends where the builtin table does not suffice. The
// runtime's own tests use it to plan faults and to stop time. Private to runtime and its tests.
// Threads: the thread that creates the Runtime.
#pragma once

#include <functional>
#include <memory>

#include <hearth/backends/backend.hpp>
#include <hearth/backends/builtin/builtin.hpp>

namespace hearth::detail {

struct BackendFactory {
  /// Opens a backend. A null result selects the builtin backend.
  std::function<std::unique_ptr<Backend>(const BackendRequest& request)> make;
};

}  // namespace hearth::detail
