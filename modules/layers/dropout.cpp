#include <hearth/modules/dropout.hpp>

#include <hearth/modules/generator_scope.hpp>

#include <fmt/format.h>

namespace hearth {

Dropout::Dropout(const Config& config, SourceLoc loc) : p(config.p) {
  if (!(p >= 0 && p <= 1)) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("Dropout: the probability {} is not in 0 to 1", p),
                      .location = loc});
  }
}

Tensor Dropout::forward(Arg x, Mode mode, Generator& generator) const {
  return mode == Mode::train ? dropout(x, p, generator) : taken(x, module_name());
}

Tensor Dropout::forward(Arg x, Mode mode) const {
  if (mode == Mode::eval || p == 0) {
    return taken(x, module_name());
  }
  return dropout(x, p, current_generator("Dropout", x.location()));
}

}  // namespace hearth
