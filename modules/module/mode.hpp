// Mode of a forward pass. Always an explicit argument, never a hidden flag. A value; any thread.
#pragma once

#include <cstdint>

namespace hearth {

enum class Mode : std::uint8_t {
  train,  ///< Dropout is active; BatchNorm2d normalises by the batch.
  eval,   ///< Every layer is a pure function of its input.
};

}  // namespace hearth
