#include "tensor_print.hpp"

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/tensor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <type_traits>
#include <utility>
#include <vector>

namespace hearth {
namespace detail {
namespace {

/// The printed indices of one axis: all, or those at the two ends with a gap between them.
struct Shown {
  std::int64_t size;
  std::int64_t edge;  ///< 0 = all

  [[nodiscard]] bool has_gap() const noexcept { return edge != 0 && size > 2 * edge; }
  [[nodiscard]] std::int64_t count() const noexcept { return has_gap() ? 2 * edge : size; }
  /// Calls fn for each printed position, and gap() between the ends.
  template <class Fn, class Gap>
  void visit(const Fn& fn, const Gap& gap) const {
    for (std::int64_t i = 0; i < count(); ++i) {
      if (has_gap() && i == edge) {
        gap();
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
    case DType::i8:
      return std::to_integer<std::int8_t>(*at);
    default:
      return std::to_integer<std::int64_t>(*at);
  }
}

// The amount of text of a full print: brackets of empty axes count as elements.
std::int64_t printed_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape.dims()) {
    count *= std::max<std::int64_t>(size, 1);  // a shape keeps this product below 2^60
  }
  return count;
}

std::int64_t edge_of(const Shape& shape, const PrintOptions& options) {
  return printed_count(shape) > options.max_elements ? options.edge_elements : 0;
}

enum class RealStyle : std::uint8_t { whole, decimals, powers };

class Printer {
 public:
  Printer(std::span<const std::byte> bytes,
          DType dtype,
          const Shape& shape,
          const PrintOptions& options)
      : bytes_(bytes),
        dtype_(dtype),
        shape_(shape),
        has_all_(static_cast<std::int64_t>(bytes.size()) ==
                 shape.element_count() * size_bytes(dtype)),
        options_(options),
        edge_(edge_of(shape, options)) {
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

  /// The position in `bytes` of printed index `i` of an axis, given that of the axes before.
  [[nodiscard]] std::int64_t place(int axis, std::int64_t before, std::int64_t i) const {
    const Shown axis_shown = shown(axis);
    if (!has_all_) {
      return before * axis_shown.count() + i;
    }
    const bool is_behind_gap = axis_shown.has_gap() && i >= edge_;
    return before * shape_[axis] + (is_behind_gap ? i + shape_[axis] - axis_shown.count() : i);
  }

  template <class Fn>
  void visit_shown(int axis, std::int64_t first, const Fn& fn) const {
    if (axis == shape_.rank()) {
      fn(first);
      return;
    }
    shown(axis).visit([&](std::int64_t i) { visit_shown(axis + 1, place(axis, first, i), fn); },
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
    // Rows stand on lines of their own; blocks are separated by one empty line for each axis below.
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
          append(out, axis + 1, place(axis, first, i));
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
  bool has_all_;  ///< `bytes` holds the whole tensor, not only the printed elements.
  PrintOptions options_;
  std::int64_t edge_;
  RealStyle style_ = RealStyle::decimals;
  std::size_t width_ = 0;
};

// ---- reading ----

/// A contiguous part of the printed values: its tensor, and its first index in the printed shape.
struct Piece {
  Tensor tensor;
  std::vector<std::int64_t> first;
};

// Cuts both ends of each long axis: a tensor with k long axes has 2^k pieces.
std::vector<Piece> pieces_of(const Tensor& tensor, const Shape& held, SourceLoc loc) {
  std::vector<Piece> pieces{{tensor.detach(), {}}};
  for (int axis = 0; axis < held.rank(); ++axis) {
    const std::int64_t size = tensor.shape()[axis];
    std::vector<Piece> cut;
    for (Piece& piece : pieces) {
      if (held[axis] == size) {
        piece.first.push_back(0);
        cut.push_back(std::move(piece));
        continue;
      }
      const std::int64_t edge = held[axis] / 2;
      for (const std::int64_t start : {std::int64_t{0}, size - edge}) {
        Piece end{slice(Arg(piece.tensor, loc), axis, {.start = start, .stop = start + edge}),
                  piece.first};
        end.first.push_back(start == 0 ? 0 : edge);
        cut.push_back(std::move(end));
      }
    }
    pieces = std::move(cut);
  }
  return pieces;
}

// Copies row by row: rows of a piece are also contiguous in `held`.
void put(std::span<const std::byte> from,
         const Piece& piece,
         std::span<std::byte> to,
         const Shape& held) {
  const Shape& shape = piece.tensor.shape();
  const int last = shape.rank() - 1;
  const std::int64_t element = size_bytes(piece.tensor.dtype());
  const std::int64_t row = shape[last] * element;
  for (std::int64_t number = 0; number * row < static_cast<std::int64_t>(from.size()); ++number) {
    std::int64_t rest = number;
    std::int64_t place = piece.first[static_cast<std::size_t>(last)];
    std::int64_t stride = held[last];
    for (int axis = last - 1; axis >= 0; --axis) {
      place += (rest % shape[axis] + piece.first[static_cast<std::size_t>(axis)]) * stride;
      rest /= shape[axis];
      stride *= held[axis];
    }
    std::memcpy(
        to.data() + place * element, from.data() + number * row, static_cast<std::size_t>(row));
  }
}

// Reads the printed values, in row-major order.
std::vector<std::byte> read_shown(const Tensor& tensor, SourceLoc loc) {
  const Shape held = shown_shape(tensor.shape());
  if (held == tensor.shape()) {
    return tensor.read_bytes(loc).get();
  }
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(held.element_count() * size_bytes(tensor.dtype())));
  if (bytes.empty()) {
    return bytes;
  }
  for (const Piece& piece : pieces_of(tensor, held, loc)) {
    put(piece.tensor.read_bytes(loc).get(), piece, bytes, held);
  }
  return bytes;
}

}  // namespace

Shape shown_shape(const Shape& shape, const PrintOptions& options) {
  const std::int64_t edge = edge_of(shape, options);
  Shape shown;
  for (const std::int64_t size : shape.dims()) {
    shown.push_back(Shown{.size = size, .edge = edge}.count());
  }
  return shown;
}

std::string print_values(std::span<const std::byte> bytes,
                         DType dtype,
                         const Shape& shape,
                         const PrintOptions& options) {
  const detail::FloatEnvironment environment;
  return Printer(bytes, dtype, shape, options).print();
}

}  // namespace detail

std::string Tensor::to_string(SourceLoc loc) const {
  if (!is_valid()) {
    return "empty tensor";
  }
  const std::vector<std::byte> bytes = detail::read_shown(*this, loc);
  return fmt::format("{}\nshape {}, {}, {}",
                     detail::print_values(bytes, dtype(), shape()),
                     shape().to_string(),
                     hearth::name(dtype()),
                     device().name());
}

std::ostream& operator<<(std::ostream& out, const detail::PrintedTensor& tensor) {
  return out << tensor.tensor.to_string(tensor.loc);
}

}  // namespace hearth
