#include "tile_run.hpp"

#include "backends/cpu/elementwise/undefined_integers.hpp"

#include <hearth/runtime/base/philox.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

namespace hearth::cpu {

namespace {

std::int64_t integer_at(DType type, const std::byte* data, std::int64_t element) {
  const std::byte* const from = data + element * size_bytes(type);
  return visit_dtype(type, [&](auto zero) -> std::int64_t {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      std::memcpy(&zero, from, sizeof(T));
      return static_cast<std::int64_t>(zero);
    } else {
      return 0;  // no integer is a float
    }
  });
}

struct ProductTerm {
  const std::byte* data = nullptr;
  bool is_one = false;
};

template <class T>
T element(const std::byte* data) noexcept {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

// Computes the product of two single elements, in a cell.
ProductTerm product_of(DType type, ProductTerm a, ProductTerm b, TileCell& cell) noexcept {
  cell = type == DType::f64
             ? std::bit_cast<std::uint64_t>(element<double>(a.data) * element<double>(b.data))
             : std::bit_cast<std::uint32_t>(element<float>(a.data) * element<float>(b.data));
  return {reinterpret_cast<const std::byte*>(&cell), true};
}

}  // namespace

// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): see the members
TileRun::TileRun(const TileProgram& program, IsaLevel isa) noexcept
    : TileRun(program, isa, nullptr, program.tile_bytes()) {}

// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): see the members
TileRun::TileRun(const TileProgram& program,
                 IsaLevel isa,
                 std::byte* tiles,
                 std::int64_t tile_bytes) noexcept
    : program_(program),
      moves_(move_loops(isa)),
      casts_(cast_loops(isa)),
      random_(random_loops(isa)),
      tiles_(tiles),
      tile_bytes_(tile_bytes) {
  if (tiles_ == nullptr) {
    tiles_ = own_tiles_.data();
  }
  for (std::size_t i = 0; i < program_.cells.size(); ++i) {
    cells_[i] = program_.cells[i];
    at_[program_.first_cell() + i] = reinterpret_cast<std::byte*>(&cells_[i]);
    is_one_[program_.first_cell() + i] = true;
  }
  for (std::size_t i = 0; i < program_.tile_count; ++i) {
    const auto value = static_cast<ValueNumber>(program_.first_tile() + i);
    at_[value] = tile_at(value);
  }
}

bool TileRun::start(std::span<const ScalarAttributes> parameters,
                    TileSizes sizes,
                    UndefinedElement& undefined) noexcept {
  sizes_ = sizes;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    cells_[program_.parameters[i] - program_.first_cell()] =
        make_cell(casts_, program_.kernel.parameters[i], parameters[i]);
  }
  const TilePlaces one{.columns = 1};
  for (const TileInstruction& each : program_.once) {
    if (each.may_fail && is_undefined(each, one, undefined)) {
      return true;
    }
    execute(each, one);
  }
  return false;
}

bool TileRun::may_fail() const noexcept {
  return program_.may_fail &&
         std::ranges::any_of(program_.body, [this](const TileInstruction& each) {
           if (!each.may_fail) {
             return false;
           }
           if (each.in[1] < program_.first_cell() || each.in[1] >= program_.first_tile()) {
             return true;
           }
           const std::int64_t right = integer_at(each.type, at_[each.in[1]], 0);
           return each.kind == OpKind::div ? right == 0 : right < 0;
         });
}

void TileRun::run(const TilePlaces& places) noexcept {
  std::int64_t number = 0;
  for (const TileInstruction& each : program_.body) {
    if (next_count_ != 0) {
      fetch_next(number++);
    }
    execute(each, places);
  }
  next_count_ = 0;
}

// A tile is read in short runs, which the hardware does not prefetch.
[[gnu::target("prfchw")]] void TileRun::fetch_next(std::int64_t number) const noexcept {
  const auto parts = static_cast<std::int64_t>(program_.body.size());
  for (std::size_t i = 0; i < next_count_; ++i) {
    const Next& next = next_[i];
    const std::int64_t end = (number + 1) * next.lines / parts;
    for (std::int64_t line = number * next.lines / parts; line < end; ++line) {
      if (next.is_written) {
        __builtin_prefetch(next.data + line * kLine, 1, 2);
      } else {
        __builtin_prefetch(next.data + line * kLine, 0, 2);
      }
    }
  }
}

bool TileRun::find_undefined(const TilePlaces& places, UndefinedElement& undefined) noexcept {
  for (const TileInstruction& each : program_.body) {
    if (each.may_fail && is_undefined(each, places, undefined)) {
      return true;
    }
    execute(each, places);
  }
  return false;
}

bool TileRun::all_one(const TileInstruction& each) const noexcept {
  for (std::size_t k = 0; k < each.operand_count; ++k) {
    if (!is_one_[each.in[k]]) {
      return false;
    }
  }
  return true;
}

bool TileRun::is_undefined(const TileInstruction& each,
                           const TilePlaces& places,
                           UndefinedElement& undefined) const noexcept {
  const IntegerOperand a{at_[each.in[0]], is_one_[each.in[0]]};
  const IntegerOperand b{at_[each.in[1]], is_one_[each.in[1]]};
  const std::int64_t i = first_undefined(each.kind, each.type, a, b, places.count());
  if (i == kNoElement) {
    return false;
  }
  undefined = {.place = places.first + i / places.columns * places.row_step + i % places.columns,
               .instruction = &each,
               .operands = {integer_at(each.type, at_[each.in[0]], a.is_one ? 0 : i),
                            integer_at(each.type, at_[each.in[1]], b.is_one ? 0 : i)}};
  return true;
}

void TileRun::execute(const TileInstruction& each, const TilePlaces& places) noexcept {
  std::byte* const out = at_[each.out[0]];
  const bool is_one_a = each.operand_count > 0 && is_one_[each.in[0]];
  bool is_one = each.operand_count > 0 && all_one(each);
  const std::int64_t count = is_one ? 1 : each.is_of_rows ? places.lines : places.count();
  const bool is_wide = each.type == DType::f64;
  switch (each.step) {
    case TileStep::map:
      each.map_loop(out, at_[each.in[0]], count);
      break;
    case TileStep::combine: {
      const std::size_t form = is_one_a == is_one_[each.in[1]] ? 0 : is_one_a ? 1 : 2;
      (*each.forms)[form](out, at_[each.in[0]], at_[each.in[1]], count);
      break;
    }
    case TileStep::choose:
      is_one = choose(each, count);
      break;
    case TileStep::product:
      add_products(each, count);
      break;
    case TileStep::wrapped:
      run_wrapped(each, count);
      break;
    case TileStep::adam:
      is_wide ? update<double>(each, count, each.updates->adam_f64)
              : update<float>(each, count, each.updates->adam_f32);
      is_one_[each.out[1]] = is_one;
      is_one_[each.out[2]] = is_one;
      break;
    case TileStep::words:
      write_words(each, count);
      break;
    case TileStep::position:
    case TileStep::index:
      write_places(each, places);
      break;
    case TileStep::fold:
      fold_rows(each, places);
      is_one = places.lines == 1;
      break;
    case TileStep::row:
      make_rows(each, places);
      is_one = false;
      break;
    case TileStep::expand:
      is_one = expand(each, places);
      break;
    default:
      is_one = false;
      draw(each, places);
      break;
  }
  is_one_[each.out[0]] = is_one;  // set last: an operand may have used this tile
}

// Returns whether the result is one element.
bool TileRun::choose(const TileInstruction& each, std::int64_t count) noexcept {
  std::byte* const out = at_[each.out[0]];
  const auto [condition, a, b] = std::array{each.in[0], each.in[1], each.in[2]};
  if (!is_one_[condition] || (is_one_[a] && is_one_[b])) {
    const std::size_t form = (is_one_[a] ? 1U : 0U) + (is_one_[b] ? 2U : 0U);
    (*each.selects)[form](out, at_[condition], at_[a], at_[b], count);
    return is_one_[condition];
  }
  // One condition for all elements: copies the selected value.
  const ValueNumber taken = *at_[condition] != std::byte{0} ? a : b;
  const std::int64_t taken_count = is_one_[taken] ? 1 : count;
  if (out != at_[taken]) {
    std::memcpy(out, at_[taken], static_cast<std::size_t>(taken_count * size_bytes(each.type)));
  }
  return is_one_[taken];
}

// The loops take single elements for a and c, never for b and d. A product that includes two single
// elements is computed first, and becomes the value beside the other product. A single value
// becomes the product of 1 and itself, which is exact.
void TileRun::add_products(const TileInstruction& each, std::int64_t count) const noexcept {
  std::array<ProductTerm, 4> terms;
  for (std::size_t k = 0; k < each.operand_count; ++k) {
    terms[k] = {at_[each.in[k]], is_one_[each.in[k]] && count != 1};
  }
  auto [a, b, c, d] = terms;
  if (b.is_one) {
    std::swap(a, b);
  }
  if (d.is_one) {
    std::swap(c, d);
  }
  ProductSum sum = each.sum;
  std::array<TileCell, 2> cells{};
  if (d.is_one) {
    c = product_of(each.type, c, d, cells[0]);
    d = {};
  }
  if (b.is_one) {
    const ProductTerm value = product_of(each.type, a, b, cells[1]);
    if (d.data != nullptr) {
      a = c;
      b = d;
    } else {
      cells[0] = make_cell(casts_, each.type, {.real = 1});
      a = {reinterpret_cast<const std::byte*>(cells.data()), true};
      b = c;
    }
    c = value;
    d = {};
    sum = sum == ProductSum::plus    ? sum
          : sum == ProductSum::minus ? ProductSum::from
                                     : ProductSum::minus;
  }
  const auto& loops = d.data == nullptr ? each.products->with_value : each.products->with_product;
  const std::size_t form = (a.is_one ? 1U : 0U) + (c.is_one ? 2U : 0U);
  loops[static_cast<std::size_t>(sum)][form](
      at_[each.out[0]], a.data, b.data, c.data, d.data, count);
}

// A divisor after the function becomes a factor if that gives the same bits, else a separate op.
void TileRun::run_wrapped(const TileInstruction& each, std::int64_t count) const noexcept {
  const auto row = [&](std::size_t operand) -> FloatRow {
    const ValueNumber value = each.in[operand];
    return {reinterpret_cast<const float*>(at_[value]), is_one_[value]};
  };
  const WrappedParts& parts = each.parts;
  WrappedCall call{.x = row(0), .how = parts.before, .is_far = is_far_, .streams = streams_};
  std::size_t next = 1;
  if (parts.before != WrappedBefore::nothing) {
    call.before = row(next++);
  }
  if (parts.has_sum) {
    call.sum = cell<float>(each.in[next++]);
  }
  if (parts.has_y) {
    call.y = row(next++);
  }
  const bool divides = parts.has_factor && parts.is_divisor;
  if (parts.has_factor && !divides) {
    call.factor = cell<float>(each.in[next]);
  }
  float divisor = 1;
  if (divides) {
    divisor = cell<float>(each.in[next]);
    int exponent = 0;
    const bool is_power = std::frexp(std::fabs(divisor), &exponent) == 0.5F &&
                          std::abs(exponent) < std::numeric_limits<float>::max_exponent - 4;
    call.factor = is_power ? 1 / divisor : 1;
    divisor = is_power ? 1 : divisor;
  }
  auto* out = reinterpret_cast<float*>(at_[each.out[0]]);
  each.wrapped_loop(out, call, count);
  if (divisor != 1) {
    (*each.forms)[2](out, out, &divisor, count);
  }
}

// The loop requires contiguous operands.
template <class T>
void TileRun::update(const TileInstruction& each,
                     std::int64_t count,
                     void (*loop)(const AdamArrays<T>&,
                                  const AdamFactors&,
                                  std::int64_t)) noexcept {
  std::array<const T*, 4> from{};
  for (std::size_t k = 0; k < from.size(); ++k) {
    std::byte* data = at_[each.in[k]];
    if (is_one_[each.in[k]] && count != 1) {
      data = tile_at(static_cast<ValueNumber>(each.spare + k));
      moves_.fills[MoveLoops::size_index(sizeof(T))](data, at_[each.in[k]], count);
    }
    from[k] = reinterpret_cast<const T*>(data);
  }
  const auto factor = [&](std::size_t number) {
    return static_cast<double>(cell<T>(each.in[from.size() + number]));
  };
  loop({reinterpret_cast<T*>(at_[each.out[0]]),
        reinterpret_cast<T*>(at_[each.out[1]]),
        reinterpret_cast<T*>(at_[each.out[2]]),
        from[0],
        from[1],
        from[2],
        from[3]},
       {.is_decoupled = each.is_decoupled,
        .decay = factor(0),
        .beta1 = factor(1),
        .rest1 = factor(2),
        .beta2 = factor(3),
        .rest2 = factor(4),
        .step = factor(5),
        .correction = factor(6),
        .epsilon = factor(7)},
       count);
}

template <class T>
T TileRun::cell(ValueNumber value) const noexcept {
  return element<T>(at_[value]);
}

// Random numbers depend on the place, so each row of places is drawn on its own.
void TileRun::draw(const TileInstruction& each, const TilePlaces& places) noexcept {
  const std::size_t first = each.step == TileStep::dropout ? 1 : 0;  // index of the first parameter
  const auto real = [&](std::size_t number, DType type) {
    return type == DType::f64 ? cell<double>(each.in[first + number])
                              : static_cast<double>(cell<float>(each.in[first + number]));
  };
  RandomDraw draw{.seed = cell<std::uint64_t>(each.in[first]),
                  .counter = cell<std::uint64_t>(each.in[first + 1])};
  const bool has_limit = each.step == TileStep::hits || each.step == TileStep::dropout;
  if (has_limit) {
    const auto limit = cell<std::int64_t>(each.in[first + 2]);
    draw.limit = static_cast<std::uint32_t>(std::clamp<std::int64_t>(limit, 0, 1 << 24));
  } else {
    draw.a = real(2, each.type);
    draw.b = real(3, each.type);
  }
  if (each.step == TileStep::uniform) {
    draw.first = real(4, each.type);
    draw.last = real(5, each.type);
  }
  const std::byte* in = nullptr;
  if (each.step == TileStep::dropout) {
    draw.b = real(3, each.type);
    in = at_[each.in[0]];
    if (is_one_[each.in[0]]) {  // expanded in the result's own tile
      moves_.fills[MoveLoops::size_index(size_bytes(each.type))](
          at_[each.out[0]], in, places.count());
      in = at_[each.out[0]];
    }
  }
  const bool is_wide = each.type == DType::f64;
  for (std::int64_t row = 0; row < places.rows; ++row) {
    const std::int64_t done = row * places.columns * size_bytes(each.type);
    std::byte* const out = at_[each.out[0]] + done;
    const std::int64_t place = places.first + row * places.row_step;
    const std::int64_t n = places.columns;
    switch (each.step) {
      case TileStep::uniform:
        each.uniform_loop(reinterpret_cast<double*>(out), n, place, draw);
        break;
      case TileStep::normal:
        is_wide ? random_.normal_f64(reinterpret_cast<double*>(out), n, place, draw)
                : random_.normal_f32(reinterpret_cast<float*>(out), n, place, draw);
        break;
      case TileStep::hits:
        random_.hits(reinterpret_cast<std::uint8_t*>(out), n, place, draw);
        break;
      default:
        is_wide ? random_.dropout_f64(reinterpret_cast<double*>(out),
                                      reinterpret_cast<const double*>(in + done),
                                      n,
                                      place,
                                      draw)
                : random_.dropout_f32(reinterpret_cast<float*>(out),
                                      reinterpret_cast<const float*>(in + done),
                                      n,
                                      place,
                                      draw);
        break;
    }
  }
}

const std::byte* TileRun::whole(const TileInstruction& each,
                                std::size_t operand,
                                std::int64_t count) noexcept {
  const ValueNumber value = each.in[operand];
  if (!is_one_[value]) {
    return at_[value];
  }
  std::byte* const room = tile_at(static_cast<ValueNumber>(each.spare + operand));
  moves_.fills[MoveLoops::size_index(size_bytes(each.type))](room, at_[value], count);
  return room;
}

void TileRun::fold_rows(const TileInstruction& each, const TilePlaces& places) noexcept {
  constexpr std::int64_t kHeld = 32;
  const std::int64_t length = places.count() / places.lines;
  const std::int64_t size = size_bytes(each.type);
  const std::byte* from = whole(each, 0, places.count());
  std::byte* to = at_[each.out[0]];
  std::array<Accumulator, kHeld> sums{};
  for (std::int64_t row = 0; row < places.lines;) {
    const std::int64_t held = std::min(kHeld, places.lines - row);
    for (std::int64_t i = 0; i < held; ++i) {
      Accumulator& sum = sums[static_cast<std::size_t>(i)];
      sum = each.fold_start;
      each.fold_loop(&sum, from, length);
      if (each.kind == OpKind::reduce_mean) {
        sum.real /= static_cast<double>(length);
      }
      from += length * size;
    }
    each.fold_store(to, sums.data(), held);
    to += held * size;
    row += held;
  }
}

void TileRun::make_rows(const TileInstruction& each, const TilePlaces& places) noexcept {
  if (each.type == DType::f64) {
    make_rows<double>(each, each.rows->f64, places);
  } else {
    make_rows<float>(each, each.rows->f32, places);
  }
}

template <class T>
void TileRun::make_rows(const TileInstruction& each,
                        const RowLoops<T>& loops,
                        const TilePlaces& places) noexcept {
  const std::int64_t length = places.count() / places.lines;
  const auto* in = reinterpret_cast<const T*>(whole(each, 0, places.count()));
  const T* y =
      each.operand_count > 1 ? reinterpret_cast<const T*>(whole(each, 1, places.count())) : in;
  T* out = reinterpret_cast<T*>(at_[each.out[0]]);
  const Primitive primitive = program_.kernel.node(each.node).primitive;
  for (std::int64_t row = 0; row < places.lines; ++row) {
    switch (primitive) {
      case Primitive::softmax:
        loops.softmax(out, in, length);
        break;
      case Primitive::log_softmax:
        loops.log_softmax(out, in, length);
        break;
      case Primitive::softmax_backward:
        loops.softmax_backward(out, in, y, length);
        break;
      default:
        loops.log_softmax_backward(out, in, y, length);
        break;
    }
    in += length;
    y += length;
    out += length;
  }
}

bool TileRun::expand(const TileInstruction& each, const TilePlaces& places) noexcept {
  const std::int64_t size = size_bytes(each.type);
  const std::byte* from = at_[each.in[0]];
  std::byte* to = at_[each.out[0]];
  if (is_one_[each.in[0]]) {
    std::memcpy(to, from, static_cast<std::size_t>(size));
    return true;
  }
  const std::int64_t length = places.count() / places.lines;
  const FillLoop fill = moves_.fills[MoveLoops::size_index(size)];
  for (std::int64_t row = 0; row < places.lines; ++row) {
    fill(to, from, length);
    from += size;
    to += length * size;
  }
  return false;
}

void TileRun::write_places(const TileInstruction& each, const TilePlaces& places) noexcept {
  std::int64_t divisor = 1;
  std::int64_t size = 0;  // 0: the place itself
  if (each.step == TileStep::index && !program_.is_pointwise) {
    const auto axis = static_cast<std::size_t>(each.number);
    size = sizes_[axis];
    for (std::size_t inner = axis + 1; inner < sizes_.size(); ++inner) {
      divisor *= sizes_[inner];
    }
  }
  auto* out = reinterpret_cast<std::int64_t*>(at_[each.out[0]]);
  for (std::int64_t row = 0; row < places.rows; ++row) {
    const std::int64_t place = places.first + row * places.row_step;
    for (std::int64_t i = 0; i < places.columns; ++i) {
      *out++ = size == 0 ? place + i : (place + i) / divisor % size;
    }
  }
}

void TileRun::write_words(const TileInstruction& each, std::int64_t count) noexcept {
  std::array<const std::uint64_t*, 3> from{};
  std::array<std::int64_t, 3> step{};
  for (std::size_t k = 0; k < from.size(); ++k) {
    from[k] = reinterpret_cast<const std::uint64_t*>(at_[each.in[k]]);
    step[k] = is_one_[each.in[k]] ? 0 : 1;
  }
  auto* out = reinterpret_cast<std::int64_t*>(at_[each.out[0]]);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t place = from[2][i * step[2]];
    const philox::Block words =
        philox::block(from[0][i * step[0]], from[1][i * step[1]] + place / 4);
    out[i] = words[place % 4];
  }
}

}  // namespace hearth::cpu
