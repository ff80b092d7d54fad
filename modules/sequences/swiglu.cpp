#include <hearth/modules/swiglu.hpp>

#include <hearth/runtime/mistake_name.hpp>

namespace hearth {

Tensor swiglu(Arg gate, Arg value) {
  return detail::mistakes_named("swiglu",
                                [&] { return mul(Arg(silu(gate), gate.location()), value); });
}

}  // namespace hearth
