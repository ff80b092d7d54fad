#include "trace_table.hpp"

#include <hearth/runtime/base/json_fault.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace hearth::bench {
namespace {

using Json = nlohmann::json;

constexpr int kHost = 1;

/// Takes events one by one while the file is read: a long trace has a million.
class Reader {
 public:
  explicit Reader(TraceQuestion question) : question_(std::move(question)) {}

  void take(const Json& event) {
    const std::string phase = event.value("ph", "");
    if (phase == "M" && event.value("name", "") == "process_name" &&
        event.at("pid").get<int>() != kHost) {
      const std::string name = event.at("args").at("name").get<std::string>();
      names_[event.at("pid").get<int>()] = name;
      table_.devices.push_back(name);
    }
    if (phase != "X") {
      return;
    }
    const double begin = event.at("ts").get<double>() * 1e-6;
    const double seconds = event.at("dur").get<double>() * 1e-6;
    first_ = std::min(first_, begin);
    last_ = std::max(last_, begin + seconds);
    const int process = event.at("pid").get<int>();
    if (process != kHost && !question_.device.empty() && names_[process] != question_.device) {
      return;
    }
    const std::string track = event.value("cat", "");
    if (track == "kernels") {
      take_kernel(event, seconds);
      table_.busy_devices[names_[process]] += seconds;
    } else {
      table_.other_seconds[track] += seconds;
    }
  }

  TraceTable finish(const Json& rest) && {
    if (!rest.contains("otherData") || rest.at("otherData").value("writer", "") != "hearth") {
      throw std::runtime_error("no trace of Hearth");
    }
    if (!question_.device.empty() &&
        std::ranges::find(table_.devices, question_.device) == table_.devices.end()) {
      throw std::runtime_error(fmt::format(
          "no device '{}': there are {}", question_.device, fmt::join(table_.devices, ", ")));
    }
    table_.dropped_count = rest.at("otherData").at("dropped_events").get<std::int64_t>();
    table_.wall_seconds = std::max(0.0, last_ - first_);
    for (auto& [name, row] : rows_) {
      table_.rows.push_back(std::move(row));
    }
    std::ranges::stable_sort(table_.rows, std::ranges::greater(), &TraceRow::seconds);
    return std::move(table_);
  }

 private:
  void take_kernel(const Json& event, double seconds) {
    static const Json kNone = Json::object();
    const Json& facts = event.contains("args") ? event.at("args") : kNone;
    const std::string op = event.at("name").get<std::string>();
    const std::string name = question_.key == TraceKey::op ? op
                             : question_.key == TraceKey::layer
                                 ? first_names(facts.value("layer", ""), question_.depth)
                                 : facts.value("line", "");
    TraceRow& row = rows_[name];
    row.name = name;
    row.seconds += seconds;
    row.kernel_count += 1;
    row.op_count += facts.value("ops", 1);
    table_.kernel_seconds += seconds;
    table_.side_by_side_count += facts.value("side_by_side", false) ? 1 : 0;
    table_.shared_out_count += facts.value("shared_out", false) ? 1 : 0;
    table_.as_seen_count += facts.value("as_seen", false) ? 1 : 0;
    if (!facts.contains("layer")) {
      table_.without_layer[op] += seconds;
    }
  }

  const TraceQuestion question_;
  TraceTable table_;
  std::map<int, std::string> names_;
  std::map<std::string, TraceRow> rows_;
  double first_ = 1e300;
  double last_ = 0;
};

/// The bytes of a file, one by one. The JSON reader takes a zero byte for the end; here it is an
/// error.
class FileBytes {
 public:
  // NOLINTBEGIN(readability-identifier-naming): names of the standard library
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;
  // NOLINTEND(readability-identifier-naming)

  FileBytes() = default;
  explicit FileBytes(std::istream& input) : place_(input) {}
  char operator*() const {
    const char byte = *place_;
    if (byte == '\0') {
      throw std::runtime_error(fmt::format("byte {} is zero: this is no text", count_));
    }
    return byte;
  }
  FileBytes& operator++() {
    ++place_;
    ++count_;
    return *this;
  }
  friend bool operator==(const FileBytes& a, const FileBytes& b) { return a.place_ == b.place_; }

 private:
  std::istreambuf_iterator<char> place_;
  std::int64_t count_ = 0;
};

std::string readable_time(double seconds) {
  return seconds >= 1      ? fmt::format("{:.3f} s", seconds)
         : seconds >= 1e-3 ? fmt::format("{:.3f} ms", seconds * 1e3)
                           : fmt::format("{:.2f} us", seconds * 1e6);
}

double percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

/// The end of a path that is too long for a terminal.
std::string shortened(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : "..." + text.substr(text.size() - (most - 3));
}

std::string counted_kernels(std::int64_t count) {
  return fmt::format("{} kernel{}", count, count == 1 ? "" : "s");
}

/// Explains times of kernels that are not those of a single kernel.
std::string words_of_clocks(const TraceTable& table) {
  std::string text;
  if (table.side_by_side_count > 0) {
    text += fmt::format(
        "{} may have overlapped others: each counts by how much later the device was done with "
        "it.\n",
        counted_kernels(table.side_by_side_count));
  }
  if (table.as_seen_count > 0) {
    text += fmt::format(
        "{} ran on a device without timers: their times are from submission to the end on the "
        "host.\n",
        counted_kernels(table.as_seen_count));
  }
  if (table.shared_out_count > 0) {
    text += fmt::format(
        "{} share the time of several kernels that the device cannot time one by one.\n",
        counted_kernels(table.shared_out_count));
  }
  return text;
}

const char* title_of(TraceKey key) {
  switch (key) {
    case TraceKey::layer:
      return "layer";
    case TraceKey::op:
      return "op";
    case TraceKey::line:
      return "line";
  }
  return "";
}

}  // namespace

std::string TraceTable::to_text(TraceKey key, std::size_t most_rows) const {
  constexpr std::size_t kMostName = 60;
  const std::size_t shown = std::min(most_rows, rows.size());
  const auto name_of = [&](const TraceRow& row) {
    return row.name.empty() ? fmt::format("(no {})", title_of(key))
                            : shortened(row.name, kMostName);
  };
  std::size_t width = std::string("total, all kernels").size();
  for (std::size_t i = 0; i < shown; ++i) {
    width = std::max(width, name_of(rows[i]).size());
  }
  std::string text = fmt::format("{:<{}}  {:>11}  {:>7}  {:>9}  {:>9}\n",
                                 title_of(key),
                                 width,
                                 "time",
                                 "share",
                                 "kernels",
                                 "ops");
  const auto line = [&](const std::string& name, const TraceRow& row) {
    text += fmt::format("{:<{}}  {:>11}  {:>5.1f} %  {:>9}  {:>9}\n",
                        name,
                        width,
                        readable_time(row.seconds),
                        percent(row.seconds, kernel_seconds),
                        row.kernel_count,
                        row.op_count);
  };
  TraceRow all;
  TraceRow rest;
  const auto add = [](TraceRow& sum, const TraceRow& row) {
    sum.seconds += row.seconds;
    sum.kernel_count += row.kernel_count;
    sum.op_count += row.op_count;
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i < shown) {
      line(name_of(rows[i]), rows[i]);
    } else {
      add(rest, rows[i]);
    }
    add(all, rows[i]);
  }
  if (shown < rows.size()) {
    line(fmt::format("{} more", rows.size() - shown), rest);
  }
  line("total, all kernels", all);
  text += fmt::format("\nThe program ran for {}.", readable_time(wall_seconds));
  for (const auto& [device, seconds] : busy_devices) {
    text += fmt::format(
        " Kernels took {:.1f} % of that on {}.", percent(seconds, wall_seconds), device);
  }
  text += "\n" + words_of_clocks(*this);
  for (const auto& [track, seconds] : other_seconds) {
    text += fmt::format("{}: {}\n", track, readable_time(seconds));
  }
  double without = 0;
  std::vector<std::pair<double, std::string>> ops;
  for (const auto& [op, seconds] : without_layer) {
    without += seconds;
    ops.emplace_back(seconds, op);
  }
  if (key == TraceKey::layer && without > 0) {
    std::ranges::sort(ops, std::greater());
    text +=
        fmt::format("Without a layer: {} ({:.1f} %), of ops that no layer's weight took part in:",
                    readable_time(without),
                    percent(without, kernel_seconds));
    constexpr std::size_t kMostOps = 6;
    for (std::size_t i = 0; i < std::min(kMostOps, ops.size()); ++i) {
      text += fmt::format(
          "{} {} {}", i == 0 ? "" : ",", shortened(ops[i].second, 40), readable_time(ops[i].first));
    }
    text += ops.size() > kMostOps ? fmt::format(", and {} more\n", ops.size() - kMostOps) : "\n";
  }
  if (dropped_count > 0) {
    text += fmt::format("The file lacks {} events for which there was no room.\n", dropped_count);
  }
  return text;
}

std::string first_names(const std::string& path, std::size_t count) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < count && end != std::string::npos; ++i) {
    end = path.find('.', end + (i > 0 ? 1 : 0));
  }
  return count == 0 ? path : path.substr(0, end);
}

namespace {

/// Passes each event of the file to `take`, and returns the rest of the file.
template <class Take>
Json read_events(const std::filesystem::path& file, const Take& take) {
  std::ifstream input(file, std::ios::binary);
  if (!input) {
    throw std::runtime_error(fmt::format("cannot read {}", file.string()));
  }
  // An event is an object in the list of the outer object; it is taken and then discarded.
  constexpr int kEventDepth = 2;
  const auto on_part = [&](int depth, Json::parse_event_t what, Json& part) {
    if (what == Json::parse_event_t::object_end && depth == kEventDepth) {
      take(part);
      return false;
    }
    return true;
  };
  return Json::parse(FileBytes(input), FileBytes(), on_part);
}

}  // namespace

TraceTable read_trace(const std::filesystem::path& file, const TraceQuestion& question) {
  Reader reader(question);
  try {
    const Json rest = read_events(file, [&](const Json& event) { reader.take(event); });
    return std::move(reader).finish(rest);
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("{}: {}", file.string(), json_fault(error)));
  }
}

std::vector<TimedKernel> read_kernels(const std::filesystem::path& file,
                                      const std::string& device) {
  std::vector<TimedKernel> kernels;
  std::map<int, std::string> names;
  static_cast<void>(read_events(file, [&](const Json& event) {
    const std::string phase = event.value("ph", "");
    const int process = event.value("pid", 0);
    if (phase == "M" && event.value("name", "") == "process_name") {
      names[process] = event.at("args").at("name").get<std::string>();
    } else if (phase == "X" && event.value("cat", "") == "kernels" && names[process] == device) {
      kernels.push_back(
          {event.at("name").get<std::string>(), event.at("dur").get<double>() * 1e-6});
    }
  }));
  return kernels;
}

}  // namespace hearth::bench
