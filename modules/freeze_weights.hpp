// Freezing weights: parts of a model that a training leaves as they are, for fine-tuning. A frozen
// tensor is a member of its module like a Buffer: it is kept, saved, moved and forked with the
// module, and not trained. Not to be confused with freeze(), which makes a whole model ready for
// many threads.
// Stateless. Threads: as the module.
// Invariants: (1) being frozen is a property of the member: a copy, a fork and another type of the
// model have it too, and loading keeps it; assigning another tensor or layer to the member ends it;
// (2) a tied tensor is frozen as soon as it is under one of its names.
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

/// Keeps a part of a model out of training: a layer, a list of layers, a tensor, or all of a model.
///
///   freeze_weights(model.body);                        // the head alone learns
///   hearth::Adam optimizer({.learning_rate = 1e-3});
///   ...
///   unfreeze_weights(model.body);                      // from here on all of it does
///
/// - value_and_grad() computes no gradient for it, nor for the layers before the first one that is
///   trained; its place in the Gradients is empty, and has_gradient() is false.
/// - Optimizers make no state for it, and neither step nor decay it. When it is unfrozen, its state
///   and the count of its updates begin anew.
/// - A frozen BatchNorm2d normalises by its running statistics in training too, and these stay;
///   StateUpdates leaves frozen Buffers alone. Dropout goes by its Mode, frozen or not.
/// - DataParallel and Trainer neither reduce nor step it. They go by what is frozen when they are
///   made.
///
/// Errors: ArgumentError inside of the function that value_and_grad differentiates.
template <class Part>
void freeze_weights(Part& part, SourceLoc loc = SourceLoc::current()) {
  detail::mark_frozen(part, true, "freeze_weights", loc);
}
/// Ends that, for all of the part. Errors: as freeze_weights().
template <class Part>
void unfreeze_weights(Part& part, SourceLoc loc = SourceLoc::current()) {
  detail::mark_frozen(part, false, "unfreeze_weights", loc);
}

}  // namespace hearth
