// A tensor with the path that files and error messages use. A value.
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
