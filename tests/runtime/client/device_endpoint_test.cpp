// What a device's endpoint reports of the device's progress.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/unique_number.hpp>

#include "runtime/client/device_endpoint.hpp"

namespace hearth {
namespace {

void pass(std::chrono::nanoseconds time) {
  detail::current_context().parker().park(Deadline::in(time));
}

TEST(CompileScope, CountsAsProgressForALimitedTime) {
  ManualExecutor executor;
  executor.run([] {
    const auto endpoint =
        make_intrusive<DeviceEndpoint>("device",
                                       std::string(),
                                       std::make_shared<RuntimeTables>(RuntimeId{unique_number()}),
                                       unique_number(),
                                       true,
                                       std::vector<int>());
    const std::uint64_t before = endpoint->record_progress();
    {
      const DeviceEndpoint::CompileScope compiles(*endpoint);
      const std::uint64_t first = endpoint->record_progress();
      pass(DeviceEndpoint::kLongestCompilation / 2);
      const std::uint64_t second = endpoint->record_progress();
      EXPECT_NE(second, first);
      pass(DeviceEndpoint::kLongestCompilation);
      const std::uint64_t last = endpoint->record_progress();
      EXPECT_NE(last, second);
      pass(std::chrono::minutes(1));
      EXPECT_EQ(endpoint->record_progress(), last);
    }
    EXPECT_EQ(endpoint->record_progress(), before);
  });
}

}  // namespace
}  // namespace hearth
