// Compares with reviewed texts, HEARTH_GOLDEN_DIR/NAME. HEARTH_UPDATE_GOLDEN=1 rewrites them and
// fails the test, so that the variable is not left set.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/runtime/base/file.hpp>

namespace hearth::testing {

[[nodiscard]] inline bool updates_golden() {
  return std::getenv("HEARTH_UPDATE_GOLDEN") != nullptr;  // NOLINT(concurrency-mt-unsafe)
}

/// The reviewed text; empty, with a test failure, if it cannot be read.
[[nodiscard]] inline std::string golden(const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(HEARTH_GOLDEN_DIR) / name;
  const Result<std::vector<std::byte>> bytes = read_file(path);
  if (!bytes.has_value()) {
    ADD_FAILURE() << bytes.error().text;
    return {};
  }
  return {reinterpret_cast<const char*>(bytes.value().data()), bytes.value().size()};
}

inline void expect_golden(const std::string& name, const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(HEARTH_GOLDEN_DIR) / name;
  if (updates_golden()) {
    std::ofstream(path) << text;
    ADD_FAILURE() << "written anew: " << path << "; look at the difference before it is kept";
    return;
  }
  EXPECT_EQ(text, golden(name)) << path;
}

}  // namespace hearth::testing
