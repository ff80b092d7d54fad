// Prints the body of a KernelIR as statements of a C-like language: one value a node, in order. The
// words that differ between the languages are a Spelling; functions that a language has to bring
// have the same names in all (below). Pure. Threads: any.
// Functions by name, which the text of the language defines (glsl_library.hpp):
//   m_exp(x), ...                     elementary functions, overloaded for float and double
//   q_exp(x), ...                     the same for results that are rounded to 16 bits at once
//   q_div_by(a, b)                    so, where b is one number for all elements
//   min_f32(a, b), pow_i32(a, b), ...     what has rules of its own (numerics.md)
//   i32_of_f32(x), ...                conversions that stop at the ends of a type, or round
//   philox_word(cache, seed, counter, place)
//   undefined(code, place)            an integer that has no value; code as in error cells
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hearth/backends/codegen/glsl_math.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>

namespace hearth {

/// The words of a language.
struct Spelling {
  std::array<std::string_view, kDTypeCount> types;  ///< Of values; f16 and bf16 are f32 there.
  std::string_view real_value;   ///< In front of a float's declaration: nothing is contracted.
  std::string_view other_value;  ///< In front of any other's.
  /// A constant of a type, by its bits as a KernelNode has them.
  std::string (*literal)(DType type, std::uint64_t bits);
};

/// The codes that undefined() gets.
inline constexpr int kDivisionByZero = 3;
inline constexpr int kZeroToNegative = 4;

/// Prints the nodes of one kernel. Inputs are "x0", parameters "p.s0", the place in the space
/// "place", values "v0". A node of f16 or bf16 is a float that such a number has.
class BodyPrinter final {
 public:
  /// Borrows both.
  BodyPrinter(const KernelIR& kernel, const Spelling& spelling);

  /// Adds the statements of a node, behind those of its operands.
  void print(std::int32_t place, std::string& to);
  /// All nodes in their order.
  void print_all(std::string& to);
  /// What stands for the node's value.
  [[nodiscard]] const std::string& value(std::int32_t place) const noexcept {
    return names_[static_cast<std::size_t>(place)];
  }
  /// The node's value stands there; print() assigns to it and declares nothing.
  void keep_in(std::int32_t place, std::string name);
  /// The node's value stands there already.
  void rename(std::int32_t place, std::string name) {
    names_[static_cast<std::size_t>(place)] = std::move(name);
  }
  /// What a store of the output takes: of 16-bit types the value before it is rounded.
  [[nodiscard]] const std::string& stored(std::size_t output) const noexcept {
    return value(kernel_.outputs[output].value);
  }
  [[nodiscard]] std::string_view type(std::int32_t place) const noexcept;

  /// The elementary functions that were printed.
  [[nodiscard]] const MathUse& math() const noexcept { return math_; }
  /// How many caches the random words need, "words0" and so on.
  [[nodiscard]] int philox_caches() const noexcept { return static_cast<int>(streams_.size()); }

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
  /// Its value goes nowhere but into outputs, whose stores round it.
  std::vector<bool> is_stored_only_;
  /// All that is made of it is rounded to 16 bits before anything else looks at it.
  std::vector<bool> is_narrow_;
  std::vector<bool> is_whole_;  ///< An i64 that is never negative.
  std::vector<Stream> streams_;
  MathUse math_;
};

}  // namespace hearth
