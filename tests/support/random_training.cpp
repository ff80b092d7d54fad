// Sweeps and optimizer steps of a random program.
#include "random_program.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/update_group.hpp>

namespace hearth::testing {
namespace {

/// Small integers stay small integers.
SgdUpdate update_of(Values values, bool has_momentum) {
  const bool is_exact = values == Values::exact;
  const double momentum = is_exact ? 1 : 0.5;
  return {.learning_rate = is_exact ? 1 : 0.25, .momentum = has_momentum ? momentum : 0};
}

/// One op of a loss: x, and another leaf y of its shape.
Tensor loss_step(int step, const Tensor& x, const Tensor& y, Values values, SourceLoc loc) {
  const auto arg = [loc](const Tensor& tensor) { return Arg(tensor, loc); };
  const bool has_planes = x.rank() == 2 && x.element_count() > 0;
  if (values == Values::exact) {
    step = std::array{1, 2, 3, 7}.at(static_cast<std::size_t>(step % 4));
  }
  switch (step) {
    case 0:
      return tanh(arg(x));
    case 1:
      return mul(arg(x), arg(y));
    case 2:
      return add(arg(x), arg(y));
    case 3:
      return sub(arg(y), arg(x));
    case 4:
      return has_planes ? softmax(arg(x), 1) : cos(arg(x));
    case 5:
      return has_planes ? matmul(arg(matmul(arg(tanh(arg(x))), arg(transpose(arg(y))))), arg(y))
                        : sigmoid(arg(sub(arg(x), arg(y))));
    case 6:
      return has_planes ? transpose(arg(tanh(arg(transpose(arg(x)))))) : exp(arg(tanh(arg(x))));
    case 7:  // with smooth values a rounding would make its gradient jump
      return values == Values::exact ? relu(arg(x)) : erf(arg(x));
    case 8:
      return log(arg(add(arg(square(arg(x))), Arg(1.0, loc))));
    default:
      return div(arg(x), arg(add(arg(square(arg(y))), Arg(1.0, loc))));
  }
}

/// Ones from a kernel that may fail while it runs: an integer division.
Tensor checked_ones(const Tensor& like, SourceLoc loc) {
  const Tensor six = full(like.device(), like.shape(), 6, DType::i32, loc);
  return cast({div({six, loc}, {six, loc}), loc}, DType::f32);
}

/// A loss of the leaves by the recipe.
Tensor loss_of(const std::vector<Tensor>& leaves,
               const std::vector<int>& recipe,
               const ProgramOptions& options,
               SourceLoc loc) {
  const Values values = options.values;
  Tensor x = leaves.front();
  if (options.checks && recipe.front() % 2 == 0) {
    x = mul({x, loc}, {checked_ones(x, loc), loc});
  }
  for (const int step : recipe) {
    const Tensor& y = leaves[static_cast<std::size_t>(step / 10) % leaves.size()];
    x = loss_step(step % 10, x, y, values, loc);
  }
  return values == Values::exact ? sum({x, loc}) : mean({x, loc});
}

/// The tensors of one member.
struct Handles {
  Tensor parameter, gradient, momentum;
};

void add_to(UpdateGroup& group, const Step::Member& member, Handles& handles, Values values) {
  group.sgd(handles.parameter,
            std::move(handles.gradient),
            handles.momentum,
            update_of(values, member.momentum.has_value()));
}

/// The tensors that a step takes, member by member, as handles; and back, without the gradients.
std::vector<Handles> handles_of(const std::vector<Step::Member>& members,
                                const std::vector<Tensor>& taken) {
  std::vector<Handles> handles;
  std::size_t next = 0;
  for (const Step::Member& member : members) {
    Handles each{.parameter = taken[next], .gradient = taken[next + 1], .momentum = {}};
    next += 2;
    if (member.momentum) {
      each.momentum = taken[next++];
    }
    handles.push_back(std::move(each));
  }
  return handles;
}
std::vector<Tensor> results_of(const std::vector<Step::Member>& members,
                               std::vector<Handles> handles,
                               Values values,
                               SourceLoc loc) {
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < members.size(); ++i) {
    results.push_back(std::move(handles[i].parameter));
    if (members[i].momentum) {
      results.push_back(std::move(handles[i].momentum));
    }
  }
  if (values == Values::exact) {  // a step adds up
    for (Tensor& result : results) {
      result = tame(std::move(result), loc);
    }
  }
  return results;
}

}  // namespace

void RandomProgram::differentiate(std::size_t a) {
  if (nodes_[a].tested.dtype() != DType::f32) {
    return apply(random_op("abs"), {a});
  }
  std::vector<std::size_t> leaves{a};
  for (int more = pick(3); more > 0; --more) {
    leaves.push_back(find_like(a));
  }
  std::vector<int> recipe;
  for (int ops = 1 + pick(5); ops > 0; --ops) {
    recipe.push_back(pick(60));
  }
  Tensors tested;
  for (const std::size_t leaf : leaves) {
    tested.push_back(nodes_[leaf].tested);
  }
  ++coverage_["sweep"];
  const std::size_t first = nodes_.size();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    nodes_[add_node(leaves, nodes_[a].device)].is_gradient = true;
  }
  const SourceLoc loc{kFile, line_of(first)};
  const auto sweep = [recipe, loc, options = options_](const Tensors& inputs) {
    Tensors made =
        grad([&](const Tensors& tracked) { return loss_of(tracked, recipe, options, loc); },
             inputs,
             loc);
    if (options.values == Values::exact) {
      std::ranges::transform(
          made, made.begin(), [loc](Tensor& each) { return tame(std::move(each), loc); });
    }
    return made;
  };
  works_.push_back(
      {.operands = std::move(leaves),
       .first_result = first,
       .make = [sweep](Evaluation&, const Tensors& given, std::size_t) { return sweep(given); }});
  Tensors made = sweep(tested);
  for (std::size_t i = 0; i < made.size(); ++i) {
    set(first + i, std::move(made[i]));
  }
}

Step RandomProgram::pick_step(std::size_t a) {
  Step step{.is_committed = pick(8) != 0};
  const auto is_free = [&](std::size_t node) {
    return std::ranges::none_of(step.members, [&](const Step::Member& other) {
      return other.parameter == node || other.momentum == node;
    });
  };
  const auto add = [&](std::size_t parameter) {
    Step::Member member{.parameter = parameter, .gradient = find_like(parameter)};
    const std::size_t momentum = find_like(parameter);
    if (pick(2) == 0 && momentum != parameter && is_free(momentum)) {
      member.momentum = momentum;
    }
    step.members.push_back(member);
  };
  add(a);
  for (int more = pick(3); more > 0; --more) {
    const std::size_t b = find([&](const Node& node) {
      return node.device == nodes_[a].device && node.tested.dtype() == DType::f32;
    });
    if (b != nodes_.size() && is_free(b)) {
      add(b);
    }
  }
  return step;
}

void RandomProgram::record_step(Step step) {
  Work work{.operands = {}, .first_result = nodes_.size(), .make = {}, .step = steps_.size()};
  for (Step::Member& member : step.members) {
    const std::size_t device = nodes_[member.parameter].device;
    member.first_result = add_node({member.parameter}, device);
    work.operands.insert(work.operands.end(), {member.parameter, member.gradient});
    if (member.momentum) {
      static_cast<void>(add_node({*member.momentum}, device));
      work.operands.push_back(*member.momentum);
    }
  }
  const SourceLoc loc{kFile, line_of(work.first_result)};
  work.make = [members = step.members, values = options_.values, loc](
                  Evaluation& in, const Tensors& given, std::size_t updated) {
    std::vector<Handles> handles = handles_of(members, given);
    UpdateGroup group(in.device);
    for (std::size_t i = 0; i < updated; ++i) {
      add_to(group, members[i], handles[i], values);
    }
    group.commit().get();
    return results_of(members, std::move(handles), values, loc);
  };
  works_.push_back(std::move(work));
  steps_.push_back(std::move(step));
}

void RandomProgram::update(std::size_t a) {
  if (nodes_[a].tested.dtype() != DType::f32) {
    return apply(random_op("abs"), {a});
  }
  ++coverage_["step"];
  record_step(pick_step(a));
  Step& step = steps_.back();
  Tensors taken;
  for (const std::size_t operand : works_.back().operands) {
    taken.push_back(nodes_[operand].tested);
  }
  std::vector<Handles> handles = handles_of(step.members, taken);
  taken.clear();
  const SourceLoc loc{kFile, line_of(step.members.front().first_result)};
  for (std::size_t i = 0; options_.checks && i < handles.size(); ++i) {
    Tensor& gradient = handles[i].gradient;
    if ((a + i) % 2 == 0) {  // each gradient of a group has its own error cell
      gradient = mul({gradient, loc}, {checked_ones(gradient, loc), loc});
    }
  }
  if (pick(2) == 0) {  // otherwise other handles hold the old ones: their bytes stay
    for (const Step::Member& member : step.members) {
      drop(member.parameter);
      if (member.momentum) {
        drop(*member.momentum);
      }
    }
  }
  std::size_t result = step.members.front().first_result;
  {
    UpdateGroup group(devices_.at(nodes_[a].device), loc);
    for (std::size_t i = 0; i < handles.size(); ++i) {
      add_to(group, step.members[i], handles[i], options_.values);
    }
    if (step.is_committed) {
      step.done = group.commit();
    }
  }
  for (Tensor& made : results_of(step.members, std::move(handles), options_.values, loc)) {
    set(result++, std::move(made));
  }
  if (pick(2) == 0) {
    learn(step);
  }
}

void RandomProgram::learn(Step& step) {
  if (step.is_committed && !step.is_known) {
    const Status status = step.done.wait();
    step.error = status.has_value() ? nullptr : status.shared_error();
  }
  step.is_known = true;
}

}  // namespace hearth::testing
