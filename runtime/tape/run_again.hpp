// Reruns ops of a tape for a gradient: elementwise ops and views, whose values need not be kept.
// Private to runtime. Threads: the tape's owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tape.hpp"

namespace hearth {

/// Returns the value without its tape: a tape that held its own tracked tensors would never be
/// freed.
[[nodiscard]] Tensor untracked(const Tensor& tensor);
[[nodiscard]] bool is_view(OpKind kind) noexcept;
/// Returns whether the node's op can be rerun from its attributes and inputs alone. Such an op is a
/// view, or elementwise with one result.
[[nodiscard]] bool can_run_again(const TapeNode& node) noexcept;
/// Returns whether the node has saved its input, and the input's index among all saved tensors.
[[nodiscard]] bool saves_input(const TapeNode& node, std::uint32_t input) noexcept;
[[nodiscard]] std::size_t place_of_input(const TapeNode& node, std::uint32_t input) noexcept;
/// The index behind everything that the node saved.
[[nodiscard]] std::size_t end_of_saved(const TapeNode& node) noexcept;
/// Recomputes the node's value. Errors: those of submitting its op.
[[nodiscard]] Tensor run_again(const TapeNode& node,
                               std::span<const std::byte> attributes,
                               std::span<const Tensor> inputs,
                               DType dtype,
                               const Shape& shape);

}  // namespace hearth
