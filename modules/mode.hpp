// What a forward pass is for. Always an explicit argument, never a hidden flag. Values, any thread.
#pragma once

#include <cstdint>

namespace hearth {

enum class Mode : std::uint8_t {
  train,  ///< Dropout drops.
  eval,   ///< Every layer is a plain function of its input.
};

}  // namespace hearth
