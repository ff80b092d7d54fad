// Gradients: the owned result of differentiation: one tensor for each parameter, in visit order,
// with the parameters' paths. Movable to another thread by publish() and adopt(). Threads: one at a
// time.
// Invariants: (1) a parameter on which the loss does not depend has zeros, and has_gradient() is
// false until they are replaced; (2) a frozen parameter has an empty tensor; (3) moved-from
// gradients are marked, and every use of them throws.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/move_mark.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// Receives the finished gradient of leaf `index` and may replace it, as a bucketed all-reduce
/// does.
using GradientHook = std::function<void(std::size_t index, Tensor& gradient)>;

namespace detail {
/// The index of a gradient, with the line of the caller.
struct GradientNumber {
  // NOLINTNEXTLINE(google-explicit-constructor)
  GradientNumber(std::size_t number, SourceLoc line = SourceLoc::current()) noexcept
      : value(number), loc(line) {}

  std::size_t value;
  SourceLoc loc;
};
/// The sum of two gradients in accumulation_dtype() of their type.
[[nodiscard]] Tensor wide_sum(Tensor so_far, Tensor more, SourceLoc loc);
}  // namespace detail

class Gradients {
 public:
  Gradients() = default;
  /// `unreached`: for each parameter, the zeros that replace a missing gradient, else an empty
  /// tensor. May be an empty vector.
  Gradients(std::vector<std::string> paths,
            std::vector<Tensor> tensors,
            std::vector<Tensor> unreached = {});

  [[nodiscard]] std::size_t size() const noexcept { return tensors_.size(); }
  [[nodiscard]] bool empty() const noexcept { return tensors_.empty(); }
  /// True if they were moved from: into a step, or into other gradients.
  [[nodiscard]] bool is_used() const noexcept { return mark_.is_moved_from(); }
  /// Checks that they were not moved from. Errors: ArgumentError of `call`.
  void require_unused(std::string_view call, SourceLoc loc = SourceLoc::current()) const;
  /// The path of a parameter, by its index in visit order.
  /// Errors (of every function with an index): ArgumentError if the index is too large, or the
  /// gradients were moved from.
  [[nodiscard]] const std::string& path(detail::GradientNumber index) const;
  [[nodiscard]] const Tensor& operator[](detail::GradientNumber index) const {
    require(index);
    return tensors_[index.value];
  }
  [[nodiscard]] Tensor& operator[](detail::GradientNumber index) {
    require(index);
    return tensors_[index.value];
  }
  /// True if the loss depends on the parameter, and it is not frozen. An optimizer leaves other
  /// parameters alone: no decay, no momentum. A tensor that the program puts in place of the zeros
  /// counts as a gradient.
  [[nodiscard]] bool has_gradient(detail::GradientNumber index) const;
  /// True if the sweep reached the parameter, whatever a GradientHook did then.
  [[nodiscard]] bool is_reached(detail::GradientNumber index) const;
  /// Marks the entry as no gradient.
  void leave_out(detail::GradientNumber index);
  /// The gradient by path. Errors: ArgumentError not_found, also for a frozen parameter.
  [[nodiscard]] const Tensor& at(std::string_view path, SourceLoc loc = SourceLoc::current()) const;

  /// Adds `other`, parameter by parameter (gradient accumulation).
  ///
  /// Dtypes: f16 and bf16 gradients become f32 at the first sum, so that many small ones add up;
  /// optimizers accept either.
  /// Errors: ArgumentError if the paths differ, if either was moved from, or if the gradients are
  /// moved into themselves.
  void accumulate(Gradients&& other, SourceLoc loc = SourceLoc::current());
  void accumulate(const Gradients& other, SourceLoc loc = SourceLoc::current());
  void scale(double factor, SourceLoc loc = SourceLoc::current());
  /// The Euclidean norm over all gradients, a scalar tensor.
  [[nodiscard]] Tensor norm(SourceLoc loc = SourceLoc::current()) const;
  /// Scales all gradients by min(1, max_norm / norm) without waiting. Returns the norm before
  /// scaling.
  Tensor clip_by_norm(double max_norm, SourceLoc loc = SourceLoc::current());

  void publish() const;
  void adopt();

 private:
  void require(detail::GradientNumber index) const {
    if (index.value >= tensors_.size()) [[unlikely]] {
      throw_no_gradient(index);
    }
  }
  [[noreturn]] void throw_no_gradient(detail::GradientNumber index) const;

  std::vector<std::string> paths_;
  std::vector<Tensor> tensors_;
  /// One entry for each parameter, empty if it has a gradient; or size 0.
  std::vector<Tensor> unreached_;
  detail::MoveMark mark_;
};

}  // namespace hearth
