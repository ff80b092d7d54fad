// What the fuzzers do with an input. Built twice: with clang's libFuzzer (preset fuzz, one program
// a target), and with every other compiler as tests that run the seeds and the finds. A target
// returns when the input was handled as it should be, and throws FuzzFailure when it was not.
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::fuzz {

class FuzzFailure final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Input = std::span<const std::byte>;

/// A program: ops, moves, drops, threads, devices, flushes and faults on cpu and sim against
/// reference.
void fuzz_op_stream(Input input);
/// The same on two Vulkan devices, with kernels that block and that come later.
void fuzz_vulkan_op_stream(Input input);
/// A trace file's payload, with its checksums made right unless the first byte is odd: refused, or
/// valid, the same when written again, and run on a small device.
void fuzz_op_trace(Input input);
/// Files of modules/idx and modules/safetensors: refused with a FileError, or in agreement with
/// themselves.
void fuzz_idx(Input input);
void fuzz_safetensors(Input input);

/// Why no vulkan:0 can be opened here; empty where it can.
[[nodiscard]] std::string lack_of_vulkan();

struct Target {
  std::string_view name;
  void (*run)(Input input);
  /// Why it cannot run here; empty where it can.
  std::string (*lack)() = [] { return std::string(); };
};
/// All of them.
[[nodiscard]] std::span<const Target> targets() noexcept;
/// Errors: std::out_of_range.
[[nodiscard]] const Target& target(std::string_view name);

/// A small first corpus, made here and always the same.
[[nodiscard]] std::vector<std::vector<std::byte>> seeds(std::string_view target);

}  // namespace hearth::fuzz
