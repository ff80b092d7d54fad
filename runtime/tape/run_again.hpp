// Ops of a tape that run a second time for a gradient: elementwise ops and views, whose values need
// not be kept. Private to runtime. Threads: the tape's owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tape.hpp"

namespace hearth {

/// The same value. What the tape holds must not hold the tape: a cycle of counts would never end.
[[nodiscard]] Tensor untracked(const Tensor& tensor);
[[nodiscard]] bool is_view(OpKind kind) noexcept;
/// Whether the node is an op that is run again by its attributes and inputs alone: one result, made
/// element by element, or a view.
[[nodiscard]] bool can_run_again(const TapeNode& node) noexcept;
/// Whether the node has saved its input, and where among all saved tensors.
[[nodiscard]] bool saves_input(const TapeNode& node, std::uint32_t input) noexcept;
[[nodiscard]] std::size_t place_of_input(const TapeNode& node, std::uint32_t input) noexcept;
/// Behind all that the node saved.
[[nodiscard]] std::size_t end_of_saved(const TapeNode& node) noexcept;
/// The node's value. Errors: those of submitting its op.
[[nodiscard]] Tensor run_again(const TapeNode& node,
                               std::span<const std::byte> attributes,
                               std::span<const Tensor> inputs,
                               DType dtype,
                               const Shape& shape);

}  // namespace hearth
