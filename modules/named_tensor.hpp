// A tensor with the path by which files and error texts know it. Values.
// Threads: like Tensor, one at a time.
#pragma once

#include <hearth/runtime/tensor.hpp>

#include <string>

namespace hearth {

struct NamedTensor {
  std::string name;  ///< "encoder.inner.weight"
  Tensor tensor;
};

}  // namespace hearth
