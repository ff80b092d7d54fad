#include "random_program.hpp"

#include <algorithm>
#include <utility>

#include <hearth/runtime/lent_region.hpp>
#include <hearth/runtime/ops.hpp>

namespace hearth::testing {
namespace {

constexpr std::size_t kMostLive = 16;

// Mostly small sizes. Some axes have the length of the one before, so that a line fits along both.
// Some are longer than the pieces in which kernels work.
Shape pick_shape(ByteReader& bytes) {
  constexpr std::array<std::int64_t, 6> kSizes{1, 2, 3, 5, 7, 4};
  constexpr int kSizeChoices = 50;
  constexpr int kLong = 2;
  Shape shape;
  const int rank = (bytes.pick(8) + 1) / 2;
  for (int i = 0; i < rank; ++i) {
    const int size = bytes.pick(kSizeChoices);
    const bool is_last = i + 1 == rank && shape.element_count() <= 8;
    if (size >= kSizeChoices - kLong && is_last) {
      shape.push_back(size % 2 == 0 ? 1100 : 300);
    } else if (size >= kSizeChoices - 2 * kLong && i > 0) {
      shape.push_back(shape[i - 1]);
    } else {
      shape.push_back(size == 0 ? 0 : kSizes.at(static_cast<std::size_t>(size % 6)));
    }
  }
  return shape;
}

}  // namespace

RandomProgram::RandomProgram(std::span<const std::byte> bytes,
                             const std::array<Device, 2>& devices,
                             detail::Executor* executor,
                             const ProgramOptions& options)
    : bytes_(bytes), executor_(executor), devices_(devices), options_(options) {}

void RandomProgram::run() {
  for (int i = 0; i < 3; ++i) {
    make_input(0);
  }
  make_input(1);
  run_threads(options_.restarts ? bytes_.left() / 2 : 0);
  if (options_.restarts) {
    restart();
    run_threads(0);
  }
  read_all();
  read_all();  // a read's failure does not change a value
}

void RandomProgram::run_threads(std::size_t bytes_to_leave) {
  bytes_to_leave_ = bytes_to_leave;
  if (options_.most_threads > 1 && pick(8) != 0) {
    spawn(0);
  }
  take_steps(bytes_to_leave);
  for (std::size_t i = 0; i < threads_.size(); ++i) {  // the last thread may spawn one more
    threads_[i]->join();
  }
  threads_.clear();
  for (Step& step : steps_) {
    learn(step);
  }
}

void RandomProgram::restart() {
  devices_[0].restart();
  ++coverage_["restart"];
  restarted_at_ = observations_.size();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].device == 0 && pick(2) == 0) {
      drop(i);  // otherwise later values would depend on lost ones
    }
  }
  make_input(0);
  make_input(0);
}

void RandomProgram::take_steps(std::size_t bytes_to_leave) {
  std::deque<Stream> streams;
  for (const Device& device : devices_) {
    streams.emplace_back(device);
    streams.emplace_back(device);
  }
  while (bytes_.left() > bytes_to_leave) {
    const auto choice = static_cast<std::size_t>(pick(64));
    if (options_.cancels && choice >= 44) {
      limit(streams[choice % 4]);
    }
    const StreamScope first(streams[choice % 2]);
    const StreamScope second(streams[2 + choice / 2 % 2]);
    step();
  }
}

void RandomProgram::spawn(std::size_t a) {
  if (running_ >= options_.most_threads) {
    return share(a);
  }
  ++running_;
  ++coverage_["thread"];
  if (nodes_[a].has_handle()) {
    // publish() waits for room, and another thread may drop the node's handle meanwhile.
    const Tensor published = nodes_[a].tested;
    published.publish({kFile, line_of(a)});
  }
  threads_.push_back(executor_->spawn({.name = "other"}, [this, a] {
    if (nodes_[a].has_handle()) {
      Tensor given = nodes_[a].tested;
      given.adopt({kFile, line_of(a)});
    }
    take_steps(bytes_to_leave_);
    --running_;
  }));
}

std::size_t RandomProgram::find(const NodePredicate& fits) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].has_handle() && fits(nodes_[i])) {
      found.push_back(i);
    }
  }
  return found.empty() ? nodes_.size()
                       : found[static_cast<std::size_t>(pick(static_cast<int>(found.size())))];
}

std::size_t RandomProgram::find_like(std::size_t a) {
  const std::size_t found = find([&](const Node& node) {
    return node.device == nodes_[a].device && node.tested.shape() == nodes_[a].tested.shape() &&
           node.tested.dtype() == nodes_[a].tested.dtype();
  });
  return found == nodes_.size() ? a : found;
}

std::size_t RandomProgram::add_node(std::vector<std::size_t> operands, std::size_t device) {
  nodes_.push_back({.tested = {},
                    .operands = std::move(operands),
                    .device = device,
                    .is_new = restarted_at_.has_value()});
  return nodes_.size() - 1;
}

void RandomProgram::set(std::size_t i, Tensor made) {
  ++coverage_["dtype " + std::string(name(made.dtype()))];
  ++coverage_["rank " + std::to_string(made.rank())];
  coverage_["size zero"] += made.element_count() == 0 ? 1U : 0U;
  nodes_[i].tested = std::move(made);
  if (static_cast<std::size_t>(std::ranges::count_if(nodes_, &Node::has_handle)) > kMostLive) {
    const std::size_t victim = find([](const Node&) { return true; });
    if (victim != i) {
      drop(victim);
    }
  }
}

void RandomProgram::make_input(std::size_t device) {
  constexpr std::array kTypes{DType::f32,
                              DType::i32,
                              DType::f64,
                              DType::f16,
                              DType::i64,
                              DType::bf16,
                              DType::boolean,
                              DType::i8};
  const bool is_exact = options_.values == Values::exact;
  const Shape shape = pick_shape(bytes_);
  const DType dtype = is_exact ? kTypes.at(static_cast<std::size_t>(pick(8))) : DType::f32;
  const bool is_filled = pick(4) == 0;
  const int seed = pick(256) * 256 + pick(256);
  const std::size_t index = add_node({}, device);
  const SourceLoc loc{kFile, line_of(index)};
  const auto make = [=](const Device& on, const Noise& noise, std::mt19937_64& noise_random) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const auto integer = [&] { return static_cast<double>(random() % 9) - 4; };
    if (is_filled) {
      return full(on, shape, is_exact && dtype != DType::boolean ? integer() : 1, dtype, loc);
    }
    std::uniform_real_distribution<double> disturbance(-noise.scale, noise.scale);
    std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
    for (float& value : values) {
      value = static_cast<float>(is_exact ? integer()
                                          : static_cast<double>(random() >> 11U) * 0x1p-51 - 2);
      if (!is_exact) {
        value *= static_cast<float>(1 + disturbance(noise_random));
      }
    }
    Tensor made = Tensor::from(on, std::move(values), shape, loc);
    return dtype == DType::f32 ? made : cast({std::move(made), loc}, dtype);
  };
  works_.push_back({.operands = {},
                    .first_result = index,
                    .make = [make](Evaluation& in, const Tensors&, std::size_t) {
                      return Tensors{make(in.device, in.noise, in.random)};
                    }});
  std::mt19937_64 unused;
  set(index, make(devices_.at(device), {}, unused));
}

void RandomProgram::step() {
  const std::size_t a = find([](const Node&) { return true; });
  if (a == nodes_.size()) {
    return make_input(pick_device());
  }
  const int choice = pick(32);
  if (choice < 8 && options_.trains) {
    return choice < 4 ? differentiate(a) : update(a);
  }
  if (options_.graphs && choice >= 8 && choice < 13) {
    return draw_graph(a);
  }
  if (choice < 22) {
    return compute(a);
  }
  switch (choice) {
    case 22:
    case 23:
      return make_input(pick_device());
    case 24:
    case 25:
      return cross(a);
    case 26:
    case 27:
      return drop(a);
    case 28:
      return read(a);
    case 29:
      return lend_out(a);
    case 30:
      return options_.most_threads > 1 ? spawn(a) : share(a);
    default:
      return share(a);
  }
}

void RandomProgram::limit(Stream& stream) {
  ++coverage_["limit"];
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
        stops_[static_cast<std::size_t>(
                   pick(static_cast<int>(std::min<std::size_t>(stops_.size(), 256))))]
            .request_stop();
      }
  }
}

// One pair in eight is any two tensors, which the op may have to refuse.
void RandomProgram::compute(std::size_t a) {
  const auto family = static_cast<RandomOp::Family>(pick(4));
  const auto& rows = random_ops(family, options_.values);
  const RandomOp& op = *rows[static_cast<std::size_t>(pick(static_cast<int>(rows.size())))];
  if (op.arity == 1) {
    return apply(op, {a});
  }
  const Tensor first = nodes_[a].tested;
  const bool may_misfit = pick(8) == 0;
  const std::size_t b = find([&](const Node& node) {
    return may_pair(op, first, node.tested) && (may_misfit || must_take(op, first, node.tested));
  });
  if (b == nodes_.size()) {
    return apply(random_op("neg"), {a});
  }
  apply(op, {a, b});
}

void RandomProgram::apply(const RandomOp& op, std::vector<std::size_t> operands) {
  const auto moves = static_cast<unsigned>(pick(4));
  const OpCall::Choices choices{static_cast<std::uint8_t>(pick(256)),
                                static_cast<std::uint8_t>(pick(256)),
                                static_cast<std::uint8_t>(pick(256)),
                                static_cast<std::uint8_t>(pick(256))};
  Tensors tested;
  for (const std::size_t i : operands) {
    // A handle belongs to one thread: ops wait for room, and the other thread runs meanwhile.
    tested.push_back(nodes_[i].tested);
  }
  const bool must = op.arity == 1 || must_take(op, tested[0], tested[1]);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if ((moves >> i & 1U) != 0) {
      drop(operands[i]);
      ++coverage_["moved in"];
    }
  }
  ++coverage_["op " + std::string(op.name)];
  const std::size_t index = add_node(operands, nodes_[operands.front()].device);
  const SourceLoc loc{kFile, line_of(index)};
  const Values values = options_.values;
  Work& work = works_.emplace_back(
      Work{.operands = std::move(operands),
           .first_result = index,
           .make = [&op, loc, choices, values](Evaluation&, const Tensors& given, std::size_t) {
             return Tensors{run_op(op, OpCall(given, loc, 0, choices), values)};
           }});
  std::string refusal;
  Tensor made;
  try {
    made = run_op(op, OpCall(std::move(tested), loc, moves, choices), values);
  } catch (const ArgumentError& refused) {
    work.make = nullptr;
    refusal = refused.error().op.empty() || refused.error().text.empty() ? "without a rule"
                                                                         : refused.error().text;
  }
  judge_refusal(op, must, refusal);
  if (made.is_valid()) {
    set(index, std::move(made));
  }
}

void RandomProgram::judge_refusal(const RandomOp& op, bool must_take, const std::string& why) {
  coverage_["refused"] += why.empty() ? 0U : 1U;
  if (must_take != why.empty() || why == "without a rule") {
    wrong_.push_back(std::string(op.name) +
                     (why.empty() ? " takes what does not fit" : " is refused: " + why));
  }
}

std::size_t RandomProgram::add_copy(std::size_t a, std::size_t device) {
  const std::size_t index = add_node({a}, device);
  works_.push_back({.operands = {a},
                    .first_result = index,
                    .make = [](Evaluation&, const Tensors& given, std::size_t) { return given; }});
  return index;
}

void RandomProgram::cross(std::size_t a) {
  const Tensor tested = nodes_[a].tested;
  const std::size_t to = 1 - nodes_[a].device;
  ++coverage_["copy to a device"];
  const std::size_t index = add_copy(a, to);
  set(index, tested.to(devices_.at(to), {kFile, line_of(index)}));
}

void RandomProgram::lend_out(std::size_t a) {
  Tensor tested = nodes_[a].tested;
  if (pick(2) == 0) {
    drop(a);  // its own bytes are then lent
  }
  ++coverage_["loan"];
  const std::size_t index = add_copy(a, nodes_[a].device);
  const auto give_back = [](Result<LentRegion> region) {
    if (region.has_value()) {
      std::move(region).value().done();
    }
  };
  set(index,
      lend(std::move(tested), give_back, Deadline::in(kDefaultWait), {kFile, line_of(index)}));
}

/// Makes another handle, synchronizes the queue, or changes the home.
void RandomProgram::share(std::size_t a) {
  switch (pick(3)) {
    case 0:
      return set(add_copy(a, nodes_[a].device), nodes_[a].tested);
    case 1:
      ++coverage_["sync"];
      static_cast<void>(devices_[pick_device()].catch_up_later().wait());
      return;
    default: {
      ++coverage_["new home"];
      Tensor alone = std::move(nodes_[a].tested);
      alone.publish({kFile, line_of(a)});
      alone.adopt({kFile, line_of(a)});
      nodes_[a].tested = std::move(alone);
    }
  }
}

void RandomProgram::drop(std::size_t i) {
  nodes_[i].tested = Tensor();
}

void RandomProgram::read(std::size_t i) {
  const Tensor tested = nodes_[i].tested;
  Observation seen{.node = i, .dtype = tested.dtype()};
  try {
    seen.bytes = tested.read_bytes().get();
  } catch (const DeviceError& error) {
    seen.error = error.shared_error();
  } catch (const DeadlineExceeded& error) {
    seen.error = error.shared_error();
  }
  coverage_[seen.error ? "poisoned" : "right"] += 1;
  observations_.push_back(std::move(seen));
}

void RandomProgram::read_all() {
  last_look_ = observations_.size();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].has_handle()) {
      read(i);
    }
  }
}

std::vector<std::size_t> RandomProgram::all_updated() const {
  std::vector<std::size_t> updated;
  for (const Step& step : steps_) {
    updated.push_back(step.is_committed ? step.members.size() : 0);
  }
  return updated;
}

std::vector<Tensor> RandomProgram::expected(const Device& reference,
                                            const std::vector<std::size_t>& updated,
                                            const Noise& noise) const {
  Evaluation in{.device = reference, .noise = noise, .random = std::mt19937_64(noise.seed)};
  Tensors values(nodes_.size());
  for (const Work& work : works_) {
    if (!work.make) {
      continue;
    }
    Tensors operands;
    for (const std::size_t operand : work.operands) {
      operands.push_back(values[operand]);
    }
    std::size_t result = work.first_result;
    for (Tensor& made : work.make(in, operands, work.step ? updated[*work.step] : 0)) {
      values[result++] = std::move(made);
    }
  }
  return values;
}

}  // namespace hearth::testing
