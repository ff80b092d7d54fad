#include "v2_writer.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <iterator>
#include <type_traits>

#include <nlohmann/json.hpp>

namespace hearth::detail {
namespace {

using Json = nlohmann::ordered_json;

// Names and ids come from clients: a byte that is no UTF-8 is replaced.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <class T>
bool is_negative(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::signbit(value);
  } else {
    return false;
  }
}

template <class T>
void append_number(std::string& text, T value) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    append_number(text, static_cast<float>(value));
  } else if (value == T(0) && is_negative(value)) {
    text += "-0.0";  // parsers take -0 as a whole number, which has no sign
  } else if constexpr (std::is_same_v<T, std::int8_t> || std::is_same_v<T, std::uint8_t>) {
    fmt::format_to(std::back_inserter(text), "{}", static_cast<int>(value));
  } else {
    fmt::format_to(std::back_inserter(text), "{}", value);
  }
}

template <class T>
bool is_number(T value) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    return std::isfinite(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::isfinite(value);
  } else {
    return true;
  }
}

/// Appends the elements as a flat array. Returns false at one that JSON cannot hold.
bool append_elements(std::string& text, const HostRows& rows) {
  text += '[';
  const bool is_written = visit_dtype(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t place = 0; place < rows.bytes.size(); place += sizeof(T)) {
      T value = zero;
      std::memcpy(&value, rows.bytes.data() + place, sizeof(T));
      if (!is_number(value)) {
        return false;
      }
      if (place != 0) {
        text += ',';
      }
      append_number(text, value);
    }
    return true;
  });
  text += ']';
  return is_written;
}

Json sizes(const Shape& shape) {
  Json list = Json::array();
  for (const std::int64_t size : shape.dims()) {
    list.push_back(size);
  }
  return list;
}

Json tensors(const std::vector<ServedTensor>& all) {
  Json list = Json::array();
  for (const ServedTensor& each : all) {
    list.push_back({{"name", each.name}, {"datatype", v2_name(each.dtype)}, {"shape", each.shape}});
  }
  return list;
}

/// Removes the closing brace of an object, so that a member can follow.
std::string open_object(const Json& json) {
  std::string text = dump(json);
  text.pop_back();
  return text;
}

}  // namespace

Result<V2Body> write_v2_answer(const Answer& answer,
                               std::string_view model,
                               std::string_view id,
                               const ServedSignature& signature,
                               std::span<const WantedOutput> wanted) {
  if (answer.outputs.size() != signature.outputs.size()) {
    return Error{.code = ErrorCode::internal,
                 .text = fmt::format("the model has {} outputs, its signature {}",
                                     answer.outputs.size(),
                                     signature.outputs.size())};
  }
  Json head{{"model_name", model}, {"model_version", std::to_string(answer.version)}};
  if (!id.empty()) {
    head["id"] = id;
  }
  V2Body body;
  body.bytes = open_object(head) + ",\"outputs\":[";
  bool has_binary = false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const WantedOutput& want = wanted[i];
    const HostRows& rows = answer.outputs[want.index];
    const std::string& name = signature.outputs[want.index].name;
    Json output{{"name", name}, {"datatype", v2_name(rows.dtype)}, {"shape", sizes(rows.shape)}};
    body.bytes += i == 0 ? "" : ",";
    if (want.is_binary) {
      has_binary = true;
      output["parameters"] = {{"binary_data_size", rows.bytes.size()}};
      body.bytes += dump(output);
      continue;
    }
    body.bytes += open_object(output) + ",\"data\":";
    if (!append_elements(body.bytes, rows)) {
      return Error{.code = ErrorCode::unsupported,
                   .text = fmt::format("output '{}' has values that JSON cannot hold (NaN or "
                                       "infinity); request it with binary_data",
                                       name)};
    }
    body.bytes += '}';
  }
  body.bytes += "]}";
  if (has_binary) {
    body.json_bytes = body.bytes.size();
    for (const WantedOutput& want : wanted) {
      const std::vector<std::byte>& bytes = answer.outputs[want.index].bytes;
      if (want.is_binary && !bytes.empty()) {
        const std::size_t place = body.bytes.size();
        body.bytes.resize(place + bytes.size());
        std::memcpy(body.bytes.data() + place, bytes.data(), bytes.size());
      }
    }
  }
  return body;
}

std::string write_v2_metadata(std::string_view model,
                              std::uint64_t version,
                              const ServedSignature& signature) {
  return dump(Json{{"name", model},
                   {"versions", Json::array({std::to_string(version)})},
                   {"platform", "hearth"},
                   {"inputs", tensors(signature.inputs)},
                   {"outputs", tensors(signature.outputs)}});
}

std::string write_v2_server() {
  return dump(Json{{"name", "hearth"},
                   {"version", HEARTH_VERSION},
                   {"extensions", Json::array({"binary_tensor_data"})}});
}

std::string write_v2_error(std::string_view text) {
  return dump(Json{{"error", text}});
}

std::string write_v2_ready(std::string_view name) {
  Json json = Json::object();
  if (!name.empty()) {
    json["name"] = name;
  }
  json["ready"] = true;
  return dump(json);
}

std::string write_v2_live() {
  return dump(Json{{"live", true}});
}

}  // namespace hearth::detail
