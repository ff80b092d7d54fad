#include "case_families.hpp"

namespace hearth::conformance {
namespace {

using testing::Precision;

OpCase where_case() {
  OpCase out{.kind = OpKind::where, .precision = Precision::exact, .calls = {}};
  const auto three =
      [&](const Shape& condition, const Shape& a, const Shape& b, const Shape& result) {
        out.calls.push_back(
            {.inputs = {{.shape = condition, .values = Values::grid, .dtype = DType::boolean},
                        {.shape = a},
                        {.shape = b}},
             .outputs = {{.shape = result}}});
      };
  for (const Shape& shape : odd_shapes()) {
    three(shape, shape, shape, shape);
  }
  three({3, 1}, {5}, {3, 5}, {3, 5});
  three({5}, {}, {3, 5}, {3, 5});
  three({2, 1, 4}, {3, 1}, {1}, {2, 3, 4});
  three({0, 1}, {4}, {1, 4}, {0, 4});
  out.calls.push_back(
      {.inputs = {{.shape = {2, 1}, .values = Values::grid, .dtype = DType::boolean},
                  {.shape = {29}, .values = Values::special},
                  {.shape = {29}, .values = Values::special}},
       .outputs = {{.shape = {2, 29}}},
       .dtypes = kFloatTypes});
  return out;
}

OpCase copy_case() {
  OpCase out{.kind = OpKind::copy, .precision = Precision::exact, .calls = {}};
  for (const Shape& shape : odd_shapes()) {
    out.calls.push_back({.inputs = {{.shape = shape}}, .outputs = {{.shape = shape}}});
  }
  out.calls.push_back({.inputs = {{.shape = {65, 130}}}, .outputs = {{.shape = {65, 130}}}});
  return out;
}

OpCase concat_case() {
  OpCase out{.kind = OpKind::concat, .precision = Precision::exact, .calls = {}};
  const auto along = [&](int axis, const std::vector<Shape>& parts, const Shape& result) {
    CallSpec call{.inputs = {},
                  .outputs = {{.shape = result}},
                  .attributes = bytes_of(AxisAttributes{.axis = axis, .keep_dims = 0})};
    for (const Shape& part : parts) {
      call.inputs.push_back({.shape = part});
    }
    out.calls.push_back(call);
  };
  along(0, {{3}}, {3});
  along(0, {{3}, {4}}, {7});
  along(0, {{2, 5}, {3, 5}, {1, 5}}, {6, 5});
  along(1, {{2, 5}, {2, 1}, {2, 3}}, {2, 9});
  along(1, {{3, 2, 4}, {3, 0, 4}, {3, 5, 4}}, {3, 7, 4});
  along(2, {{2, 3, 1}, {2, 3, 2}}, {2, 3, 3});
  along(0, {{0, 4}, {0, 4}}, {0, 4});
  along(0, {{1}, {2}, {3}, {1}, {2}, {3}, {7}}, {19});  // more operands than the record holds
  along(0, {{129, 130}, {260, 130}}, {389, 130});
  return out;
}

OpCase slice_scatter_case() {
  OpCase out{.kind = OpKind::slice_scatter, .precision = Precision::exact, .calls = {}};
  const auto into = [&](const Shape& grad, const Shape& result, const SliceAttributes& slice) {
    out.calls.push_back({.inputs = {{.shape = grad}},
                         .outputs = {{.shape = result}},
                         .attributes = bytes_of(slice)});
  };
  into({}, {}, {});
  into({3}, {7}, {.start = {2}, .step = {1}});
  into({3}, {7}, {.start = {1}, .step = {2}});
  into({4}, {7}, {.start = {6}, .step = {-2}});
  into({0}, {5}, {.start = {0}, .step = {1}});
  into({2, 5}, {4, 5}, {.start = {1, 0}, .step = {1, 1}});
  into({3, 2}, {3, 9}, {.start = {2, 8}, .step = {-1, -5}});
  into({1, 4, 2}, {3, 4, 6}, {.start = {2, 0, 1}, .step = {1, 1, 3}});
  into({300, 100}, {302, 205}, {.start = {1, 3}, .step = {1, 2}});
  return out;
}

}  // namespace

std::vector<OpCase> movement_cases() {
  return {where_case(), copy_case(), concat_case(), slice_scatter_case()};
}

}  // namespace hearth::conformance
