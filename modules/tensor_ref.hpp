// TensorRef: a tensor in a module, with all its places there. One that stands under several names
// (tied weights) is one tensor: its first name, in visit order, is its name. Values that point into
// the module. Threads: the module's. Invariant: all places of a TensorRef hold the same tensor, but
// while a SoleName lives.
#pragma once

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/tensor.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace hearth {

struct TensorRef {
  std::string path;  ///< "encoder.inner.weight"
  Tensor* tensor = nullptr;
  std::vector<Tensor*> others = {};  ///< Where it stands under further names.

  /// Whether freeze_weights() keeps it out of training, under one of its names.
  [[nodiscard]] bool is_frozen() const noexcept {
    const auto has_mark = [](const Tensor* place) {
      return detail::TensorAccess::has_mark(*place, detail::MemberMark::frozen);
    };
    return has_mark(tensor) || std::ranges::any_of(others, has_mark);
  }
  /// Whether a parameter is a float that is not frozen.
  [[nodiscard]] bool is_trained() const { return is_float(tensor->dtype()) && !is_frozen(); }
};

namespace detail {

/// Takes the further names of a tensor away while it is replaced, so that its memory can be reused,
/// and gives them what stands under its name in the end. It stays frozen where it was.
class SoleName final {
 public:
  explicit SoleName(const TensorRef& ref) : ref_(ref), marks_(TensorAccess::marks(*ref.tensor)) {
    for (Tensor* const other : ref_.others) {
      marks_ = static_cast<std::uint8_t>(marks_ | TensorAccess::marks(*other));
      *other = Tensor();
    }
  }
  SoleName(const SoleName&) = delete;
  SoleName& operator=(const SoleName&) = delete;
  ~SoleName() {
    TensorAccess::set_marks(*ref_.tensor, marks_);
    for (Tensor* const other : ref_.others) {
      *other = *ref_.tensor;
    }
  }

 private:
  const TensorRef& ref_;
  std::uint8_t marks_;  ///< Marks of the member under all of its names.
};

}  // namespace detail

}  // namespace hearth
