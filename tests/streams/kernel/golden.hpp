// Compares with reviewed texts in tests/streams/golden/NAME. HEARTH_UPDATE_GOLDEN=1 rewrites them
// and fails the test, so that the variable is not left set.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <hearth/runtime/base/file.hpp>

namespace hearth::testing {

inline void expect_golden(const std::string& name, const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(HEARTH_GOLDEN_DIR) / name;
  if (std::getenv("HEARTH_UPDATE_GOLDEN") != nullptr) {  // NOLINT(concurrency-mt-unsafe)
    std::ofstream(path) << text;
    ADD_FAILURE() << "written anew: " << path << "; look at the difference before it is kept";
    return;
  }
  const Result<std::vector<std::byte>> bytes = read_file(path);
  ASSERT_TRUE(bytes.has_value()) << bytes.error().text;
  const std::string wanted(reinterpret_cast<const char*>(bytes.value().data()),
                           bytes.value().size());
  EXPECT_EQ(text, wanted) << path;
}

}  // namespace hearth::testing
