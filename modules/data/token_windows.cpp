#include <hearth/modules/token_windows.hpp>

#include <hearth/runtime/base/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hearth {
namespace {

[[noreturn]] void refuse_tokens(const std::string& text, SourceLoc loc) {
  throw_error(Error{.code = ErrorCode::invalid_argument, .text = text, .location = loc});
}

}  // namespace

TokenWindows::TokenWindows(std::vector<std::int32_t> tokens,
                           const WindowOptions& options,
                           SourceLoc loc)
    : tokens_(std::move(tokens)), options_(options) {
  if (options.length < 1 || options.stride < 0) {
    refuse_tokens(fmt::format("TokenWindows: a length of {} and a stride of {} make no pieces",
                              options.length,
                              options.stride),
                  loc);
  }
  const auto count = static_cast<std::int64_t>(tokens_.size());
  if (count <= options.length) {
    refuse_tokens(fmt::format("TokenWindows: {} numbers are too few for a piece of {} and the one "
                              "behind it",
                              count,
                              options.length),
                  loc);
  }
  options_.stride = options.stride == 0 ? options.length : options.stride;
  size_ = (count - 1 - options.length) / options_.stride + 1;
}

Examples TokenWindows::read(std::span<const std::int64_t> indices) const {
  const auto count = static_cast<std::int64_t>(indices.size());
  Examples examples{HostArray(DType::i32, {count, options_.length}, SourceLoc{}),
                    HostArray(DType::i32, {count, options_.length}, SourceLoc{})};
  const auto length = static_cast<std::size_t>(options_.length);
  const std::span<const std::int32_t> tokens(tokens_);
  for (std::size_t row = 0; row < indices.size(); ++row) {
    const auto begin = static_cast<std::size_t>(indices[row] * options_.stride);
    std::ranges::copy(tokens.subspan(begin, length),
                      examples.inputs.values<std::int32_t>().subspan(row * length).begin());
    std::ranges::copy(tokens.subspan(begin + 1, length),
                      examples.targets.values<std::int32_t>().subspan(row * length).begin());
  }
  return examples;
}

HostArray padded_rows(std::span<const std::vector<std::int32_t>> rows,
                      std::int64_t length,
                      std::int32_t padding,
                      SourceLoc loc) {
  if (length < 1) {
    refuse_tokens(fmt::format("padded_rows: the length {} is not 1 or more", length), loc);
  }
  HostArray array(DType::i32, {static_cast<std::int64_t>(rows.size()), length}, loc);
  const std::span<std::int32_t> values = array.values<std::int32_t>();
  std::ranges::fill(values, padding);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::size_t count = std::min(rows[row].size(), static_cast<std::size_t>(length));
    std::ranges::copy(std::span(rows[row]).first(count),
                      values.subspan(row * static_cast<std::size_t>(length)).begin());
  }
  return array;
}

HostArray padded_rows(std::initializer_list<std::vector<std::int32_t>> rows,
                      std::int64_t length,
                      std::int32_t padding,
                      SourceLoc loc) {
  return padded_rows(std::span(rows.begin(), rows.size()), length, padding, loc);
}

}  // namespace hearth
