// Memory for time: what a gradient needs can be computed a second time, during the backward pass,
// instead of being kept from the forward pass on. checkpoint() says so of a function; a
// RecomputeScope lets the tape choose, within a number of bytes. Without one the tape drops what is
// quicker to make again than to write and to read: values of 1 MiB and more (256 KiB on devices
// with a memory of their own) that a few elementwise ops make of what is kept anyway, so that a
// GELU keeps its argument alone; not where fusion is off. Threads: any; each works for the
// grad calls of its own thread. Invariant: values, gradients and what is drawn from generators are
// bit for bit those without it; of f16 and bf16 only where devices round between the ops of a
// kernel (RuntimeOptions::round_intermediates), else to within such roundings.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <hearth/runtime/base/unique_function.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

namespace detail {

struct RecomputeState;
class CheckpointRecord;

/// One call of checkpoint() while the calling thread's tape records. Defined in
/// runtime/tape/tape_checkpoint.cpp.
class CheckpointRegion final {
 public:
  using Again = UniqueFunction<std::vector<Tensor>()>;
  /// Opens a region on the innermost open tape of this thread, unless there is none, or it is in a
  /// region already.
  CheckpointRegion();
  CheckpointRegion(const CheckpointRegion&) = delete;
  CheckpointRegion& operator=(const CheckpointRegion&) = delete;
  ~CheckpointRegion();

  [[nodiscard]] bool is_recording() const noexcept { return record_ != nullptr; }
  /// The function returned these; `again` computes them anew.
  void finish(const std::vector<Tensor*>& results, Again again);

 private:
  std::unique_ptr<CheckpointRecord> record_;
};

template <class Result>
[[nodiscard]] std::vector<Tensor*> tensors_of(Result& result) {
  if constexpr (std::is_same_v<Result, Tensor>) {
    return {&result};
  } else {
    static_assert(std::is_same_v<Result, std::vector<Tensor>>,
                  "a function under checkpoint() returns a Tensor or a std::vector<Tensor>");
    std::vector<Tensor*> tensors;
    for (Tensor& tensor : result) {
      tensors.push_back(&tensor);
    }
    return tensors;
  }
}
template <class Result>
[[nodiscard]] std::vector<Tensor> moved_tensors(Result result) {
  std::vector<Tensor> moved;
  for (Tensor* tensor : tensors_of(result)) {
    moved.push_back(std::move(*tensor));
  }
  return moved;
}
}  // namespace detail

/// fn(args...), of whose inner values nothing is kept for the gradient: the backward pass runs fn
/// again where it needs them. Only the arguments stay. The function draws the same random numbers
/// in both runs, running statistics are updated by the first one, and calls may be nested.
///
///   x = checkpoint([](const Block& block, const Tensor& in) { return block.forward(in); }, block,
///   x);
///
/// fn captures nothing, since what it captured by reference may be gone when it runs again: all
/// that it uses is an argument, of which checkpoint keeps a copy (of a module or a tensor a shallow
/// one). A Generator goes by std::ref, or through a GeneratorScope. It returns a Tensor or a
/// std::vector<Tensor>. Outside of grad and value_and_grad it is a plain call.
///
/// Errors: what fn throws. From grad, ArgumentError with the line of fn's first op when fn gives
/// other tensors or draws other numbers the second time, or when one that it made but did not
/// return was used outside of it; an op that fails in the second run names its line as in the
/// first.
/// Threads: any; the second run is on the thread of the grad call.
/// Cost: one more forward pass of fn for each backward pass.
/// Paper: Chen et al., Training Deep Nets with Sublinear Memory Cost, arXiv:1604.06174.
template <class Fn, class... Args>
[[nodiscard]] auto checkpoint(Fn fn, Args&&... args) {
  static_assert(std::is_empty_v<Fn> || std::is_pointer_v<Fn> || std::is_member_pointer_v<Fn>,
                "checkpoint() runs the function again during the backward pass, when what it "
                "captured may be gone: give it all that it uses as arguments");
  using Result = std::decay_t<std::invoke_result_t<Fn, Args...>>;
  detail::CheckpointRegion region;
  if (!region.is_recording()) {
    return Result(std::invoke(fn, std::forward<Args>(args)...));
  }
  std::tuple<std::decay_t<Args>...> kept{args...};
  Result result = std::invoke(fn, std::forward<Args>(args)...);
  region.finish(detail::tensors_of(result), [fn, kept = std::move(kept)]() mutable {
    return detail::moved_tensors(Result(std::apply(fn, kept)));
  });
  return result;
}

/// True while a function of checkpoint() runs for the second time on this thread: what it did
/// beside its result, the first run has done.
[[nodiscard]] bool is_recomputing() noexcept;

struct RecomputeOptions {
  /// Of the values that a tape keeps for its gradients, inputs and weights aside.
  std::int64_t kept_bytes = 0;
};
struct RecomputeReport {
  std::int64_t peak_kept_bytes = 0;  ///< What one tape kept at a time, at most.
  std::int64_t dropped_bytes = 0;    ///< Of values, each of which counts once.
  std::int64_t recomputed_op_count = 0;
};

/// While it lives, a tape that this thread opens (grad, value_and_grad) keeps at most so many
/// bytes: of the values beyond them it drops the oldest that the backward pass can compute again by
/// elementwise ops and views from what is kept anyway (activations, casts, dropout, what norms are
/// made of). Products, convolutions, reductions and softmax stay, so a tape whose values are mostly
/// theirs keeps more. Scopes nest; the innermost one counts. With as many bytes as there are
/// (std::numeric_limits<std::int64_t>::max()) nothing is dropped.
///
///   const RecomputeScope recompute({.kept_bytes = 64 << 20});
///   auto [loss, gradients] = value_and_grad(model, loss_of);
class [[nodiscard]] RecomputeScope final {
 public:
  /// Errors: ArgumentError when kept_bytes is negative.
  explicit RecomputeScope(RecomputeOptions options, SourceLoc loc = SourceLoc::current());
  RecomputeScope(const RecomputeScope&) = delete;
  RecomputeScope& operator=(const RecomputeScope&) = delete;
  ~RecomputeScope();

  /// Of all tapes so far.
  [[nodiscard]] RecomputeReport report() const noexcept;

 private:
  std::shared_ptr<detail::RecomputeState> state_;
  std::shared_ptr<detail::RecomputeState> previous_;
};

}  // namespace hearth
