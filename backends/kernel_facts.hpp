// The abilities of a backend's kernels by kind, whatever the call. The backend fills the table when
// it opens and never changes it. Threads: any.
// The actor reads the table for every op: a query is a load and a test of bits.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>

#include <hearth/streams/op_kind.hpp>

namespace hearth {

/// Facts of the kernels of one kind. In a set of inputs bit i stands for input i, and the last bit
/// for all inputs from its number on.
struct KindFacts {
  static constexpr int kInputBits = 32;
  static constexpr std::uint32_t kAllInputs = ~std::uint32_t{0};

  std::uint32_t aliased_inputs = 0;
  std::uint32_t prologue_inputs = 0;
  std::bitset<kOpKindCount> prologue_makers = {};
  bool takes_epilogue = false;
};

class KernelFacts {
 public:
  /// Gives every kind the facts `all`.
  explicit KernelFacts(const KindFacts& all = {}) noexcept { kinds_.fill(all); }

  [[nodiscard]] KindFacts& of(OpKind kind) noexcept {
    return kinds_[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] const KindFacts& of(OpKind kind) const noexcept {
    return kinds_[static_cast<std::size_t>(kind)];
  }

  /// Returns whether output 0 may share the bytes of input `input_index` when both have the same
  /// size and dtype and are contiguous.
  [[nodiscard]] bool may_alias(OpKind kind, int input_index) const noexcept {
    return has(of(kind).aliased_inputs, input_index);
  }
  /// Returns whether kernels of this kind accept some epilogue; Backend::supports() decides for
  /// each call.
  [[nodiscard]] bool may_anchor(OpKind kind) const noexcept { return of(kind).takes_epilogue; }
  /// Returns whether kernels of this kind accept a Prologue: a call of kind `producer` computes
  /// input number `input` as the kernel consumes it. Backend::supports() decides for each call.
  /// Inline backends only.
  [[nodiscard]] bool may_take_prologue(OpKind kind, int input, OpKind producer) const noexcept {
    const KindFacts& facts = of(kind);
    return has(facts.prologue_inputs, input) &&
           facts.prologue_makers[static_cast<std::size_t>(producer)];
  }

 private:
  [[nodiscard]] static constexpr bool has(std::uint32_t inputs, int index) noexcept {
    return (inputs >> static_cast<unsigned>(std::min(index, KindFacts::kInputBits - 1)) & 1U) != 0;
  }

  std::array<KindFacts, kOpKindCount> kinds_;
};

}  // namespace hearth
