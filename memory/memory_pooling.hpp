// The memory strategies that come with the library; a user's own is a MemoryStrategy.
#pragma once

#include <cstdint>
#include <string_view>

namespace hearth {

enum class MemoryPooling : std::uint8_t {
  default_pooling,  ///< Blocks cut from pages that stay: fast, and hardly more is held than used.
  exclusive,  ///< A page for each tensor, kept for the next of nearly its size: no tensor ever
              ///< stands in another's way, at up to a quarter more memory and whole pages.
  debug,      ///< A page for each tensor, with guard bytes around it and NaN in what is fresh
              ///< or freed; kernels that write astray fail, naming op and line. Slow, and the
              ///< last 64 MiB that were freed stay held.
};

/// The enumerator's name.
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
