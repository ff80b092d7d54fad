#include <hearth/runtime/autodiff.hpp>

#include "tape.hpp"

namespace hearth::detail {

TapeScope::TapeScope() : tape_(make_intrusive<Tape>().detach()) {}

TapeScope::~TapeScope() {
  tape_->close();
  tape_->release();
}

Tensor TapeScope::track(const Tensor& value) {
  return tape_->add_leaf(value, SourceLoc{});
}

std::vector<Tensor> TapeScope::sweep(const Tensor& output,
                                     const GradientHook& on_ready,
                                     SourceLoc loc) {
  return tape_->sweep(output, on_ready, loc);
}

}  // namespace hearth::detail
