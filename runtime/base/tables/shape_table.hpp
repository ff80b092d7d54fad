// The shapes of one runtime as ids, so that an operand names its shape in four bytes.
// Threads: any. Invariants: those of Interner; and (4) the scalar shape [] has the id 0.
#pragma once

#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/interner.hpp>
#include <hearth/runtime/base/shape.hpp>

namespace hearth {

namespace detail {
struct ShapePolicy {
  using Id = ShapeId;
  using Key = Shape;
  using Entry = Layout;
  static std::uint64_t hash(const Shape& shape) noexcept;
  static bool equal(const Layout& entry, const Shape& shape) noexcept {
    return entry.shape == shape;
  }
  static Layout make(const Shape& shape) { return Layout(shape); }
  static Error full(std::uint32_t cap);
};
}  // namespace detail

class ShapeTable final {
 public:
  static constexpr std::uint32_t kDefaultCap = 1U << 18U;  ///< 40 MB when full.

  explicit ShapeTable(std::uint32_t cap = kDefaultCap);

  /// Returns the id of a shape.
  ///
  /// Errors: out_of_memory for a new shape if the table is full.
  /// Cost: about 15 ns for a known shape, without a lock.
  [[nodiscard]] Result<ShapeId> intern(const Shape& shape) { return table_.intern(shape); }
  /// Returns the row-major layout of a shape; valid as long as the table.
  [[nodiscard]] const detail::Layout& layout(ShapeId id) const noexcept { return table_[id]; }
  [[nodiscard]] const Shape& shape(ShapeId id) const noexcept { return table_[id].shape; }
  [[nodiscard]] std::uint32_t size() const noexcept { return table_.size(); }

 private:
  detail::Interner<detail::ShapePolicy> table_;
};

}  // namespace hearth
