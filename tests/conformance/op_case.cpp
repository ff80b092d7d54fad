#include "op_case.hpp"

#include "case_families.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace hearth::conformance {

std::vector<DType> OpCase::dtypes() const {
  std::vector<DType> out;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (accepts(kind, static_cast<DType>(i))) {
      out.push_back(static_cast<DType>(i));
    }
  }
  return out;
}

const std::vector<Shape>& odd_shapes() {
  static const std::vector<Shape> shapes{{},
                                         {1},
                                         {0},
                                         {7},
                                         {64},
                                         {3, 5},
                                         {4, 0, 3},
                                         {17, 33},
                                         {2, 1, 3, 1, 2},
                                         {1, 2, 1, 2, 1, 2, 1, 3},
                                         {331, 257}};
  return shapes;
}

std::vector<OpCase> op_cases() {
  std::vector<OpCase> all;
  for (const auto family : {creation_cases,
                            unary_cases,
                            binary_cases,
                            movement_cases,
                            reduction_cases,
                            matmul_cases,
                            convolution_cases,
                            pooling_cases,
                            row_cases,
                            attention_cases,
                            optimizer_cases,
                            indexing_cases}) {
    std::ranges::move(family(), std::back_inserter(all));
  }
  std::ranges::sort(all, {}, &OpCase::kind);
  return all;
}

OpCase op_case(OpKind kind) {
  for (OpCase& candidate : op_cases()) {
    if (candidate.kind == kind) {
      return std::move(candidate);
    }
  }
  return {.kind = kind, .precision = testing::Precision::exact, .calls = {}};
}

}  // namespace hearth::conformance
