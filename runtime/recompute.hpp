// Recomputation trades time for memory: values that a gradient needs are computed again during the
// backward pass instead of being kept. checkpoint() applies it to a function; a RecomputeScope lets
// the tape choose, within a number of bytes. Without a scope, and with fusion on, the tape drops
// values that are faster to recompute than to write and read. These values have at least 1 MiB (256
// KiB on devices with a memory of their own). A few elementwise ops make them of kept values. A
// GELU then keeps only its argument.
// Threads: any; each scope works for the grad calls of its own thread.
// Invariant: values, gradients and random draws have the same bits as without recomputation. For
// f16 and bf16 this holds only if devices round between the ops of a kernel
// (RuntimeOptions::round_intermediates); else they agree to within such roundings.
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
  /// Opens a region on the innermost open tape of this thread, unless there is no tape or it
  /// already has a region open.
  CheckpointRegion();
  CheckpointRegion(const CheckpointRegion&) = delete;
  CheckpointRegion& operator=(const CheckpointRegion&) = delete;
  ~CheckpointRegion();

  [[nodiscard]] bool is_recording() const noexcept { return record_ != nullptr; }
  /// Closes the region: the function returned `results`; `again` recomputes them.
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

/// Calls fn(args...) and keeps only the arguments for the gradient. The backward pass runs fn again
/// where it needs inner values. Both runs draw the same random numbers; only the first one updates
/// running statistics. Calls may be nested.
///
///   x = checkpoint([](const Block& block, const Tensor& in) { return block.forward(in); }, block,
///   x);
///
/// fn captures nothing, since a reference may be invalid at the second run. It takes all it uses as
/// arguments; checkpoint keeps a copy of each (a shallow one of a module or tensor). Pass a
/// Generator by std::ref, or through a GeneratorScope. Inside of a nested grad it is a plain call,
/// since the outer grad needs the values. fn returns a Tensor or a
/// std::vector<Tensor>. Outside of grad and value_and_grad it is a plain call.
///
/// Errors: exceptions of fn; from grad, ArgumentError with the line of fn's first op if the second
/// run gives other tensors or draws other numbers; the same if a tensor that fn made but did not
/// return was used outside of it. An op that fails in the second run names the same line as in the
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

/// True while a function of checkpoint() runs for the second time on this thread. The first run has
/// already had its side effects.
[[nodiscard]] bool is_recomputing() noexcept;

struct RecomputeOptions {
  /// Limit on the values that a tape keeps for its gradients, not counting inputs and weights.
  std::int64_t kept_bytes = 0;
};
struct RecomputeReport {
  std::int64_t peak_kept_bytes = 0;  ///< Largest number of bytes that one tape kept at a time.
  std::int64_t dropped_bytes = 0;    ///< Bytes of dropped values, each counted once.
  std::int64_t recomputed_op_count = 0;
};

/// Limits the bytes that a tape of this thread (grad, value_and_grad) keeps, while the scope lives.
/// Beyond the limit the tape drops the oldest values that elementwise ops and views can recompute
/// from kept ones: activations, casts, dropout, parts of norms. Products, convolutions, reductions
/// and softmax stay, so a tape made mostly of them keeps more. Scopes nest; the innermost one
/// counts. The largest limit (std::numeric_limits<std::int64_t>::max()) drops nothing.
///
///   const RecomputeScope recompute({.kept_bytes = 64 << 20});
///   auto [loss, gradients] = value_and_grad(model, loss_of);
class [[nodiscard]] RecomputeScope final {
 public:
  /// Errors: ArgumentError if kept_bytes is negative.
  explicit RecomputeScope(RecomputeOptions options, SourceLoc loc = SourceLoc::current());
  RecomputeScope(const RecomputeScope&) = delete;
  RecomputeScope& operator=(const RecomputeScope&) = delete;
  ~RecomputeScope();

  /// The report of all tapes so far.
  [[nodiscard]] RecomputeReport report() const noexcept;

 private:
  std::shared_ptr<detail::RecomputeState> state_;
  std::shared_ptr<detail::RecomputeState> previous_;
};

}  // namespace hearth
