// The conformance cases: for every kernel kind, the calls that each backend must compute correctly.
// A call has shapes, attributes, inputs away from ties and jumps, and the required precision. One
// table serves the checks of values and gradients, and the bench. Values, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <hearth/runtime/base/shape.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include "tests/support/tolerance.hpp"

namespace hearth::conformance {

/// The values of an input. Integer types get integers of the same kind, u8 without signs, bool both
/// values.
enum class Values : std::uint8_t {
  apart,        ///< ±[0.125, 2]: away from 0. Integers ±1 … ±7.
  positive,     ///< [0.125, 2]. Integers 1 … 7.
  wide,         ///< [-6, 6].
  exponents,    ///< [-2, 2]. Integers 0 … 4.
  grid,         ///< Small integers from -3 to 3, hence with ties; exact in every type.
  quarters,     ///< Multiples of 1/4 in [-8, 8]; exact in every float type.
  distinct,     ///< No two equal within an input of up to 255 elements; exact in every type that is
                ///< wide enough.
  probability,  ///< [0.05, 1].
  near_one,     ///< [0.99, 1.01]: long products stay in range. Integers as `apart`.
  places,       ///< Integers 0 … bound-1: classes, positions.
  extremes,     ///< Integers: the ends of the type and their neighbours.
  special,      ///< Floats: NaN, infinities, both zeros, ordinary values.
  with_nan,     ///< `apart`, every seventh NaN.
  masked,       ///< `apart`, every third minus infinity.
  row_statistics,  ///< The statistics that attention returns for the other inputs of its gradient.
};

struct InputSpec {
  Shape shape;
  Values values = Values::apart;
  std::int64_t bound = 0;           ///< For Values::places.
  std::optional<DType> dtype = {};  ///< Empty: the type in which the case runs.
};

struct OutputSpec {
  Shape shape;
  std::optional<DType> dtype = {};
  /// Empty: the precision of the case.
  std::optional<testing::Precision> precision = {};
};

struct CallSpec {
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::vector<std::byte> attributes = {};
  std::uint16_t flags = 0;
  double length = 1;          ///< Terms of each sum, for Precision::sum.
  double term = 1;            ///< Bound of one term.
  DtypeMask dtypes = 0xffff;  ///< The types of the case in which this call runs.
};

struct OpCase {
  OpKind kind;
  testing::Precision precision;
  std::vector<CallSpec> calls;

  /// The element types in which the case runs: those of the kind's row in the op table.
  [[nodiscard]] std::vector<DType> dtypes() const;
};

/// The cases of all kernel kinds, in the order of OpKind. Each call builds them anew.
[[nodiscard]] std::vector<OpCase> op_cases();
/// The case of one kind.
[[nodiscard]] OpCase op_case(OpKind kind);

/// Attributes as bytes.
template <class Attributes>
[[nodiscard]] std::vector<std::byte> bytes_of(const Attributes& attributes) {
  std::vector<std::byte> bytes(sizeof(Attributes));
  std::memcpy(bytes.data(), &attributes, sizeof(Attributes));
  return bytes;
}

}  // namespace hearth::conformance
