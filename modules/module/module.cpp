#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/promotion.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

#include <utility>

namespace hearth {

Tensor taken(const Arg& x, std::string_view layer) {
  if (x.is_scalar()) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("{}: the input is a number, not a tensor", layer),
                      .location = x.location()});
  }
  return x.movable() != nullptr ? std::move(*x.movable()) : x.tensor();
}

namespace detail {

std::string key_path(const std::string& prefix, const std::string& key) {
  if (key.empty() || key.find('.') != std::string::npos) {
    throw_error(
        Error{.code = ErrorCode::invalid_argument,
              .text = fmt::format("HEARTH_MODULE: the key '{}' of the map '{}' is {}: it is "
                                  "a part of the paths of what it stands for",
                                  key,
                                  prefix,
                                  key.empty() ? "empty" : "no name, as it has a dot"),
              .module_path = prefix});
  }
  return join_path(prefix, key);
}

Tensor with_dtype(const Tensor& tensor, DType dtype, SourceLoc loc) {
  const WeightScope weights(tensor.device());
  return tensor.to(dtype, loc);
}

DType member_dtype(const Tensor& member, DType dtype) {
  if (!is_float(member.dtype())) {
    return member.dtype();
  }
  return TensorAccess::has_mark(member, MemberMark::wide) ? accumulation_dtype(dtype) : dtype;
}

Tensor forked(const Tensor& tensor, const Device& device, SourceLoc loc) {
  const WeightScope weights(device);
  const Tensor values = tensor.detach();
  return values.device() == device ? contiguous(Arg(values, loc)) : values.to(device, loc);
}

void require_copyable(const std::string& from_path,
                      const Tensor& from,
                      const std::string& to_path,
                      const Tensor& to,
                      SourceLoc loc) {
  if (from_path != to_path) {
    throw_error(
        Error{.code = ErrorCode::invalid_argument,
              .text = fmt::format("copy_values: '{}' meets '{}': the modules have different "
                                  "parameters",
                                  from_path,
                                  to_path),
              .op = "copy_values",
              .module_path = to_path,
              .location = loc});
  }
  require_tensor("copy_values", from_path, from, loc);
  require_tensor("copy_values", to_path, to, loc);
  if (from.shape() != to.shape()) {
    throw_error(
        Error{.code = ErrorCode::shape_mismatch,
              .text = fmt::format("copy_values: '{}' is {} in one module and {} in the other",
                                  to_path,
                                  from.shape().to_string(),
                                  to.shape().to_string()),
              .op = "copy_values",
              .module_path = to_path,
              .location = loc});
  }
}

void throw_different_counts(std::size_t from, std::size_t to, SourceLoc loc) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = fmt::format("copy_values: {} tensors for a module with {}", from, to),
                    .op = "copy_values",
                    .location = loc});
}

}  // namespace detail
}  // namespace hearth
