// Identity: returns its input. A module without weights. Threads: a value.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

namespace hearth {

/// Returns x. Takes the place of a layer that a model omits.
///
/// Shapes: the result is x.
/// Dtypes: all.
struct Identity {
  [[nodiscard]] Tensor forward(Arg x) const { return taken(x, module_name()); }
  HEARTH_MODULE(Identity)
};

}  // namespace hearth
