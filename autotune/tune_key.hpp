// A tuning key: all facts of a call that may change which candidate is fastest.
// 128 plain bytes without padding: keys are hashed, compared and stored as bytes.
// Values. Threads: any.
// Invariant: sizes are exact. Two calls of one key have the same candidates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include <hearth/runtime/base/dtype.hpp>

namespace hearth::detail {

/// Groups of kinds with choices of one form. Stored: numbers stay.
enum class TuneFamily : std::uint8_t {
  product = 1,
  convolution = 2,
  rows = 3,       ///< Softmax, norms, reductions along rows.
  reduction = 4,  ///< Other reductions and scans.
  pointwise = 5,
  movement = 6,
  attention = 7,
  transfer = 8,
};
[[nodiscard]] std::string_view name(TuneFamily family) noexcept;

/// Memory order of an operand.
enum class OperandForm : std::uint8_t {
  absent,
  contiguous,
  transposed,  ///< Contiguous along the axis before the last one.
  strided,
  broadcast,
};

/// Facts of one operand, packed into a byte of the key.
struct OperandClass {
  OperandForm form = OperandForm::absent;
  int alignment_bytes = 16;              ///< 16, 32 or 64: the largest one that the address has.
  bool has_power_of_two_stride = false;  ///< A row stride of a power of two, from 4 KiB on.

  [[nodiscard]] std::uint8_t packed() const noexcept;
  [[nodiscard]] static OperandClass unpacked(std::uint8_t bits) noexcept;
  friend bool operator==(const OperandClass&, const OperandClass&) = default;
};

struct TuneKey {
  static constexpr std::size_t kMostOperands = 6;

  std::array<std::int64_t, 8> sizes{};        ///< Exact sizes, in the order of the kind; unused: 0.
  std::uint64_t epilogue_hash = 0;            ///< Text of the fused epilogue; 0: none.
  std::uint64_t prologue_hash = 0;            ///< Text of the fused prologue; 0: none.
  std::array<std::uint32_t, 7> attributes{};  ///< Stride, padding, ...: words of the kind.
  /// kind_number() of the op's name: enumerators may be renumbered, stored keys may not.
  std::uint32_t kind = 0;
  std::uint16_t cores = 1;  ///< Cores that the kernel may use; 0 on devices.
  TuneFamily family = TuneFamily::product;
  DType input = DType::f32;
  DType accumulator = DType::f32;
  DType output = DType::f32;
  std::array<std::uint8_t, kMostOperands> operands{};  ///< OperandClass::packed(), inputs first.
  std::uint32_t zero = 0;                              ///< Room for later facts.

  friend bool operator==(const TuneKey&, const TuneKey&) = default;
};
static_assert(sizeof(TuneKey) == 128 && std::has_unique_object_representations_v<TuneKey>);

/// Returns a number of the op's name that no later version changes.
[[nodiscard]] std::uint32_t kind_number(std::string_view op_name) noexcept;

/// Hash for tables.
///
/// Cost: some 20 ns.
[[nodiscard]] std::uint64_t hash_of(const TuneKey& key) noexcept;
struct TuneKeyHash {
  [[nodiscard]] std::size_t operator()(const TuneKey& key) const noexcept { return hash_of(key); }
};

/// Returns "matmul f32 32x4096x4096 a:contiguous/64 b:transposed/64, 2 cores".
[[nodiscard]] std::string to_string(const TuneKey& key, std::string_view op_name);

/// Returns how far the sizes of two keys differ: the sum of |log2| of their ratios. Nothing if the
/// keys differ in anything else, or if a size is 0 in one of them only.
[[nodiscard]] std::optional<double> size_distance(const TuneKey& a, const TuneKey& b) noexcept;

}  // namespace hearth::detail
