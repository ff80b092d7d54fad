#include <hearth/runtime/autodiff.hpp>

#include <string>
#include <string_view>

#include <fmt/format.h>

#include <hearth/runtime/loss_sum.hpp>

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

Tensor TapeScope::track(const Tensor& value, std::string_view caller, SourceLoc loc) {
  return tape_->add_leaf(value, caller, loc);
}

void TapeScope::watch_weights(std::string_view model, SourceLoc loc) {
  tape_->watch_weights(model, loc);
}

std::vector<Tensor> TapeScope::sweep(const Tensor& output,
                                     const GradientHook& on_ready,
                                     SourceLoc loc) {
  return tape_->sweep(output, on_ready, loc);
}

void require_loss(std::string_view caller, const Tensor& loss, SourceLoc loc) {
  const auto refuse = [&](ErrorCode code, std::string_view what) {
    throw_error(Error{.code = code,
                      .text = fmt::format("{}: {}", caller, what),
                      .op = std::string(caller),
                      .location = loc});
  };
  if (!loss.is_valid()) {
    refuse(ErrorCode::invalid_argument, "the loss is an empty tensor");
  }
  const auto form = [&] { return describe(loss.dtype(), loss.shape()); };
  if (!is_float(loss.dtype())) {
    refuse(ErrorCode::dtype_mismatch, fmt::format("the loss must be a float, not {}", form()));
  }
  if (loss.element_count() != 1) {
    refuse(ErrorCode::shape_mismatch,
           fmt::format("the loss must be one number, not {}: return its mean() or sum()", form()));
  }
}

void require_tracked(const Tensor& loss, bool has_parameters, SourceLoc loc) {
  require_loss("value_and_grad", loss, loc);
  if (has_parameters && !loss.is_tracked()) {
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
