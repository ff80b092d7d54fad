#include <hearth/runtime/freeze_tensor.hpp>

#include "runtime/client/tensor_impl.hpp"

namespace hearth {

void freeze_tensor(const Tensor& tensor) {
  tensor.publish(true, SourceLoc::current());  // throws when it is empty
  tensor.impl()->freeze();
}

}  // namespace hearth
