// Random integers and draws by weights, composed of uniform numbers.
#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_parts.hpp"
#include "ops_index.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

namespace hearth {
namespace {

constexpr OpKind kUniform = OpKind::random_uniform;
constexpr std::int64_t kMostDraws = std::int64_t{1}
                                    << 31U;  // more than a kernel can hold in memory

Tensor uniform_like(const Tensor& beside, const Shape& shape, Generator& generator, SourceLoc loc) {
  return random_uniform(beside.device(), shape, generator, 0, 1, beside.dtype(), loc);
}

// Counts the running sums of each row, [rows, classes], that are at most each place, [rows, count].
// The last sum of a row is above its places. A binary search, which avoids a [rows, classes, count]
// tensor.
Tensor sums_up_to(const Tensor& sums, const Tensor& places, SourceLoc loc) {
  const std::int64_t last = sums.shape()[1] - 1;
  Tensor found = zeros_like(places, loc);
  for (auto step = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(last)));
       step > 0;
       step /= 2) {
    Tensor probe = add(Arg(found, loc), Arg(step - 1, loc));
    probe = minimum(Arg(std::move(probe), loc), Arg(last, loc));
    const Tensor sum =
        detail::gather_as(CalledAs::multinomial, Arg(sums, loc), 1, Arg(std::move(probe), loc));
    const Tensor is_below = less_equal(Arg(sum, loc), Arg(places, loc));
    const Tensor farther = add(Arg(found, loc), Arg(step, loc));
    found = where(Arg(is_below, loc), Arg(farther, loc), Arg(found, loc));
  }
  return found;
}

// Draws the class whose interval of the running sum holds a uniform number. Weights become
// integers, at least 1 if they are above 0. Their running sums are exact, so a weight of 0 is never
// drawn, and every device draws the same classes.
Tensor draw_again(const Tensor& weights, std::int64_t count, Generator& generator, SourceLoc loc) {
  const Shape shape = weights.shape();
  const int weight_bits =
      62 - static_cast<int>(std::bit_width(static_cast<std::uint64_t>(shape[1])));
  Tensor wide = mul(Arg(weights, loc), Arg(std::ldexp(1.0, weight_bits), loc));
  const Tensor is_there = cast(Arg(greater(Arg(weights, loc), Arg(0, loc)), loc), DType::i64);
  wide = maximum(Arg(cast(Arg(std::move(wide), loc), DType::i64), loc), Arg(is_there, loc));
  const Tensor ends = cumsum(Arg(std::move(wide), loc), 1);
  const Tensor whole = slice(Arg(ends, loc), 1, {.start = -1});
  // floor(whole · unit) with unit = k / steps, by two halves of `whole`: no product overflows i64.
  const std::int64_t steps = std::int64_t{1} << (weights.dtype() == DType::f64 ? 31U : 24U);
  Tensor unit = uniform_like(weights, {shape[0], count}, generator, loc);
  unit = mul(Arg(std::move(unit), loc), Arg(static_cast<double>(steps), loc));
  const Tensor k = cast(Arg(std::move(unit), loc), DType::i64);
  const Tensor high = div(Arg(whole, loc), Arg(steps, loc));
  const Tensor low = sub(Arg(whole, loc), Arg(mul(Arg(high, loc), Arg(steps, loc)), loc));
  Tensor rest = div(Arg(mul(Arg(k, loc), Arg(low, loc)), loc), Arg(steps, loc));
  Tensor place = add(Arg(mul(Arg(k, loc), Arg(high, loc)), loc), Arg(std::move(rest), loc));
  return sums_up_to(ends, place, loc);
}

// Draws waiting times with the weights as rates: their order is the order of the draws.
Tensor draw_once(const Tensor& weights, std::int64_t count, Generator& generator, SourceLoc loc) {
  Tensor unit = uniform_like(weights, weights.shape(), generator, loc);
  Tensor waited = neg(Arg(log1p(Arg(neg(Arg(std::move(unit), loc)), loc)), loc));
  waited = maximum(Arg(std::move(waited), loc), Arg(1e-30, loc));  // 0 / 0 would come first
  Tensor soonest = div(Arg(weights, loc), Arg(std::move(waited), loc));
  return topk(Arg(std::move(soonest), loc), count, {.axis = 1}).positions;
}

// Scales by the largest weight: a sum of weights may overflow.
Tensor shares_of_largest(const Tensor& weights, SourceLoc loc) {
  Tensor largest = max(Arg(weights, loc), 1, {.keep_dims = true});
  const double least = weights.dtype() == DType::f64 ? 1e-300 : 1e-37;
  largest = maximum(Arg(std::move(largest), loc), Arg(least, loc));
  return div(Arg(weights, loc), Arg(std::move(largest), loc));
}

// [rows, 1]: true for rows that can be drawn from.
Tensor is_drawable(const Tensor& weights, std::int64_t needed, SourceLoc loc) {
  Tensor is_weight = logical_and(Arg(is_finite(Arg(weights, loc)), loc),
                                 Arg(greater_equal(Arg(weights, loc), Arg(0, loc)), loc));
  Tensor are_weights = all(Arg(std::move(is_weight), loc), 1);
  Tensor positive = sum(Arg(greater(Arg(weights, loc), Arg(0, loc)), loc), 1);
  Tensor are_enough = greater_equal(Arg(std::move(positive), loc), Arg(needed, loc));
  Tensor both = logical_and(Arg(std::move(are_weights), loc), Arg(std::move(are_enough), loc));
  return unsqueeze(Arg(std::move(both), loc), 1);
}

}  // namespace

Tensor randint(const Device& device,
               const Shape& shape,
               Generator& generator,
               std::int64_t low,
               std::int64_t high,
               DType dtype,
               SourceLoc loc) {
  return detail::named_as("randint", [&] {
    const auto refuse = [&](ErrorCode code, std::string_view what) {
      detail::throw_op_error(code, kUniform, fmt::format("[{}, {}) {}", low, high, what), loc);
    };
    if (dtype == DType::boolean) {
      refuse(ErrorCode::dtype_mismatch, "makes numbers, not bool");
    }
    if (low >= high) {
      refuse(ErrorCode::invalid_argument, "has no whole number");
    }
    constexpr std::int64_t kMost = std::int64_t{1} << 53U;
    if (low < -kMost || high > kMost || high - low > kMost) {
      refuse(ErrorCode::invalid_argument, "goes beyond 2^53, or has more numbers than that");
    }
    if (!fits(low, dtype) || !fits(high - 1, dtype)) {
      refuse(ErrorCode::invalid_argument, fmt::format("goes beyond {}", name(dtype)));
    }
    // Adds low as an integer: far from 0 an f64 sum would round before the floor.
    Tensor real = random_uniform(
        device, shape, generator, 0, static_cast<double>(high - low), DType::f64, loc);
    Tensor above = cast(Arg(floor(Arg(std::move(real), loc)), loc), DType::i64);
    return cast(Arg(add(Arg(std::move(above), loc), Arg(low, loc)), loc), dtype);
  });
}

Tensor multinomial(Arg weights,
                   std::int64_t count,
                   Generator& generator,
                   MultinomialOptions options) {
  return detail::named_as("multinomial", [&] {
    constexpr OpKind kKind = OpKind::log;
    const TensorImpl& impl = detail::accepted_operand(kKind, weights);
    const Shape shape = impl.layout->shape;
    const SourceLoc loc = weights.location();
    if (shape.rank() != 1 && shape.rank() != 2) {
      detail::throw_op_error(ErrorCode::shape_mismatch,
                             kKind,
                             fmt::format("weights must be [classes] or [rows, classes], not {}",
                                         describe(impl.dtype, shape)),
                             weights);
    }
    const std::int64_t classes = shape[shape.rank() - 1];
    const std::int64_t most = options.with_replacement && classes > 0 ? kMostDraws : classes;
    if (count < 1 || count > most) {
      detail::throw_op_error(ErrorCode::invalid_argument,
                             kKind,
                             fmt::format("{} draws of {} classes {} replacement",
                                         count,
                                         classes,
                                         options.with_replacement ? "with" : "without"),
                             weights);
    }
    Tensor rows = detail::wide(detail::shared_operand(weights)).detach();
    rows = reshape(Arg(std::move(rows), loc), {-1, classes});
    const Tensor is_usable =
        is_drawable(rows, options.with_replacement ? std::int64_t{1} : count, loc);
    rows = shares_of_largest(rows, loc);
    const Tensor drawn = options.with_replacement ? draw_again(rows, count, generator, loc)
                                                  : draw_once(rows, count, generator, loc);
    // An index outside of the axis poisons the result for rows that cannot be drawn from.
    const Tensor order = arange(rows.device(), 0, static_cast<double>(count), 1, DType::i64, loc);
    Tensor places = where(Arg(is_usable, loc), Arg(order, loc), Arg(-1, loc));
    Tensor result =
        detail::gather_as(CalledAs::multinomial, Arg(drawn, loc), 1, Arg(std::move(places), loc));
    return shape.rank() == 1 ? squeeze(Arg(std::move(result), loc), 0) : result;
  });
}

}  // namespace hearth
