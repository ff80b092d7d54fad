// The suite: every op case on one backend. A program links conformance_suite.cpp with one
// <backend>_target.cpp.
#pragma once

#include <memory>

#include <hearth/backends/backend.hpp>

namespace hearth::conformance {

/// Makes the backend that this program checks, a new one at each call.
[[nodiscard]] std::unique_ptr<Backend> make_backend();

}  // namespace hearth::conformance
