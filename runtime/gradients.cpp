#include <hearth/runtime/gradients.hpp>

#include <hearth/runtime/ops.hpp>
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

// The type that squares are added up in: 16-bit floats would overflow.
DType norm_dtype(const std::vector<Tensor>& tensors) {
  const bool is_wide =
      std::ranges::any_of(tensors, [](const Tensor& t) { return t.dtype() == DType::f64; });
  return is_wide ? DType::f64 : DType::f32;
}

}  // namespace

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

void Gradients::throw_no_gradient(detail::GradientNumber index) const {
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
  return is_reached(index) || detail::TensorAccess::impl(unreached_[index.value]) !=
                                  detail::TensorAccess::impl(tensors_[index.value]);
}

void Gradients::leave_out(detail::GradientNumber index) {
  require(index);
  unreached_.resize(tensors_.size());
  unreached_[index.value] = tensors_[index.value];
}

const Tensor& Gradients::at(std::string_view path, SourceLoc loc) const {
  const auto found = std::ranges::find(paths_, path);
  if (found == paths_.end()) {
    throw_argument(ErrorCode::not_found,
                   fmt::format("no parameter '{}'; there are: {}", path, fmt::join(paths_, ", ")),
                   loc);
  }
  return tensors_[static_cast<std::size_t>(found - paths_.begin())];
}

void Gradients::accumulate(Gradients other, SourceLoc loc) {
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
      tensors_[i] = add(Arg(std::move(tensors_[i]), loc), Arg(std::move(other.tensors_[i]), loc));
    } else {
      tensors_[i] = std::move(other.tensors_[i]);
      unreached_[i] = Tensor();
    }
  }
}

void Gradients::scale(double factor, SourceLoc loc) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    Tensor& tensor = tensors_[i];
    if (is_float(tensor.dtype()) && has_gradient(i)) {
      tensor = mul(Arg(std::move(tensor), loc), Arg(factor, loc));
    }
  }
}

Tensor Gradients::norm(SourceLoc loc) const {
  if (tensors_.empty()) {
    throw_argument(ErrorCode::invalid_argument, "nothing to take the norm of", loc);
  }
  const DType dtype = norm_dtype(tensors_);
  const Device device = tensors_.front().device();
  Tensor total;
  for (const Tensor& tensor : tensors_) {
    if (!is_float(tensor.dtype())) {
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
    if (is_float(tensor.dtype()) && has_gradient(i)) {
      const DType dtype = tensor.dtype();
      // In 16 bits a small factor would be 0.
      const DType inside = size_bytes(dtype) == 2 ? DType::f32 : dtype;
      const Tensor local = factor.to(tensor.device(), loc).to(inside, loc);
      Tensor wide = cast(Arg(std::move(tensor), loc), inside);
      wide = mul(Arg(std::move(wide), loc), Arg(local, loc));
      tensor = cast(Arg(std::move(wide), loc), dtype);
    }
  }
  return before;
}

void Gradients::publish() const {
  for (const Tensor& tensor : tensors_) {
    tensor.publish();
  }
}

void Gradients::adopt() {
  for (Tensor& tensor : tensors_) {
    tensor.adopt();
  }
}

}  // namespace hearth
