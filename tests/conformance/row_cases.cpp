#include "case_families.hpp"

#include <algorithm>

namespace hearth::conformance {
namespace {

using testing::Precision;

const std::vector<Shape>& row_shapes() {
  static const std::vector<Shape> all{{1},
                                      {7},
                                      {3, 7},
                                      {5, 1},
                                      {0, 4},
                                      {4, 0},
                                      {64, 10},
                                      {33, 257},
                                      {2, 3, 5},
                                      {4, 9, 6, 5},
                                      {130, 300}};
  return all;
}

template <class Fn>
void for_each_axis(const Fn& fn) {
  for (const Shape& shape : row_shapes()) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      fn(shape, axis, static_cast<double>(shape[axis]));
    }
  }
}

OpCase forward(OpKind kind) {
  OpCase out{.kind = kind, .precision = Precision::sum, .calls = {}};
  for_each_axis([&](const Shape& shape, int axis, double length) {
    for (const Values values : {Values::wide, Values::masked, Values::with_nan}) {
      out.calls.push_back({.inputs = {{.shape = shape, .values = values}},
                           .outputs = {{.shape = shape}},
                           .attributes = bytes_of(AxisAttributes{.axis = axis, .keep_dims = 0}),
                           .length = kind == OpKind::softmax ? 4 : length,
                           .term = 1});
    }
  });
  return out;
}

OpCase backward(OpKind kind, Values y) {
  OpCase out{.kind = kind, .precision = Precision::sum, .calls = {}};
  for_each_axis([&](const Shape& shape, int axis, double length) {
    out.calls.push_back({.inputs = {{.shape = shape}, {.shape = shape, .values = y}},
                         .outputs = {{.shape = shape}},
                         .attributes = bytes_of(AxisAttributes{.axis = axis, .keep_dims = 0}),
                         .length = length,
                         .term = 8});
  });
  return out;
}

OpCase scan_case(OpKind kind) {
  const bool is_exact = kind == OpKind::cummax || kind == OpKind::cummin;
  const Values usual = kind == OpKind::cumprod ? Values::near_one : Values::apart;
  OpCase out{.kind = kind, .precision = is_exact ? Precision::exact : Precision::sum, .calls = {}};
  const auto call = [&](const Shape& shape,
                        int axis,
                        Values values,
                        DtypeMask dtypes,
                        std::optional<DType> result = {}) {
    for (const int reverse : {0, 1}) {
      out.calls.push_back({.inputs = {{.shape = shape, .values = values}},
                           .outputs = {{.shape = shape, .dtype = result}},
                           .attributes = bytes_of(ScanAttributes{.axis = axis, .reverse = reverse}),
                           .length = static_cast<double>(shape[axis]),
                           .term = 2,
                           .dtypes = dtypes});
    }
  };
  for_each_axis([&](const Shape& shape, int axis, double) {
    call(shape, axis, usual, is_exact ? 0xffff : kNumberTypes);
    call(shape, axis, Values::with_nan, kFloatTypes);
    if (!is_exact) {
      call(shape, axis, Values::extremes, kNarrowTypes, DType::i64);
    }
  });
  call({13, 11}, 0, Values::extremes, kIntegerTypes);
  call({13, 11}, 1, Values::extremes, kIntegerTypes);
  call({37}, 0, Values::special, kFloatTypes);
  call({3, 5003}, 1, usual, kNumberTypes);  // a line that is split, and lines side by side
  call({2503, 5}, 0, usual, kNumberTypes);
  return out;
}

OpCase topk_case() {
  OpCase out{.kind = OpKind::topk, .precision = Precision::exact, .calls = {}};
  const auto call = [&](const Shape& shape, int axis, std::int64_t count, Values values) {
    Shape result = shape;
    result.set(axis, count);
    for (const int smallest : {0, 1}) {
      out.calls.push_back(
          {.inputs = {{.shape = shape, .values = values}},
           .outputs = {{.shape = result}, {.shape = result, .dtype = DType::i64}},
           .attributes = bytes_of(TopkAttributes{.axis = axis, .smallest = smallest})});
    }
  };
  for_each_axis([&](const Shape& shape, int axis, double) {
    call(shape, axis, shape[axis], Values::grid);  // ties, and the whole line in order
    call(shape, axis, (shape[axis] + 1) / 2, Values::special);
    call(shape, axis, std::min<std::int64_t>(shape[axis], 3), Values::apart);
  });
  call({3, 5003}, 1, 5003, Values::special);  // longer than one pass of the sort
  call({3, 5003}, 1, 7, Values::apart);
  call({2503, 5}, 0, 300, Values::grid);
  return out;
}

struct Loss {
  std::int64_t rows;
  std::int64_t classes;
};
constexpr Loss kLosses[] = {{1, 1}, {5, 3}, {7, 10}, {64, 10}, {3, 1000}, {0, 5}, {700, 67}};

OpCase loss_case() {
  OpCase out{.kind = OpKind::cross_entropy, .precision = Precision::sum, .calls = {}};
  for (const Loss& loss : kLosses) {
    for (const DType targets : {DType::i32, DType::i64}) {
      CallSpec call{.inputs = {{.shape = {loss.rows, loss.classes}, .values = Values::wide},
                               {.shape = {loss.rows},
                                .values = Values::places,
                                .bound = loss.classes,
                                .dtype = targets}},
                    .outputs = {{.shape = {loss.rows}}},
                    .length = static_cast<double>(loss.classes)};
      out.calls.push_back(call);
      call.outputs.push_back({.shape = {loss.rows, loss.classes}});
      out.calls.push_back(call);
    }
  }
  return out;
}

OpCase loss_backward_case() {
  OpCase out{.kind = OpKind::cross_entropy_backward, .precision = Precision::sum, .calls = {}};
  for (const Loss& loss : kLosses) {
    for (const DType targets : {DType::i32, DType::i64}) {
      out.calls.push_back(
          {.inputs = {{.shape = {loss.rows}},
                      {.shape = {loss.rows, loss.classes}, .values = Values::probability},
                      {.shape = {loss.rows},
                       .values = Values::places,
                       .bound = loss.classes,
                       .dtype = targets}},
           .outputs = {{.shape = {loss.rows, loss.classes}}},
           .term = 2});
    }
  }
  return out;
}

}  // namespace

std::vector<OpCase> row_cases() {
  return {
      forward(OpKind::softmax),
      forward(OpKind::log_softmax),
      backward(OpKind::softmax_backward, Values::probability),
      backward(OpKind::log_softmax_backward, Values::exponents),
      loss_case(),
      loss_backward_case(),
      scan_case(OpKind::cumsum),
      scan_case(OpKind::cumprod),
      scan_case(OpKind::cummax),
      scan_case(OpKind::cummin),
      topk_case(),
  };
}

}  // namespace hearth::conformance
