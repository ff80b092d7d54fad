// Memory of a trial: sets of operands of one wanted call, with a guard line before and behind each
// result. Private to runtime. Owned by one trial runner. Threads: that of the backend.
#pragma once

#include <hearth/backends/backend.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <hearth/runtime/base/result.hpp>

#include "wanted_call.hpp"

namespace hearth {

/// Elements of a trial's inputs, from a fixed seed.
enum class TrialData : std::uint8_t {
  normal,   ///< Normally distributed.
  special,  ///< Normal ones with zeros of both signs, infinities, NaN and denormals between them.
  one_hot,  ///< Zeros, with a one at each 37th place.
};

/// Returns the bytes of one set of the call's operands.
[[nodiscard]] std::int64_t bytes_of(const WantedCall& wanted) noexcept;

class TrialMemory final {
 public:
  /// Takes memory for as many sets as touch `rotated_bytes`, at least one.
  ///
  /// Errors: unsupported for a device whose memory the host cannot access; out_of_memory.
  [[nodiscard]] static Result<TrialMemory> make(Backend& backend,
                                                const WantedCall& wanted,
                                                std::int64_t rotated_bytes);
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  TrialMemory(TrialMemory&& other) noexcept;
  TrialMemory& operator=(TrialMemory&&) = delete;
  ~TrialMemory();

  [[nodiscard]] std::size_t set_count() const noexcept { return sets_.size(); }
  /// Bytes that one turn through all sets touches.
  [[nodiscard]] std::int64_t rotated_bytes() const noexcept;
  /// Returns the call on set number `index`. Valid as long as this object.
  [[nodiscard]] KernelCall call(std::size_t index) const noexcept;
  /// Fills the inputs of all sets, with equal elements.
  void fill(TrialData data);
  /// Fills the inputs of set 0 alone.
  void fill_first(TrialData data);
  /// Writes a pattern to the results of a set and to their guard lines.
  void clear_results(std::size_t index);
  /// Returns the bytes of the set's results.
  [[nodiscard]] std::vector<std::byte> results(std::size_t index) const;
  [[nodiscard]] bool are_guards_intact(std::size_t index) const;
  /// Compares results: equal bytes, or NaN in both. The sign and the payload of a NaN depend on
  /// the order of a multiplication's factors.
  [[nodiscard]] bool are_equal(std::span<const std::byte> a, std::span<const std::byte> b) const;

 private:
  static constexpr std::int64_t kGuardBytes = 64;
  struct Set {
    std::vector<TensorView> inputs;
    std::vector<TensorView> outputs;
  };
  TrialMemory(Backend& backend, const WantedCall& wanted) : backend_(&backend), wanted_(&wanted) {}
  /// Result and guard lines.
  [[nodiscard]] static std::span<std::byte> guarded(const TensorView& output) noexcept;

  Backend* backend_;
  const WantedCall* wanted_;
  Page page_ = {};  ///< data is null after a move
  std::int64_t set_bytes_ = 0;
  std::vector<Set> sets_;
};

}  // namespace hearth
