#include "v2_reader.hpp"

#include "v2_elements.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

namespace hearth::detail {
namespace {

/// Deepest nesting of a request, in values that the reader skips.
constexpr std::size_t kMaxDepth = 32;

/// The value whose entries are read.
enum class Place : std::uint8_t {
  request,
  request_parameters,
  inputs,
  input,
  input_parameters,
  shape,
  data,
  outputs,
  output,
  output_parameters,
  skipped,  ///< A field that the protocol does not have, or that means nothing here.
};

class Reader final {
 public:
  explicit Reader(const V2Limits& limits) : limits_(limits) {}

  // The events of rapidjson, with its names; each returns whether the parser goes on.
  // NOLINTBEGIN(readability-identifier-naming)
  bool Null() { return refuse_value("null"); }
  bool Bool(bool value);
  bool Int(int value) { return Int64(value); }
  bool Uint(unsigned value) { return Uint64(value); }
  bool Int64(std::int64_t value);
  bool Uint64(std::uint64_t value);
  bool Double(double value) {
    return place() == Place::data ? check(elements_.add(value)) : refuse_value("a fraction");
  }
  bool RawNumber(const char* /*text*/, rapidjson::SizeType /*size*/, bool /*copy*/) {
    return false;  // the parser converts all numbers
  }
  bool String(const char* text, rapidjson::SizeType size, bool /*copy*/);
  bool StartObject();
  bool Key(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    key_.assign(text, size);
    return true;
  }
  bool EndObject(rapidjson::SizeType /*count*/);
  bool StartArray();
  bool EndArray(rapidjson::SizeType /*count*/);
  // NOLINTEND(readability-identifier-naming)

  [[nodiscard]] Result<V2Request> take() && {
    if (error_) {
      return *std::move(error_);
    }
    return std::move(request_);
  }
  [[nodiscard]] bool has_error() const noexcept { return error_.has_value(); }

 private:
  [[nodiscard]] Place place() const noexcept {
    return places_.empty() ? Place::skipped : places_.back();
  }
  [[nodiscard]] bool is_skipped() const noexcept {
    return !places_.empty() && place() == Place::skipped;
  }
  /// The name of the field that is read, for errors: "inputs[0].shape".
  [[nodiscard]] std::string field() const;
  bool refuse(std::string text) {
    if (!error_) {
      error_ = Error{.code = ErrorCode::invalid_argument, .text = std::move(text)};
    }
    return false;
  }
  bool refuse_value(std::string_view given);
  bool check(const std::string& fault) {
    return fault.empty() || refuse(fmt::format("{}: {}", field(), fault));
  }
  /// Whether the current field is one whose values have a meaning.
  [[nodiscard]] bool is_known_field() const;
  bool enter(Place place);
  bool enter_tensor(Place place);
  bool finish_input();
  V2Input& input() { return request_.inputs.back(); }

  const V2Limits limits_;
  std::vector<Place> places_;
  std::string key_;
  V2Request request_;
  V2Elements elements_;
  std::optional<Error> error_;
};

std::string Reader::field() const {
  std::string text;
  for (const Place each : places_) {
    switch (each) {
      case Place::inputs:
        text = fmt::format("inputs[{}]", request_.inputs.empty() ? 0 : request_.inputs.size() - 1);
        break;
      case Place::outputs:
        text =
            fmt::format("outputs[{}]", request_.outputs.empty() ? 0 : request_.outputs.size() - 1);
        break;
      case Place::request_parameters:
      case Place::input_parameters:
      case Place::output_parameters:
        text += text.empty() ? "parameters" : ".parameters";
        break;
      default:
        break;
    }
  }
  const bool is_list = place() == Place::inputs || place() == Place::outputs;
  return is_list ? text : text + (text.empty() ? "" : ".") + key_;
}

bool Reader::is_known_field() const {
  switch (place()) {
    case Place::request:
      return key_ == "id" || key_ == "inputs" || key_ == "outputs" || key_ == "parameters";
    case Place::input:
      return key_ == "name" || key_ == "shape" || key_ == "datatype" || key_ == "data" ||
             key_ == "parameters";
    case Place::output:
      return key_ == "name" || key_ == "parameters";
    case Place::request_parameters:
      return key_ == "binary_data_output" || key_ == "timeout";
    case Place::input_parameters:
      return key_ == "binary_data_size";
    case Place::output_parameters:
      return key_ == "binary_data";
    case Place::skipped:
      return false;
    default:
      return true;
  }
}

bool Reader::refuse_value(std::string_view given) {
  if (places_.empty()) {
    return refuse("the request is no JSON object");
  }
  return is_known_field() ? refuse(fmt::format("{} must not be {}", field(), given)) : true;
}

bool Reader::Bool(bool value) {
  if (place() == Place::data) {
    return check(elements_.add(value));
  }
  if (place() == Place::request_parameters && key_ == "binary_data_output") {
    request_.binary_outputs = value;
    return true;
  }
  if (place() == Place::output_parameters && key_ == "binary_data") {
    request_.outputs.back().is_binary = value;
    return true;
  }
  return refuse_value(value ? "true" : "false");
}

bool Reader::Int64(std::int64_t value) {
  if (value >= 0) {
    return Uint64(static_cast<std::uint64_t>(value));
  }
  return place() == Place::data ? check(elements_.add(value)) : refuse_value("negative");
}

bool Reader::Uint64(std::uint64_t value) {
  const bool is_large =
      value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  switch (place()) {
    case Place::data:
      return is_large ? check(elements_.add(static_cast<double>(value)))
                      : check(elements_.add(static_cast<std::int64_t>(value)));
    case Place::shape:
      if (is_large || input().shape->size() == static_cast<std::size_t>(kMaxRank)) {
        return refuse(fmt::format("{}: expected at most {} sizes below 2^63", field(), kMaxRank));
      }
      input().shape->push_back(static_cast<std::int64_t>(value));
      return true;
    case Place::input_parameters:
      if (key_ == "binary_data_size") {
        input().binary_bytes = value;
        return true;
      }
      break;
    case Place::request_parameters:
      if (key_ == "timeout") {
        request_.timeout_us = value;
        return true;
      }
      break;
    default:
      break;
  }
  return refuse_value("a number");
}

bool Reader::String(const char* text, rapidjson::SizeType size, bool /*copy*/) {
  const std::string_view value(text, size);
  switch (place()) {
    case Place::request:
      if (key_ == "id") {
        request_.id = value;
        return true;
      }
      break;
    case Place::input:
      if (key_ == "name") {
        input().name = value;
        return true;
      }
      if (key_ == "datatype") {
        if (input().dtype) {
          return refuse(fmt::format("{}: it stands twice", field()));  // data has the first type
        }
        input().dtype = v2_dtype(value);
        return input().dtype ? true
                             : refuse(fmt::format("{}: {} is not supported", field(), value));
      }
      break;
    case Place::output:
      if (key_ == "name") {
        request_.outputs.back().name = value;
        return true;
      }
      break;
    default:
      break;
  }
  return refuse_value("a string");
}

bool Reader::enter(Place place) {
  if (places_.size() == kMaxDepth) {
    return refuse(fmt::format("the request is nested deeper than {}", kMaxDepth));
  }
  places_.push_back(place);
  return true;
}

bool Reader::enter_tensor(Place place) {
  const std::size_t count =
      place == Place::input ? request_.inputs.size() : request_.outputs.size();
  if (count == static_cast<std::size_t>(limits_.max_tensors)) {
    return refuse(fmt::format("{}: more than {} entries",
                              place == Place::input ? "inputs" : "outputs",
                              limits_.max_tensors));
  }
  if (place == Place::input) {
    request_.inputs.emplace_back();
  } else {
    request_.outputs.emplace_back();
  }
  return enter(place);
}

bool Reader::StartObject() {
  if (places_.empty()) {
    return enter(Place::request);
  }
  if (!is_known_field()) {
    return enter(Place::skipped);
  }
  switch (place()) {
    case Place::inputs:
      return enter_tensor(Place::input);
    case Place::outputs:
      return enter_tensor(Place::output);
    case Place::request:
      return key_ == "parameters" ? enter(Place::request_parameters) : refuse_value("an object");
    case Place::input:
      return key_ == "parameters" ? enter(Place::input_parameters) : refuse_value("an object");
    case Place::output:
      return key_ == "parameters" ? enter(Place::output_parameters) : refuse_value("an object");
    default:
      return refuse_value("an object");
  }
}

bool Reader::EndObject(rapidjson::SizeType /*count*/) {
  const Place ended = places_.back();
  const bool is_good = ended != Place::input || finish_input();
  places_.pop_back();
  return is_good;
}

bool Reader::StartArray() {
  if (places_.empty()) {
    return refuse("the request is no JSON object");
  }
  if (!is_known_field()) {
    return enter(Place::skipped);
  }
  if (place() == Place::data) {
    return check(elements_.open_array());
  }
  if (place() == Place::request && (key_ == "inputs" || key_ == "outputs")) {
    const bool is_twice = key_ == "inputs" ? !request_.inputs.empty() : !request_.outputs.empty();
    return is_twice ? refuse(fmt::format("{} stands twice in the request", key_))
                    : enter(key_ == "inputs" ? Place::inputs : Place::outputs);
  }
  if (place() == Place::input && key_ == "shape") {
    input().shape.emplace();
    return enter(Place::shape);
  }
  if (place() == Place::input && key_ == "data") {
    input().has_data = true;
    elements_.begin(input().dtype);
    return check(elements_.open_array()) && enter(Place::data);
  }
  return refuse_value("an array");
}

bool Reader::EndArray(rapidjson::SizeType /*count*/) {
  if (place() == Place::data) {
    if (!check(elements_.close_array())) {
      return false;
    }
    if (elements_.is_open()) {
      return true;
    }
  }
  places_.pop_back();
  return true;
}

bool Reader::finish_input() {
  V2Input& ended = input();
  places_.back() = Place::inputs;  // for the name of the field
  if (ended.name.empty()) {
    return refuse(fmt::format("{}: it has no name", field()));
  }
  if (!ended.dtype) {
    return refuse(fmt::format("{}: it has no datatype", field()));
  }
  if (!ended.shape) {
    return refuse(fmt::format("{}: it has no shape", field()));
  }
  if (ended.has_data) {
    std::string fault;
    ended.bytes = elements_.finish(*ended.dtype, *ended.shape, fault);
    return check(fault);
  }
  return true;
}

}  // namespace

Result<V2Request> read_v2_request(std::string_view text, const V2Limits& limits) {
  // Without recursion, with exact numbers, and with strings that are UTF-8.
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag | rapidjson::kParseFullPrecisionFlag |
                              rapidjson::kParseValidateEncodingFlag;
  Reader reader(limits);
  rapidjson::Reader parser;
  rapidjson::MemoryStream stream(text.data(), text.size());
  const rapidjson::ParseResult parsed = parser.Parse<kFlags>(stream, reader);
  if (parsed.IsError() && !reader.has_error()) {
    return Error{.code = ErrorCode::bad_format,
                 .text = fmt::format("the JSON is invalid: byte {}: {}",
                                     parsed.Offset(),
                                     rapidjson::GetParseError_En(parsed.Code()))};
  }
  if (!parsed.IsError() && stream.Tell() != text.size()) {  // behind a byte 0
    return Error{.code = ErrorCode::bad_format,
                 .text = fmt::format("the JSON is invalid: byte {}: it has ended", stream.Tell())};
  }
  return std::move(reader).take();
}

}  // namespace hearth::detail
