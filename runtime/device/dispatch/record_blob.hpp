// RecordBlob: the blob of a record that has left its lane. Private to runtime. A value.
// Invariant: the blob of an optimizer's update lies inside the object, so that a step of many
// updates does not allocate for each.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace hearth {

class RecordBlob final {
 public:
  RecordBlob() = default;
  explicit RecordBlob(std::span<const std::byte> bytes) {
    if (bytes.size() <= small_.size()) {
      std::ranges::copy(bytes, small_.begin());
    } else {
      large_.assign(bytes.begin(), bytes.end());
    }
  }
  [[nodiscard]] const std::byte* data() const noexcept {
    return large_.empty() ? small_.data() : large_.data();
  }

 private:
  // Adam's blob takes 96: two operands and eight parameters
  static constexpr std::size_t kSmallBytes = 128;

  std::array<std::byte, kSmallBytes> small_{};
  std::vector<std::byte> large_;
};

}  // namespace hearth
