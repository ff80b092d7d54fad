// Products by a library of the device's maker. The encoder tries the library before a kernel of its
// own. Values and interfaces. Threads: any.
#pragma once

#include <cstdint>

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/result.hpp>

namespace hearth::gpu {

/// y[m, row, column] = sum over depth of a[m, row, depth] b[m, depth, column], for each matrix m.
/// Strides count elements. The rows of y lie one behind the other, as do its matrices.
struct LibraryProduct {
  DType dtype = DType::f32;  ///< Type of a, b and y; i8 gives i32.
  bool by_tf32 = false;      ///< f32: may round a and b to TF32.
  std::uint64_t a = 0;       ///< Addresses.
  std::uint64_t b = 0;
  std::uint64_t y = 0;
  std::uint64_t bias = 0;  ///< Address of `columns` elements that are added to each row; 0: none.
  std::int64_t matrices = 1;
  std::int64_t a_matrix = 0;
  std::int64_t b_matrix = 0;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t depth = 1;
  std::int64_t a_row = 0;
  std::int64_t a_depth = 0;
  std::int64_t b_depth = 0;
  std::int64_t b_column = 0;
};

/// A call that a library has planned. Lifetime: as long as its library.
class LibraryCall {
 public:
  LibraryCall() = default;
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;
  virtual ~LibraryCall() = default;

  [[nodiscard]] virtual std::int64_t scratch_bytes() const noexcept = 0;
};

class ProductLibrary {
 public:
  ProductLibrary() = default;
  ProductLibrary(const ProductLibrary&) = delete;
  ProductLibrary& operator=(const ProductLibrary&) = delete;
  virtual ~ProductLibrary() = default;

  /// The call for a product, or null if the library does not take it. Products that differ in
  /// addresses alone share a call, as far as the addresses are multiples of the same bytes.
  [[nodiscard]] virtual const LibraryCall* find(const LibraryProduct& product) = 0;
};

}  // namespace hearth::gpu
