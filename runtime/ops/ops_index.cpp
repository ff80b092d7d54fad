#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_submit.hpp"
#include "ops_binary.hpp"
#include "ops_index.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

namespace hearth {
namespace {

Tensor submit_indexed(OpKind kind,
                      const Arg& values,
                      const Arg& index,
                      int axis,
                      Result<TensorSpec> result,
                      CalledAs called) {
  const std::array inputs{values, index};
  const TensorSpec spec = detail::checked(std::move(result), kind, std::span<const Arg>(inputs));
  const int rank = spec.shape.rank();  // the rank of source and result
  const AxisAttributes attributes{.axis = axis < 0 ? axis + rank : axis, .keep_dims = 0};
  return detail::submit({.kind = kind,
                         .location = values.location(),
                         .inputs = inputs,
                         .attributes = detail::bytes_of(attributes),
                         .flags = flags_of(called)},
                        spec.dtype,
                        spec.shape);
}

using PickRule = Result<TensorSpec> (*)(const TensorSpec&, const TensorSpec&, int);
Tensor pick(
    OpKind kind, PickRule rule, const Arg& x, int axis, const Arg& index, CalledAs called = {}) {
  static_cast<void>(detail::accepted_operand(kind, x));
  static_cast<void>(detail::operand(kind, index));
  return submit_indexed(kind,
                        x,
                        index,
                        axis,
                        rule(detail::spec_of(kind, x), detail::spec_of(kind, index), axis),
                        called);
}

// Adds the source to zeros of the shape.
using AddRule = Result<TensorSpec> (*)(const TensorSpec&, const TensorSpec&, const Shape&, int);
Tensor add_at(OpKind kind,
              AddRule rule,
              const Shape& whole,
              int axis,
              const Arg& index,
              const Arg& source,
              CalledAs called = {}) {
  static_cast<void>(detail::accepted_operand(kind, source));
  static_cast<void>(detail::operand(kind, index));
  return submit_indexed(
      kind,
      source,
      index,
      axis,
      rule(detail::spec_of(kind, source), detail::spec_of(kind, index), whole, axis),
      called);
}

Tensor added(
    OpKind kind, AddRule rule, const Arg& x, int axis, const Arg& index, const Arg& source) {
  return detail::named_as(name(kind), [&] {
    const Shape whole = detail::operand(kind, x).layout->shape;
    const SourceLoc loc = x.location();
    static_cast<void>(detail::operand(kind, source));
    if (x.tensor().dtype() != source.tensor().dtype()) {
      const std::array operands{x, source};
      detail::throw_op_error(
          ErrorCode::dtype_mismatch,
          kind,
          fmt::format("element types differ: x {}, source {}",
                      describe(x.tensor().dtype(), whole),
                      describe(source.tensor().dtype(), source.tensor().shape())),
          loc,
          operands);
    }
    return add(x, Arg(add_at(kind, rule, whole, axis, index, source), loc));
  });
}

// [leading..., trailing...], of any rank that a shape can have.
std::vector<std::int64_t> joined(std::span<const std::int64_t> leading,
                                 std::span<const std::int64_t> trailing) {
  std::vector<std::int64_t> dims(leading.begin(), leading.end());
  dims.insert(dims.end(), trailing.begin(), trailing.end());
  return dims;
}

}  // namespace

Tensor detail::gather_as(CalledAs called, const Arg& x, int axis, const Arg& index) {
  return pick(OpKind::gather, rules::gather, x, axis, index, called);
}

Tensor detail::index_select_as(CalledAs called, const Arg& x, int axis, const Arg& index) {
  return pick(OpKind::index_select, rules::index_select, x, axis, index, called);
}

Tensor gather(Arg x, int axis, Arg index) {
  return pick(OpKind::gather, rules::gather, x, axis, index);
}

Tensor index_select(Arg x, int axis, Arg index) {
  return pick(OpKind::index_select, rules::index_select, x, axis, index);
}

Tensor embedding(Arg weight, Arg index) {
  return detail::named_as("embedding", [&] {
    constexpr OpKind kKind = OpKind::index_select;
    const SourceLoc loc = weight.location();
    const TensorImpl& named = detail::operand(kKind, index);
    const Shape places = named.layout->shape;
    // Refuses a tensor that is no index with the shape that the program gave it.
    const bool is_index = named.dtype == DType::i32 || named.dtype == DType::i64;
    const TensorSpec line{named.dtype, is_index ? Shape{places.element_count()} : places};
    const Shape table = detail::operand(kKind, weight).layout->shape;
    static_cast<void>(detail::checked(
        rules::index_select(detail::spec_of(kKind, weight), line, 0), kKind, weight));
    Tensor rows =
        detail::index_select_as(CalledAs::embedding, weight, 0, Arg(reshape(index, {-1}), loc));
    return reshape(Arg(std::move(rows), loc), joined(places.dims(), table.dims().subspan(1)));
  });
}

Tensor scatter_add(Arg x, int axis, Arg index, Arg source) {
  return added(OpKind::scatter_add, rules::scatter_add, x, axis, index, source);
}

Tensor index_add(Arg x, int axis, Arg index, Arg source) {
  return added(OpKind::index_add, rules::index_add, x, axis, index, source);
}

Tensor scatter(Arg x, int axis, Arg index, Arg updates, ScatterOptions options) {
  constexpr OpKind kKind = OpKind::scatter;
  static_cast<void>(detail::operand(kKind, x));
  static_cast<void>(detail::operand(kKind, index));
  const TensorSpec whole = detail::spec_of(kKind, x);
  const TensorSpec places = detail::spec_of(kKind, index);
  const bool is_number = updates.is_scalar();
  const TensorSpec source =
      is_number ? TensorSpec{whole.dtype, places.shape} : detail::spec_of(kKind, updates);
  const std::array inputs{x, index, updates};
  const TensorSpec spec =
      detail::checked(rules::scatter(whole, places, source, {.axis = axis, .mode = options.mode}),
                      kKind,
                      std::span<const Arg>(inputs).first(is_number ? 2 : 3));
  if (is_number) {
    Tensor number = detail::number_tensor(kKind, updates, x, whole.dtype);
    Tensor repeated = expand(Arg(std::move(number), x.location()), places.shape);
    return scatter(x, axis, index, Arg(std::move(repeated), x.location()), options);
  }
  const ScatterAttributes attributes{.axis = axis < 0 ? axis + spec.shape.rank() : axis,
                                     .mode = options.mode};
  return detail::submit({.kind = kKind,
                         .location = x.location(),
                         .inputs = inputs,
                         .attributes = detail::bytes_of(attributes)},
                        spec.dtype,
                        spec.shape);
}

// Adds one 1 for each row to zeros, so an index outside the classes is an error.
Tensor one_hot(Arg index, std::int64_t classes, DType dtype) {
  return detail::named_as("one_hot", [&] {
    constexpr OpKind kKind = OpKind::scatter_add;
    const SourceLoc loc = index.location();
    const TensorImpl& named = detail::operand(kKind, index);
    const Shape places = named.layout->shape;
    if (classes < 1) {
      detail::throw_op_error(ErrorCode::invalid_argument,
                             kKind,
                             fmt::format("needs 1 or more classes, got {}", classes),
                             index);
    }
    const Device device = index.tensor().device();
    const std::int64_t count = places.element_count();
    const DType summed = dtype == DType::boolean ? DType::u8 : dtype;
    const Shape flat{count, 1};
    static_cast<void>(detail::checked(
        rules::scatter_add({summed, flat}, {named.dtype, flat}, {count, classes}, 1),
        kKind,
        index));
    Tensor one = expand(Arg(full(device, {}, 1, summed, loc), loc), flat);
    Tensor column = reshape(index, {-1, 1});
    Tensor hot = add_at(kKind,
                        rules::scatter_add,
                        {count, classes},
                        1,
                        Arg(std::move(column), loc),
                        Arg(std::move(one), loc),
                        CalledAs::one_hot);
    hot = reshape(Arg(std::move(hot), loc), joined(places.dims(), std::array{classes}));
    return dtype == summed ? hot : cast(Arg(std::move(hot), loc), dtype);
  });
}

}  // namespace hearth
