#include <hearth/runtime/gradients.hpp>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/promotion.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace hearth {
namespace {

[[noreturn]] void throw_argument(ErrorCode code, std::string text, SourceLoc loc) {
  throw_error(Error{
      .code = code, .text = "gradients: " + std::move(text), .op = "gradients", .location = loc});
}

// The type for sums of squares: 16-bit floats would overflow.
DType norm_dtype(const std::vector<Tensor>& tensors) {
  const bool is_wide = std::ranges::any_of(
      tensors, [](const Tensor& t) { return t.is_valid() && t.dtype() == DType::f64; });
  return is_wide ? DType::f64 : DType::f32;
}

}  // namespace

Tensor detail::wide_sum(Tensor so_far, Tensor more, SourceLoc loc) {
  const DType dtype = accumulation_dtype(promote_types(so_far.dtype(), more.dtype()));
  Tensor wide = cast(Arg(std::move(so_far), loc), dtype);
  return add(Arg(std::move(wide), loc), Arg(cast(Arg(std::move(more), loc), dtype), loc));
}

Gradients::Gradients(std::vector<std::string> paths,
                     std::vector<Tensor> tensors,
                     std::vector<Tensor> unreached)
    : paths_(std::move(paths)), tensors_(std::move(tensors)), unreached_(std::move(unreached)) {
  if (paths_.size() != tensors_.size()) {
    throw_argument(ErrorCode::invalid_argument,
                   fmt::format("{} paths for {} tensors", paths_.size(), tensors_.size()),
                   {});
  }
  if (!unreached_.empty() && unreached_.size() != tensors_.size()) {
    throw_argument(ErrorCode::invalid_argument,
                   fmt::format("{} marks for {} tensors", unreached_.size(), tensors_.size()),
                   {});
  }
}

void Gradients::require_unused(std::string_view call, SourceLoc loc) const {
  if (is_used()) {
    throw_argument(
        ErrorCode::invalid_argument,
        fmt::format("{} of gradients that were used already: a step, or a std::move, has "
                    "taken them; compute them anew, or keep a copy",
                    call),
        loc);
  }
}

void Gradients::throw_no_gradient(detail::GradientNumber index) const {
  require_unused("a read", index.loc);
  throw_argument(ErrorCode::invalid_argument,
                 fmt::format("there is no gradient {}: there are {}, counted from 0",
                             static_cast<std::int64_t>(index.value),
                             tensors_.size()),
                 index.loc);
}

const std::string& Gradients::path(detail::GradientNumber index) const {
  require(index);
  return paths_[index.value];
}

bool Gradients::is_reached(detail::GradientNumber index) const {
  require(index);
  return unreached_.empty() || !unreached_[index.value].is_valid();
}

bool Gradients::has_gradient(detail::GradientNumber index) const {
  require(index);
  return tensors_[index.value].is_valid() &&
         (is_reached(index) || detail::TensorAccess::impl(unreached_[index.value]) !=
                                   detail::TensorAccess::impl(tensors_[index.value]));
}

void Gradients::leave_out(detail::GradientNumber index) {
  require(index);
  unreached_.resize(tensors_.size());
  unreached_[index.value] = tensors_[index.value];
}

const Tensor& Gradients::at(std::string_view path, SourceLoc loc) const {
  require_unused("at()", loc);
  const auto found = std::ranges::find(paths_, path);
  if (found == paths_.end()) {
    throw_argument(ErrorCode::not_found,
                   fmt::format("no parameter '{}'; there are: {}", path, fmt::join(paths_, ", ")),
                   loc);
  }
  const Tensor& gradient = tensors_[static_cast<std::size_t>(found - paths_.begin())];
  if (!gradient.is_valid()) {
    throw_argument(ErrorCode::not_found,
                   fmt::format("'{}' is frozen, so it has none; unfreeze_weights() it first", path),
                   loc);
  }
  return gradient;
}

void Gradients::accumulate(const Gradients& other, SourceLoc loc) {
  other.require_unused("accumulate()", loc);
  accumulate(Gradients(other), loc);
}

void Gradients::accumulate(Gradients&& other, SourceLoc loc) {
  if (&other == this) {
    throw_argument(ErrorCode::invalid_argument,
                   fmt::format("accumulate() cannot move {} gradients into themselves: scale(2) "
                               "doubles them",
                               tensors_.size()),
                   loc);
  }
  require_unused("accumulate()", loc);
  other.require_unused("accumulate()", loc);
  if (tensors_.empty()) {
    *this = std::move(other);
    return;
  }
  if (paths_ != other.paths_) {
    throw_argument(ErrorCode::invalid_argument,
                   fmt::format("the parameters differ: {} and {}",
                               fmt::join(paths_, ", "),
                               fmt::join(other.paths_, ", ")),
                   loc);
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!other.has_gradient(i)) {
      continue;
    }
    if (has_gradient(i)) {
      tensors_[i] = detail::wide_sum(std::move(tensors_[i]), std::move(other.tensors_[i]), loc);
    } else {
      tensors_[i] = std::move(other.tensors_[i]);
      if (!unreached_.empty()) {
        unreached_[i] = Tensor();
      }
    }
  }
  static_cast<void>(Gradients(std::move(other)));  // marks the argument as moved from
}

void Gradients::scale(double factor, SourceLoc loc) {
  require_unused("scale()", loc);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    Tensor& tensor = tensors_[i];
    if (has_gradient(i) && is_float(tensor.dtype())) {
      tensor = mul(Arg(std::move(tensor), loc), Arg(factor, loc));
    }
  }
}

Tensor Gradients::norm(SourceLoc loc) const {
  require_unused("norm()", loc);
  const auto first = std::ranges::find_if(tensors_, &Tensor::is_valid);
  if (first == tensors_.end()) {
    throw_argument(ErrorCode::invalid_argument, "nothing to take the norm of", loc);
  }
  const DType dtype = norm_dtype(tensors_);
  const Device device = first->device();
  Tensor total;
  for (const Tensor& tensor : tensors_) {
    if (!tensor.is_valid() || !is_float(tensor.dtype())) {
      continue;
    }
    Tensor wide = cast(Arg(tensor, loc), dtype);
    Tensor squares = square(Arg(std::move(wide), loc));
    Tensor part = sum(Arg(std::move(squares), loc)).to(device, loc);
    total = !total.is_valid() ? std::move(part)
                              : add(Arg(std::move(total), loc), Arg(std::move(part), loc));
  }
  return !total.is_valid() ? zeros(device, {}, dtype, loc) : sqrt(Arg(std::move(total), loc));
}

Tensor Gradients::clip_by_norm(double max_norm, SourceLoc loc) {
  if (!(max_norm >= 0)) {
    throw_argument(
        ErrorCode::invalid_argument, fmt::format("cannot clip to a norm of {}", max_norm), loc);
  }
  Tensor before = norm(loc);
  const Tensor is_longer = greater(Arg(before, loc), Arg(max_norm, loc));
  const Tensor ratio = div(Arg(max_norm, loc), Arg(before, loc));
  const Tensor factor = where(Arg(is_longer, loc), Arg(ratio, loc), Arg(1.0, loc));
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    Tensor& tensor = tensors_[i];
    if (has_gradient(i) && is_float(tensor.dtype())) {
      // Rounds only the product: a 16-bit factor would miss the requested norm.
      const DType dtype = tensor.dtype();
      const DType wide = accumulation_dtype(dtype);
      const Tensor local = factor.to(tensor.device(), loc).to(wide, loc);
      Tensor scaled = mul(Arg(cast(Arg(std::move(tensor), loc), wide), loc), Arg(local, loc));
      tensor = cast(Arg(std::move(scaled), loc), dtype);
    }
  }
  return before;
}

void Gradients::publish() const {
  for (const Tensor& tensor : tensors_) {
    if (tensor.is_valid()) {
      tensor.publish();
    }
  }
}

void Gradients::adopt() {
  for (Tensor& tensor : tensors_) {
    if (tensor.is_valid()) {
      tensor.adopt();
    }
  }
}

}  // namespace hearth
