// TiedTensors: finds tensors with several names (tied weights) during a walk through a module.
// Header-internal, for value_and_grad and the walks of modules. Belongs to one walk, during which
// the tensors live. Threads: the walk's.
// Invariant: tensors are numbered from 0 in the order in which the walk first meets them.
#pragma once

#include <cstddef>
#include <unordered_map>

#include <hearth/runtime/tensor.hpp>
#include <hearth/runtime/tensor_access.hpp>

namespace hearth::detail {

class TiedTensors {
 public:
  struct Place {
    std::size_t number = 0;
    bool is_first = true;  ///< The walk had not met the tensor before.
  };

  /// Returns the tensor's number. An empty tensor is tied to no other.
  [[nodiscard]] Place meet(const Tensor& tensor) {
    if (!tensor.is_valid()) {
      return {.number = count_++, .is_first = true};
    }
    const auto [found, is_first] = numbers_.try_emplace(detail::TensorAccess::impl(tensor), count_);
    count_ += is_first ? 1 : 0;
    return {.number = found->second, .is_first = is_first};
  }

 private:
  std::size_t count_ = 0;
  std::unordered_map<const TensorImpl*, std::size_t> numbers_;
};

}  // namespace hearth::detail
