#include <hearth/modules/embedding.hpp>

#include <hearth/runtime/mistake_name.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

#include <utility>

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
  if (config.padding_idx) {
    const std::int64_t row = *config.padding_idx;
    padding_idx = row < 0 ? row + config.count : row;
    if (*padding_idx < 0 || *padding_idx >= config.count) {
      throw_error(
          Error{.code = ErrorCode::invalid_argument,
                .text = fmt::format("Embedding: padding_idx {} is no row of {}", row, config.count),
                .location = loc});
    }
  }
  const WeightScope weights(device);
  weight = random_normal(device, {config.count, config.width}, generator, 0, 1, dtype, loc);
  if (padding_idx) {
    const Tensor rows = arange(device, 0, static_cast<double>(config.count), 1, DType::i64, loc);
    Tensor is_padding = equal(Arg(unsqueeze(Arg(rows, loc), 1), loc), Arg(*padding_idx, loc));
    weight =
        masked_fill(Arg(std::move(weight), loc), Arg(std::move(is_padding), loc), Arg(0.0, loc));
  }
  detail::set_first_paths(*this);
}

Tensor Embedding::forward(Arg index) const {
  return detail::mistakes_named("Embedding", [&] {
    const SourceLoc loc = index.location();
    const Arg table(weight, loc);
    if (!padding_idx || !weight.is_tracked() || index.is_scalar()) {
      return embedding(table, index);
    }
    Tensor rows = embedding(table, Arg(index.tensor(), loc));
    Tensor is_padding =
        equal(Arg(unsqueeze(Arg(index.tensor(), loc), -1), loc), Arg(*padding_idx, loc));
    Tensor row =
        slice(Arg(weight.detach(), loc), 0, {.start = *padding_idx, .stop = *padding_idx + 1});
    return where(Arg(std::move(is_padding), loc),
                 Arg(squeeze(Arg(std::move(row), loc), 0), loc),
                 Arg(std::move(rows), loc));
  });
}

}  // namespace hearth
