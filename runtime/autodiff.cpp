#include <hearth/runtime/autodiff.hpp>

#include <string>
#include <string_view>

#include <fmt/format.h>

#include <hearth/runtime/base/fiber_mark.hpp>
#include <hearth/runtime/loss_sum.hpp>

#include "runtime/tape/tape.hpp"
#include "runtime/tape/tape_context.hpp"

namespace hearth::detail {

TapeScope::TapeScope() : tape_(make_intrusive<Tape>().detach()) {
  record_open(*tape_);
  detail::enter_thread_scope("tape");
}

TapeScope::~TapeScope() {
  tape_->close();
  tape_->release();
  forget_closed_tapes();
  leave_thread_scope();
}

Tensor TapeScope::track(const Tensor& value, std::string_view caller, SourceLoc loc) {
  return tape_->add_leaf(value, caller, loc);
}

void TapeScope::watch_weights(ModelPlaces model, SourceLoc loc) {
  tape_->watch_weights(std::move(model), loc);
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

void require_tracked(const Tensor& loss, const TrackedParameters& parameters, SourceLoc loc) {
  require_loss("value_and_grad", loss, loc);
  const auto refuse = [&](std::string text) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = std::move(text),
                      .op = "value_and_grad",
                      .location = loc});
  };
  if (parameters.is_all_frozen()) {
    refuse(
        fmt::format("value_and_grad: all {} parameters are frozen: unfreeze_weights() those that "
                    "are to be trained",
                    parameters.frozen_count));
  }
  if (!parameters.paths.empty() && !loss.is_tracked()) {
    refuse(
        "value_and_grad: the loss comes from none of the model's parameters: compute it with "
        "the model that the function is given, without detach() on the way");
  }
}

std::vector<Tensor> TapeScope::take_unreached() {
  return tape_->take_unreached();
}

Tensor TapeScope::outside(const Tensor& tensor) const {
  return tape_->outside(tensor);
}

Gradients TapeScope::sweep_parameters(const Tensor& loss,
                                      TrackedParameters parameters,
                                      const GradientHook& on_ready,
                                      SourceLoc loc) {
  const std::vector<std::size_t>& leaves = parameters.leaves;
  if (parameters.frozen_count == 0) {  // then parameters and leaves have the same numbers
    std::vector<Tensor> all = tape_->sweep(loss, on_ready, loc);
    return Gradients(std::move(parameters.paths), std::move(all), take_unreached());
  }
  GradientHook by_parameter;
  if (on_ready) {
    by_parameter = [&](std::size_t leaf, Tensor& gradient) { on_ready(leaves[leaf], gradient); };
  }
  std::vector<Tensor> swept = tape_->sweep(loss, by_parameter, loc);
  std::vector<Tensor> unreached = take_unreached();
  std::vector<Tensor> all(parameters.paths.size());
  std::vector<Tensor> marks(unreached.empty() ? 0 : all.size());
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    all[leaves[leaf]] = std::move(swept[leaf]);
    if (!unreached.empty()) {
      marks[leaves[leaf]] = std::move(unreached[leaf]);
    }
  }
  return Gradients(std::move(parameters.paths), std::move(all), std::move(marks));
}

}  // namespace hearth::detail
