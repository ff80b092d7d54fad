#include <hearth/runtime/derivatives.hpp>

#include <string>

#include <fmt/format.h>

#include <hearth/runtime/ops.hpp>

namespace hearth::detail {
namespace {

[[noreturn]] void throw_mistake(std::string_view caller,
                                ErrorCode code,
                                std::string_view what,
                                SourceLoc loc) {
  throw_error(Error{.code = code,
                    .text = fmt::format("{}: {}", caller, what),
                    .op = std::string(caller),
                    .location = loc});
}

std::string dtype_and_shape(const Tensor& tensor) {
  return describe(tensor.dtype(), tensor.shape());
}

void require_float(std::string_view caller, const Tensor& value, SourceLoc loc) {
  if (!value.is_valid()) {
    throw_mistake(
        caller, ErrorCode::invalid_argument, "the function returned an empty tensor", loc);
  }
  if (!is_float(value.dtype())) {
    throw_mistake(caller,
                  ErrorCode::dtype_mismatch,
                  "the function must return a float tensor, not " + dtype_and_shape(value),
                  loc);
  }
}

}  // namespace

void require_vectors(std::string_view caller,
                     const std::vector<Tensor>& inputs,
                     const std::vector<Tensor>& vectors,
                     SourceLoc loc) {
  if (inputs.empty() || inputs.size() != vectors.size()) {
    throw_mistake(caller,
                  ErrorCode::invalid_argument,
                  fmt::format("needs one vector for each input and at least one, was given {} "
                              "inputs and {} vectors",
                              inputs.size(),
                              vectors.size()),
                  loc);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_valid() || !vectors[i].is_valid()) {
      throw_mistake(
          caller,
          ErrorCode::invalid_argument,
          fmt::format("{} {} is an empty tensor", inputs[i].is_valid() ? "vector" : "input", i),
          loc);
    }
    const auto both = [&] {
      return fmt::format("vector {} is {}, its input {}",
                         i,
                         dtype_and_shape(vectors[i]),
                         dtype_and_shape(inputs[i]));
    };
    if (!is_float(inputs[i].dtype())) {
      throw_mistake(
          caller,
          ErrorCode::dtype_mismatch,
          fmt::format(
              "input {} is {}; only floats have derivatives", i, dtype_and_shape(inputs[i])),
          loc);
    }
    if (inputs[i].dtype() != vectors[i].dtype()) {
      throw_mistake(caller, ErrorCode::dtype_mismatch, both(), loc);
    }
    if (inputs[i].shape() != vectors[i].shape()) {
      throw_mistake(caller, ErrorCode::shape_mismatch, both(), loc);
    }
  }
}

Tensor inner_product(const std::vector<Tensor>& a, const std::vector<Tensor>& b, SourceLoc loc) {
  Tensor total;
  for (std::size_t i = 0; i < a.size(); ++i) {
    Tensor part = sum(Arg(mul(Arg(a[i], loc), Arg(b[i], loc)), loc));
    total = total.is_valid() ? add(Arg(std::move(total), loc), Arg(std::move(part), loc))
                             : std::move(part);
  }
  return total;
}

std::vector<Tensor> TangentScope::track(const std::vector<Tensor>& inputs, SourceLoc loc) {
  std::vector<Tensor> tracked;
  tracked.reserve(inputs.size());
  for (const Tensor& input : inputs) {
    tracked.push_back(of_inputs_.track(input, "jvp", loc));
  }
  return tracked;
}

ValueAndTangent TangentScope::finish(const Tensor& value,
                                     const std::vector<Tensor>& tangents,
                                     SourceLoc loc) {
  require_float("jvp", value, loc);
  const Tensor seed = of_seed_.track(zeros_like(value, loc), "jvp", loc);
  const Tensor weighted = inner_product({value}, {seed}, loc);
  const std::vector<Tensor> gradients = of_inputs_.sweep(weighted, {}, loc);
  const Tensor along = inner_product(gradients, tangents, loc);
  Tensor tangent = of_seed_.sweep(along, {}, loc)[0];
  return {.value = of_seed_.outside(of_inputs_.outside(value)), .tangent = std::move(tangent)};
}

void JacobianRows::add(TapeScope& scope, const Tensor& value, SourceLoc loc) {
  require_float("jacobian", value, loc);
  const Shape& shape = value.shape();
  const auto row = static_cast<std::int64_t>(rows_.size());
  if (row == 0) {
    shape_ = shape;
    if (shape.rank() + input_.rank() > kMaxRank) {
      throw_mistake("jacobian",
                    ErrorCode::shape_mismatch,
                    fmt::format("the result would have the axes of the value {} and of the input "
                                "{}, more than {}",
                                dtype_and_shape(value),
                                dtype_and_shape(input_),
                                kMaxRank),
                    loc);
    }
  } else if (shape != shape_) {
    throw_mistake("jacobian",
                  ErrorCode::invalid_argument,
                  fmt::format("the function returned the shape {} first, and {} when it ran again",
                              shape_.to_string(),
                              shape.to_string()),
                  loc);
  }
  const std::int64_t count = shape.element_count();
  if (count > 0) {
    const Tensor line = reshape(Arg(value, loc), {count});
    const Tensor element = slice(Arg(line, loc), 0, {.start = row, .stop = row + 1});
    Tensor gradient = scope.sweep(element, {}, loc)[0];
    rows_.push_back(reshape(Arg(std::move(gradient), loc), {1, input_.element_count()}));
  }
  is_complete_ = row + 1 >= count;
}

Tensor JacobianRows::finish(SourceLoc loc) {
  Shape shape = shape_;
  for (const std::int64_t size : input_.shape().dims()) {
    shape.push_back(size);
  }
  if (rows_.empty()) {
    return zeros(input_.device(), shape, input_.dtype(), loc);
  }
  return reshape(Arg(concat(rows_, 0, loc), loc), shape);
}

}  // namespace hearth::detail
