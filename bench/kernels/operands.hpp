// The operands of a problem on a device: several sets, between which consecutive runs rotate, with
// a guard line before and behind each result.
// Owned by a command. Threads: that of the device.
#pragma once

#include <hearth/backends/kernel.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/shape.hpp>

#include "bench_device.hpp"
#include "problem.hpp"

namespace hearth::bench {

/// Where consecutive runs find their operands.
enum class Heat : std::uint8_t {
  rotated,  ///< In memory or a shared cache: runs walk more bytes than private caches hold.
  hot,      ///< In the nearest cache that holds them: all runs use one set.
};

/// Elements of the inputs, from a fixed seed.
enum class Data : std::uint8_t {
  uniform,  ///< [-1, 1); integers -7 to 7.
  special,  ///< Uniform elements, with zeros of both signs, infinities, NaN and denormals between
            ///< them.
  one_hot,  ///< Zeros, with a one at each 37th place.
};

/// Returns the layout that an operand has in memory.
[[nodiscard]] detail::Layout layout_of(const OperandSpec& spec);

class Operands final {
 public:
  /// Takes memory. `problem` and `device` outlive the operands.
  ///
  /// Errors: out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<Operands>> make(BenchDevice& device,
                                                              const Problem& problem,
                                                              Heat heat);
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;
  ~Operands();

  [[nodiscard]] std::size_t set_count() const noexcept { return sets_.size(); }
  /// Bytes that one turn through all sets touches; 0 for one set.
  [[nodiscard]] std::int64_t rotated_bytes() const noexcept;
  /// Returns the call on set `index % set_count()`. Valid as long as this object.
  [[nodiscard]] KernelCall call(std::size_t index) const noexcept;
  /// Returns the call with inputs in host memory, as fill() wrote them, and results of its own.
  [[nodiscard]] KernelCall host_call() noexcept { return call_of(host_); }

  /// Fills the inputs of all sets.
  [[nodiscard]] Status fill(Data data);
  /// Writes a pattern to the results of set 0 and to their guard lines.
  [[nodiscard]] Status clear_results();
  /// Results of set 0, one after the other.
  struct Results {
    std::vector<std::byte> bytes;
    bool has_broken_guard = false;
  };
  [[nodiscard]] Result<Results> results();
  /// Returns the part of the results that is output `index`.
  [[nodiscard]] std::span<const std::byte> output(const Results& results,
                                                  std::size_t index) const noexcept;

 private:
  struct Set {
    std::vector<TensorView> inputs;
    std::vector<TensorView> outputs;
    std::vector<TensorView> epilogue_inputs;
    Epilogue epilogue;
  };
  Operands(BenchDevice& device, const Problem& problem);
  [[nodiscard]] Set set_at(std::byte* base) const;
  [[nodiscard]] KernelCall call_of(const Set& set) const noexcept;
  [[nodiscard]] std::span<std::byte> host_bytes(std::size_t operand) noexcept;
  [[nodiscard]] std::size_t input_count() const noexcept;

  BenchDevice& device_;
  const Problem& problem_;
  OpRecord record_;
  std::vector<std::byte> blob_;
  /// Inputs, epilogue inputs, results: their layouts and places in a set.
  std::vector<const OperandSpec*> specs_;
  std::vector<std::unique_ptr<detail::Layout>> layouts_;
  std::vector<std::int64_t> offsets_;
  std::int64_t set_bytes_ = 0;
  Page page_ = {};
  std::vector<Set> sets_;
  std::vector<std::byte> host_memory_;
  Set host_;
};

/// Returns whether the bytes are equal, or NaN in both.
[[nodiscard]] bool are_equal(std::span<const std::byte> a,
                             std::span<const std::byte> b,
                             DType dtype) noexcept;

}  // namespace hearth::bench
