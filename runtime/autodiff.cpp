#include <hearth/runtime/autodiff.hpp>

#include "runtime/tape/tape.hpp"
#include "runtime/tape/tape_context.hpp"

namespace hearth::detail {

TapeScope::TapeScope() : tape_(make_intrusive<Tape>().detach()) {
  note_open(*tape_);
}

TapeScope::~TapeScope() {
  tape_->close();
  tape_->release();
  forget_closed_tapes();
}

Tensor TapeScope::track(const Tensor& value) {
  return tape_->add_leaf(value, SourceLoc{});
}

std::vector<Tensor> TapeScope::sweep(const Tensor& output,
                                     const GradientHook& on_ready,
                                     SourceLoc loc) {
  return tape_->sweep(output, on_ready, loc);
}

void require_tracked(const Tensor& loss, bool has_parameters, SourceLoc loc) {
  if (has_parameters && loss.is_valid() && !loss.is_tracked()) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = "value_and_grad: the loss comes from none of the model's parameters: "
                              "compute it with the model that the function is given",
                      .op = "value_and_grad",
                      .location = loc});
  }
}

std::vector<Tensor> TapeScope::take_unreached() {
  return tape_->take_unreached();
}

}  // namespace hearth::detail
