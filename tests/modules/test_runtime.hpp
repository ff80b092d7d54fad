// The devices of the module tests: the oracle and one CPU. Owned by one test. Threads: its own.
#pragma once

#include <hearth/runtime/runtime.hpp>

#include "tests/support/crowd.hpp"

namespace hearth {

struct TestRuntime {
  Runtime runtime{{.devices = crowded({{.name = "reference:0"}, {.name = "cpu:0"}})}};
  Device reference = runtime.device("reference:0");
  Device cpu = runtime.device("cpu:0");
};

}  // namespace hearth
