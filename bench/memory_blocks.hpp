// Classifies the tensors of a memory trace for its picture. Each gets its kind, as far as the trace
// shows it, and the group of tensors that share a number. Values. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/tensor_origin.hpp>

namespace hearth::bench {

/// In the order of the picture, upwards; long-lived kinds come first.
enum class BlockKind : std::uint8_t {
  parameters,
  optimizer_mean,
  optimizer_variance,
  optimizer_state,
  inputs,       ///< Uploads.
  activations,  ///< Results that live for a while: in training, for the backward pass.
  gradients,    ///< Gradients of parameters, and of intermediate results.
  temporaries,  ///< Results that are released soon.
};
inline constexpr int kBlockKinds = 8;
/// A result that outlives this number of events is an activation, not a temporary.
inline constexpr std::size_t kSoon = 10;

/// Text such as "optimizer mean".
[[nodiscard]] std::string_view name_of(BlockKind kind) noexcept;
[[nodiscard]] constexpr bool lives_long(BlockKind kind) noexcept {
  return kind <= BlockKind::optimizer_state;
}

/// Name of a tensor. Long-lived tensors use their path, "layers.0.weight" or
/// "mean.layers.0.weight"; results of a step use op and layer, "matmul of layers.0".
[[nodiscard]] std::string name_of(const LiveTensor& tensor);
/// Text such as "train.cpp:12", or empty.
[[nodiscard]] std::string place_of(const LiveTensor& tensor);

/// Tensors of one kind, name and source line, made again in every step.
struct BlockGroup {
  BlockKind kind = BlockKind::temporaries;
  LiveTensor tensor;  ///< The first tensor.
  std::size_t count = 0;
  std::size_t first_event = 0;
};

struct MemoryBlocks {
  std::vector<BlockGroup> groups;     ///< The largest first; a group's number is its index + 1.
  std::vector<std::size_t> by_event;  ///< Group of the tensor that an event made or replaced.
};

/// Groups the tensors of a trace. Invariant: each `made` and `replaced` event has a group.
[[nodiscard]] MemoryBlocks blocks_of(const MemoryTrace& trace);

}  // namespace hearth::bench
