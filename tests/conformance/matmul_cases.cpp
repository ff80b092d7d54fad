#include "case_families.hpp"

namespace hearth::conformance {

std::vector<OpCase> matmul_cases() {
  OpCase out{.kind = OpKind::matmul, .precision = testing::Precision::sum, .calls = {}};
  const auto product = [&](const Shape& a, const Shape& b, const Shape& result) {
    const std::int64_t columns = result[result.rank() - 1];
    CallSpec call{.inputs = {{.shape = a}, {.shape = b}},
                  .outputs = {{.shape = result}},
                  .length = static_cast<double>(a[a.rank() - 1]) + 1,
                  .term = 4};
    out.calls.push_back(call);
    call.inputs.push_back({.shape = {columns}});
    out.calls.push_back(call);
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
  return {out};
}

}  // namespace hearth::conformance
