// Freezing excludes parts of a model from training, for fine-tuning. A frozen tensor behaves like a
// Buffer: it is kept, saved, moved and forked with its module, but not trained. Not related to
// freeze(), which makes a whole model shareable between threads.
// Stateless. Threads: as the module.
// Invariants: (1) frozen is a property of the member, which copies, forks, dtype conversions and
// loading keep; assigning another tensor or layer ends it; (2) a tied tensor is frozen if it is
// frozen under at least one of its names.
#pragma once

#include <hearth/modules/module.hpp>
#include <hearth/modules/module_parts.hpp>

#include <hearth/runtime/model_tensor.hpp>
#include <hearth/runtime/tensor.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include <string>
#include <string_view>

namespace hearth {

namespace detail {
template <class Part>
void mark_frozen(Part& part, bool is_frozen, std::string_view op, SourceLoc loc) {
  static_assert(holds_tensors<Part>(),
                "freeze_weights() takes a model, a part of one, or a tensor in it");
  auto mark = [&](const std::string& path, Tensor& tensor) {
    require_untracked(op, path, tensor, loc);
    TensorAccess::set_mark(tensor, MemberMark::frozen, is_frozen);
  };
  if constexpr (holds_tensors<Part>()) {
    visit_part("", part, mark);
  }
}
}  // namespace detail

/// Excludes a part of a model from training: a layer, a list of layers, a tensor, or the whole
/// model.
///
///   freeze_weights(model.body);                        // trains the head only
///   hearth::Adam optimizer({.learning_rate = 1e-3});
///   ...
///   unfreeze_weights(model.body);                      // trains the whole model from here on
///
/// - value_and_grad() computes no gradient for a frozen tensor, nor for the layers before the first
///   trained one. Its entry in the Gradients is empty, and has_gradient() is false.
/// - Optimizers create no state for it, and neither step nor decay it. After it is unfrozen, its
///   state and update count start anew.
/// - A frozen BatchNorm2d normalises by its running statistics in training too, and does not update
///   them. StateUpdates skips frozen Buffers. Dropout depends on its Mode only.
/// - DataParallel and Trainer neither reduce nor step it. They read what is frozen when they are
///   constructed.
///
/// Errors: ArgumentError inside the function that value_and_grad differentiates.
template <class Part>
void freeze_weights(Part& part, SourceLoc loc = SourceLoc::current()) {
  detail::mark_frozen(part, true, "freeze_weights", loc);
}
/// Returns a part of a model to training. Errors: as freeze_weights().
template <class Part>
void unfreeze_weights(Part& part, SourceLoc loc = SourceLoc::current()) {
  detail::mark_frozen(part, false, "unfreeze_weights", loc);
}

}  // namespace hearth
