// Gradients: the owned result of differentiation, one tensor a parameter, in visit order, with the parameters' paths.
// Movable to another thread (publish() and adopt() hand it over). Threads: one at a time.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// Hears of leaf `index`'s finished gradient and may replace it (a bucketed all-reduce does).
using GradientHook = std::function<void(std::size_t index, Tensor& gradient)>;

class Gradients {
 public:
  Gradients() = default;
  Gradients(std::vector<std::string> paths, std::vector<Tensor> tensors);

  [[nodiscard]] std::size_t size() const noexcept { return tensors_.size(); }
  [[nodiscard]] bool is_empty() const noexcept { return tensors_.empty(); }
  [[nodiscard]] const std::string& path(std::size_t index) const { return paths_.at(index); }
  [[nodiscard]] const Tensor& operator[](std::size_t index) const { return tensors_.at(index); }
  [[nodiscard]] Tensor& operator[](std::size_t index) { return tensors_.at(index); }
  /// By path. Errors: ArgumentError not_found.
  [[nodiscard]] const Tensor& at(std::string_view path) const;

  /// Adds `other`, parameter by parameter (gradient accumulation). Errors: ArgumentError when the paths differ.
  void accumulate(Gradients other, SourceLoc loc = SourceLoc::current());
  void scale(double factor, SourceLoc loc = SourceLoc::current());
  /// The Euclidean norm over all gradients, a scalar tensor.
  [[nodiscard]] Tensor norm(SourceLoc loc = SourceLoc::current()) const;
  /// Scales all by min(1, max_norm / norm); nothing is waited for. Returns the norm before.
  Tensor clip_by_norm(double max_norm, SourceLoc loc = SourceLoc::current());

  void publish() const;
  void adopt();

 private:
  std::vector<std::string> paths_;
  std::vector<Tensor> tensors_;
};

}  // namespace hearth
