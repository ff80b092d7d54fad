// The devices of parameterized tests: those of the host and, in programs built with
// HEARTH_TEST_VULKAN, the first Vulkan device. TESTED_DEVICE names another kind of device in
// their place ("cuda"), for a machine that has one: tests get "cuda:0", or "cuda:0" and "cuda:1".
// Threads: any.
#pragma once

#include <array>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hearth::testing {

/// The kind of device that TESTED_DEVICE names, or `kind`.
inline std::string tested_kind(const std::string& kind) {
  const char* const wanted = std::getenv("TESTED_DEVICE");  // NOLINT(concurrency-mt-unsafe)
  return wanted == nullptr || *wanted == '\0' ? kind : wanted;
}
/// Two devices of the tested kind.
inline std::array<std::string, 2> two_tested(const std::string& kind) {
  const std::string found = tested_kind(kind);
  return {found + ":0", found + ":1"};
}
inline std::vector<const char*> tested_devices(std::initializer_list<const char*> names) {
  static const std::string wanted = two_tested("")[0];
  return wanted == ":0" ? std::vector<const char*>(names) : std::vector{wanted.c_str()};
}

}  // namespace hearth::testing

#ifdef HEARTH_TEST_VULKAN
#define HEARTH_TESTED_DEVICES(...) \
  ::testing::ValuesIn(::hearth::testing::tested_devices({"vulkan:0"}))
#else
#define HEARTH_TESTED_DEVICES(...) \
  ::testing::ValuesIn(::hearth::testing::tested_devices({__VA_ARGS__}))
#endif
