#include <hearth/runtime/base/log.hpp>

#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hearth {
namespace {

struct Lines {
  std::vector<std::string> texts;
  LogOptions options(LogLevel level) {
    return {.level = level, .output = [this](LogLevel at, std::string_view text) {
              texts.push_back(std::string(name(at)) + ": " + std::string(text));
            }};
  }
};

TEST(Log, LeavesOutWhatIsBelowItsLevel) {
  Lines lines;
  Log log(lines.options(LogLevel::warn));
  log.debug("one");
  log.info("two");
  log.warn("three");
  log.error("four");
  EXPECT_EQ(lines.texts, (std::vector<std::string>{"warn: three", "error: four"}));
}

TEST(Log, WritesEachLevelUnderItsName) {
  Lines lines;
  Log log(lines.options(LogLevel::trace));
  for (const LogLevel level :
       {LogLevel::trace, LogLevel::debug, LogLevel::info, LogLevel::warn, LogLevel::error}) {
    EXPECT_TRUE(log.is_enabled(level));
    log.write(level, "x");
  }
  EXPECT_EQ(lines.texts,
            (std::vector<std::string>{"trace: x", "debug: x", "info: x", "warn: x", "error: x"}));
}

TEST(Log, WhenOffWritesNothing) {
  Lines lines;
  Log log(lines.options(LogLevel::off));
  EXPECT_FALSE(log.is_enabled(LogLevel::error));
  EXPECT_FALSE(log.is_enabled(LogLevel::off));
  log.error("x");
  log.write(LogLevel::off, "x");
  EXPECT_TRUE(lines.texts.empty());
}

TEST(Log, CountsLinesThatComeTooOften) {
  Lines lines;
  Log log(lines.options(LogLevel::warn));
  const auto text = [] { return std::string("again"); };
  for (int i = 0; i < 150; ++i) {
    log.write_counted(LogLevel::error, "a", text);
    log.write_counted(LogLevel::info, "a", text);
  }
  log.write_counted(LogLevel::warn, "b", text);
  EXPECT_EQ(lines.texts,
            (std::vector<std::string>{"error: again",
                                      "error: again (10 such lines so far)",
                                      "error: again (100 such lines so far)",
                                      "warn: again"}));
  for (int i = 0; i < 100; ++i) {
    log.write_counted(LogLevel::warn, "c" + std::to_string(i), text);
  }
  log.write_counted(LogLevel::warn, "a", text);
  EXPECT_EQ(lines.texts.size(), 105U) << "the keys used last are remembered";
}

TEST(Log, MakesNoTextThatNobodyReads) {
  Lines lines;
  Log log(lines.options(LogLevel::info));
  int made = 0;
  const auto text = [&made] {
    ++made;
    return std::string("costly");
  };
  log.trace(text);
  log.debug(text);
  EXPECT_EQ(made, 0);
  log.write(LogLevel::info, text);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(lines.texts, (std::vector<std::string>{"info: costly"}));
}

TEST(Log, SurvivesATextThatCannotBeMade) {
  Lines lines;
  Log log(lines.options(LogLevel::debug));
  EXPECT_NO_THROW(log.debug([]() -> std::string { throw std::runtime_error("no words"); }));
  EXPECT_EQ(lines.texts.size(), 1U);
}

TEST(Log, TakesTheTextAsItIs) {
  Lines lines;
  Log log(lines.options(LogLevel::info));
  log.info("{} {0:d} %v");
  EXPECT_EQ(lines.texts, (std::vector<std::string>{"info: {} {0:d} %v"}));
}

TEST(Log, SurvivesAnOutputThatThrows) {
  Log log({.level = LogLevel::info,
           .output = [](LogLevel, std::string_view) { throw std::runtime_error("no paper"); }});
  EXPECT_NO_THROW(log.info("x"));
}

TEST(Log, GoesToTheErrorStreamWithTimeAndLevel) {
  testing::internal::CaptureStderr();
  Log().warn("careful");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find(" hearth "), std::string::npos) << text;
  EXPECT_NE(text.find("warn"), std::string::npos) << text;
  EXPECT_NE(text.find(": careful\n"), std::string::npos) << text;
}

TEST(LogLevel, ComesFromTheSettingElseIsWarn) {
  Settings settings;
  EXPECT_EQ(log_level(settings).value(), LogLevel::warn);
  settings.set(Setting::log_level, "debug");
  EXPECT_EQ(log_level(settings).value(), LogLevel::debug);
  settings.set(Setting::log_level, "loud");
  EXPECT_EQ(log_level(settings).error().text,
            "HEARTH_LOG_LEVEL=loud: expected one of trace, debug, info, warn, error, off");
}

}  // namespace
}  // namespace hearth
