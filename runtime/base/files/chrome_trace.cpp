// Writes the JSON text piece by piece. As one JSON value a million events would take a gigabyte.
#include <hearth/runtime/base/chrome_trace.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <hearth/runtime/base/file.hpp>

namespace hearth {
namespace {

constexpr int kHost = 1;            // process of the host; devices follow
constexpr int kTracksOfThread = 2;  // waits and parts
constexpr int kBeside = 100'000;    // offset of the tracks that hold overlapping events

constexpr const char* kTrackNames[] = {
    "kernels", "uploads", "readbacks", "collectives", "waits", "parts", "memory", "queue"};

bool is_counter(detail::TraceTrack track) noexcept {
  return track == detail::TraceTrack::memory || track == detail::TraceTrack::queue;
}

/// Process and track of an event.
struct Place {
  int process = 0;
  int track = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};

struct Placed {
  const detail::TraceEvent* event = nullptr;
  Place place;
};

double microseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

/// Cache of texts quoted as JSON. Bytes that are not UTF-8 become a replacement character.
class Quoted {
 public:
  [[nodiscard]] const std::string& operator()(std::string_view text) {
    const auto known = known_.find(std::string(text));
    if (known != known_.end()) {
      return known->second;
    }
    std::string made =
        nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return known_.emplace(std::string(text), std::move(made)).first->second;
  }

 private:
  std::unordered_map<std::string, std::string> known_;
};

class Writer {
 public:
  Writer(const detail::TraceLog& log,
         const TraceNames& names,
         const std::function<Status(std::string_view)>& write)
      : log_(log), names_(names), write_(write) {}

  // Phases: place the events; move overlapping ones to tracks of their own; name processes and
  // tracks; write the events by time; write the end with the number of dropped events.
  Status run() {
    place_events();
    separate_tracks();
    text_ = R"({"displayTimeUnit":"ns","traceEvents":[)";
    name_tracks();
    std::ranges::stable_sort(placed_, {}, [](const Placed& each) { return each.event->begin; });
    for (const Placed& each : placed_) {
      append(each);
      if (text_.size() > kPieceBytes) {
        HEARTH_TRY_STATUS(write_(std::exchange(text_, {})));
      }
    }
    fmt::format_to(std::back_inserter(text_),
                   "],\"otherData\":{{\"writer\":\"hearth\",\"version\":1,\"events\":{},"
                   "\"dropped_events\":{}}}}}\n",
                   placed_.size(),
                   log_.dropped_count);
    return write_(text_);
  }

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 18U;

  void place_events() {
    std::map<std::string_view, int> devices;  // sorted, so that numbers do not depend on timing
    for (const detail::TraceLog::Thread& thread : log_.threads) {
      for (const detail::TraceEvent& event : thread.events) {
        if (!event.device.empty()) {
          devices.emplace(event.device, 0);
        }
      }
    }
    int next = kHost + 1;
    for (auto& [device, number] : devices) {
      number = next++;
      processes_[number] = device;
    }
    int order = 0;
    for (const detail::TraceLog::Thread& thread : log_.threads) {
      for (const detail::TraceEvent& event : thread.events) {
        Place place{.process = kHost, .track = 0};
        if (event.device.empty()) {
          const bool is_part = event.track == detail::TraceTrack::parts;
          place.track = kTracksOfThread * order + (is_part ? 1 : 2);
          tracks_.try_emplace(place,
                              fmt::format("{}: {}", thread.name, is_part ? "parts" : "waits"));
          processes_.try_emplace(kHost, "host");
        } else {
          place.process = devices.at(event.device);
          place.track = static_cast<int>(event.track) + 1;
          if (!is_counter(event.track)) {
            tracks_.try_emplace(place, kTrackNames[static_cast<std::size_t>(event.track)]);
          }
        }
        placed_.push_back({.event = &event, .place = place});
      }
      ++order;
    }
  }

  // Puts each event on the first row of its track where it nests in the open events or follows
  // them.
  void separate_tracks() {
    std::ranges::stable_sort(placed_, [](const Placed& a, const Placed& b) {
      return std::tuple(a.place, a.event->begin, b.event->end) <
             std::tuple(b.place, b.event->begin, a.event->end);
    });
    std::vector<std::vector<detail::TimePoint>> rows;  // ends of the open events, outermost first
    Place current{.process = -1, .track = 0};
    for (Placed& each : placed_) {
      if (is_counter(each.event->track)) {
        continue;
      }
      if (each.place != current) {
        current = each.place;
        rows.clear();
      }
      std::size_t row = 0;
      for (; row < rows.size(); ++row) {
        while (!rows[row].empty() && rows[row].back() <= each.event->begin) {
          rows[row].pop_back();
        }
        if (rows[row].empty() || each.event->end <= rows[row].back()) {
          break;
        }
      }
      if (row == rows.size()) {
        rows.emplace_back();
      }
      rows[row].push_back(each.event->end);
      if (row > 0) {
        const std::string name = fmt::format("{} {}", tracks_.at(current), row + 1);
        each.place.track += kBeside * static_cast<int>(row);
        tracks_.try_emplace(each.place, name);
      }
    }
  }

  void comma() {
    if (!is_first_) {
      text_ += ",\n";
    }
    is_first_ = false;
  }

  void name_tracks() {
    for (const auto& [process, name] : processes_) {
      comma();
      fmt::format_to(
          std::back_inserter(text_),
          R"({{"ph":"M","name":"process_name","pid":{0},"tid":0,"args":{{"name":{1}}}}},)"
          "\n"
          R"({{"ph":"M","name":"process_sort_index","pid":{0},"tid":0,"args":{{"sort_index":{0}}}}})",
          process,
          quoted_(name));
    }
    for (const auto& [place, name] : tracks_) {
      comma();
      // Keeps the rows of one track adjacent.
      const int order = place.track % kBeside * 100 + place.track / kBeside;
      fmt::format_to(
          std::back_inserter(text_),
          R"({{"ph":"M","name":"thread_name","pid":{0},"tid":{1},"args":{{"name":{2}}}}},)"
          "\n"
          R"({{"ph":"M","name":"thread_sort_index","pid":{0},"tid":{1},"args":{{"sort_index":{3}}}}})",
          place.process,
          place.track,
          quoted_(name),
          order);
    }
  }

  void append(const Placed& placed) {
    const detail::TraceEvent& event = *placed.event;
    comma();
    if (is_counter(event.track)) {
      const bool is_memory = event.track == detail::TraceTrack::memory;
      fmt::format_to(
          std::back_inserter(text_),
          R"({{"ph":"C","name":"{}","pid":{},"tid":0,"ts":{:.3f},"args":{{"{}":{},"{}":{}}}}})",
          is_memory ? "memory, bytes" : "ops",
          placed.place.process,
          microseconds(event.begin - log_.begin),
          is_memory ? "live" : "waiting in streams",
          event.value,
          is_memory ? "reserved" : "in flight",
          event.other);
      return;
    }
    fmt::format_to(std::back_inserter(text_),
                   R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f})",
                   quoted_(event.name),
                   kTrackNames[static_cast<std::size_t>(event.track)],
                   placed.place.process,
                   placed.place.track,
                   microseconds(event.begin - log_.begin),
                   microseconds(event.end - event.begin));
    append_facts(event);
    text_ += '}';
  }

  void append_facts(const detail::TraceEvent& event) {
    const char* separator = ",\"args\":{";
    const auto fact = [&](std::string_view name, std::string_view json) {
      fmt::format_to(std::back_inserter(text_), "{}\"{}\":{}", separator, name, json);
      separator = ",";
    };
    if (event.has_shape) {
      fact("shape",
           quoted_(fmt::format(
               "{}{}", hearth::name(event.dtype), names_.shapes.shape(event.shape).to_string())));
    }
    if (event.path.value != 0) {
      const std::string& path = names_.paths.path(event.path);
      fact("layer", quoted_(layer_of(path)));
      fact("tensor", quoted_(path));
    }
    if (event.location.line != 0) {
      fact("line", quoted_(fmt::format("{}:{}", event.location.file, event.location.line)));
    }
    if (event.lane.value != 0) {
      fact("stream", fmt::format("{}", event.lane.value));
    }
    if (event.op_count > 0) {
      fact("ops", fmt::format("{}", event.op_count));
    }
    if (event.value > 0) {
      fact("bytes", fmt::format("{}", event.value));
    }
    if (event.has_device_time) {
      fact("device_clock", "true");
    }
    if (event.is_as_seen) {
      fact("as_seen", "true");
    }
    if (event.is_side_by_side) {
      fact("side_by_side", "true");
    }
    if (event.is_shared_out) {
      fact("shared_out", "true");
    }
    if (*separator == ',' && separator[1] == '\0') {
      text_ += '}';
    }
  }

  const detail::TraceLog& log_;
  const TraceNames& names_;
  const std::function<Status(std::string_view)>& write_;
  std::vector<Placed> placed_;
  std::map<int, std::string_view> processes_;
  std::map<Place, std::string> tracks_;
  Quoted quoted_;
  std::string text_;
  bool is_first_ = true;
};

}  // namespace

// Counts an optimizer's state to its parameter's layer: "mean.inner.weight" to "inner".
std::string_view layer_of(std::string_view path) noexcept {
  for (const std::string_view state : {"mean.", "variance.", "momentum."}) {
    const std::string_view parameter = path.substr(std::min(path.size(), state.size()));
    if (path.starts_with(state) && parameter.find('.') != std::string_view::npos) {
      path = parameter;
      break;
    }
  }
  const std::size_t point = path.find_last_of('.');
  return point == std::string_view::npos ? path : path.substr(0, point);
}

Status write_chrome_trace(const detail::TraceLog& log,
                          const TraceNames& names,
                          const std::function<Status(std::string_view)>& write) {
  return Writer(log, names, write).run();
}

Status write_chrome_trace(const detail::TraceLog& log,
                          const TraceNames& names,
                          const std::filesystem::path& path) {
  return write_file_atomically(path, [&](FileWriter& file) {
    return write_chrome_trace(log, names, [&](std::string_view piece) {
      return file.write(std::as_bytes(std::span(piece)));
    });
  });
}

}  // namespace hearth
