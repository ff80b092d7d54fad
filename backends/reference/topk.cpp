#include "elements.hpp"
#include "evaluators.hpp"
#include "lines.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <vector>

namespace hearth::reference {
namespace {

template <class T>
bool is_larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(b)) {
      return false;
    }
    if (std::isnan(a)) {
      return true;
    }
  }
  return a > b;
}

template <class T>
Status topk(const KernelCall& call) {
  const auto attributes = call.op.attributes<TopkAttributes>();
  const Shape& shape = call.outputs[0].shape();
  const std::vector<T> values = load<T>(call.inputs[0]);
  std::vector<T> best = filled(shape, T{});
  Integers places = filled(shape, std::int64_t{0});
  std::vector<Line> targets;
  visit_lines(shape, attributes.axis, [&](const Line& line) { targets.push_back(line); });
  std::size_t next = 0;
  visit_lines(call.inputs[0].shape(), attributes.axis, [&](const Line& line) {
    Integers order(static_cast<std::size_t>(line.length));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
      const T x = at(values, line[a]);
      const T y = at(values, line[b]);
      return attributes.smallest != 0 ? is_larger(y, x) : is_larger(x, y);
    });
    if (shape.element_count() == 0) {
      return;
    }
    const Line& to = targets[next++];
    for (std::int64_t i = 0; i < to.length; ++i) {
      at(best, to[i]) = at(values, line[at(order, i)]);
      at(places, to[i]) = at(order, i);
    }
  });
  store(call.outputs[0], best);
  store(call.outputs[1], places);
  return {};
}

}  // namespace

Status evaluate_topk(const KernelCall& call) {
  return is_float(call.inputs[0].dtype) ? topk<double>(call) : topk<std::int64_t>(call);
}

}  // namespace hearth::reference
