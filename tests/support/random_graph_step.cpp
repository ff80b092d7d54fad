// Graphs of ops (random_graph_ops.hpp) as steps of a random program.
#include "random_program.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <hearth/runtime/autodiff.hpp>

#include "tests/support/random_graph_ops.hpp"

namespace hearth::testing {
namespace {

using Tensors = std::vector<Tensor>;

constexpr std::int64_t kMostElements = 600;

/// Applies an op that keeps small integers exact after taming.
Tensor exact_op(GraphDraft& d, const Tensor& given) {
  const bool is_narrow = given.dtype() == DType::f16 || given.dtype() == DType::bf16;
  Tensor x = given.rank() == 0 ? reshape(d.of(given), {1}) : given;
  x = x.dtype() == DType::boolean || is_narrow ? cast(d.of(x), DType::f32) : x;
  const Tensor y = d.other(x);
  const std::vector<int> axes = d.axes(x);
  switch (d.pick(12)) {
    case 0:
      return add(d.of(x), d.of(y));
    case 1:
      return sub(d.of(y), d.of(x));
    case 2:
      return mul(d.of(x), d.of(y));
    case 3:
      return minimum(d.of(x), d.of(maximum(d.of(y), d.number(-1))));
    case 4:
      return sub(d.of(x), d.of(cast(d.of(sum(d.of(x), axes, {.keep_dims = true})), x.dtype())));
    case 5:
      return mul(d.of(x), d.of(max(d.of(x), axes, {.keep_dims = true})));
    case 6:
      return expand(d.of(neg(d.of(min(d.of(x), axes, {.keep_dims = true})))), x.shape());
    case 7:
      return where(d.of(greater(d.of(x), d.of(y))), d.of(x), d.number(2));
    case 8:
      return add(d.of(full(x.device(), {}, 1, x.dtype(), d.loc())), d.of(zeros_like(x, d.loc())));
    case 9:
      return transpose(d.of(unsqueeze(d.of(abs(d.of(x))), 0)), 0, x.rank());
    case 10:
      return slice(d.of(mul(d.of(x), d.number(2))), d.pick(x.rank()), {.step = -1});
    default: {
      constexpr std::array kTypes{DType::f32, DType::f64, DType::i32, DType::f16};
      return cast(d.of(x), kTypes.at(static_cast<std::size_t>(d.pick(4))));
    }
  }
}

struct Recipe {
  Bytes bytes = {};
  int op_count = 1;
  std::size_t result_count = 1;
  bool is_tracked = false;  ///< Its results are gradients of its leaves.
};

/// The leaves, and the values made of them.
Tensors grown(ByteReader& bytes, Tensors made, int op_count, Values values, SourceLoc loc) {
  const std::span<const GraphOp> ops = graph_ops();
  for (int i = 0; i < op_count; ++i) {
    const GraphOp& op = ops[static_cast<std::size_t>(bytes.pick(static_cast<int>(ops.size())))];
    const auto back = static_cast<std::size_t>(
        bytes.pick(static_cast<int>(std::min<std::size_t>(made.size(), 3))));
    const Tensor x = made[made.size() - 1 - back];
    GraphDraft draft(bytes, made, loc);
    Tensor next;
    if (values == Values::exact) {
      next = tame(exact_op(draft, x), loc);
    } else if (!op.may_fail) {
      next = make_graph_op(op, draft, x);
    }
    if (next.is_valid() && next.element_count() > 0) {
      made.push_back(std::move(next));
    }
  }
  return made;
}

/// Converts x to a value of the program: small, and of a type that the program uses.
Tensor as_result(Tensor x, Values values, SourceLoc loc) {
  if (x.element_count() > kMostElements) {
    x = slice({flatten({std::move(x), loc}), loc}, 0, {.stop = 7});
  }
  const bool fits = values == Values::exact || x.dtype() == DType::f32 || x.dtype() == DType::f64;
  return fits ? x : cast({std::move(x), loc}, DType::f32);
}

Tensors make_graph(const Tensors& leaves, const Recipe& recipe, Values values, SourceLoc loc) {
  ByteReader bytes(recipe.bytes);
  Tensors made;
  if (recipe.is_tracked) {
    made = grad(
        [&](const Tensors& tracked) {
          const Tensors all = grown(bytes, tracked, recipe.op_count, values, loc);
          const auto last = std::find_if(
              all.rbegin(), all.rend(), [](const Tensor& each) { return is_float(each.dtype()); });
          GraphDraft draft(bytes, all, loc);
          return graph_loss(draft, *last);
        },
        leaves,
        loc);
  } else {
    made = grown(bytes, leaves, recipe.op_count, values, loc);
  }
  Tensors results;
  for (std::size_t i = 0; i < recipe.result_count; ++i) {
    results.push_back(as_result(made[made.size() - 1 - i % made.size()], values, loc));
  }
  return results;
}

}  // namespace

void RandomProgram::draw_graph(std::size_t a) {
  if (nodes_[a].tested.element_count() == 0) {
    return apply(random_op("abs"), {a});
  }
  std::vector<std::size_t> leaves{a};
  for (int more = pick(3); more > 0; --more) {
    const std::size_t leaf = find([&](const Node& node) {
      return node.device == nodes_[a].device && node.tested.element_count() > 0;
    });
    leaves.push_back(leaf == nodes_.size() ? a : leaf);
  }
  Recipe recipe{.op_count = 1 + pick(6), .result_count = static_cast<std::size_t>(1 + pick(3))};
  recipe.is_tracked = options_.values == Values::smooth && options_.trains && pick(2) == 0;
  recipe.result_count = recipe.is_tracked ? leaves.size() : recipe.result_count;
  for (int i = 0; i < 4 * recipe.op_count + 2; ++i) {
    recipe.bytes.push_back(static_cast<std::byte>(pick(256)));
  }
  Tensors tested;
  for (const std::size_t leaf : leaves) {
    tested.push_back(nodes_[leaf].tested);
  }
  ++coverage_["graph"];
  const std::size_t first = nodes_.size();
  for (std::size_t i = 0; i < recipe.result_count; ++i) {
    nodes_[add_node(leaves, nodes_[a].device)].is_gradient = true;
  }
  const SourceLoc loc{kFile, line_of(first)};
  const Values values = options_.values;
  works_.push_back({.operands = leaves,
                    .first_result = first,
                    .make = [recipe, values, loc](Evaluation&, const Tensors& given, std::size_t) {
                      return make_graph(given, recipe, values, loc);
                    }});
  Tensors made = make_graph(tested, recipe, values, loc);
  for (std::size_t i = 0; i < made.size(); ++i) {
    set(first + i, std::move(made[i]));
  }
}

}  // namespace hearth::testing
