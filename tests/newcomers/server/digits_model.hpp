// The model that one program trains and another one serves.
#pragma once

#include <hearth/hearth.hpp>

struct DigitsModel {
  hearth::Linear inner, outer;

  DigitsModel(const hearth::Device& device, hearth::Generator& generator)
      : inner({.in = 784, .out = 32}, device, generator),
        outer({.in = 32, .out = 10}, device, generator) {}
  hearth::Tensor forward(const hearth::Tensor& pictures) const {
    return outer.forward(relu(inner.forward(flatten(pictures, 1))));
  }
  HEARTH_MODULE(DigitsModel, inner, outer)
};
