// V2Elements: the `data` of one input while the JSON text is read. Elements of a known type become
// bytes at once. Nested arrays must be regular. Private to this room.
// Threads: one at a time. Invariant: after an error nothing more is added.
#pragma once

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/shape.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace hearth::detail {

class V2Elements final {
 public:
  using Number = std::variant<std::int64_t, double, bool>;

  /// Begins the elements of an input; `dtype` is empty if the text has not named it yet.
  void begin(std::optional<DType> dtype);
  /// Each returns an empty text, or why the element or the array is refused.
  [[nodiscard]] std::string add(Number number);
  [[nodiscard]] std::string open_array();
  [[nodiscard]] std::string close_array();
  /// Returns the elements, as `dtype`, once all arrays are closed. Sets `error` if they do not fit.
  [[nodiscard]] std::vector<std::byte> finish(DType dtype,
                                              const std::vector<std::int64_t>& shape,
                                              std::string& error);

  [[nodiscard]] bool is_open() const noexcept { return depth_ > 0; }

 private:
  struct Level {
    std::int64_t count = 0;
    std::int64_t size = -1;  // of the first array of this level; -1: none is closed
  };

  std::optional<DType> dtype_;
  std::vector<std::byte> bytes_;  // elements of a known type
  std::vector<Number> numbers_;   // else
  std::array<Level, kMaxRank> levels_{};
  int depth_ = 0;
  int leaf_depth_ = 0;  // depth of the elements; 0: none yet
  int deepest_ = 0;
};

}  // namespace hearth::detail
