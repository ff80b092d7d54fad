// A device's measured peaks: measured once for each machine, stored on disk, and logged.
#include "runtime/device/peaks/device_peaks.hpp"

#include "tests/base/temporary_folder.hpp"
#include "tests/support/environment_variable.hpp"
#include "tests/support/forwarding_backend.hpp"

#include <hearth/backends/builtin/builtin.hpp>
#include <hearth/runtime/runtime.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::HasSubstr;

class DevicePeaksTest : public ::testing::Test {
 protected:
  /// Measures on one core; the first `failures` openings of the backend fail.
  PeakSubject subject(const std::string& name, int failures = 0) {
    failures_ = failures;
    return {.name = name,
            .open = [this]() -> Result<std::unique_ptr<Backend>> {
              ++opened_;
              if (failures_-- > 0) {
                return Error{.code = ErrorCode::out_of_memory, .text = "no backend today"};
              }
              return make_backend({.name = "cpu:0", .cores = {0}});
            },
            .most_bytes = std::int64_t{64} << 20};
  }
  [[nodiscard]] std::filesystem::path only_file() const {
    const std::filesystem::directory_iterator files(folder_.path() / "peaks");
    return files->path();
  }

  TemporaryFolder folder_;
  testing::EnvironmentVariable cache_{"HEARTH_CACHE_DIR", folder_.path().string()};
  int opened_ = 0;
  int failures_ = 0;
};

bool is_speed(double speed) {
  return std::isfinite(speed) && speed > 1e6;
}

TEST_F(DevicePeaksTest, AreMeasuredAndKept) {
  const DevicePeaks peaks = subject("kept").measure_now().value();
  EXPECT_TRUE(is_speed(peaks.copy_bytes_per_second)) << peaks.to_string();
  EXPECT_TRUE(is_speed(peaks.additions_per_second)) << peaks.to_string();
  EXPECT_EQ(opened_, 1);
  const std::optional<DevicePeaks> kept = kept_peaks("kept");
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->copy_bytes_per_second, peaks.copy_bytes_per_second);
  EXPECT_EQ(kept->additions_per_second, peaks.additions_per_second);
  EXPECT_FALSE(kept_peaks("another").has_value());
}

/// A device that takes three times as long for each kernel, as on a busy machine.
class BusyBackend final : public testing::ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

 protected:
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    static_cast<void>(ForwardingBackend::submit_one(launch, after));
    static_cast<void>(ForwardingBackend::submit_one(launch, after));
    return ForwardingBackend::submit_one(launch, after);
  }
};

TEST_F(DevicePeaksTest, ABusyMachineNeverLowersThem) {
  const DevicePeaks before = subject("raised").measure_now().value();
  PeakSubject busy = subject("raised");
  busy.open = [open = busy.open]() -> Result<std::unique_ptr<Backend>> {
    return std::unique_ptr<Backend>(std::make_unique<BusyBackend>(open().value()));
  };
  const DevicePeaks now = busy.measure_now().value();
  EXPECT_EQ(now.copy_bytes_per_second, before.copy_bytes_per_second);
  EXPECT_EQ(now.additions_per_second, before.additions_per_second);
  EXPECT_EQ(kept_peaks("raised")->additions_per_second, before.additions_per_second);
}

TEST_F(DevicePeaksTest, ADamagedFileIsNone) {
  ASSERT_TRUE(subject("damaged").measure_now().has_value());
  const std::filesystem::path file = only_file();
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  EXPECT_FALSE(kept_peaks("damaged").has_value());
}

// File names are short, so two descriptions may share one.
TEST_F(DevicePeaksTest, AFileOfAnotherDeviceIsNone) {
  ASSERT_TRUE(subject("one").measure_now().has_value());
  const std::filesystem::path one = only_file();
  ASSERT_TRUE(subject("two").measure_now().has_value());
  for (const auto& each : std::filesystem::directory_iterator(one.parent_path())) {
    if (each.path() != one) {
      std::filesystem::copy_file(
          one, each.path(), std::filesystem::copy_options::overwrite_existing);
    }
  }
  EXPECT_TRUE(kept_peaks("one").has_value());
  EXPECT_FALSE(kept_peaks("two").has_value());
}

TEST_F(DevicePeaksTest, OneThatIsKnownIsNotMeasuredAgain) {
  detail::Log log{detail::LogOptions{}};
  ASSERT_TRUE(subject("known").measure_now().has_value());
  PeakSubject half = subject("known");
  half.is_automatic = true;
  half.part = 0.5;
  // Where other programs disturbed the measurement, the next openings measure again.
  constexpr int kMoreThanMeasure = 20;
  for (int i = 0; i < kMoreThanMeasure; ++i) {
    static_cast<void>(half.known(log));
  }
  const int opened = opened_;
  EXPECT_LT(opened, kMoreThanMeasure);
  const std::optional<DevicePeaks> whole = subject("known").known(log);
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(half.known(log)->additions_per_second * 2, whole->additions_per_second);
  EXPECT_EQ(opened_, opened);
}

// Other programs take time from the measurement, so the best of several openings counts.
TEST_F(DevicePeaksTest, TheFirstOpeningsMeasure) {
  detail::Log log{detail::LogOptions{}};
  PeakSubject automatic = subject("automatic");
  automatic.is_automatic = true;
  double most = 0;
  for (int opening = 1; opening <= 4; ++opening) {
    const std::optional<DevicePeaks> peaks = automatic.known(log);
    ASSERT_TRUE(peaks.has_value());
    EXPECT_EQ(opened_, opening);
    EXPECT_GE(peaks->additions_per_second, most);
    most = peaks->additions_per_second;
  }
  EXPECT_EQ(automatic.known(log)->additions_per_second, most);
  EXPECT_EQ(opened_, 4);
  EXPECT_EQ(kept_peaks("automatic")->additions_per_second, most);
}

// A measurement that failed at one opening is repeated at the next.
TEST_F(DevicePeaksTest, AFailureIsOfOneOpening) {
  detail::Log log{detail::LogOptions{.level = detail::LogLevel::off}};
  PeakSubject automatic = subject("recovers", 1);
  automatic.is_automatic = true;
  EXPECT_FALSE(automatic.known(log).has_value());
  EXPECT_TRUE(automatic.known(log).has_value());
}

// Otherwise every program would pay for the measurement.
TEST_F(DevicePeaksTest, NothingIsMeasuredThatCannotBeKept) {
  detail::Log log{detail::LogOptions{}};
  std::ofstream(folder_.path() / "peaks") << "a file where the folder should be";
  PeakSubject automatic = subject("homeless");
  automatic.is_automatic = true;
  EXPECT_FALSE(automatic.known(log).has_value());
  EXPECT_EQ(opened_, 0);
  const Result<DevicePeaks> measured = subject("homeless").measure_now();
  ASSERT_FALSE(measured.has_value());
  EXPECT_EQ(measured.error().code, ErrorCode::io_error);
}

TEST_F(DevicePeaksTest, AreOfNothingWhereTheyCannotBeMeasured) {
  detail::Log log{detail::LogOptions{}};
  EXPECT_FALSE(subject("by hand").known(log).has_value());
  PeakSubject small = subject("small");
  small.is_automatic = true;
  small.most_bytes = 1 << 20;
  EXPECT_FALSE(small.known(log).has_value());
  EXPECT_EQ(opened_, 0);
  const Result<DevicePeaks> refused = small.measure_now();
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().text,
              HasSubstr("a measurement takes 67108864 bytes, of 1048576 that it may"));
  const Result<DevicePeaks> failed = subject("failing", 1).measure_now();
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().text, "no backend today");
  EXPECT_FALSE(kept_peaks("failing").has_value());
}

TEST_F(DevicePeaksTest, ADeviceSaysItsOwn) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const DevicePeaks measured = runtime.measure_peaks(runtime.device());
  const std::optional<DevicePeaks> said = runtime.device().peaks();
  ASSERT_TRUE(said.has_value());
  EXPECT_EQ(said->additions_per_second, measured.additions_per_second);
  EXPECT_THAT(said->to_string(), HasSubstr(" additions a byte"));
}

// The measurement of one runtime is used by the next; two devices get half of the shared peak each.
TEST_F(DevicePeaksTest, AnotherRuntimeKnowsThem) {
  const Runtime first({.devices = {{.name = "cpu:0"}}});
  const DevicePeaks measured = first.measure_peaks(first.device());
  const Runtime second({.devices = {{.name = "cpu:0"}, {.name = "cpu:1"}}});
  const auto one = second.device("cpu:0").peaks();
  const auto other = second.device("cpu:1").peaks();
  ASSERT_TRUE(one.has_value() && other.has_value());
  if (first.device().cores().size() > 1) {
    // Openings of a busy machine measure again, and only raise what is kept.
    const Runtime last({.devices = {{.name = "cpu:0"}}});
    const double sum = one->additions_per_second + other->additions_per_second;
    constexpr double kRounding = 1e-9;
    EXPECT_GE(sum, measured.additions_per_second * (1 - kRounding));
    EXPECT_LE(sum, last.device().peaks()->additions_per_second * (1 + kRounding));
  }
}

TEST_F(DevicePeaksTest, DecideNothingInADeterministicRuntime) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}, .deterministic = true});
  EXPECT_GT(runtime.measure_peaks(runtime.device()).additions_per_second, 0);
  EXPECT_FALSE(runtime.device().peaks().has_value());
  const Runtime next({.devices = {{.name = "cpu:0"}}, .deterministic = true});
  EXPECT_FALSE(next.device().peaks().has_value());
}

TEST_F(DevicePeaksTest, RefusesWhatHasNone) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}, {.name = "reference:0"}}});
  const Runtime other({.devices = {{.name = "cpu:0"}}});
  const auto refusal = [&](const Device& device) {
    try {
      (void)runtime.measure_peaks(device);
    } catch (const ArgumentError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal(runtime.device("reference:0")),
              HasSubstr("measure_peaks: reference:0 has no speed of its own"));
  EXPECT_THAT(refusal(other.device()), HasSubstr("is a device of another runtime"));
}

}  // namespace
}  // namespace hearth
