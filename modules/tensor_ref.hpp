// TensorRef: a tensor in a module, with all its places there. One that stands under several names
// (tied weights) is one tensor: its first name, in visit order, is its name. Values that point into
// the module. Threads: the module's. Invariant: all places of a TensorRef hold the same tensor, but
// while a SoleName lives.
#pragma once

#include <hearth/runtime/tensor.hpp>

#include <string>
#include <vector>

namespace hearth {

struct TensorRef {
  std::string path;  ///< "encoder.inner.weight"
  Tensor* tensor = nullptr;
  std::vector<Tensor*> others = {};  ///< Where it stands under further names.
};

namespace detail {

/// Takes the further names of a tensor away while it is replaced, so that its memory can be reused,
/// and gives them what stands under its name in the end.
class SoleName final {
 public:
  explicit SoleName(const TensorRef& ref) : ref_(ref) {
    for (Tensor* const other : ref_.others) {
      *other = Tensor();
    }
  }
  SoleName(const SoleName&) = delete;
  SoleName& operator=(const SoleName&) = delete;
  ~SoleName() {
    for (Tensor* const other : ref_.others) {
      *other = *ref_.tensor;
    }
  }

 private:
  const TensorRef& ref_;
};

}  // namespace detail

}  // namespace hearth
