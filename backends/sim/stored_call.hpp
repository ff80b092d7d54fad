// A KernelCall that owns what the original borrows, so that it can run later; the bytes that a call
// accesses; and its execution. Private to the sims. Values, any thread.
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

  /// Lifetime: valid as long as this object. The device owns the memory behind the views.
  [[nodiscard]] KernelCall call() const noexcept;

 private:
  void keep(const TensorView& view);

  OpRecord record_;
  std::vector<std::byte> blob_;
  std::vector<detail::Layout> layouts_;
  std::vector<TensorView> views_;
  std::size_t input_count_;
  /// Number of the epilogue's inputs. Their views lie between the other inputs and the outputs.
  std::size_t beside_count_ = 0;
  const Expression* expression_;
  const CustomCode* custom_;
  std::vector<ScalarAttributes> parameters_ = {};  ///< Parameters of the epilogue.
  std::optional<Epilogue> epilogue_ = {};
};

/// Byte ranges that a piece of work reads and writes.
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
/// Errors: those of reference::evaluate, with the name of this device.
[[nodiscard]] Status run_with_oracle(const KernelCall& call, const std::string& device);

/// The view's elements in row-major order, without gaps.
[[nodiscard]] std::vector<std::byte> elements_of(const TensorView& view);
/// Range from the first to the last byte that the view covers, gaps included.
[[nodiscard]] ByteRange range_of(const TensorView& view) noexcept;

}  // namespace hearth::sim
