#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/promotion.hpp>

#include "op_operand.hpp"
#include "op_submit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <vector>

namespace hearth {
namespace {

Tensor view(OpKind kind,
            const Arg& x,
            const Shape& shape,
            std::span<const std::byte> attributes = {}) {
  return detail::submit(
      {.kind = kind, .location = x.location(), .inputs = {&x, 1}, .attributes = attributes},
      x.tensor().dtype(),
      shape);
}

Tensor reshape_to(const Arg& x, const Shape& shape) {
  return shape == x.tensor().shape() ? detail::take(x) : view(OpKind::reshape, x, shape);
}

}  // namespace

Tensor reshape(Arg x, std::span<const std::int64_t> shape) {
  const TensorImpl& impl = detail::operand(OpKind::reshape, x);
  return reshape_to(x,
                    detail::checked(rules::reshape(impl.layout->shape, shape), OpKind::reshape, x));
}
Tensor reshape(Arg x, std::initializer_list<std::int64_t> shape) {
  return reshape(x, std::span<const std::int64_t>(shape.begin(), shape.size()));
}
Tensor reshape(Arg x, const std::vector<std::int64_t>& shape) {
  return reshape(x, std::span<const std::int64_t>(shape));
}
Tensor reshape(Arg x, const std::vector<int>& shape) {
  return reshape(x, std::vector<std::int64_t>(shape.begin(), shape.end()));
}
Tensor reshape(Arg x, const Shape& shape) {
  return reshape(x, shape.dims());
}

Tensor flatten(Arg x, int first) {
  return detail::named_as("flatten", [&] {
    const Shape from = detail::operand(OpKind::reshape, x).layout->shape;
    // A scalar flattens to one element, as in NumPy.
    const int axis = detail::checked(
        normalize_axis("flatten", first, std::max(from.rank(), 1)), OpKind::reshape, x);
    Shape shape;
    for (int i = 0; i < axis; ++i) {
      shape.push_back(from[i]);
    }
    std::int64_t joined = 1;
    for (int i = axis; i < from.rank(); ++i) {
      joined *= from[i];
    }
    shape.push_back(joined);
    return reshape_to(x, shape);
  });
}

Tensor permute(Arg x, std::span<const int> axes) {
  const TensorImpl& impl = detail::operand(OpKind::permute, x);
  const Shape& from = impl.layout->shape;
  const Shape shape = detail::checked(rules::permute(from, axes), OpKind::permute, x);
  PermuteAttributes attributes;
  bool is_identity = true;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = axes[i] < 0 ? axes[i] + from.rank() : axes[i];
    attributes.axes[i] = static_cast<std::uint8_t>(axis);
    is_identity = is_identity && static_cast<std::size_t>(axis) == i;
  }
  return is_identity ? detail::take(x)
                     : view(OpKind::permute, x, shape, detail::bytes_of(attributes));
}
Tensor permute(Arg x, std::initializer_list<int> axes) {
  return permute(x, std::span<const int>(axes.begin(), axes.size()));
}

Tensor transpose(Arg x, int axis_a, int axis_b) {
  return detail::named_as("transpose", [&] {
    const int rank = detail::operand(OpKind::permute, x).layout->shape.rank();
    const int a = detail::checked(normalize_axis("transpose", axis_a, rank), OpKind::permute, x);
    const int b = detail::checked(normalize_axis("transpose", axis_b, rank), OpKind::permute, x);
    std::array<int, kMaxRank> axes{};
    std::iota(axes.begin(), axes.end(), 0);
    std::swap(axes[static_cast<std::size_t>(a)], axes[static_cast<std::size_t>(b)]);
    return permute(x, std::span<const int>(axes.data(), static_cast<std::size_t>(rank)));
  });
}

Tensor slice(Arg x, int axis, Range range) {
  const Shape& from = detail::operand(OpKind::slice, x).layout->shape;
  // Omitted bounds lie beyond the ends in the step's direction; the rule clamps them.
  constexpr std::int64_t kFarRight = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kFarLeft = std::numeric_limits<std::int64_t>::min();
  const std::int64_t start = range.start.value_or(range.step < 0 ? kFarRight : 0);
  const std::int64_t stop = range.stop.value_or(range.step < 0 ? kFarLeft : kFarRight);
  SliceAttributes attributes;
  const Shape shape = detail::checked(
      rules::slice(from, axis, start, stop, range.step, &attributes), OpKind::slice, x);
  if (shape == from && attributes.start == decltype(attributes.start){} &&
      std::ranges::all_of(attributes.step,
                          [](std::int64_t step) { return step == 0 || step == 1; })) {
    return detail::take(x);
  }
  return view(OpKind::slice, x, shape, detail::bytes_of(attributes));
}

Tensor expand(Arg x, const Shape& shape) {
  const Shape& from = detail::operand(OpKind::expand, x).layout->shape;
  const Shape result = detail::checked(rules::expand(from, shape), OpKind::expand, x);
  return result == from ? detail::take(x) : view(OpKind::expand, x, result);
}

Tensor unsqueeze(Arg x, int axis) {
  return detail::named_as("unsqueeze", [&] {
    const Shape& from = detail::operand(OpKind::reshape, x).layout->shape;
    const int place =
        detail::checked(normalize_axis("unsqueeze", axis, from.rank() + 1), OpKind::reshape, x);
    std::vector<std::int64_t> dims(from.dims().begin(), from.dims().end());
    dims.insert(dims.begin() + place, 1);
    return reshape(x, dims);
  });
}

Tensor squeeze(Arg x, int axis) {
  return detail::named_as("squeeze", [&] {
    const Shape& from = detail::operand(OpKind::reshape, x).layout->shape;
    const int place =
        detail::checked(normalize_axis("squeeze", axis, from.rank()), OpKind::reshape, x);
    if (from[place] != 1) {
      detail::throw_op_error(
          Error{
              .code = ErrorCode::shape_mismatch,
              .text = fmt::format("squeeze: axis {} of {} has not size 1", axis, from.to_string())},
          OpKind::reshape,
          x);
    }
    std::vector<std::int64_t> dims(from.dims().begin(), from.dims().end());
    dims.erase(dims.begin() + place);
    return reshape(x, dims);
  });
}

std::vector<Tensor> split(Arg x, std::span<const std::int64_t> sizes, int axis) {
  return detail::named_as("split", [&] {
    const Shape& from = detail::operand(OpKind::slice, x).layout->shape;
    const int place = detail::checked(normalize_axis("split", axis, from.rank()), OpKind::slice, x);
    std::int64_t rest = from[place];
    for (const std::int64_t size : sizes) {
      rest = size < 0 || size > rest ? -1 : rest - size;
      if (rest < 0) {
        break;
      }
    }
    if (rest != 0) {
      detail::throw_op_error(ErrorCode::shape_mismatch,
                             OpKind::slice,
                             fmt::format("the sizes [{}] do not make up axis {} of {}",
                                         fmt::join(sizes, ", "),
                                         place,
                                         from.to_string()),
                             x);
    }
    const Arg whole(x.tensor(), x.location());
    std::vector<Tensor> parts;
    parts.reserve(sizes.size());
    std::int64_t start = 0;
    for (const std::int64_t size : sizes) {
      parts.push_back(slice(whole, place, {.start = start, .stop = start + size}));
      start += size;
    }
    return parts;
  });
}
std::vector<Tensor> split(Arg x, std::initializer_list<std::int64_t> sizes, int axis) {
  return split(x, std::span<const std::int64_t>(sizes.begin(), sizes.size()), axis);
}

std::vector<Tensor> split(Arg x, std::int64_t size, int axis) {
  return detail::named_as("split", [&] {
    const Shape& from = detail::operand(OpKind::slice, x).layout->shape;
    const std::int64_t length =
        from[detail::checked(normalize_axis("split", axis, from.rank()), OpKind::slice, x)];
    if (size < 0 || (size == 0 && length > 0)) {
      detail::throw_op_error(
          ErrorCode::invalid_argument,
          OpKind::slice,
          fmt::format("parts of size {} do not make up {}", size, from.to_string()),
          x);
    }
    std::vector<std::int64_t> sizes;
    for (std::int64_t rest = length; rest > 0; rest -= sizes.back()) {
      sizes.push_back(std::min(size, rest));
    }
    if (sizes.empty()) {  // an empty axis has one part
      sizes.push_back(0);
    }
    return split(x, sizes, axis);
  });
}

std::vector<Tensor> chunk(Arg x, std::int64_t count, int axis) {
  return detail::named_as("chunk", [&] {
    const Shape& from = detail::operand(OpKind::slice, x).layout->shape;
    const std::int64_t length =
        from[detail::checked(normalize_axis("chunk", axis, from.rank()), OpKind::slice, x)];
    if (count < 1) {
      detail::throw_op_error(ErrorCode::invalid_argument,
                             OpKind::slice,
                             fmt::format("{} is no number of parts", count),
                             x);
    }
    if (length == 0) {
      return split(x, std::vector<std::int64_t>(static_cast<std::size_t>(count), 0), axis);
    }
    return split(x, length / count + (length % count != 0 ? 1 : 0), axis);
  });
}

Tensor contiguous(Arg x) {
  return detail::named_as("contiguous", [&] {
    const Shape& shape = detail::operand(OpKind::copy, x).layout->shape;
    return view(OpKind::copy, x, shape);
  });
}

namespace {

// Checks the rule in the common type before any cast.
Tensor concat_mixed(std::span<const Arg> inputs,
                    std::vector<TensorSpec> specs,
                    int axis,
                    SourceLoc loc) {
  DType common = specs[0].dtype;
  for (const TensorSpec& spec : specs) {
    common = promote_types(common, spec.dtype);
  }
  for (TensorSpec& spec : specs) {
    spec.dtype = common;
  }
  static_cast<void>(detail::checked(rules::concat(specs, axis), OpKind::concat, loc, inputs));
  std::vector<Tensor> promoted;
  promoted.reserve(inputs.size());
  for (const Arg& input : inputs) {
    promoted.push_back(cast(input, common));
  }
  return concat(promoted, axis, loc);
}

}  // namespace

Tensor concat(std::initializer_list<Tensor> tensors, int axis, SourceLoc loc) {
  return concat(std::span<const Tensor>(tensors.begin(), tensors.size()), axis, loc);
}
Tensor concat(std::span<const Tensor> tensors, int axis, SourceLoc loc) {
  std::vector<Arg> inputs;
  std::vector<TensorSpec> specs;
  inputs.reserve(tensors.size());
  specs.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    inputs.emplace_back(tensor, loc);
    const TensorImpl& impl = detail::operand(OpKind::concat, inputs.back());
    specs.push_back({impl.dtype, impl.layout->shape});
  }
  const bool is_mixed = std::ranges::any_of(
      specs, [&](const TensorSpec& each) { return each.dtype != specs[0].dtype; });
  if (is_mixed) [[unlikely]] {
    return concat_mixed(inputs, specs, axis, loc);
  }
  const TensorSpec spec = detail::checked(
      rules::concat(specs, axis), OpKind::concat, loc, std::span<const Arg>(inputs));
  if (tensors.size() == 1) {
    return tensors[0];
  }
  const AxisAttributes attributes{.axis = axis < 0 ? axis + spec.shape.rank() : axis,
                                  .keep_dims = 0};
  return detail::submit({.kind = OpKind::concat,
                         .location = loc,
                         .inputs = inputs,
                         .attributes = detail::bytes_of(attributes)},
                        spec.dtype,
                        spec.shape);
}

Tensor stack(std::initializer_list<Tensor> tensors, int axis, SourceLoc loc) {
  return stack(std::span<const Tensor>(tensors.begin(), tensors.size()), axis, loc);
}
Tensor stack(std::span<const Tensor> tensors, int axis, SourceLoc loc) {
  return detail::named_as("stack", [&] {
    std::vector<Tensor> parts;
    parts.reserve(tensors.size());
    int place = 0;
    for (const Tensor& tensor : tensors) {
      const Arg part(tensor, loc);
      const Shape& shape = detail::operand(OpKind::concat, part).layout->shape;
      const Shape& first = tensors[0].shape();
      if (shape != first) {
        detail::throw_op_error(
            Error{.code = ErrorCode::shape_mismatch,
                  .text = fmt::format("stack: the tensors have different shapes: {} and {}",
                                      first.to_string(),
                                      shape.to_string())},
            OpKind::concat,
            part);
      }
      place =
          detail::checked(normalize_axis("stack", axis, shape.rank() + 1), OpKind::concat, part);
      parts.push_back(unsqueeze(part, place));
    }
    return concat(parts, place, loc);
  });
}

}  // namespace hearth
