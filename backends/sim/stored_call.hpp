// A KernelCall that owns what the original only borrows, so that it can run later; the bytes that a
// call touches; and its run. Private to the sims. Values, any thread.
#pragma once

#include <hearth/backends/kernel.hpp>
#include <hearth/backends/sim/shadow_memory.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <cstddef>
#include <optional>
#include <string>
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
  std::vector<detail::Layout> layouts_;
  std::vector<TensorView> views_;
  std::size_t input_count_;
  std::size_t beside_count_ = 0;  ///< Of the epilogue's inputs, between the others and the outputs.
  const Expression* expression_;
  const CustomCode* custom_;
  std::vector<ScalarAttributes> parameters_ = {};  ///< Of the epilogue.
  std::optional<Epilogue> epilogue_ = {};
};

/// The bytes that work reads and writes.
struct Access {
  std::vector<ByteRange> reads = {};
  std::vector<ByteRange> writes = {};

  /// Whether one of the two must wait for the other.
  [[nodiscard]] bool conflicts_with(const Access& other) const noexcept;
  [[nodiscard]] bool overlaps(const ByteRange& range) const noexcept;
};
[[nodiscard]] Access access_of(const KernelCall& call);
/// Runs the call with the oracle.
///
/// Errors: those of reference::evaluate, with the device's name.
[[nodiscard]] Status run_with_oracle(const KernelCall& call, const std::string& device);

/// The view's elements one behind the other.
[[nodiscard]] std::vector<std::byte> elements_of(const TensorView& view);
/// From the first to the last byte that the view can name, gaps included.
[[nodiscard]] ByteRange range_of(const TensorView& view) noexcept;

}  // namespace hearth::sim
