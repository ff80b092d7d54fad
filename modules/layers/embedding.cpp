#include <hearth/modules/embedding.hpp>

#include <hearth/runtime/mistake_name.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

namespace hearth {

Embedding::Embedding(
    const Config& config, const Device& device, Generator& generator, DType dtype, SourceLoc loc) {
  if (config.count < 1 || config.width < 1) {
    throw_error(
        Error{.code = ErrorCode::invalid_argument,
              .text = fmt::format("Embedding: needs 1 or more rows and features, got count {}, "
                                  "width {}",
                                  config.count,
                                  config.width),
              .location = loc});
  }
  const WeightScope weights(device);
  weight = random_normal(device, {config.count, config.width}, generator, 0, 1, dtype, loc);
  detail::set_first_paths(*this);
}

Tensor Embedding::forward(Arg index) const {
  return detail::mistakes_named("Embedding",
                                [&] { return embedding(Arg(weight, index.location()), index); });
}

}  // namespace hearth
