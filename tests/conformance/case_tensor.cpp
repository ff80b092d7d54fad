#include "case_tensor.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace hearth::conformance {
namespace {

constexpr std::byte kGuard{0xa5};
constexpr std::int64_t kMarginBytes = 128;
constexpr std::int64_t kAlignmentBytes = 64;

/// Strides of `shape` when axes are stored in the order of `axes`, the first outermost.
Strides stored_in_order(const Shape& shape, std::span<const int> axes) {
  Strides strides{};
  std::int64_t step = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    strides[static_cast<std::size_t>(*axis)] = step;
    step *= std::max<std::int64_t>(shape[*axis], 1);
  }
  return strides;
}

Strides layout_strides(LayoutKind kind, const Shape& shape) {
  std::vector<int> axes;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    axes.push_back(axis);
  }
  if (kind == LayoutKind::transposed) {
    std::ranges::reverse(axes);
  } else if (kind == LayoutKind::swapped && axes.size() >= 2) {
    std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  }
  Strides strides = stored_in_order(shape, axes);
  bool has_repeated = false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    std::int64_t& stride = strides[static_cast<std::size_t>(axis)];
    if (kind == LayoutKind::gapped) {
      stride *= 2;
    } else if (kind == LayoutKind::reversed) {
      stride = -stride;
    } else if (kind == LayoutKind::repeated && !has_repeated && shape[axis] > 1) {
      stride = 0;
      has_repeated = true;
    }
  }
  return strides;
}

template <class T>
T to_element(const Number& number) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    return T(static_cast<float>(number.real));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(number.real);
  } else {
    return static_cast<T>(number.integer);
  }
}

template <class T>
Number to_number(T element) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    return {.real = static_cast<double>(static_cast<float>(element)), .integer = 0};
  } else if constexpr (std::is_floating_point_v<T>) {
    return {.real = static_cast<double>(element), .integer = 0};
  } else {
    return {.real = 0, .integer = static_cast<std::int64_t>(element)};
  }
}

/// The offset of the element with row-major number `index` from element [0, 0, ...], in elements.
std::int64_t offset_of(const detail::Layout& layout, std::int64_t index) {
  std::int64_t offset = 0;
  for (int axis = layout.shape.rank() - 1; axis >= 0; --axis) {
    offset += index % layout.shape[axis] * layout.strides[static_cast<std::size_t>(axis)];
    index /= layout.shape[axis];
  }
  return offset;
}

}  // namespace

std::string_view name(LayoutKind kind) noexcept {
  constexpr std::string_view kNames[] = {
      "dense", "transposed", "swapped", "gapped", "reversed", "repeated"};
  return kNames[static_cast<int>(kind)];
}

bool is_distinct(LayoutKind kind, const Shape& shape) noexcept {
  const auto long_axes =
      std::ranges::count_if(shape.dims(), [](std::int64_t size) { return size > 1; });
  switch (kind) {
    case LayoutKind::dense:
      return true;
    case LayoutKind::transposed:
      return long_axes >= 2;
    case LayoutKind::swapped:
      return shape.rank() >= 3 && shape[shape.rank() - 1] > 1 && shape[shape.rank() - 2] > 1;
    default:
      return long_axes >= 1 && shape.element_count() > 0;
  }
}

CaseTensor::CaseTensor(DType dtype, const Shape& shape)
    : dtype_(dtype), layout_(std::make_unique<detail::Layout>(shape)) {
  place(shape.element_count(), 0);
}

CaseTensor::CaseTensor(DType dtype,
                       const Shape& shape,
                       LayoutKind kind,
                       const std::vector<Number>& values)
    : dtype_(dtype), layout_(std::make_unique<detail::Layout>(shape, layout_strides(kind, shape))) {
  const std::int64_t count = shape.element_count();
  switch (kind) {
    case LayoutKind::gapped:
      place(2 * count, 1);
      break;
    case LayoutKind::reversed:
      place(count, std::max<std::int64_t>(count - 1, 0));
      break;
    default:
      place(count, 0);
  }
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* elements = view().template as<T>();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t place = layout_->contiguous ? i : offset_of(*layout_, i);
      elements[place] = to_element<T>(values[static_cast<std::size_t>(i)]);
    }
  });
}

void CaseTensor::place(std::int64_t element_count, std::int64_t first_element) {
  const std::int64_t size = element_count * size_bytes(dtype_);
  bytes_.assign(static_cast<std::size_t>(size + 2 * kMarginBytes + kAlignmentBytes), kGuard);
  const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());  // NOLINT: alignment only
  begin_ = kMarginBytes + (kAlignmentBytes - static_cast<std::int64_t>(address % kAlignmentBytes)) %
                              kAlignmentBytes;
  end_ = begin_ + size;
  data_ = bytes_.data() + begin_ + first_element * size_bytes(dtype_);
}

std::vector<Number> CaseTensor::values() const {
  std::vector<Number> out;
  out.reserve(static_cast<std::size_t>(layout_->shape.element_count()));
  visit_dtype(dtype_, [&](auto zero) {
    using T = decltype(zero);
    const T* elements = view().template as<T>();
    for (std::int64_t i = 0; i < layout_->shape.element_count(); ++i) {
      out.push_back(to_number(elements[layout_->contiguous ? i : offset_of(*layout_, i)]));
    }
  });
  return out;
}

bool CaseTensor::margins_are_whole() const noexcept {
  const auto is_guard = [](std::byte byte) { return byte == kGuard; };
  return std::all_of(bytes_.begin(), bytes_.begin() + begin_, is_guard) &&
         std::all_of(bytes_.begin() + end_, bytes_.end(), is_guard);
}

}  // namespace hearth::conformance
