// What a shader asks of its pipeline to bind: for texts of programs, as our pipelines bind nothing,
// and drivers crash then. A pure function. Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace hearth {

/// The name of a variable of the module (of its block, where it has none) that lies in a descriptor
/// set; nothing where there is none, and for what is no module.
[[nodiscard]] std::optional<std::string> bound_variable(std::span<const std::uint32_t> module);

}  // namespace hearth
