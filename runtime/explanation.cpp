#include <hearth/runtime/explanation.hpp>

#include <algorithm>
#include <exception>
#include <iterator>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <hearth/runtime/base/error.hpp>

namespace hearth {
namespace {

std::string readable(std::int64_t bytes) {
  constexpr double kStep = 1024;
  const auto count = static_cast<double>(bytes);
  if (count >= kStep * kStep) {
    return fmt::format("{:.2f} MiB", count / (kStep * kStep));
  }
  return count >= kStep ? fmt::format("{:.1f} KiB", count / kStep) : fmt::format("{} B", bytes);
}

std::string counted(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : what.ends_with("ch") ? "es" : "s");
}

std::string place_of(const ExplainedKernel& kernel) {
  std::string text = kernel.module_path.empty() ? "" : "in " + kernel.module_path + " ";
  if (kernel.location.line != 0) {
    const std::string_view file = kernel.location.file;
    text += fmt::format("at {}:{}", file.substr(file.find_last_of('/') + 1), kernel.location.line);
  }
  return text;
}

/// Returns whether all kernels end for the same reason.
bool have_one_end(const std::vector<ExplainedKernel>& kernels) {
  return kernels.size() > 1 &&
         std::ranges::all_of(kernels, [&kernels](const ExplainedKernel& each) {
           return each.boundary == kernels.front().boundary;
         });
}

std::string line_of(const ExplainedKernel& kernel, std::size_t number, std::size_t times) {
  return fmt::format("{:>4}  {}{}, reads {}, writes {}  {}{}",
                     number,
                     kernel.name,
                     kernel.op_count > 1 ? fmt::format(" ({} ops)", kernel.op_count) : "",
                     readable(kernel.bytes_read),
                     readable(kernel.bytes_written),
                     place_of(kernel),
                     times > 1 ? fmt::format("  {} times", times) : "");
}

std::int64_t sum_of(const std::vector<ExplainedKernel>& kernels,
                    std::int64_t ExplainedKernel::*field) noexcept {
  std::int64_t sum = 0;
  for (const ExplainedKernel& kernel : kernels) {
    sum += kernel.*field;
  }
  return sum;
}

}  // namespace

// A single kernel counts as repeated from two times on, a longer sequence from three.
std::vector<detail::RepeatedKernels> detail::repeated(const std::vector<ExplainedKernel>& kernels) {
  constexpr std::size_t kLongest = 8;
  std::vector<detail::RepeatedKernels> all;
  for (std::size_t first = 0; first < kernels.size();) {
    detail::RepeatedKernels best{.first = first};
    for (std::size_t length = 1; length <= kLongest; ++length) {
      std::size_t end = first + length;
      while (end < kernels.size() && kernels[end] == kernels[end - length]) {
        ++end;
      }
      const std::size_t times = end <= kernels.size() ? (end - first) / length : 1;
      if (times > (length > 1 ? 2U : 1U) && times * length > best.times * best.length) {
        best = {.first = first, .length = length, .times = times};
      }
    }
    all.push_back(best);
    first += best.length * best.times;
  }
  return all;
}

std::int64_t Explanation::op_count() const noexcept {
  return sum_of(kernels, &ExplainedKernel::op_count);
}
std::int64_t Explanation::bytes_read() const noexcept {
  return sum_of(kernels, &ExplainedKernel::bytes_read);
}
std::int64_t Explanation::bytes_written() const noexcept {
  return sum_of(kernels, &ExplainedKernel::bytes_written);
}

std::int64_t Explanation::launches_saved() const noexcept {
  return op_count() + unneeded_ops - launches;
}

std::string Explanation::to_string() const {
  std::string text = fmt::format("{}: {} in {}, {}, {} saved\n",
                                 device,
                                 counted(op_count(), "op"),
                                 counted(std::ssize(kernels), "kernel"),
                                 counted(launches, "launch"),
                                 counted(launches_saved(), "launch"));
  if (unneeded_ops > 0) {
    text += fmt::format("      {} more eliminated, as nothing uses what {}\n",
                        counted(unneeded_ops, "op"),
                        unneeded_ops == 1 ? "it makes" : "they make");
  }
  const bool has_one_end = have_one_end(kernels);
  if (has_one_end && !kernels.front().boundary.empty()) {
    text += fmt::format("      each ends: {}\n", kernels.front().boundary);
  }
  for (const detail::RepeatedKernels& some : detail::repeated(kernels)) {
    for (std::size_t i = some.first; i < some.first + some.length; ++i) {
      text += line_of(kernels[i], i + 1, some.times) + "\n";
      if (!has_one_end && !kernels[i].boundary.empty()) {
        text += fmt::format("      ends: {}\n", kernels[i].boundary);
      }
    }
  }
  const std::int64_t moved = bytes_read() + bytes_written();
  text +=
      fmt::format("bytes: {} read, {} written", readable(bytes_read()), readable(bytes_written()));
  if (ideal_bytes > 0) {
    text += fmt::format("; {:.2f} times the {} that one kernel for all of it would move",
                        static_cast<double>(moved) / static_cast<double>(ideal_bytes),
                        readable(ideal_bytes));
  }
  return text + "\n";
}

std::string Explanation::to_json() const {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const ExplainedKernel& kernel : kernels) {
    runs.push_back({{"name", kernel.name},
                    {"ops", kernel.op_count},
                    {"bytes_read", kernel.bytes_read},
                    {"bytes_written", kernel.bytes_written},
                    {"module", kernel.module_path},
                    {"file", kernel.location.file},
                    {"line", kernel.location.line},
                    {"boundary", kernel.boundary}});
  }
  const nlohmann::ordered_json all = {{"device", device},
                                      {"ops", op_count()},
                                      {"unneeded_ops", unneeded_ops},
                                      {"kernels", kernels.size()},
                                      {"launches", launches},
                                      {"launches_saved", launches_saved()},
                                      {"bytes_read", bytes_read()},
                                      {"bytes_written", bytes_written()},
                                      {"ideal_bytes", ideal_bytes},
                                      {"runs", std::move(runs)}};
  // Names of files and modules come from the user and may not be UTF-8.
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Explanation explain(const Device& device, const std::function<void()>& program) {
  device.sync();
  device.start_explanation();
  try {
    program();
    device.sync();
  } catch (...) {
    const std::exception_ptr cause = std::current_exception();
    try {
      static_cast<void>(device.take_explanation());  // otherwise the device would keep recording
    } catch (const Exception&) {
      // A lost or closed device records nothing; the program's own failure is the one to report.
    }
    std::rethrow_exception(cause);
  }
  return device.take_explanation();
}

}  // namespace hearth
