// Finds the descriptor bindings that a program's own shader requires. Hearth's pipelines bind
// nothing, and drivers crash on a shader that expects a binding. Pure function. Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace hearth::vulkan {

/// Returns the name of a variable of the module that lies in a descriptor set. A variable without a
/// name has the name of its block. Returns nothing where no such variable exists, and for data that
/// is not a module.
[[nodiscard]] std::optional<std::string> bound_variable(std::span<const std::uint32_t> module);

}  // namespace hearth::vulkan
