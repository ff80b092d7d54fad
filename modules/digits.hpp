// A built-in data set: pictures of handwritten-like digits, drawn from a seed instead of read from
// a file. Stateless. Threads: any. Invariants: (1) a picture depends on the seed and its index
// alone, never on the count or on other pictures; (2) the same seed and index give the same bytes
// on every machine.
#pragma once

#include <hearth/modules/labelled_images.hpp>

#include <hearth/runtime/base/source_loc.hpp>

#include <cstdint>

namespace hearth {

struct DigitOptions {
  std::int64_t count = 10'000;  ///< Number of pictures.
  std::uint64_t seed = 1;       ///< Seed of what they look like.
  /// Index of the first picture: [0, n) to train and [n, m) to test never share one.
  std::int64_t first = 0;
};

/// Draws `count` pictures of 28 by 28 bytes, laid out like MNIST's, each of a random digit.
///
/// A pen follows one of four styles of its digit. The style's points are jittered, joined to a
/// smooth curve, bent by a random field (elastic distortion), scaled, slanted, rotated and moved;
/// the pen has a random thickness that changes along the stroke; ink, blur and noise differ from
/// picture to picture. Errors: invalid_argument (ArgumentError) for a negative count or first;
/// OutOfMemory when the host has no room for the pictures.
/// Cost: some 20 µs a picture on one core.
[[nodiscard]] LabelledImages make_digits(DigitOptions options = {},
                                         SourceLoc loc = SourceLoc::current());

}  // namespace hearth
