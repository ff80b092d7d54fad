// Gradients: the owned result of differentiation, one tensor a parameter, in visit order, with the
// parameters' paths. Movable to another thread (publish() and adopt() hand it over). Threads: one
// at a time. Invariants: (1) for a parameter on which the loss does not depend there are zeros, and
// has_gradient() is false until they are replaced; (2) for one that is frozen there is an empty
// tensor; (3) what was moved from knows it, and every use of it throws.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/move_mark.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// Hears of leaf `index`'s finished gradient and may replace it (a bucketed all-reduce does).
using GradientHook = std::function<void(std::size_t index, Tensor& gradient)>;

namespace detail {
/// The number of a gradient, with the line that asks for it.
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
  /// `unreached`: by parameter, the zeros that stand for a gradient that is not there, else empty;
  /// may be nothing at all.
  Gradients(std::vector<std::string> paths,
            std::vector<Tensor> tensors,
            std::vector<Tensor> unreached = {});

  [[nodiscard]] std::size_t size() const noexcept { return tensors_.size(); }
  [[nodiscard]] bool empty() const noexcept { return tensors_.empty(); }
  /// Whether they were moved from: into a step, or into other gradients.
  [[nodiscard]] bool is_used() const noexcept { return mark_.is_moved_from(); }
  /// Errors: ArgumentError of `call` when they were.
  void require_unused(std::string_view call, SourceLoc loc = SourceLoc::current()) const;
  /// By the parameter's number, in visit order. Errors, as of all that take one: ArgumentError
  /// where there are not so many, or they were used.
  [[nodiscard]] const std::string& path(detail::GradientNumber index) const;
  [[nodiscard]] const Tensor& operator[](detail::GradientNumber index) const {
    require(index);
    return tensors_[index.value];
  }
  [[nodiscard]] Tensor& operator[](detail::GradientNumber index) {
    require(index);
    return tensors_[index.value];
  }
  /// Whether the loss depends on the parameter, and it is not frozen. An optimizer leaves the
  /// others alone: no decay, no momentum. A tensor that the program puts in place of the zeros
  /// counts as a gradient.
  [[nodiscard]] bool has_gradient(detail::GradientNumber index) const;
  /// Whether the sweep came to the parameter, whatever a GradientHook did then.
  [[nodiscard]] bool is_reached(detail::GradientNumber index) const;
  /// Says that what stands here is no gradient.
  void leave_out(detail::GradientNumber index);
  /// By path. Errors: ArgumentError not_found, also for a parameter that is frozen.
  [[nodiscard]] const Tensor& at(std::string_view path, SourceLoc loc = SourceLoc::current()) const;

  /// Adds `other`, parameter by parameter (gradient accumulation).
  ///
  /// Dtypes: gradients of f16 and bf16 are f32 from the first sum on, so that many small ones add
  /// up; optimizers take either.
  /// Errors: ArgumentError when the paths differ, either was used, or these are moved into
  /// themselves.
  void accumulate(Gradients&& other, SourceLoc loc = SourceLoc::current());
  void accumulate(const Gradients& other, SourceLoc loc = SourceLoc::current());
  void scale(double factor, SourceLoc loc = SourceLoc::current());
  /// The Euclidean norm over all gradients, a scalar tensor.
  [[nodiscard]] Tensor norm(SourceLoc loc = SourceLoc::current()) const;
  /// Scales all by min(1, max_norm / norm); nothing is waited for. Returns the norm before.
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
  std::vector<Tensor> unreached_;  ///< By parameter, empty where there is a gradient; or of size 0.
  detail::MoveMark mark_;
};

}  // namespace hearth
