// Builds a KernelIR from expressions: values with the operators of C++.
// A builder is used by one thread; its values point to it and end with it.
// Invariants: (1) an existing equal node is reused, so equal expressions make equal kernels; (2)
// operands of the right types give a well-formed kernel, but for unused nodes, which take()
// removes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <hearth/streams/kernel/kernel_ir.hpp>

namespace hearth {

class KernelBuilder;

/// A node of a builder. Operators and functions below take values of one type; numbers are
/// converted to it.
struct KernelValue {
  KernelBuilder* builder = nullptr;
  std::int32_t node = kNoNode;
  DType type = DType::f32;
};

class KernelBuilder {
 public:
  /// Makes a builder for a space with one symbol for each axis. Bit i of `folded`: axis i is
  /// folded.
  explicit KernelBuilder(std::vector<std::int32_t> extents, std::uint32_t folded = 0);
  KernelBuilder(const KernelBuilder&) = delete;
  KernelBuilder& operator=(const KernelBuilder&) = delete;
  ~KernelBuilder() = default;

  [[nodiscard]] KernelValue input(DType dtype, std::vector<AffineIndex> map);
  [[nodiscard]] KernelValue parameter(DType type);
  [[nodiscard]] KernelValue constant(double value, DType type);
  [[nodiscard]] KernelValue index(int axis);
  [[nodiscard]] KernelValue position();
  [[nodiscard]] KernelValue apply(Primitive primitive,
                                  DType type,
                                  std::span<const KernelValue> operands);
  /// Converts the value; returns it unchanged if it has the type.
  [[nodiscard]] KernelValue convert(KernelValue value, DType type);

  /// Inserts a pointwise kernel and returns its results. The inputs and parameters must have its
  /// types.
  [[nodiscard]] std::vector<KernelValue> splice(const KernelIR& kernel,
                                                std::span<const KernelValue> inputs,
                                                std::span<const KernelValue> parameters);

  /// Folds the value along its row, to one value a row. For row functions use apply().
  [[nodiscard]] KernelValue fold(FoldOp op, KernelValue value);

  /// Writes a value, with one axis for each axis that it has, in their order.
  void output(KernelValue value);

  /// Returns the kernel, without nodes that no output needs. The builder is empty afterwards.
  [[nodiscard]] KernelIR take();

 private:
  KernelValue add(KernelNode node);

  KernelIR kernel_;
};

// NOLINTBEGIN(readability-identifier-naming): the names of mathematics
[[nodiscard]] KernelValue operator-(KernelValue a);
[[nodiscard]] KernelValue operator+(KernelValue a, KernelValue b);
[[nodiscard]] KernelValue operator-(KernelValue a, KernelValue b);
[[nodiscard]] KernelValue operator*(KernelValue a, KernelValue b);
[[nodiscard]] KernelValue operator/(KernelValue a, KernelValue b);
[[nodiscard]] KernelValue operator+(KernelValue a, double b);
[[nodiscard]] KernelValue operator*(KernelValue a, double b);
[[nodiscard]] KernelValue operator/(KernelValue a, double b);
[[nodiscard]] KernelValue operator/(double a, KernelValue b);
[[nodiscard]] KernelValue operator+(double a, KernelValue b);
[[nodiscard]] KernelValue operator-(double a, KernelValue b);
[[nodiscard]] KernelValue abs(KernelValue a);
[[nodiscard]] KernelValue sqrt(KernelValue a);
[[nodiscard]] KernelValue exp(KernelValue a);
[[nodiscard]] KernelValue log(KernelValue a);
[[nodiscard]] KernelValue sin(KernelValue a);
[[nodiscard]] KernelValue cos(KernelValue a);
[[nodiscard]] KernelValue tanh(KernelValue a);
[[nodiscard]] KernelValue erf(KernelValue a);
[[nodiscard]] KernelValue atan(KernelValue a);
[[nodiscard]] KernelValue pow(KernelValue a, KernelValue b);
[[nodiscard]] KernelValue min(KernelValue a, KernelValue b);
[[nodiscard]] KernelValue max(KernelValue a, KernelValue b);
[[nodiscard]] KernelValue equal(KernelValue a, KernelValue b);
[[nodiscard]] KernelValue less(KernelValue a, KernelValue b);
[[nodiscard]] KernelValue less(KernelValue a, double b);
[[nodiscard]] KernelValue less(double a, KernelValue b);
[[nodiscard]] KernelValue less_equal(KernelValue a, KernelValue b);
[[nodiscard]] KernelValue logical_not(KernelValue a);
[[nodiscard]] KernelValue logical_and(KernelValue a, KernelValue b);
[[nodiscard]] KernelValue logical_or(KernelValue a, KernelValue b);
[[nodiscard]] KernelValue bit_and(KernelValue a, KernelValue b);
[[nodiscard]] KernelValue bit_or(KernelValue a, KernelValue b);
[[nodiscard]] KernelValue bit_xor(KernelValue a, KernelValue b);
[[nodiscard]] KernelValue shift_left(KernelValue a, KernelValue b);
[[nodiscard]] KernelValue shift_right(KernelValue a, KernelValue b);
[[nodiscard]] KernelValue select(KernelValue condition, KernelValue a, KernelValue b);
[[nodiscard]] KernelValue select(KernelValue condition, double a, KernelValue b);
[[nodiscard]] KernelValue select(KernelValue condition, KernelValue a, double b);
[[nodiscard]] KernelValue random_word(KernelValue seed, KernelValue counter, KernelValue place);
// NOLINTEND(readability-identifier-naming)

}  // namespace hearth
