// TensorRef: a tensor of a module with all of its members there. A tied tensor stands under several
// names and counts once, under the first name in visit order. A value that points into the module.
// Threads: the module's.
// Invariant: all members of a TensorRef hold the same tensor, except while a SoleName lives.
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
  std::vector<Tensor*> others = {};  ///< Further members that hold this tensor.

  /// Whether freeze_weights() excludes the tensor from training under at least one of its names.
  [[nodiscard]] bool is_frozen() const noexcept {
    const auto has_mark = [](const Tensor* place) {
      return detail::TensorAccess::has_mark(*place, detail::MemberMark::frozen);
    };
    return has_mark(tensor) || std::ranges::any_of(others, has_mark);
  }
  /// Whether the tensor is a float parameter that is not frozen.
  [[nodiscard]] bool is_trained() const { return is_float(tensor->dtype()) && !is_frozen(); }
};

namespace detail {

/// Empties the further names of a tied tensor while it is replaced, so that its memory can be
/// reused. The destructor assigns the new tensor to all names. Every name that was frozen stays
/// frozen.
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
  std::uint8_t marks_;  ///< Marks of the tensor, joined over all of its names.
};

}  // namespace detail

}  // namespace hearth
