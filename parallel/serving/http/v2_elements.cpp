#include "v2_elements.hpp"

#include "v2_message.hpp"

#include <fmt/format.h>

#include <cstring>
#include <type_traits>
#include <utility>

namespace hearth::detail {
namespace {

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  const std::size_t place = bytes.size();
  bytes.resize(place + sizeof(T));
  std::memcpy(bytes.data() + place, &value, sizeof(T));
}

template <class From>
void append_as(DType dtype, From value, std::vector<std::byte>& bytes) {
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
      append(bytes, T(static_cast<float>(value)));
    } else {
      append(bytes, static_cast<T>(value));
    }
  });
}

/// Appends one element. Returns an empty text, or why the type cannot hold it.
std::string store(DType dtype, const V2Elements::Number& number, std::vector<std::byte>& bytes) {
  if (const bool* const truth = std::get_if<bool>(&number)) {
    if (dtype != DType::boolean) {
      return fmt::format("{} is no {}", *truth, v2_name(dtype));
    }
    append(bytes, *truth);
  } else if (const std::int64_t* const whole = std::get_if<std::int64_t>(&number)) {
    if (!fits(*whole, dtype)) {
      return fmt::format("{} is no {}", *whole, v2_name(dtype));
    }
    append_as(dtype, *whole, bytes);
  } else {
    const double real = std::get<double>(number);
    if (!fits(real, dtype)) {
      return fmt::format("{} is no {}", real, v2_name(dtype));
    }
    append_as(dtype, real, bytes);
  }
  return {};
}

}  // namespace

void V2Elements::begin(std::optional<DType> dtype) {
  *this = {};
  dtype_ = dtype;
}

std::string V2Elements::add(Number number) {
  if (leaf_depth_ != 0 && leaf_depth_ != depth_) {
    return "elements and arrays are mixed";
  }
  leaf_depth_ = depth_;
  ++levels_[static_cast<std::size_t>(depth_ - 1)].count;
  if (dtype_) {
    return store(*dtype_, number, bytes_);
  }
  numbers_.push_back(number);
  return {};
}

std::string V2Elements::open_array() {
  if (depth_ == kMaxRank) {
    return fmt::format("arrays are nested deeper than {}", kMaxRank);
  }
  if (depth_ > 0) {
    if (leaf_depth_ != 0 && depth_ >= leaf_depth_) {
      return "elements and arrays are mixed";
    }
    ++levels_[static_cast<std::size_t>(depth_ - 1)].count;
  }
  levels_[static_cast<std::size_t>(depth_)].count = 0;
  deepest_ = std::max(deepest_, ++depth_);
  return {};
}

std::string V2Elements::close_array() {
  Level& level = levels_[static_cast<std::size_t>(--depth_)];
  if (level.size >= 0 && level.size != level.count) {
    return fmt::format("arrays of one level have {} and {} entries", level.size, level.count);
  }
  level.size = level.count;
  return {};
}

std::vector<std::byte> V2Elements::finish(DType dtype,
                                          const std::vector<std::int64_t>& shape,
                                          std::string& error) {
  for (const Number& number : numbers_) {
    if (error = store(dtype, number, bytes_); !error.empty()) {
      return {};
    }
  }
  if (deepest_ > 1) {
    std::vector<std::int64_t> nested;
    nested.reserve(static_cast<std::size_t>(deepest_));
    for (int i = 0; i < deepest_; ++i) {
      nested.push_back(levels_[static_cast<std::size_t>(i)].size);
    }
    if (nested != shape) {
      error = fmt::format("its arrays are [{}], its shape is [{}]",
                          fmt::join(nested, ", "),
                          fmt::join(shape, ", "));
      return {};
    }
  }
  return std::move(bytes_);
}

}  // namespace hearth::detail
