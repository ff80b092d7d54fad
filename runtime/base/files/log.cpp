#include <hearth/runtime/base/log.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <list>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

namespace hearth::detail {
namespace {

constexpr std::array<std::string_view, 6> kNames = {
    "trace", "debug", "info", "warn", "error", "off"};

spdlog::level::level_enum to_spdlog(LogLevel level) noexcept {
  constexpr std::array kLevels = {spdlog::level::trace,
                                  spdlog::level::debug,
                                  spdlog::level::info,
                                  spdlog::level::warn,
                                  spdlog::level::err,
                                  spdlog::level::off};
  return kLevels[static_cast<std::size_t>(level)];
}

LogLevel from_spdlog(spdlog::level::level_enum level) noexcept {
  return level >= spdlog::level::critical ? LogLevel::error : static_cast<LogLevel>(level);
}

// Sink that passes the bare text to the program's function, under the sink's lock.
class OutputSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit OutputSink(std::function<void(LogLevel, std::string_view)> output)
      : output_(std::move(output)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    output_(from_spdlog(message.level), {message.payload.data(), message.payload.size()});
  }
  void flush_() override {}

 private:
  std::function<void(LogLevel, std::string_view)> output_;
};

spdlog::sink_ptr make_sink(LogOptions options) {
  if (options.output) {
    return std::make_shared<OutputSink>(std::move(options.output));
  }
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  sink->set_pattern("%Y-%m-%d %H:%M:%S.%e hearth %^%l%$: %v");
  return sink;
}

}  // namespace

struct Log::Impl {
  explicit Impl(LogOptions options) : logger("hearth", make_sink(std::move(options))) {}
  spdlog::logger logger;  // not in spdlog's registry, which is global

  struct Repeated {
    std::string key;
    std::uint64_t count = 0;
  };
  static constexpr std::size_t kMostKeys = 64;
  // not a Mutex: a log line may be written where no other thread may be scheduled
  std::mutex mutex;
  std::list<Repeated> repeated;  // most recently used key first
};

std::string_view name(LogLevel level) noexcept {
  return kNames[static_cast<std::size_t>(level)];
}

Result<LogLevel> log_level(const Settings& settings) {
  HEARTH_TRY(const std::optional<std::size_t> place, settings.choice(Setting::log_level, kNames));
  return place ? static_cast<LogLevel>(*place) : LogLevel::warn;
}

Log::Log(LogOptions options)
    : level_(options.level), impl_(std::make_unique<Impl>(std::move(options))) {
  impl_->logger.set_level(spdlog::level::trace);
  impl_->logger.set_error_handler([](const std::string&) {});
}

Log::~Log() = default;

std::uint64_t Log::count_line(std::string_view key) noexcept {
  try {
    const std::lock_guard lock(impl_->mutex);
    std::list<Impl::Repeated>& lines = impl_->repeated;
    auto found = std::ranges::find(lines, key, &Impl::Repeated::key);
    if (found == lines.end()) {
      lines.push_front({.key = std::string(key)});
      found = lines.begin();
      if (lines.size() > Impl::kMostKeys) {
        lines.pop_back();
      }
    }
    lines.splice(lines.begin(), lines, found);
    std::uint64_t power = 1;
    while (power < found->count + 1) {
      power *= 10;
    }
    return ++found->count == power ? power : 0;
  } catch (const std::bad_alloc&) {
    return 1;
  }
}

std::string Log::repetition(std::uint64_t count) {
  return count == 1 ? std::string() : fmt::format(" ({} such lines so far)", count);
}

void Log::write(LogLevel level, std::string_view text) noexcept {
  if (!is_enabled(level)) {
    return;
  }
  try {
    impl_->logger.log(to_spdlog(level), spdlog::string_view_t(text.data(), text.size()));
  } catch (...) {  // NOLINT(bugprone-empty-catch): a lost line is better than a lost step
  }
}

}  // namespace hearth::detail
