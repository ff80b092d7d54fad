// Inputs that once broke the library, cut down, each with the broken behaviour. Threads: any.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace hearth::fuzz {

[[nodiscard]] std::vector<std::vector<std::byte>> finds(std::string_view target);

}  // namespace hearth::fuzz
