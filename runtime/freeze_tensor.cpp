#include <hearth/runtime/freeze_tensor.hpp>

#include "runtime/client/tensor_impl.hpp"

#include <hearth/runtime/tensor_access.hpp>

namespace hearth {

void freeze_tensor(const Tensor& tensor) {
  detail::TensorAccess::publish_frozen(tensor, SourceLoc::current());  // throws if it is empty
  detail::TensorAccess::impl(tensor)->freeze();
}

}  // namespace hearth
