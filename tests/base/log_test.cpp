#include <hearth/runtime/base/log.hpp>

#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hearth {
namespace {

struct Lines {
  std::vector<std::string> texts;
  detail::LogOptions options(detail::LogLevel level) {
    return {.level = level, .output = [this](detail::LogLevel at, std::string_view text) {
              texts.push_back(std::string(name(at)) + ": " + std::string(text));
            }};
  }
};

TEST(Log, LeavesOutWhatIsBelowItsLevel) {
  Lines lines;
  detail::Log log(lines.options(detail::LogLevel::warn));
  log.debug("one");
  log.info("two");
  log.warn("three");
  log.error("four");
  EXPECT_EQ(lines.texts, (std::vector<std::string>{"warn: three", "error: four"}));
}

TEST(Log, WritesEachLevelUnderItsName) {
  Lines lines;
  detail::Log log(lines.options(detail::LogLevel::trace));
  for (const detail::LogLevel level : {detail::LogLevel::trace,
                                       detail::LogLevel::debug,
                                       detail::LogLevel::info,
                                       detail::LogLevel::warn,
                                       detail::LogLevel::error}) {
    EXPECT_TRUE(log.is_enabled(level));
    log.write(level, "x");
  }
  EXPECT_EQ(lines.texts,
            (std::vector<std::string>{"trace: x", "debug: x", "info: x", "warn: x", "error: x"}));
}

TEST(Log, WhenOffWritesNothing) {
  Lines lines;
  detail::Log log(lines.options(detail::LogLevel::off));
  EXPECT_FALSE(log.is_enabled(detail::LogLevel::error));
  EXPECT_FALSE(log.is_enabled(detail::LogLevel::off));
  log.error("x");
  log.write(detail::LogLevel::off, "x");
  EXPECT_TRUE(lines.texts.empty());
}

TEST(Log, CountsLinesThatComeTooOften) {
  Lines lines;
  detail::Log log(lines.options(detail::LogLevel::warn));
  const auto text = [] { return std::string("again"); };
  for (int i = 0; i < 150; ++i) {
    log.write_counted(detail::LogLevel::error, "a", text);
    log.write_counted(detail::LogLevel::info, "a", text);
  }
  log.write_counted(detail::LogLevel::warn, "b", text);
  EXPECT_EQ(lines.texts,
            (std::vector<std::string>{"error: again",
                                      "error: again (10 such lines so far)",
                                      "error: again (100 such lines so far)",
                                      "warn: again"}));
  for (int i = 0; i < 100; ++i) {
    log.write_counted(detail::LogLevel::warn, "c" + std::to_string(i), text);
  }
  log.write_counted(detail::LogLevel::warn, "a", text);
  EXPECT_EQ(lines.texts.size(), 105U) << "the keys used last are remembered";
}

TEST(Log, MakesNoTextThatNobodyReads) {
  Lines lines;
  detail::Log log(lines.options(detail::LogLevel::info));
  int made = 0;
  const auto text = [&made] {
    ++made;
    return std::string("costly");
  };
  log.trace(text);
  log.debug(text);
  EXPECT_EQ(made, 0);
  log.write(detail::LogLevel::info, text);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(lines.texts, (std::vector<std::string>{"info: costly"}));
}

TEST(Log, SurvivesATextThatCannotBeMade) {
  Lines lines;
  detail::Log log(lines.options(detail::LogLevel::debug));
  EXPECT_NO_THROW(log.debug([]() -> std::string { throw std::runtime_error("no words"); }));
  EXPECT_EQ(lines.texts.size(), 1U);
}

TEST(Log, TakesTheTextAsItIs) {
  Lines lines;
  detail::Log log(lines.options(detail::LogLevel::info));
  log.info("{} {0:d} %v");
  EXPECT_EQ(lines.texts, (std::vector<std::string>{"info: {} {0:d} %v"}));
}

TEST(Log, SurvivesAnOutputThatThrows) {
  detail::Log log(
      {.level = detail::LogLevel::info,
       .output = [](detail::LogLevel, std::string_view) { throw std::runtime_error("no paper"); }});
  EXPECT_NO_THROW(log.info("x"));
}

TEST(Log, GoesToTheErrorStreamWithTimeAndLevel) {
  testing::internal::CaptureStderr();
  detail::Log().warn("careful");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find(" hearth "), std::string::npos) << text;
  EXPECT_NE(text.find("warn"), std::string::npos) << text;
  EXPECT_NE(text.find(": careful\n"), std::string::npos) << text;
}

TEST(LogLevel, ComesFromTheSettingElseIsWarn) {
  detail::Settings settings;
  EXPECT_EQ(detail::log_level(settings).value(), detail::LogLevel::warn);
  settings.set(detail::Setting::log_level, "debug");
  EXPECT_EQ(detail::log_level(settings).value(), detail::LogLevel::debug);
  settings.set(detail::Setting::log_level, "loud");
  EXPECT_EQ(detail::log_level(settings).error().text,
            "HEARTH_LOG_LEVEL=loud: expected one of trace, debug, info, warn, error, off");
}

}  // namespace
}  // namespace hearth
