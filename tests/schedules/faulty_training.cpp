// Sweeps and optimizer steps of a faulty program.
#include "faulty_program.hpp"

#include <algorithm>
#include <utility>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/update_group.hpp>

namespace hearth::testing {
namespace {

constexpr SgdUpdate kPlain{.learning_rate = 0.25};
constexpr SgdUpdate kMomentum{.learning_rate = 0.25, .momentum = 0.5};

/// A loss of the leaves, as the recipe says.
Tensor loss_of(const std::vector<Tensor>& leaves, const std::vector<int>& recipe, SourceLoc loc) {
  const auto arg = [loc](const Tensor& x) { return Arg(x, loc); };
  Tensor x = leaves.front();
  for (const int step : recipe) {
    const Tensor& y = leaves[static_cast<std::size_t>(step / 8) % leaves.size()];
    switch (step % 8) {
      case 0:
        x = tanh(arg(x));
        break;
      case 1:
        x = mul(arg(x), arg(y));
        break;
      case 2:
        x = add(arg(x), arg(y));
        break;
      case 3:
        x = sub(arg(y), arg(x));
        break;
      case 4:
        x = softmax(arg(x), 1);
        break;
      case 5:
        x = matmul(arg(matmul(arg(x), arg(transpose(arg(y))))), arg(y));
        break;
      case 6:
        x = mul(arg(transpose(arg(tanh(arg(transpose(arg(x))))))), Arg(0.5, loc));
        break;
      default:
        x = relu(arg(x));
    }
  }
  return mean(arg(x));
}

/// The tensors of one member.
struct Handles {
  Tensor parameter, gradient, momentum;
};

void add_to(UpdateGroup& group, const Step::Member& member, Handles& handles) {
  group.sgd(handles.parameter,
            std::move(handles.gradient),
            handles.momentum,
            member.momentum ? kMomentum : kPlain);
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
                               std::vector<Handles> handles) {
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < members.size(); ++i) {
    results.push_back(std::move(handles[i].parameter));
    if (members[i].momentum) {
      results.push_back(std::move(handles[i].momentum));
    }
  }
  return results;
}

}  // namespace

void FaultyProgram::differentiate(std::size_t a) {
  std::vector<std::size_t> leaves{a};
  for (int more = pick(3); more > 0; --more) {
    leaves.push_back(find_like(a));
  }
  std::vector<int> recipe;
  for (int ops = 1 + pick(5); ops > 0; --ops) {
    recipe.push_back(pick(48));
  }
  Tensors tested;
  for (const std::size_t leaf : leaves) {
    tested.push_back(nodes_[leaf].tested);
  }
  const std::size_t first = nodes_.size();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    nodes_[add_node(leaves, nodes_[a].device)].is_gradient = true;
  }
  const SourceLoc loc{kFile, line_of(first)};
  const auto sweep = [recipe, loc](const Tensors& inputs) {
    return grad([&](const Tensors& tracked) { return loss_of(tracked, recipe, loc); }, inputs, loc);
  };
  works_.push_back(
      {.operands = std::move(leaves),
       .first_result = first,
       .make = [sweep](const Device&, const Tensors& given, std::size_t) { return sweep(given); }});
  Tensors made = sweep(tested);
  for (std::size_t i = 0; i < made.size(); ++i) {
    nodes_[first + i].tested = std::move(made[i]);
  }
}

Step FaultyProgram::pick_step(std::size_t a) {
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
    const std::size_t b = find([&](const Node& node) { return node.device == nodes_[a].device; });
    if (b != nodes_.size() && is_free(b)) {
      add(b);
    }
  }
  return step;
}

void FaultyProgram::note_step(Step step) {
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
  work.make = [members = step.members](
                  const Device& on, const Tensors& given, std::size_t updated) {
    std::vector<Handles> handles = handles_of(members, given);
    UpdateGroup group(on);
    for (std::size_t i = 0; i < updated; ++i) {
      add_to(group, members[i], handles[i]);
    }
    group.commit().get();
    return results_of(members, std::move(handles));
  };
  works_.push_back(std::move(work));
  steps_.push_back(std::move(step));
}

void FaultyProgram::update(std::size_t a) {
  note_step(pick_step(a));
  Step& step = steps_.back();
  Tensors taken;
  for (const std::size_t operand : works_.back().operands) {
    taken.push_back(nodes_[operand].tested);
  }
  std::vector<Handles> handles = handles_of(step.members, taken);
  taken.clear();
  if (pick(2) == 0) {  // else others hold the old ones: their bytes stay
    for (const Step::Member& member : step.members) {
      drop(member.parameter);
      if (member.momentum) {
        drop(*member.momentum);
      }
    }
  }
  std::size_t result = step.members.front().first_result;
  {
    UpdateGroup group(devices_.at(nodes_[a].device), {kFile, line_of(result)});
    for (std::size_t i = 0; i < handles.size(); ++i) {
      add_to(group, step.members[i], handles[i]);
    }
    if (step.is_committed) {
      step.done = group.commit();
    }
  }
  for (Tensor& made : results_of(step.members, std::move(handles))) {
    nodes_[result++].tested = std::move(made);
  }
  if (pick(2) == 0) {
    learn(step);
  }
}

void FaultyProgram::learn(Step& step) {
  if (step.is_committed && !step.is_known) {
    const Status status = step.done.wait();
    step.error = status.has_value() ? nullptr : status.shared_error();
  }
  step.is_known = true;
}

}  // namespace hearth::testing
