#include "case_families.hpp"

namespace hearth::conformance {
namespace {

using testing::Precision;

struct Pool {
  Shape x;
  PoolAttributes attributes;
};

Shape result_shape(const Pool& pool) {
  const auto places = [&](std::size_t axis) {
    const std::int64_t padded =
        pool.x[static_cast<int>(axis) + 2] + 2 * pool.attributes.padding[axis];
    return (padded - pool.attributes.kernel[axis]) / pool.attributes.stride[axis] + 1;
  };
  return {pool.x[0], pool.x[1], places(0), places(1)};
}

const std::vector<Pool>& pools() {
  static const std::vector<Pool> all{
      {{1, 1, 2, 2}, {}},
      {{2, 3, 8, 8}, {}},
      {{2, 3, 9, 7}, {}},
      {{3, 5, 28, 28}, {}},
      {{1, 2, 6, 6}, {.kernel = {1, 1}, .stride = {1, 1}}},
      {{2, 2, 7, 9}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
      {{2, 2, 7, 9}, {.kernel = {3, 2}, .stride = {1, 3}, .padding = {0, 1}}},
      {{1, 3, 5, 5}, {.kernel = {5, 5}, .stride = {1, 1}}},
      {{1, 3, 5, 6}, {.kernel = {2, 2}, .stride = {3, 3}}},
      {{2, 1, 10, 10}, {.kernel = {4, 4}, .stride = {1, 2}, .padding = {2, 2}}},
      {{0, 3, 4, 4}, {}},
      {{16, 20, 17, 19}, {.kernel = {2, 2}, .stride = {2, 2}, .padding = {1, 0}}},
  };
  return all;
}

OpCase max_pool_case() {
  OpCase out{.kind = OpKind::max_pool2d, .precision = Precision::exact, .calls = {}};
  for (const Pool& pool : pools()) {
    for (const Values values : {Values::apart, Values::grid, Values::with_nan}) {
      CallSpec call{.inputs = {{.shape = pool.x, .values = values}},
                    .outputs = {{.shape = result_shape(pool)}},
                    .attributes = bytes_of(pool.attributes)};
      out.calls.push_back(call);
      call.outputs.push_back({.shape = result_shape(pool), .dtype = DType::i32});
      out.calls.push_back(call);
    }
  }
  return out;
}

OpCase max_pool_backward_case() {
  OpCase out{.kind = OpKind::max_pool2d_backward, .precision = Precision::sum, .calls = {}};
  for (const Pool& pool : pools()) {
    const Shape y = result_shape(pool);
    out.calls.push_back({.inputs = {{.shape = y},
                                    {.shape = y,
                                     .values = Values::places,
                                     .bound = pool.x[2] * pool.x[3],
                                     .dtype = DType::i32}},
                         .outputs = {{.shape = pool.x}},
                         .attributes = bytes_of(pool.attributes),
                         .length = static_cast<double>(y[2] * y[3]),
                         .term = 2});
  }
  return out;
}

}  // namespace

std::vector<OpCase> pooling_cases() {
  OpCase forward{.kind = OpKind::avg_pool2d, .precision = Precision::sum, .calls = {}};
  OpCase backward{.kind = OpKind::avg_pool2d_backward, .precision = Precision::sum, .calls = {}};
  for (const Pool& pool : pools()) {
    for (const std::int64_t count_include_pad : {0, 1}) {
      PoolAttributes attributes = pool.attributes;
      attributes.count_include_pad = count_include_pad;
      const auto window = static_cast<double>(attributes.kernel[0] * attributes.kernel[1]);
      CallSpec call{.inputs = {{.shape = pool.x}},
                    .outputs = {{.shape = result_shape(pool)}},
                    .attributes = bytes_of(attributes),
                    .length = window,
                    .term = 2};
      forward.calls.push_back(call);
      std::swap(call.inputs[0].shape, call.outputs[0].shape);
      backward.calls.push_back(call);
    }
  }
  return {max_pool_case(), max_pool_backward_case(), forward, backward};
}

}  // namespace hearth::conformance
