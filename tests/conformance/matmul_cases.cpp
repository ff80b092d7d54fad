#include "case_families.hpp"

namespace hearth::conformance {

std::vector<OpCase> matmul_cases() {
  OpCase out{.kind = OpKind::matmul, .precision = testing::Precision::sum, .calls = {}};
  // For i8 the ends of the type reveal saturating sums, and distinct elements reveal swapped ones.
  const auto small_product = [&](const Shape& a, const Shape& b, const Shape& result) {
    for (const Values values : {Values::extremes, Values::distinct}) {
      out.calls.push_back(
          {.inputs = {{.shape = a, .values = values}, {.shape = b, .values = values}},
           .outputs = {{.shape = result,
                        .dtype = DType::i32,
                        .precision = testing::Precision::exact}},
           .dtypes = dtype_bit(DType::i8)});
    }
  };
  const auto product = [&](const Shape& a, const Shape& b, const Shape& result) {
    const std::int64_t columns = result[result.rank() - 1];
    CallSpec call{.inputs = {{.shape = a}, {.shape = b}},
                  .outputs = {{.shape = result}},
                  .length = static_cast<double>(a[a.rank() - 1]) + 1,
                  .term = 4,
                  .dtypes = kFloatTypes};
    out.calls.push_back(call);
    call.inputs.push_back({.shape = {columns}});
    out.calls.push_back(call);
    small_product(a, b, result);
  };
  product({1, 1}, {1, 1}, {1, 1});
  product({2, 3}, {3, 4}, {2, 4});
  product({5, 7}, {7, 1}, {5, 1});
  product({1, 7}, {7, 5}, {1, 5});
  product({17, 33}, {33, 9}, {17, 9});
  product({64, 64}, {64, 64}, {64, 64});
  product({1, 784}, {784, 130}, {1, 130});
  product({8, 200}, {200, 31}, {8, 31});
  product({130, 3}, {3, 257}, {130, 257});
  product({65, 130}, {130, 67}, {65, 67});
  product({130, 260}, {260, 140}, {130, 140});
  product({3, 0}, {0, 4}, {3, 4});
  product({0, 3}, {3, 4}, {0, 4});
  product({3, 2}, {2, 0}, {3, 0});
  product({2, 3, 4, 5}, {5, 6}, {2, 3, 4, 6});
  product({4, 5}, {3, 5, 6}, {3, 4, 6});
  product({7, 1, 3}, {1, 3, 2}, {7, 1, 2});
  product({2, 1, 3, 4}, {1, 5, 4, 2}, {2, 5, 3, 2});
  product({0, 3, 4}, {4, 2}, {0, 3, 2});
  product({3, 40, 50}, {3, 50, 60}, {3, 40, 60});
  small_product({3, 1}, {1, 5}, {3, 5});
  small_product({4, 300}, {300, 6}, {4, 6});
  small_product({19, 1100}, {1100, 35}, {19, 35});
  small_product({2, 9, 64}, {2, 64, 16}, {2, 9, 16});
  small_product({48, 96}, {96, 80}, {48, 80});
  return {out};
}

}  // namespace hearth::conformance
