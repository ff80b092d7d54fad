#include <hearth/runtime/base/settings.hpp>

#include <array>
#include <cstdlib>
#include <limits>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

detail::Settings with(std::string value) {
  detail::Settings settings;
  settings.set(detail::Setting::log_level, std::move(value));
  return settings;
}

// Sets a variable of the environment for the length of a test.
class Variable final {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Settings, AreReadFromTheEnvironmentOnce) {
  detail::Settings settings;
  {
    const Variable variable("HEARTH_LOG_LEVEL", "debug");
    settings = detail::Settings::from_environment();
  }
  EXPECT_EQ(settings.text(detail::Setting::log_level), "debug");
  EXPECT_FALSE(detail::Settings::from_environment().text(detail::Setting::log_level).has_value());
}

TEST(Settings, CountAnEmptyVariableAsNotSet) {
  const Variable variable("HEARTH_LOG_LEVEL", "");
  EXPECT_FALSE(detail::Settings::from_environment().text(detail::Setting::log_level).has_value());
}

TEST(Settings, GiveNothingForWhatIsNotSet) {
  const detail::Settings settings;
  EXPECT_FALSE(settings.integer(detail::Setting::log_level, 0, 9).value().has_value());
  EXPECT_FALSE(settings.boolean(detail::Setting::log_level).value().has_value());
  EXPECT_FALSE(settings.size_bytes(detail::Setting::log_level).value().has_value());
  EXPECT_FALSE(settings.path(detail::Setting::log_level).value().has_value());
  EXPECT_FALSE(settings.choice(detail::Setting::log_level, {}).value().has_value());
}

TEST(Settings, ReadWholeNumbersInTheirRange) {
  EXPECT_EQ(with("64").integer(detail::Setting::log_level, 1, 64).value(), 64);
  EXPECT_EQ(with("-3").integer(detail::Setting::log_level, -5, 5).value(), -3);
  for (const char* bad : {"0", "65", "abc", "12x", "1.5", " 7", "99999999999999999999"}) {
    EXPECT_EQ(with(bad).integer(detail::Setting::log_level, 1, 64).error().text,
              "HEARTH_LOG_LEVEL=" + std::string(bad) + ": expected a whole number from 1 to 64");
  }
}

TEST(Settings, ReadSwitches) {
  for (const char* on : {"on", "true", "yes", "1"}) {
    EXPECT_EQ(with(on).boolean(detail::Setting::log_level).value(), true) << on;
  }
  for (const char* off : {"off", "false", "no", "0"}) {
    EXPECT_EQ(with(off).boolean(detail::Setting::log_level).value(), false) << off;
  }
  EXPECT_EQ(with("maybe").boolean(detail::Setting::log_level).error().text,
            "HEARTH_LOG_LEVEL=maybe: expected on or off");
}

TEST(Settings, ReadSizesWithUnits) {
  EXPECT_EQ(with("4096").size_bytes(detail::Setting::log_level).value(), 4096);
  EXPECT_EQ(with("3K").size_bytes(detail::Setting::log_level).value(), 3 << 10);
  EXPECT_EQ(with("512M").size_bytes(detail::Setting::log_level).value(), 512 << 20);
  EXPECT_EQ(with("2T").size_bytes(detail::Setting::log_level).value(), std::int64_t{2} << 40);
  for (const char* bad : {"-1", "M", "1.5G", "1KB", "8388608T", "12Q", "99999999999999999999"}) {
    EXPECT_EQ(with(bad).size_bytes(detail::Setting::log_level).error().code,
              ErrorCode::invalid_argument)
        << bad;
  }
}

TEST(Settings, ReadAbsolutePathsOnly) {
  EXPECT_EQ(with("/var/cache").path(detail::Setting::log_level).value(), "/var/cache");
  EXPECT_EQ(with("cache").path(detail::Setting::log_level).error().text,
            "HEARTH_LOG_LEVEL=cache: expected an absolute path");
}

TEST(Settings, ReadOneOfSeveralNames) {
  constexpr std::array<std::string_view, 2> kNames = {"fast", "exact"};
  EXPECT_EQ(with("exact").choice(detail::Setting::log_level, kNames).value(), 1U);
  EXPECT_EQ(with("Exact").choice(detail::Setting::log_level, kNames).error().text,
            "HEARTH_LOG_LEVEL=Exact: expected one of fast, exact");
}

TEST(KnownSettings, HaveNamesOfTheirOwnAndAMeaning) {
  std::set<std::string_view> variables;
  for (const detail::SettingInfo& info : detail::known_settings()) {
    EXPECT_TRUE(variables.insert(info.variable).second) << info.variable;
    EXPECT_EQ(info.meaning.back(), '.') << info.variable;
  }
}

TEST(UnknownSettings, NameWhatNobodyReads) {
  const Variable misspelt("HEARTH_LOG_LEVLE", "debug");
  const Variable known("HEARTH_LOG_LEVEL", "debug");
  EXPECT_THAT(detail::unknown_settings(), ::testing::Contains("HEARTH_LOG_LEVLE"));
  EXPECT_THAT(detail::unknown_settings(), ::testing::Not(::testing::Contains("HEARTH_LOG_LEVEL")));
}

}  // namespace
}  // namespace hearth
