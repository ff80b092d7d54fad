// What the tensors of a memory trace are, for a picture of it: the kind of each, as far as a trace
// tells, and the groups that share a number. Values. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/tensor_origin.hpp>

namespace hearth::bench {

/// From the floor of the picture upwards: what lives long comes first.
enum class BlockKind : std::uint8_t {
  parameters,
  optimizer_mean,
  optimizer_variance,
  optimizer_state,
  inputs,       ///< Uploads.
  activations,  ///< Results that stay for a while: in training, for the backward pass.
  gradients,    ///< Of parameters, and on the way there.
  temporaries,  ///< Results that are gone soon.
};
inline constexpr int kBlockKinds = 8;
/// A result stays for a while that outlives so many changes.
inline constexpr std::size_t kSoon = 10;

/// "optimizer mean"
[[nodiscard]] std::string_view name_of(BlockKind kind) noexcept;
[[nodiscard]] constexpr bool lives_long(BlockKind kind) noexcept {
  return kind <= BlockKind::optimizer_state;
}

/// What lives long is called by its name, "layers.0.weight" or "mean.layers.0.weight"; what a step
/// makes by its op and the layer that it is of, "matmul of layers.0".
[[nodiscard]] std::string name_of(const LiveTensor& tensor);
/// "train.cpp:12", or empty.
[[nodiscard]] std::string place_of(const LiveTensor& tensor);

/// Tensors of one kind that the same line made by the same name, in every step anew.
struct BlockGroup {
  BlockKind kind = BlockKind::temporaries;
  LiveTensor tensor;  ///< The first.
  std::size_t count = 0;
  std::size_t first_event = 0;
};

struct MemoryBlocks {
  std::vector<BlockGroup> groups;     ///< The largest first; a group's number is its place + 1.
  std::vector<std::size_t> by_event;  ///< The group of the tensor that is `made` or `replaced`.
};

/// Invariant: each `made` and `replaced` has a group.
[[nodiscard]] MemoryBlocks blocks_of(const MemoryTrace& trace);

}  // namespace hearth::bench
