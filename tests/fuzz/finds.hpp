// Inputs that broke something once, cut down, each with what it broke. Threads: any.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace hearth::fuzz {

[[nodiscard]] std::vector<std::vector<std::byte>> finds(std::string_view target);

}  // namespace hearth::fuzz
