// The suite: every op case on one backend. A program links conformance_suite.cpp with one
// <backend>_target.cpp.
#pragma once

#include <memory>

#include <hearth/backends/backend.hpp>

#include "runner.hpp"

namespace hearth::conformance {

/// Makes the backend that this program checks, a new one at each call.
[[nodiscard]] std::unique_ptr<Backend> make_backend();
/// How the program runs calls on it: target_of(), or precompiling_target_of() where each kernel
/// compiles for long.
[[nodiscard]] Target make_target(Backend& backend);

}  // namespace hearth::conformance
