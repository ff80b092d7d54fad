// The file format of a memory trace: JSON, with the producing ops in a list beside the events.
#include <hearth/runtime/memory_trace.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/json_fault.hpp>

namespace hearth {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;

std::string json_text(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Numbers the distinct origins and collects their list.
class Origins {
 public:
  std::size_t place_of(const TensorOrigin& origin) {
    const auto [known, is_new] = places_.try_emplace(std::tuple(origin.op,
                                                                origin.type,
                                                                origin.module_path,
                                                                std::string(origin.location.file),
                                                                origin.location.line),
                                                     places_.size());
    if (is_new) {
      fmt::format_to(std::back_inserter(text_),
                     "{}[{},{},{},{},{}]",
                     text_.empty() ? "" : ",\n",
                     json_text(origin.op),
                     json_text(origin.type),
                     json_text(origin.module_path),
                     json_text(origin.location.file),
                     origin.location.line);
    }
    return known->second;
  }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  using Key = std::tuple<std::string, std::string, std::string, std::string, std::uint32_t>;
  std::map<Key, std::size_t> places_;
  std::string text_;
};

Status write_device(FileWriter& file, const DeviceMemoryTrace& trace) {
  constexpr std::size_t kPieceBytes = std::size_t{1} << 18U;
  Origins origins;
  std::string text = fmt::format("{{\"device\":{},\"events\":[", json_text(trace.device));
  const char* comma = "\n";
  const auto put = [&] {
    const Status status = file.write(std::as_bytes(std::span(text)));
    text.clear();
    return status;
  };
  for (const MemoryEvent& event : trace.events) {
    fmt::format_to(std::back_inserter(text),
                   "{}[{},{},{},{},{},{}]",
                   std::exchange(comma, ",\n"),
                   static_cast<int>(event.what),
                   event.block,
                   (event.time - trace.events.front().time).count(),
                   event.tensor.size_bytes,
                   event.tensor.is_exclusive ? 1 : 0,
                   origins.place_of(event.tensor.origin));
    if (text.size() > kPieceBytes) {
      HEARTH_TRY_STATUS(put());
    }
  }
  text += "],\n\"origins\":[" + origins.text() + "]}";
  return put();
}

MemoryEvent event_of(const Json& json, const std::vector<TensorOrigin>& origins) {
  const int what = json.at(0).get<int>();
  if (what < 0 || what > static_cast<int>(MemoryEvent::What::freed)) {
    throw std::out_of_range("an event of no known kind");
  }
  return {.what = static_cast<MemoryEvent::What>(what),
          .block = json.at(1).get<std::uint64_t>(),
          .time = detail::TimePoint(std::chrono::nanoseconds(json.at(2).get<std::int64_t>())),
          .tensor = {.size_bytes = json.at(3).get<std::int64_t>(),
                     .is_exclusive = json.at(4).get<int>() != 0,
                     .origin = origins.at(json.at(5).get<std::size_t>())}};
}

DeviceMemoryTrace trace_of(const Json& json) {
  auto files = std::make_shared<std::set<std::string>>();
  std::vector<TensorOrigin> origins;
  for (const Json& each : json.at("origins")) {
    const std::string& file = *files->insert(each.at(3).get<std::string>()).first;
    origins.push_back({.op = each.at(0).get<std::string>(),
                       .type = each.at(1).get<std::string>(),
                       .module_path = each.at(2).get<std::string>(),
                       .location = {file.c_str(), each.at(4).get<std::uint32_t>()}});
  }
  DeviceMemoryTrace trace{.device = json.at("device").get<std::string>(), .events = {}};
  for (const Json& each : json.at("events")) {
    trace.events.push_back(event_of(each, origins));
  }
  trace.files = std::move(files);
  return trace;
}

}  // namespace

Status write_memory_traces(const std::filesystem::path& file,
                           std::span<const DeviceMemoryTrace> traces) {
  return write_file_atomically(file, [&](FileWriter& writer) -> Status {
    const auto put = [&](std::string_view text) {
      return writer.write(std::as_bytes(std::span(text)));
    };
    HEARTH_TRY_STATUS(put(fmt::format("{{\"hearth_memory_trace\":{},\"devices\":[", kVersion)));
    for (std::size_t i = 0; i < traces.size(); ++i) {
      HEARTH_TRY_STATUS(put(i == 0 ? "" : ",\n"));
      HEARTH_TRY_STATUS(write_device(writer, traces[i]));
    }
    return put("]}\n");
  });
}

Result<std::vector<DeviceMemoryTrace>> read_memory_traces(const std::filesystem::path& file) {
  HEARTH_TRY(const std::vector<std::byte> bytes, read_file(file));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),  // NOLINT: bytes as text
                              bytes.size());
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return Error{
        .code = ErrorCode::bad_format,  // the parser would take it for the end
        .text = fmt::format("file {}: byte {} is zero: no memory trace", file.string(), zero)};
  }
  try {
    const Json json = Json::parse(text);
    if (json.at("hearth_memory_trace").get<int>() != kVersion) {
      return Error{
          .code = ErrorCode::bad_format,
          .text = fmt::format("file {}: a memory trace of another version", file.string())};
    }
    std::vector<DeviceMemoryTrace> traces;
    for (const Json& each : json.at("devices")) {
      traces.push_back(trace_of(each));
    }
    return traces;
  } catch (const std::exception& error) {  // also exceptions of the JSON library
    return Error{
        .code = ErrorCode::bad_format,
        .text = fmt::format("file {}: not a memory trace: {}", file.string(), json_fault(error))};
  }
}

}  // namespace hearth
