// A problem as a record, and the values that its text can have.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/streams/shape_rules.hpp>

#include "problem.hpp"

namespace hearth::bench {
namespace {

Error bad_value(std::string text) {
  return {.code = ErrorCode::invalid_argument, .text = std::move(text)};
}

}  // namespace

OpRecord Problem::record() const {
  OpRecord record;
  record.kind = kind;
  record.flags = flags;
  record.sequence = 1;
  record.input_count = static_cast<std::uint16_t>(inputs.size());
  record.output_count = static_cast<std::uint16_t>(outputs.size());
  if (attributes.size() <= sizeof record.immediate) {
    std::memcpy(record.immediate, attributes.data(), attributes.size());
  }
  record.blob_size_bytes = static_cast<std::uint32_t>(blob().size());
  return record;
}

// Operands beyond five are first, then attributes, then numbers. Kernels read the views, so the
// operands stay empty.
std::vector<std::byte> Problem::blob() const {
  const std::size_t operands = inputs.size() + outputs.size();
  std::vector<std::byte> bytes(
      operands > kInlineOperands ? (operands - kInlineOperands) * sizeof(Operand) : 0);
  if (attributes.size() > sizeof(OpRecord::immediate)) {
    bytes.insert(bytes.end(), attributes.begin(), attributes.end());
  }
  const auto tail = std::as_bytes(std::span(numbers));
  bytes.insert(bytes.end(), tail.begin(), tail.end());
  return bytes;
}

Result<DType> parse_dtype(std::string_view text) {
  std::string all;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (name(dtype) == text) {
      return dtype;
    }
    all += fmt::format("{}{}", i == 0 ? "" : ", ", name(dtype));
  }
  return bad_value(fmt::format("no element type '{}'; there are {}", text, all));
}

Result<Shape> parse_sizes(std::string_view text) {
  std::vector<std::int64_t> sizes;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find('x'));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    std::int64_t size = 0;
    const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), size);
    if (problem != std::errc() || end != part.data() + part.size() || size < 0) {
      return bad_value(fmt::format("'{}' is no shape; write 32x512x1024", text));
    }
    sizes.push_back(size);
  }
  return make_shape(sizes);
}

Result<double> parse_number(std::string_view what, std::string_view text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) {
    return bad_value(fmt::format("{}: '{}' is no number", what, text));
  }
  return value;
}

}  // namespace hearth::bench
