// The rules of Perfetto's JSON importer for files in the Chrome trace format that a writer can
// break. Pure. Threads: any.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace hearth::testing {

/// The violated rules, one a line; empty if the trace is valid.
///
/// Each event has a phase, a name, and whole numbers as process and track. Spans have a category, a
/// time and a length, both at least 0. Counters have a time and only numbers, and equal series each
/// time. Metadata has a name of the format, with its argument. Other phases are not allowed: no
/// flows, no begin without an end.
/// Events other than metadata come in the order of their times. Spans of a track nest or follow one
/// another. Each process and track with spans has one name.
[[nodiscard]] inline std::vector<std::string> schema_faults(const nlohmann::json& trace) {
  using Json = nlohmann::json;
  using Track = std::pair<int, int>;
  std::vector<std::string> faults;
  const auto fault = [&](const Json& event, const std::string& rule) {
    faults.push_back(rule + ": " + event.dump());
  };
  if (!trace.is_object() || !trace.contains("traceEvents") || !trace.at("traceEvents").is_array()) {
    return {"there is no list traceEvents in an object"};
  }
  std::map<int, int> process_names;
  std::map<Track, int> track_names;
  std::map<Track, std::vector<std::pair<double, double>>> spans;
  std::map<std::pair<int, std::string>, std::set<std::string>> counters;  // their series
  double last = -1;
  constexpr double kRounding = 0.0015;  // times and lengths are written to a nanosecond
  for (const Json& event : trace.at("traceEvents")) {
    const auto is_number = [&](const char* key) {
      return event.contains(key) && event.at(key).is_number();
    };
    const auto is_whole = [&](const char* key) {
      return is_number(key) && event.at(key).is_number_integer();
    };
    if (!event.contains("ph") || !event.at("ph").is_string() || !event.contains("name") ||
        !event.at("name").is_string() || !is_whole("pid") || !is_whole("tid")) {
      fault(event, "phase, name, process or track is missing");
      continue;
    }
    const std::string phase = event.at("ph");
    const std::string name = event.at("name");
    const Track track{event.at("pid"), event.at("tid")};
    if (event.contains("args") && !event.at("args").is_object()) {
      fault(event, "facts that are no object");
      continue;
    }
    if (phase == "M") {
      const bool is_name = name == "process_name" || name == "thread_name";
      const bool is_order = name == "process_sort_index" || name == "thread_sort_index";
      const Json args = event.value("args", Json::object());
      if (is_name && args.contains("name") && args.at("name").is_string()) {
        ++(name == "process_name" ? process_names[track.first] : track_names[track]);
      } else if (!is_order || !args.contains("sort_index") ||
                 !args.at("sort_index").is_number_integer()) {
        fault(event, "metadata of no known form");
      }
      continue;
    }
    if (!is_number("ts") || event.at("ts").get<double>() < 0) {
      fault(event, "no time from 0 up");
      continue;
    }
    const double begin = event.at("ts");
    if (begin < last) {
      fault(event, "before its predecessor");
    }
    last = begin;
    if (phase == "X") {
      if (!is_number("dur") || event.at("dur").get<double>() < 0) {
        fault(event, "no length from 0 up");
        continue;
      }
      if (name.empty() || !event.contains("cat") || !event.at("cat").is_string()) {
        fault(event, "a span without a name or a category");
      }
      spans[track].emplace_back(begin, begin + event.at("dur").get<double>());
    } else if (phase == "C") {
      const Json args = event.value("args", Json::object());
      if (args.empty() ||
          !std::ranges::all_of(args, [](const Json& value) { return value.is_number(); })) {
        fault(event, "a counter without numbers");
      }
      std::set<std::string> keys;
      for (const auto& [key, value] : args.items()) {
        keys.insert(key);
      }
      const auto [known, is_new] = counters.try_emplace({track.first, name}, keys);
      if (known->second != keys) {
        fault(event, "a counter of other series than before");
      }
    } else {
      fault(event, "a phase that is not written");
    }
  }
  for (auto& [track, list] : spans) {
    const std::string where = fmt::format("process {}, track {}", track.first, track.second);
    if (process_names[track.first] != 1) {
      faults.push_back(where + ": its process has not one name");
    }
    if (track_names[track] != 1) {
      faults.push_back(where + ": it has not one name");
    }
    std::vector<double> open;
    std::ranges::sort(list, [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    for (const auto& [begin, end] : list) {
      while (!open.empty() && open.back() <= begin + kRounding) {
        open.pop_back();
      }
      if (!open.empty() && end > open.back() + kRounding) {
        faults.push_back(fmt::format("{}: a span from {} to {} leaves the one around it, to {}",
                                     where,
                                     begin,
                                     end,
                                     open.back()));
      }
      open.push_back(end);
    }
  }
  return faults;
}

}  // namespace hearth::testing
