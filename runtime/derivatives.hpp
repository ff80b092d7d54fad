// Derivatives built of nested grad calls: hvp, jvp and jacobian. All of them may be nested in grad,
// value_and_grad and in each other, to any depth.
// Threads: any; each call has its own tapes.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// A function's value and its derivative along a direction.
struct ValueAndTangent {
  Tensor value;
  Tensor tangent;  ///< In the value's shape and dtype.
};

namespace detail {
/// Checks that each vector has the shape and dtype of its input, a float.
/// Errors: ArgumentError, ShapeError or DtypeError of `caller`.
void require_vectors(std::string_view caller,
                     const std::vector<Tensor>& inputs,
                     const std::vector<Tensor>& vectors,
                     SourceLoc loc);
/// The sum of all products of elements, of rank 0.
[[nodiscard]] Tensor inner_product(const std::vector<Tensor>& a,
                                   const std::vector<Tensor>& b,
                                   SourceLoc loc);

/// The two tapes of one jvp() call.
class TangentScope {
 public:
  [[nodiscard]] std::vector<Tensor> track(const std::vector<Tensor>& inputs, SourceLoc loc);
  [[nodiscard]] ValueAndTangent finish(const Tensor& value,
                                       const std::vector<Tensor>& tangents,
                                       SourceLoc loc);

 private:
  TapeScope of_seed_;
  TapeScope of_inputs_;
};

/// The rows of one jacobian() call.
class JacobianRows {
 public:
  explicit JacobianRows(const Tensor& input) : input_(input) {}
  /// Sweeps `value` for the next row. Errors: as jacobian().
  void add(TapeScope& scope, const Tensor& value, SourceLoc loc);
  [[nodiscard]] bool is_complete() const noexcept { return is_complete_; }
  [[nodiscard]] Tensor finish(SourceLoc loc);

 private:
  const Tensor& input_;
  Shape shape_;  ///< of the function's value
  std::vector<Tensor> rows_;
  bool is_complete_ = false;
};
}  // namespace detail

/// Products of the Hessian of fn with vectors: the derivative of grad(fn) along them. fn is as for
/// grad().
///
/// Shapes: vectors as the inputs; results as the inputs. Dtypes: floats, each vector as its input.
/// Errors: as grad(); ShapeError, DtypeError or ArgumentError if the vectors do not match.
/// Threads: any; records on the calling thread's streams. Cost: about twice that of grad().
/// Paper: Pearlmutter, Fast exact multiplication by the Hessian, Neural Computation 6 (1994).
template <class Fn>
[[nodiscard]] std::vector<Tensor> hvp(Fn&& fn,
                                      const std::vector<Tensor>& inputs,
                                      const std::vector<Tensor>& vectors,
                                      SourceLoc loc = SourceLoc::current()) {
  detail::require_vectors("hvp", inputs, vectors, loc);
  return grad(
      [&](const std::vector<Tensor>& tracked) {
        return detail::inner_product(grad(fn, tracked, loc), vectors, loc);
      },
      inputs,
      loc);
}

/// The value of fn(inputs) and its derivative along the tangents: the Jacobian times a vector. fn
/// takes a const std::vector<Tensor>& and returns a float tensor of any shape.
///
/// Shapes: tangents as the inputs. Dtypes: floats, each tangent as its input.
/// Errors: ArgumentError if there are no inputs or an input is empty; ShapeError or DtypeError if
/// the tangents do not match; DtypeError if the value is no float.
/// Threads: any; records on the calling thread's streams.
/// Cost: fn once and two sweeps, since the library has no forward mode. The gradient of u·fn is
/// linear in u; its derivative by u is the result.
template <class Fn>
[[nodiscard]] ValueAndTangent jvp(Fn&& fn,
                                  const std::vector<Tensor>& inputs,
                                  const std::vector<Tensor>& tangents,
                                  SourceLoc loc = SourceLoc::current()) {
  detail::require_vectors("jvp", inputs, tangents, loc);
  detail::TangentScope scope;
  const std::vector<Tensor> tracked = scope.track(inputs, loc);
  const Tensor value = std::invoke(fn, tracked);
  return scope.finish(value, tangents, loc);
}

/// All derivatives of fn at `input`: element [i..., j...] is that of value i by input element j. fn
/// takes a const Tensor& and returns a float tensor. The Jacobian of a grad is the Hessian.
///
/// Shapes: the value's axes, then the input's. Dtypes: floats; the result has the input's.
/// Errors: ShapeError if there are more than 8 axes; DtypeError if the input or the value is no
/// float; ArgumentError if fn returns another shape when it runs again.
/// Threads: any; records on the calling thread's streams.
/// Cost: fn and one sweep for each element of the value.
template <class Fn>
[[nodiscard]] Tensor jacobian(Fn&& fn, const Tensor& input, SourceLoc loc = SourceLoc::current()) {
  detail::require_vectors("jacobian", {input}, {input}, loc);
  detail::JacobianRows rows(input);
  while (!rows.is_complete()) {
    detail::TapeScope scope;
    const Tensor tracked = scope.track(input, "jacobian", loc);
    rows.add(scope, std::invoke(fn, tracked), loc);
  }
  return rows.finish(loc);
}

}  // namespace hearth
