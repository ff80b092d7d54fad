// Prints the body of a KernelIR as statements of a C-like language: one value a node, in order. A
// Spelling holds the words that differ between languages. The functions that a language has to
// define have the same names in all languages (below). Pure. Threads: any.
// Functions by name, which the text of the language defines (glsl_library.hpp):
//   m_exp(x), ...                     elementary functions, overloaded for float and double
//   q_exp(x), ...                     fast forms, for results that are rounded to 16 bits at once
//   q_div_by(a, b)                    fast division, where b is one number for all elements
//   min_f32(a, b), pow_i32(a, b), ...     functions with rules of numerics.md
//   i32_of_f32(x), ...                conversions that saturate at the ends of a type, or round
//   philox_word(cache, seed, counter, place)
//   undefined(code, place)            an integer that has no value; code as in error cells
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hearth/streams/kernel/kernel_ir.hpp>

#include "glsl_math.hpp"

namespace hearth::gpu {

/// The words of a language.
struct Spelling {
  /// Types of values; f16 and bf16 are computed as f32.
  std::array<std::string_view, kDTypeCount> types;
  std::string_view real_value;  ///< Qualifier of a float's declaration, which prevents contraction.
  std::string_view other_value;  ///< Qualifier of every other declaration.
  /// Prints a constant of a type from its bits, in the format of KernelNode.
  std::string (*literal)(DType type, std::uint64_t bits);
};

/// Codes that a body passes to undefined().
inline constexpr int kDivisionByZero = 3;
inline constexpr int kZeroToNegative = 4;

/// Prints the nodes of one kernel. Inputs are "x0", parameters "p.s0", the place in the space
/// "place", values "v0". A node of f16 or bf16 is a float that has a value of that type.
class BodyPrinter final {
 public:
  /// Lifetime: borrows both arguments.
  BodyPrinter(const KernelIR& kernel, const Spelling& spelling);

  /// Appends the statements of a node; its operands were printed before.
  void print(std::int32_t place, std::string& to);
  /// Prints all nodes in order.
  void print_all(std::string& to);
  /// The name or expression of the node's value.
  [[nodiscard]] const std::string& value(std::int32_t place) const noexcept {
    return names_[static_cast<std::size_t>(place)];
  }
  /// Declares that a variable `name` exists for the node's value: print() assigns to it.
  void keep_in(std::int32_t place, std::string name);
  /// Declares that `name` already holds the node's value.
  void rename(std::int32_t place, std::string name) {
    names_[static_cast<std::size_t>(place)] = std::move(name);
  }
  /// The operand for a store of the output; for 16-bit types the value before rounding.
  [[nodiscard]] const std::string& stored(std::size_t output) const noexcept {
    return value(kernel_.outputs[output].value);
  }
  [[nodiscard]] std::string_view type(std::int32_t place) const noexcept;

  /// The elementary functions printed so far.
  [[nodiscard]] const MathUse& math() const noexcept { return math_; }
  /// Number of caches that the random words need, "words0" and so on.
  [[nodiscard]] int philox_caches() const noexcept { return static_cast<int>(streams_.size()); }
  /// The divisors that are the same for all elements: "by0" and so on.
  [[nodiscard]] const std::vector<std::string>& divisors() const noexcept { return divisors_; }

 private:
  struct Stream {
    std::int32_t seed;
    std::int32_t counter;
  };

  [[nodiscard]] bool is_inline(const KernelNode& node) const noexcept;
  [[nodiscard]] std::string leaf(const KernelNode& node) const;
  [[nodiscard]] std::string expression(std::int32_t place, std::string& before);
  [[nodiscard]] std::string conversion(std::int32_t place) const;
  [[nodiscard]] bool is_number(std::int32_t place) const noexcept;
  [[nodiscard]] std::string divisor(const std::string& number);
  [[nodiscard]] std::string function(std::int32_t place);
  [[nodiscard]] std::string division(std::int32_t place, std::string& before);
  [[nodiscard]] std::string power(std::int32_t place, std::string& before);
  [[nodiscard]] std::string random_word(const KernelNode& node);
  [[nodiscard]] const std::string& operand(const KernelNode& node, std::size_t i) const noexcept {
    return value(node.operands[i]);
  }
  [[nodiscard]] DType operand_type(const KernelNode& node, std::size_t i) const noexcept {
    return kernel_.node(node.operands[i]).type;
  }
  void find_uses();

  const KernelIR& kernel_;
  const Spelling& spelling_;
  std::vector<std::string> names_;
  std::vector<bool> is_kept_;
  /// Only outputs consume the value, and their stores round it.
  std::vector<bool> is_stored_only_;
  /// Every result computed from the value is rounded to 16 bits before any other use.
  std::vector<bool> is_narrow_;
  std::vector<bool> is_whole_;  ///< An i64 that is never negative.
  std::vector<Stream> streams_;
  std::vector<std::string> divisors_;
  MathUse math_;
};

}  // namespace hearth::gpu
