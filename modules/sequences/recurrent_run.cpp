#include "recurrent_run.hpp"

#include <hearth/modules/generator_scope.hpp>

#include <hearth/runtime/layer_label.hpp>

#include <fmt/format.h>

#include <string>

namespace hearth::detail {
namespace {

[[noreturn]] void refuse_operand(ErrorCode code,
                                 std::string_view layer,
                                 const std::string& text,
                                 SourceLoc loc) {
  throw_error(Error{.code = code,
                    .text = fmt::format("{}: {}", layer, text),
                    .op = std::string(layer),
                    .location = loc});
}

}  // namespace

RecurrentRun::RecurrentRun(std::string_view layer,
                           const std::vector<RecurrentWeights>& weights,
                           const RecurrentConfig& config,
                           const Arg& x,
                           std::optional<Mode> mode,
                           Generator* generator,
                           const std::optional<Tensor>& lengths)
    : layer_(layer), weights_(weights), config_(config), loc_(x.location()) {
  require_x(x);
  if (config.dropout > 0 && !mode) {
    refuse_operand(ErrorCode::invalid_argument,
                   layer,
                   "a layer with dropout needs a mode: run(x, Mode::train) or run(x, Mode::eval)",
                   loc_);
  }
  if (config.dropout > 0 && mode == Mode::train) {
    generator_ = generator != nullptr ? generator : &current_generator(layer, loc_);
  }
  x_ = taken(x, layer);
  if (lengths) {
    take_lengths(*lengths);
  }
}

void RecurrentRun::require_x(const Arg& x) const {
  if (x.is_scalar()) {
    static_cast<void>(taken(x, layer_));  // throws for a scalar
  }
  const Shape shape = x.tensor().shape(loc_);
  if (shape.rank() != 3 || shape[1] < 1 || shape[2] != config_.in) {
    refuse_operand(ErrorCode::shape_mismatch,
                   layer_,
                   fmt::format("needs sequences [n, 1 or more, {}], got {}",
                               config_.in,
                               describe(x.tensor().dtype(), shape)),
                   loc_);
  }
  const Tensor& weight = weights_.front().input_weight;
  if (x.tensor().dtype() != weight.dtype()) {
    throw_error(Error{.code = ErrorCode::dtype_mismatch,
                      .text = fmt::format("{}: needs {} as its weights are, got {}",
                                          layer_,
                                          name(weight.dtype()),
                                          describe(x.tensor().dtype(), shape)),
                      .op = std::string(layer_),
                      .module_path = layer_of(weight),
                      .location = loc_});
  }
}

// The mask of a sequence is a row of a triangle. The look-up poisons it for a length that is too
// large or below 0.
void RecurrentRun::take_lengths(const Tensor& lengths) {
  const Shape& shape = x_.shape();
  const DType dtype = lengths.dtype(loc_);
  if (lengths.shape() != Shape{shape[0]} || (dtype != DType::i32 && dtype != DType::i64)) {
    refuse_operand(
        lengths.shape() != Shape{shape[0]} ? ErrorCode::shape_mismatch : ErrorCode::dtype_mismatch,
        layer_,
        fmt::format("the lengths must be i32[{0}] or i64[{0}], are {1}",
                    shape[0],
                    describe(dtype, lengths.shape())),
        loc_);
  }
  const auto count = [&](std::int64_t stop) {
    return arange(lengths.device(), 0, static_cast<double>(stop), 1, DType::i64, loc_);
  };
  const Tensor places = count(shape[1]);
  const Tensor ends = unsqueeze(Arg(count(shape[1] + 1), loc_), 1);
  const Tensor triangle = less(Arg(places, loc_), Arg(ends, loc_));
  const Tensor mask = index_select(Arg(triangle, loc_), 0, Arg(lengths, loc_));
  for (std::int64_t place = 0; place < shape[1]; ++place) {
    inside_.push_back(slice(Arg(mask, loc_), 1, {.start = place, .stop = place + 1}));
  }
  // Padding may hold anything, NaN too, and would reach the gradients of the weights.
  x_ = where(Arg(unsqueeze(Arg(mask, loc_), 2), loc_), Arg(std::move(x_), loc_), Arg(0.0, loc_));
}

Tensor RecurrentRun::state(const std::optional<Tensor>& states, std::size_t number) const {
  const Tensor& weight = weights_.front().input_weight;
  const Shape each{x_.shape()[0], config_.hidden};
  if (!states) {
    return zeros(weight.device(), each, weight.dtype(), loc_);
  }
  const Shape wanted{static_cast<std::int64_t>(weights_.size()), each[0], each[1]};
  if (states->shape(loc_) != wanted) {
    refuse_operand(
        ErrorCode::shape_mismatch,
        layer_,
        fmt::format("the state must be {}, is {}", wanted.to_string(), states->shape().to_string()),
        loc_);
  }
  const auto at = static_cast<std::int64_t>(number);
  return squeeze(Arg(slice(Arg(*states, loc_), 0, {.start = at, .stop = at + 1}), loc_), 0);
}

Tensor RecurrentRun::inside(std::int64_t position, Tensor now, const Arg& else_value) const {
  if (inside_.empty()) {
    return now;
  }
  const Tensor& mask = inside_[static_cast<std::size_t>(position)];
  return where(Arg(mask, loc_), Arg(std::move(now), loc_), else_value);
}

Tensor RecurrentRun::dropped(Tensor output) const {
  return generator_ == nullptr
             ? std::move(output)
             : dropout(Arg(std::move(output), loc_), config_.dropout, *generator_);
}

}  // namespace hearth::detail
