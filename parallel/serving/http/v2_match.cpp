#include "v2_match.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace hearth::detail {
namespace {

Error refusal(ErrorCode code, std::string text) {
  return Error{.code = code, .text = std::move(text)};
}

std::string list(const std::vector<std::int64_t>& sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

template <class Named>
std::string names_of(const std::vector<Named>& all) {
  std::string text;
  for (const Named& each : all) {
    text += text.empty() ? each.name : ", " + each.name;
  }
  return text;
}

template <class Named>
std::optional<std::size_t> place_of(const std::vector<Named>& all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &Named::name);
  return found == all.end()
             ? std::nullopt
             : std::optional<std::size_t>(static_cast<std::size_t>(found - all.begin()));
}

bool has_shape(const std::vector<std::int64_t>& given, const std::vector<std::int64_t>& expected) {
  return std::ranges::equal(
      given, expected, [](std::int64_t a, std::int64_t b) { return b < 0 || a == b; });
}

/// Returns the bytes of a tensor; nullopt if they do not fit into memory.
std::optional<std::uint64_t> byte_count(const V2Input& input) {
  std::uint64_t bytes = static_cast<std::uint64_t>(size_bytes(*input.dtype));
  for (const std::int64_t size : *input.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes) ||
        bytes > (std::uint64_t{1} << 62U)) {
      return std::nullopt;
    }
  }
  return bytes;
}

Status check(const V2Input& input, const ServedTensor& served) {
  if (input.dtype != served.dtype) {
    return refusal(ErrorCode::dtype_mismatch,
                   fmt::format("input '{}': datatype {}: expected {}",
                               input.name,
                               v2_name(*input.dtype),
                               v2_name(served.dtype)));
  }
  if (!has_shape(*input.shape, served.shape)) {
    return refusal(ErrorCode::shape_mismatch,
                   fmt::format("input '{}': shape {}: expected {}",
                               input.name,
                               list(*input.shape),
                               list(served.shape)));
  }
  if (input.has_data == input.binary_bytes.has_value()) {
    return refusal(ErrorCode::invalid_argument,
                   fmt::format("input '{}': expected either data or binary_data_size", input.name));
  }
  return {};
}

/// Owned bytes with the alignment of every element type.
RequestInput owned(std::vector<std::byte> bytes, DType dtype, const Shape& shape) {
  const auto kept = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return RequestInput(*kept, kept, dtype, shape);
}

Result<RequestInput> make_input(V2Input& input,
                                const ServedTensor& served,
                                std::span<const std::byte>& binary,
                                const std::shared_ptr<const void>& owner) {
  HEARTH_TRY_STATUS(check(input, served));
  const std::optional<std::uint64_t> wanted = byte_count(input);
  const std::uint64_t given = input.has_data ? input.bytes.size() : *input.binary_bytes;
  if (wanted != given) {
    const auto size = static_cast<std::uint64_t>(size_bytes(*input.dtype));
    return refusal(ErrorCode::shape_mismatch,
                   fmt::format("input '{}': {} {} do not fill {} {}",
                               input.name,
                               input.has_data ? given / size : given,
                               input.has_data ? "elements" : "bytes",
                               v2_name(*input.dtype),
                               list(*input.shape)));
  }
  const Shape shape(*input.shape);
  if (input.has_data) {
    return owned(std::move(input.bytes), *input.dtype, shape);
  }
  if (given > binary.size()) {
    return refusal(ErrorCode::invalid_argument,
                   fmt::format("input '{}': binary_data_size {}: the body has {} bytes left",
                               input.name,
                               given,
                               binary.size()));
  }
  const std::span<const std::byte> bytes = binary.first(static_cast<std::size_t>(given));
  binary = binary.subspan(bytes.size());
  if (input.dtype == DType::boolean &&
      std::ranges::any_of(bytes, [](std::byte each) { return each > std::byte{1}; })) {
    return refusal(ErrorCode::invalid_argument,
                   fmt::format("input '{}': a BOOL is 0 or 1", input.name));
  }
  // The length of the JSON decides where a tensor begins.
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  if (address % static_cast<std::uintptr_t>(size_bytes(*input.dtype)) != 0) {
    return owned({bytes.begin(), bytes.end()}, *input.dtype, shape);
  }
  return RequestInput(bytes, owner, *input.dtype, shape);
}

Result<std::vector<WantedOutput>> wanted_outputs(const V2Request& request,
                                                 const ServedSignature& signature) {
  std::vector<WantedOutput> wanted;
  if (request.outputs.empty()) {
    wanted.reserve(signature.outputs.size());
    for (std::size_t i = 0; i < signature.outputs.size(); ++i) {
      wanted.push_back({.index = i, .is_binary = request.binary_outputs});
    }
    return wanted;
  }
  wanted.reserve(request.outputs.size());
  for (const V2Output& output : request.outputs) {
    const auto place = place_of(signature.outputs, output.name);
    if (!place) {
      return refusal(
          ErrorCode::invalid_argument,
          fmt::format("output '{}': the model has {}", output.name, names_of(signature.outputs)));
    }
    if (std::ranges::find(wanted, *place, &WantedOutput::index) != wanted.end()) {
      return refusal(ErrorCode::invalid_argument,
                     fmt::format("output '{}' stands twice in the request", output.name));
    }
    wanted.push_back(
        {.index = *place, .is_binary = output.is_binary.value_or(request.binary_outputs)});
  }
  return wanted;
}

}  // namespace

Result<MatchedRequest> match_v2_request(V2Request request,
                                        std::span<const std::byte> binary,
                                        const std::shared_ptr<const void>& owner,
                                        const ServedSignature& signature) {
  HEARTH_TRY(std::vector<WantedOutput> outputs, wanted_outputs(request, signature));
  std::vector<std::optional<RequestInput>> found(signature.inputs.size());
  for (V2Input& input : request.inputs) {  // in this order their bytes follow the JSON
    const auto place = place_of(signature.inputs, input.name);
    if (!place) {
      return refusal(
          ErrorCode::invalid_argument,
          fmt::format("input '{}': the model has {}", input.name, names_of(signature.inputs)));
    }
    if (found[*place]) {
      return refusal(ErrorCode::invalid_argument,
                     fmt::format("input '{}' stands twice in the request", input.name));
    }
    const ServedTensor& served = signature.inputs[*place];
    HEARTH_TRY(RequestInput made, make_input(input, served, binary, owner));
    found[*place] = served.by_value ? std::move(made).by_value() : std::move(made);
  }
  if (!binary.empty()) {
    return refusal(ErrorCode::invalid_argument,
                   fmt::format("{} bytes follow the last tensor", binary.size()));
  }
  std::vector<RequestInput> inputs;
  inputs.reserve(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) {
      return refusal(ErrorCode::invalid_argument,
                     fmt::format("input '{}' is missing in the request", signature.inputs[i].name));
    }
    inputs.push_back(*std::move(found[i]));
  }
  return MatchedRequest{.inputs = std::move(inputs), .outputs = std::move(outputs)};
}

}  // namespace hearth::detail
