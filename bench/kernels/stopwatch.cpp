#include "stopwatch.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

namespace hearth::bench {
namespace {

using detail::SampleSource;

/// The first bytes of a file of the system; empty without it.
class SystemFile final {
 public:
  explicit SystemFile(const char* path) noexcept {
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
      const ssize_t size = ::read(file, bytes_.data(), bytes_.size());
      size_ = size > 0 ? static_cast<std::size_t>(size) : 0;
      ::close(file);
    }
  }
  [[nodiscard]] std::string_view text() const noexcept { return {bytes_.data(), size_}; }

 private:
  std::array<char, 512> bytes_{};
  std::size_t size_ = 0;
};

/// The number behind `mark`; 0 without one.
template <class T>
T number_behind(std::string_view text, std::string_view mark) noexcept {
  T value{};
  const std::size_t place = text.find(mark);
  if (place != std::string_view::npos) {
    const char* const begin = text.data() + place + mark.size();
    std::from_chars(begin, text.data() + text.size(), value);
  }
  return value;
}

std::chrono::nanoseconds thread_cpu() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// The eighth number of the line "cpu": user nice system idle iowait irq softirq steal.
std::int64_t steal_ticks() noexcept {
  const SystemFile stat("/proc/stat");
  std::string_view line = stat.text().substr(0, stat.text().find('\n'));
  std::int64_t value = 0;
  for (int i = 0; i < 8; ++i) {
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) {
      return 0;
    }
    line.remove_prefix(std::min(line.find_first_not_of(' ', space), line.size()));
    std::from_chars(line.data(), line.data() + line.size(), value);
  }
  return value;
}

}  // namespace

Stopwatch::Counters Stopwatch::counters() const noexcept {
  if (source_ == SampleSource::host_thread) {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return {.switches = usage.ru_nivcsw};
  }
  if (source_ == SampleSource::host_crew) {
    const SystemFile pressure("/proc/pressure/cpu");
    return {.waited_us = number_behind<std::int64_t>(pressure.text(), "total="),
            .steal_ticks = steal_ticks()};
  }
  return {};
}

Stopwatch::Stopwatch(SampleSource source) noexcept : source_(source), before_(counters()) {
  cpu_ = thread_cpu();
  begin_ = std::chrono::steady_clock::now();
}

detail::Sample Stopwatch::stop(std::int32_t run_count, std::int64_t rotated_bytes) noexcept {
  const auto end = std::chrono::steady_clock::now();
  const std::chrono::nanoseconds cpu = thread_cpu() - cpu_;
  const Counters after = counters();
  const std::chrono::nanoseconds wall = end - begin_;
  const double micros = std::max(std::chrono::duration<double, std::micro>(wall).count(), 1e-3);
  const double ticks = static_cast<double>(after.steal_ticks - before_.steal_ticks);
  const double tick_us = 1e6 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return {.wall = wall,
          .cpu = source_ == SampleSource::host_thread ? cpu : std::chrono::nanoseconds{},
          .run_count = run_count,
          .involuntary_switches = static_cast<std::uint32_t>(after.switches - before_.switches),
          .pressure = static_cast<float>(
              std::min(1.0, static_cast<double>(after.waited_us - before_.waited_us) / micros)),
          .steal = static_cast<float>(std::min(1.0, ticks * tick_us / micros)),
          .rotated_bytes = rotated_bytes,
          .source = source_};
}

double load_average() noexcept {
  return number_behind<double>(SystemFile("/proc/loadavg").text(), "");
}

double stolen_seconds() noexcept {
  return static_cast<double>(steal_ticks()) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace hearth::bench
