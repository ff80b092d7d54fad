// The memory strategies of the library. A program can bring its own MemoryStrategy.
#pragma once

#include <cstdint>
#include <string_view>

namespace hearth {

enum class MemoryPooling : std::uint8_t {
  /// Blocks cut from pages that stay mapped: fast, with little memory held beyond the live tensors.
  default_pooling,
  /// A page for each tensor, kept for the next tensor of nearly its size. Avoids fragmentation at
  /// the cost of up to a quarter more memory and of whole pages.
  exclusive,
  /// A page for each tensor, with guard bytes around it and NaN in fresh and freed bytes. A kernel
  /// that writes out of bounds fails with its op and line. Slow; the last 64 MiB freed stay held.
  debug,
};

/// Returns the enumerator's name.
[[nodiscard]] constexpr std::string_view name(MemoryPooling pooling) noexcept {
  switch (pooling) {
    case MemoryPooling::exclusive:
      return "exclusive";
    case MemoryPooling::debug:
      return "debug";
    case MemoryPooling::default_pooling:
      break;
  }
  return "default_pooling";
}

}  // namespace hearth
