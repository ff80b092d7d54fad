// The targets of the fuzzers. Built twice: with clang's libFuzzer (preset asan, one program a
// target), and with every other compiler as tests that run the seeds and the finds. A target
// returns if the input was handled correctly, and throws FuzzFailure otherwise.
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

/// Runs a program of ops, moves, drops, threads, devices, flushes and faults on cpu and sim,
/// against the reference.
void fuzz_op_stream(Input input);
/// Runs such a program on two Vulkan devices, with kernels that block and kernels that are compiled
/// late.
void fuzz_vulkan_op_stream(Input input);
/// Reads a trace file's payload, with its checksums corrected unless the first byte is odd. The
/// file is refused, or it is valid, equal when written again, and runs on a small device.
void fuzz_op_trace(Input input);
/// Read files of modules/idx and modules/safetensors: a FileError, or consistent content.
void fuzz_idx(Input input);
void fuzz_safetensors(Input input);
/// Read files of torch.save(), and an index of weights, with modules/weight_file: as above. Tensors
/// that the file offers are read.
void fuzz_torch_file(Input input);
void fuzz_weight_index(Input input);
/// Reads an ONNX file: refused with the file's name, or reported; a file without problems is
/// loaded.
void fuzz_onnx(Input input);
/// Reads a file with one ONNX value, as a tensor, a sequence and an optional.
void fuzz_onnx_value(Input input);

/// The reason why no vulkan:0 can be opened here; empty if it can.
[[nodiscard]] std::string lack_of_vulkan();

struct Target {
  std::string_view name;
  void (*run)(Input input);
  /// The reason why the target cannot run here; empty if it can.
  std::string (*lack)() = [] { return std::string(); };
};
/// All targets.
[[nodiscard]] std::span<const Target> targets() noexcept;
/// The target of this name. Errors: std::out_of_range.
[[nodiscard]] const Target& target(std::string_view name);

/// A small first corpus, generated deterministically.
[[nodiscard]] std::vector<std::vector<std::byte>> seeds(std::string_view target);

}  // namespace hearth::fuzz
