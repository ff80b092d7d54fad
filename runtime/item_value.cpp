#include <hearth/runtime/item_value.hpp>

#include <cmath>

#include <fmt/format.h>

#include <hearth/runtime/base/error.hpp>

namespace hearth {

bool ItemValue::is_between(std::int64_t low, std::uint64_t high) const noexcept {
  if (is_integer) {
    return integer >= low && (integer < 0 || static_cast<std::uint64_t>(integer) <= high);
  }
  const double whole = std::trunc(real);
  // high is 2^n - 1, which a double may not hold; it holds 2^n.
  return whole >= static_cast<double>(low) && whole < 2 * static_cast<double>(high / 2 + 1);
}

void ItemValue::throw_misfit(std::string_view kind, std::size_t size_bytes, SourceLoc loc) const {
  const std::string value = is_integer ? fmt::format("{}", integer) : fmt::format("{}", real);
  throw_error(Error{
      .code = ErrorCode::invalid_argument,
      .text =
          fmt::format("item: the value {} does not fit {} of {} bits", value, kind, 8 * size_bytes),
      .op = "item",
      .location = loc});
}

}  // namespace hearth
