#include <hearth/runtime/base/machine_load.hpp>

#include <charconv>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/file.hpp>

namespace hearth::detail {
namespace {

/// Returns the number at the beginning of the text; 0 without one.
template <class T>
T number_in(std::string_view text) noexcept {
  T value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Returns the text behind `mark` in a file of the system; empty if either is missing.
std::string_view text_behind(const Result<std::vector<std::byte>>& file, std::string_view mark) {
  if (!file.has_value()) {
    return {};
  }
  const std::string_view text(reinterpret_cast<const char*>(file.value().data()),
                              file.value().size());
  const std::size_t place = text.find(mark);
  return place == std::string_view::npos ? std::string_view() : text.substr(place + mark.size());
}

}  // namespace

// "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345", then a line "full".
MachineLoad MachineLoad::now() {
  const Result<std::vector<std::byte>> pressure = read_file("/proc/pressure/cpu");
  const Result<std::vector<std::byte>> load = read_file("/proc/loadavg");
  return {
      .waited = std::chrono::microseconds(number_in<std::int64_t>(text_behind(pressure, "total="))),
      .load = number_in<float>(text_behind(load, ""))};
}

std::chrono::sys_seconds time_of_day() noexcept {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

}  // namespace hearth::detail
