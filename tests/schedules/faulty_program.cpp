#include "faulty_program.hpp"

#include <string>
#include <utility>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/stream.hpp>

namespace hearth::testing {
namespace {

/// The operands inside an op, each with the node's line; the last one may be consumed.
struct InOp {
  std::vector<Tensor>& tensors;
  SourceLoc loc;
  bool moves;

  [[nodiscard]] Arg operator()(std::size_t i) const {
    return moves && i + 1 == tensors.size() ? Arg(std::move(tensors[i]), loc)
                                            : Arg(tensors[i], loc);
  }
  [[nodiscard]] Arg number(double value) const { return {value, loc}; }
  [[nodiscard]] const Shape& shape(std::size_t i) const { return tensors[i].shape(); }
};

}  // namespace

FaultyProgram::FaultyProgram(const std::array<Device, 2>& devices,
                             ManualExecutor& executor,
                             const FaultyProgramOptions& options)
    : executor_(executor), devices_(devices), options_(options), random_(options.seed) {}

void FaultyProgram::run() {
  for (int i = 0; i < 3; ++i) {
    make_input(0);
  }
  make_input(1);
  run_threads();
  if (options_.restarts) {
    restart();
    run_threads();
  }
  read_all();
  read_all();  // what a read has met does not change it
}

void FaultyProgram::run_threads() {
  const auto other = executor_.spawn({.name = "other"}, [this] { take_steps(); });
  take_steps();
  other->join();
  for (Step& step : steps_) {
    learn(step);
  }
}

void FaultyProgram::restart() {
  devices_[0].restart();
  restarted_at_ = observations_.size();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].device == 0 && pick(2) == 0) {
      drop(i);  // else what comes now would be made of lost ones
    }
  }
  make_input(0);
  make_input(0);
}

void FaultyProgram::take_steps() {
  std::deque<Stream> streams;
  for (const Device& device : devices_) {
    streams.emplace_back(device);
    streams.emplace_back(device);
  }
  const int steps = 4 + pick(24);
  for (int i = 0; i < steps; ++i) {
    if (options_.gives_up && pick(3) == 0) {
      limit(streams[static_cast<std::size_t>(pick(4))]);
    }
    const StreamScope first(streams[static_cast<std::size_t>(pick(2))]);
    const StreamScope second(streams[static_cast<std::size_t>(2 + pick(2))]);
    step();
  }
}

/// Runs op(operand...). One operand in four is moved in, which may reuse its bytes.
template <class Op>
void FaultyProgram::apply(std::vector<std::size_t> operands, const Op& op) {
  Tensors tested;
  const std::size_t device = nodes_[operands.front()].device;
  for (const std::size_t i : operands) {
    // A handle is one thread's: ops wait for room, and then the other thread goes on.
    tested.push_back(nodes_[i].tested);
  }
  const bool moves = pick(4) == 0;
  if (moves) {
    drop(operands.back());
  }
  const std::size_t index = add_node(operands, device);
  const SourceLoc loc{kFile, line_of(index)};
  works_.push_back({.operands = std::move(operands),
                    .first_result = index,
                    .make = [op, loc](const Device&, const Tensors& given, std::size_t) {
                      Tensors copies = given;
                      return Tensors{op(InOp{copies, loc, false})};
                    }});
  Tensor made = op(InOp{tested, loc, moves});
  nodes_[index].tested = std::move(made);
}

std::size_t FaultyProgram::add_node(std::vector<std::size_t> operands, std::size_t device) {
  nodes_.push_back({.tested = {},
                    .operands = std::move(operands),
                    .device = device,
                    .is_new = restarted_at_.has_value()});
  return nodes_.size() - 1;
}

std::vector<Tensor> FaultyProgram::expected(const Device& reference,
                                            const std::vector<std::size_t>& updated) const {
  Tensors values(nodes_.size());
  for (const Work& work : works_) {
    Tensors operands;
    for (const std::size_t operand : work.operands) {
      operands.push_back(values[operand]);
    }
    std::size_t result = work.first_result;
    for (Tensor& made : work.make(reference, operands, work.step ? updated[*work.step] : 0)) {
      values[result++] = std::move(made);
    }
  }
  return values;
}

void FaultyProgram::make_input(std::size_t device) {
  static constexpr std::array<std::int64_t, 5> kSizes{1, 2, 3, 4, 7};
  const Shape shape{kSizes.at(static_cast<std::size_t>(pick(5))),
                    kSizes.at(static_cast<std::size_t>(pick(5)))};
  std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
  for (float& value : values) {
    value = static_cast<float>(pick(2001) - 1000) / 256;
  }
  const std::size_t index = add_node({}, device);
  works_.push_back({.operands = {},
                    .first_result = index,
                    .make = [values, shape](const Device& on, const Tensors&, std::size_t) {
                      return Tensors{Tensor::from(on, values, shape)};
                    }});
  Tensor made = Tensor::from(devices_.at(device), values, shape, {kFile, line_of(index)});
  nodes_[index].tested = std::move(made);
}

void FaultyProgram::step() {
  const std::size_t a = find([](const Node&) { return true; });
  if (a == nodes_.size()) {
    return make_input(static_cast<std::size_t>(pick(2)));
  }
  if (options_.trains && pick(3) == 0) {
    return pick(2) == 0 ? differentiate(a) : update(a);
  }
  switch (pick(12)) {
    case 0:
      return make_input(static_cast<std::size_t>(pick(2)));
    case 1:
    case 2:
      return unary(a);
    case 3:
    case 4:
      return binary(a);
    case 5:
      return view(a);
    case 6:
      return reduce(a);
    case 7:
      return product(a);
    case 8:
      return select(a);
    case 9:
      return cross(a);
    case 10:
      return drop(a);
    default:
      return read(a);
  }
}

void FaultyProgram::limit(Stream& stream) {
  switch (pick(5)) {
    case 0:
      return stream.cancel();
    case 1:
      return stream.set_limits({});
    case 2:
      return stream.set_limits({.deadline = Deadline::in(std::chrono::microseconds(pick(3)))});
    case 3:
      return stream.set_limits({.stop = stops_.emplace_back().get_token()});
    default:
      if (!stops_.empty()) {
        stops_[static_cast<std::size_t>(pick(static_cast<int>(stops_.size())))].request_stop();
      }
  }
}

void FaultyProgram::unary(std::size_t a) {
  switch (pick(6)) {
    case 0:
      return apply({a}, [](const InOp& in) { return tanh(in(0)); });
    case 1:
      return apply({a}, [](const InOp& in) { return -in(0); });
    case 2:
      return apply({a}, [](const InOp& in) { return relu(in(0)); });
    case 3:
      return apply({a}, [](const InOp& in) { return sigmoid(in(0)); });
    case 4:
      return apply({a}, [](const InOp& in) { return mul(in(0), in.number(0.25)); });
    default:
      return apply({a}, [](const InOp& in) { return softmax(in(0), 1); });
  }
}

void FaultyProgram::binary(std::size_t a) {
  const std::size_t b = find([&](const Node& node) {
    return node.device == nodes_[a].device &&
           broadcast(node.tested.shape(), nodes_[a].tested.shape()).has_value();
  });
  if (b == nodes_.size()) {
    return unary(a);
  }
  switch (pick(4)) {
    case 0:
      return apply({a, b}, [](const InOp& in) { return add(in(0), in(1)); });
    case 1:
      return apply({a, b}, [](const InOp& in) { return sub(in(0), in(1)); });
    case 2:
      return apply({a, b}, [](const InOp& in) { return maximum(in(0), in(1)); });
    default:
      return apply({a, b}, [](const InOp& in) { return mul(in(0), in(1)); });
  }
}

void FaultyProgram::view(std::size_t a) {
  switch (pick(5)) {
    case 0:
    case 1:
      return apply({a}, [](const InOp& in) { return transpose(in(0)); });
    case 2:
      return apply({a}, [](const InOp& in) {
        const Shape turned{in.shape(0)[1], in.shape(0)[0]};
        return reshape(in(0), turned.dims());
      });
    case 3:
      return apply({a}, [](const InOp& in) { return slice(in(0), 1, {.step = -1}); });
    default:
      return apply({a}, [](const InOp& in) { return contiguous(in(0)); });
  }
}

void FaultyProgram::reduce(std::size_t a) {
  const int axis = pick(2);
  if (pick(2) == 0) {
    return apply({a}, [axis](const InOp& in) { return max(in(0), {axis}, true); });
  }
  apply({a}, [axis](const InOp& in) { return mean(in(0), {axis}, true); });
}

void FaultyProgram::product(std::size_t a) {
  const std::size_t b = find([&](const Node& node) {
    return node.device == nodes_[a].device && node.tested.shape()[0] == nodes_[a].tested.shape()[1];
  });
  if (b == nodes_.size()) {
    return unary(a);
  }
  apply({a, b}, [](const InOp& in) { return matmul(in(0), in(1)); });
}

void FaultyProgram::select(std::size_t a) {
  const std::size_t b = find([&](const Node& node) {
    return node.device == nodes_[a].device && node.tested.shape() == nodes_[a].tested.shape();
  });
  if (b == nodes_.size()) {
    return unary(a);
  }
  apply({a, b}, [](const InOp& in) {
    const Tensor is_positive = greater(Arg(in.tensors[0], in.loc), in.number(0));
    return where(Arg(is_positive, in.loc), in(0), in(1));
  });
}

void FaultyProgram::cross(std::size_t a) {
  const Tensor tested = nodes_[a].tested;
  const std::size_t to = 1 - nodes_[a].device;
  const std::size_t index = add_node({a}, to);
  works_.push_back(
      {.operands = {a},
       .first_result = index,
       .make = [](const Device&, const Tensors& given, std::size_t) { return given; }});
  Tensor made = tested.to(devices_.at(to), {kFile, line_of(index)});
  nodes_[index].tested = std::move(made);
}

std::size_t FaultyProgram::find_like(std::size_t a) {
  const std::size_t found = find([&](const Node& node) {
    return node.device == nodes_[a].device && node.tested.shape() == nodes_[a].tested.shape();
  });
  return found == nodes_.size() ? a : found;
}

void FaultyProgram::drop(std::size_t i) {
  nodes_[i].tested = Tensor();
}

void FaultyProgram::read(std::size_t i) {
  const Tensor tested = nodes_[i].tested;
  Observation seen{.node = i};
  try {
    seen.bytes = tested.read_bytes().get();
  } catch (const DeviceError& error) {
    seen.error = error.shared_error();
  } catch (const DeadlineExceeded& error) {
    seen.error = error.shared_error();
  }
  observations_.push_back(std::move(seen));
}

void FaultyProgram::read_all() {
  last_look_ = observations_.size();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].has_handle()) {
      read(i);
    }
  }
}

}  // namespace hearth::testing
