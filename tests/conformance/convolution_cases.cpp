#include "case_families.hpp"

namespace hearth::conformance {
namespace {

using testing::Precision;

struct Convolution {
  Shape x;
  Shape w;
  ConvAttributes attributes = {};
};

std::int64_t places(std::int64_t size,
                    std::int64_t kernel,
                    const ConvAttributes& conv,
                    std::size_t axis) {
  return (size + 2 * conv.padding[axis] - conv.dilation[axis] * (kernel - 1) - 1) /
             conv.stride[axis] +
         1;
}

Shape result_shape(const Convolution& c) {
  return {c.x[0],
          c.w[0],
          places(c.x[2], c.w[2], c.attributes, 0),
          places(c.x[3], c.w[3], c.attributes, 1)};
}

const std::vector<Convolution>& convolutions() {
  static const std::vector<Convolution> all{
      {{1, 1, 1, 1}, {1, 1, 1, 1}},
      {{1, 1, 5, 5}, {1, 1, 3, 3}},
      {{2, 3, 7, 6}, {4, 3, 3, 2}},
      {{2, 3, 7, 6}, {5, 3, 1, 1}},
      {{2, 4, 9, 9}, {6, 4, 3, 3}, {.padding = {1, 1}}},
      {{2, 4, 9, 9}, {6, 4, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
      {{1, 3, 11, 13}, {2, 3, 5, 3}, {.stride = {3, 1}, .padding = {2, 0}}},
      {{1, 2, 12, 10}, {3, 2, 3, 3}, {.padding = {2, 1}, .dilation = {2, 3}}},
      {{2, 6, 5, 7}, {4, 3, 3, 3}, {.padding = {1, 1}, .groups = 2}},
      {{2, 5, 8, 8}, {5, 1, 3, 3}, {.padding = {1, 1}, .groups = 5}},
      {{2, 3, 8, 8}, {6, 1, 3, 3}, {.stride = {2, 1}, .padding = {0, 2}, .groups = 3}},
      {{1, 2, 4, 4}, {3, 2, 4, 4}},
      {{1, 2, 3, 3}, {2, 2, 5, 5}, {.padding = {2, 2}}},
      {{0, 2, 5, 5}, {3, 2, 3, 3}},
      {{3, 1, 28, 28}, {8, 1, 3, 3}, {.padding = {1, 1}}},
      {{5, 8, 14, 14}, {16, 8, 3, 3}, {.padding = {1, 1}}},
      {{1, 17, 14, 14}, {33, 17, 3, 3}, {.padding = {1, 1}}},
      {{1, 32, 6, 7}, {32, 16, 3, 2}, {.stride = {2, 1}, .padding = {1, 1}, .groups = 2}},
  };
  return all;
}

double count(std::int64_t a, std::int64_t b, std::int64_t c) {
  return static_cast<double>(a * b * c);
}

}  // namespace

std::vector<OpCase> convolution_cases() {
  OpCase forward{.kind = OpKind::conv2d, .precision = Precision::sum, .calls = {}};
  OpCase to_input{.kind = OpKind::conv2d_backward_input, .precision = Precision::sum, .calls = {}};
  OpCase to_weight{
      .kind = OpKind::conv2d_backward_weight, .precision = Precision::sum, .calls = {}};
  for (const Convolution& c : convolutions()) {
    const Shape y = result_shape(c);
    const std::vector<std::byte> attributes = bytes_of(c.attributes);
    CallSpec call{.inputs = {{.shape = c.x}, {.shape = c.w}},
                  .outputs = {{.shape = y}},
                  .attributes = attributes,
                  .length = count(c.w[1], c.w[2], c.w[3]) + 1,
                  .term = 4};
    forward.calls.push_back(call);
    call.inputs.push_back({.shape = {c.w[0]}});
    forward.calls.push_back(call);
    to_input.calls.push_back({.inputs = {{.shape = y}, {.shape = c.w}},
                              .outputs = {{.shape = c.x}},
                              .attributes = attributes,
                              .length = count(c.w[0], c.w[2], c.w[3]),
                              .term = 4});
    to_weight.calls.push_back({.inputs = {{.shape = c.x}, {.shape = y}},
                               .outputs = {{.shape = c.w}},
                               .attributes = attributes,
                               .length = count(y[0], y[2], y[3]),
                               .term = 4});
  }
  return {forward, to_input, to_weight};
}

}  // namespace hearth::conformance
