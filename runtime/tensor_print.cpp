#include "tensor_print.hpp"

#include <hearth/runtime/device.hpp>
#include <hearth/runtime/tensor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <type_traits>
#include <vector>

namespace hearth {
namespace detail {
namespace {

/// Along one axis: all indices, or those at the two ends with a gap between them.
struct Shown {
  std::int64_t size;
  std::int64_t edge;  ///< 0: all

  [[nodiscard]] bool has_gap() const noexcept { return edge != 0 && size > 2 * edge; }
  /// Calls fn(index), and gap() between the ends.
  template <class Fn, class Gap>
  void visit(const Fn& fn, const Gap& gap) const {
    for (std::int64_t i = 0; i < size; ++i) {
      if (has_gap() && i == edge) {
        gap();
        i = size - edge;
      }
      fn(i);
    }
  }
};

double as_real(const std::byte* at, DType dtype) {
  return visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    T value{};
    std::memcpy(&value, at, sizeof(T));
    if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
      return static_cast<double>(static_cast<float>(value));
    } else {
      return static_cast<double>(value);
    }
  });
}

std::int64_t as_integer(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::i32: {
      std::int32_t value = 0;
      std::memcpy(&value, at, sizeof(value));
      return value;
    }
    case DType::i64: {
      std::int64_t value = 0;
      std::memcpy(&value, at, sizeof(value));
      return value;
    }
    default:
      return std::to_integer<std::int64_t>(*at);
  }
}

// What is printed of a shape in full: of one without elements the brackets, which need as much
// room.
std::int64_t printed_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape.dims()) {
    count *= std::max<std::int64_t>(size, 1);  // a shape keeps this product below 2^60
  }
  return count;
}

enum class RealStyle : std::uint8_t { whole, decimals, powers };

class Printer {
 public:
  Printer(std::span<const std::byte> bytes,
          DType dtype,
          const Shape& shape,
          const PrintOptions& options)
      : bytes_(bytes), dtype_(dtype), shape_(shape), options_(options) {
    edge_ = printed_count(shape) > options.max_elements ? options.edge_elements : 0;
    choose_style();
    visit_shown(0, 0, [&](std::int64_t index) { width_ = std::max(width_, text(index).size()); });
  }

  [[nodiscard]] std::string print() const {
    std::string out;
    append(out, 0, 0);
    return out;
  }

 private:
  [[nodiscard]] const std::byte* at(std::int64_t index) const {
    return bytes_.data() + static_cast<std::size_t>(index * size_bytes(dtype_));
  }
  [[nodiscard]] Shown shown(int axis) const { return {.size = shape_[axis], .edge = edge_}; }

  template <class Fn>
  void visit_shown(int axis, std::int64_t first, const Fn& fn) const {
    if (axis == shape_.rank()) {
      fn(first);
      return;
    }
    shown(axis).visit([&](std::int64_t i) { visit_shown(axis + 1, first * shape_[axis] + i, fn); },
                      [] {});
  }

  void choose_style() {
    if (!is_float(dtype_)) {
      return;
    }
    double smallest = std::numeric_limits<double>::infinity();
    double largest = 0;
    bool is_whole = true;
    visit_shown(0, 0, [&](std::int64_t index) {
      const double value = std::fabs(as_real(at(index), dtype_));
      if (std::isfinite(value) && value != 0) {
        smallest = std::min(smallest, value);
        largest = std::max(largest, value);
        is_whole = is_whole && std::trunc(value) == value;
      }
    });
    const bool is_wide =
        largest > 1e8 || (largest > 0 && (smallest < 1e-4 || largest / smallest > 1000));
    if (is_whole && largest <= 1e8) {
      style_ = RealStyle::whole;
    } else {
      style_ = is_wide ? RealStyle::powers : RealStyle::decimals;
    }
  }

  [[nodiscard]] std::string text(std::int64_t index) const {
    if (dtype_ == DType::boolean) {
      return as_integer(at(index), dtype_) != 0 ? "true" : "false";
    }
    if (!is_float(dtype_)) {
      return fmt::format("{}", as_integer(at(index), dtype_));
    }
    const double value = as_real(at(index), dtype_);
    if (!std::isfinite(value)) {
      return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
    }
    switch (style_) {
      case RealStyle::whole:
        return fmt::format("{:.0f}.", value);
      case RealStyle::powers:
        return fmt::format("{:.{}e}", value, options_.precision);
      case RealStyle::decimals:
      default:
        return fmt::format("{:.{}f}", value, options_.precision);
    }
  }

  void append(std::string& out, int axis, std::int64_t first) const {
    if (axis == shape_.rank()) {
      out += shape_.rank() == 0 ? text(first) : fmt::format("{:>{}}", text(first), width_);
      return;
    }
    const bool is_row = axis + 1 == shape_.rank();
    // Rows on lines of their own, blocks of rows apart by as many empty lines as axes lie below.
    const std::string separator =
        is_row ? std::string(", ")
               : "," + std::string(static_cast<std::size_t>(shape_.rank() - axis - 1), '\n') +
                     std::string(static_cast<std::size_t>(axis) + 1, ' ');
    out += '[';
    bool is_first = true;
    const auto separate = [&] {
      out += is_first ? "" : separator;
      is_first = false;
    };
    shown(axis).visit(
        [&](std::int64_t i) {
          separate();
          append(out, axis + 1, first * shape_[axis] + i);
        },
        [&] {
          separate();
          out += "…";
        });
    out += ']';
  }

  std::span<const std::byte> bytes_;
  DType dtype_;
  Shape shape_;
  PrintOptions options_;
  std::int64_t edge_ = 0;
  RealStyle style_ = RealStyle::decimals;
  std::size_t width_ = 0;
};

}  // namespace

std::string print_values(std::span<const std::byte> bytes,
                         DType dtype,
                         const Shape& shape,
                         const PrintOptions& options) {
  return Printer(bytes, dtype, shape, options).print();
}

}  // namespace detail

std::string Tensor::to_string(SourceLoc loc) const {
  if (is_empty()) {
    return "empty tensor";
  }
  const std::vector<std::byte> bytes = read_bytes(loc).get();
  return fmt::format("{}\nshape {}, {}, {}",
                     detail::print_values(bytes, dtype(), shape()),
                     shape().to_string(),
                     hearth::name(dtype()),
                     device().name());
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << tensor.to_string();
}

}  // namespace hearth
