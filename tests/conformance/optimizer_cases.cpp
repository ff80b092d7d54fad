#include "case_families.hpp"

namespace hearth::conformance {
namespace {

using testing::Precision;

const std::vector<Shape>& parameter_shapes() {
  static const std::vector<Shape> all{{}, {0}, {1}, {7}, {3, 5}, {33, 65}, {131, 259}};
  return all;
}

OpCase sgd_case() {
  OpCase out{.kind = OpKind::sgd_step, .precision = Precision::sum, .calls = {}};
  const std::vector<SgdAttributes> variants{
      {.learning_rate = 0.1},
      {.learning_rate = 0.1, .weight_decay = 0.01},
      {.learning_rate = 0.05, .momentum = 0.9, .first = 1},
      {.learning_rate = 0.05, .momentum = 0.9, .dampening = 0.5, .weight_decay = 0.01},
      {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.01, .nesterov = 1},
      {.learning_rate = 0.05, .momentum = 0.9, .nesterov = 1, .first = 1},
  };
  for (const Shape& shape : parameter_shapes()) {
    for (const SgdAttributes& attributes : variants) {
      CallSpec call{.inputs = {{.shape = shape}, {.shape = shape}},
                    .outputs = {{.shape = shape}},
                    .attributes = bytes_of(attributes),
                    .term = 4};
      if (attributes.momentum != 0) {
        call.inputs.push_back({.shape = shape});
        call.outputs.push_back({.shape = shape});
      }
      out.calls.push_back(call);
    }
  }
  return out;
}

OpCase adam_case() {
  OpCase out{.kind = OpKind::adam_step, .precision = Precision::sum, .calls = {}};
  const AdamAttributes plain{.learning_rate = 0.01, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
  AdamAttributes decayed = plain;
  decayed.weight_decay = 0.1;
  decayed.step = 10;
  AdamAttributes decoupled = decayed;
  decoupled.decoupled = 1;
  decoupled.step = 100000;
  for (const Shape& shape : parameter_shapes()) {
    for (const AdamAttributes& attributes : {plain, decayed, decoupled}) {
      out.calls.push_back({.inputs = {{.shape = shape},
                                      {.shape = shape},
                                      {.shape = shape},
                                      {.shape = shape, .values = Values::positive}},
                           .outputs = {{.shape = shape}, {.shape = shape}, {.shape = shape}},
                           .attributes = bytes_of(attributes),
                           .term = 4});
    }
  }
  return out;
}

}  // namespace

std::vector<OpCase> optimizer_cases() {
  return {sgd_case(), adam_case()};
}

}  // namespace hearth::conformance
