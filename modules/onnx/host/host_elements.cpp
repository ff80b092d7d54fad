#include "host_elements.hpp"

#include <utility>

namespace hearth::onnx {

std::vector<std::size_t> broadcast_places(const Shape& from, const Shape& target) {
  const Strides strides = broadcast_strides(detail::Layout(from), target);
  std::vector<std::size_t> places;
  places.reserve(static_cast<std::size_t>(target.element_count()));
  std::vector<std::int64_t> at(static_cast<std::size_t>(target.rank()), 0);
  std::int64_t place = 0;
  for (std::int64_t i = 0; i < target.element_count(); ++i) {
    places.push_back(static_cast<std::size_t>(place));
    for (int axis = target.rank() - 1; axis >= 0; --axis) {
      const auto a = static_cast<std::size_t>(axis);
      place += strides[a];
      if (++at[a] < target[axis]) {
        break;
      }
      place -= strides[a] * target[axis];
      at[a] = 0;
    }
  }
  return places;
}

HostArray selected(const HostArray& from,
                   const std::vector<std::size_t>& places,
                   const Shape& shape) {
  HostArray result{.type = from.type, .shape = shape};
  std::visit(
      [&](const auto& elements) {
        std::remove_cvref_t<decltype(elements)> taken;
        taken.reserve(places.size());
        for (const std::size_t place : places) {
          taken.push_back(elements[place]);
        }
        result.elements = std::move(taken);
      },
      from.elements);
  return result;
}

bool unary_on_host(Call& call, UnaryOnReal real, UnaryOnInteger integer) {
  const HostArray& x = call.host(0);
  if (has_strings(x) || (has_reals(x) ? real == nullptr : integer == nullptr)) {
    return false;
  }
  HostArray result = x;
  if (has_reals(x)) {
    for (double& value : std::get<std::vector<double>>(result.elements)) {
      value = stored(real(value), x.type);
    }
  } else {
    for (std::int64_t& value : std::get<std::vector<std::int64_t>>(result.elements)) {
      value = stored(integer(value), x.type);
    }
  }
  call.give(std::move(result));
  return true;
}

Shape broadcast_shape(const Shape& a, const Shape& b) {
  return broadcast(a, b).value();
}

HostArray combined(const HostArray& a,
                   const HostArray& b,
                   OnnxType type,
                   BinaryOnReal real,
                   BinaryOnInteger integer) {
  const Shape shape = broadcast_shape(a.shape, b.shape);
  const std::vector<std::size_t> of_a = broadcast_places(a.shape, shape);
  const std::vector<std::size_t> of_b = broadcast_places(b.shape, shape);
  const bool is_real = has_reals(a) || has_reals(b);
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    if (is_real) {
      reals.push_back(real(real_at(a, of_a[i]), real_at(b, of_b[i])));
    } else {
      integers.push_back(integer(a.integers()[of_a[i]], b.integers()[of_b[i]]));
    }
  }
  const HostArray exact = is_real ? host_reals(std::move(reals), shape, OnnxType::f64)
                                  : host_integers(std::move(integers), shape, OnnxType::i64);
  return cast_host(exact, type);
}

}  // namespace hearth::onnx
