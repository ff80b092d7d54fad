// A KernelCall that owns what the original only borrows, so that it can run later. And the bytes
// that a view may touch. Values, any thread.
#pragma once

#include <hearth/backends/kernel.hpp>
#include <hearth/backends/sim/shadow_memory.hpp>

#include <cstddef>
#include <vector>

namespace hearth::sim {

class StoredCall final {
 public:
  explicit StoredCall(const KernelCall& call);
  StoredCall(const StoredCall&) = delete;
  StoredCall& operator=(const StoredCall&) = delete;
  ~StoredCall() = default;

  /// Lifetime: as long as this. The memory behind the views is the device's.
  [[nodiscard]] KernelCall call() const noexcept;

 private:
  void keep(const TensorView& view);

  OpRecord record_;
  std::vector<std::byte> blob_;
  std::vector<Layout> layouts_;
  std::vector<TensorView> views_;
  std::size_t input_count_;
  const Expression* expression_;
};

/// From the first to the last byte that the view can name, gaps included.
[[nodiscard]] ByteRange range_of(const TensorView& view) noexcept;

}  // namespace hearth::sim
