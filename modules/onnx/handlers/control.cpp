// Control flow: bodies run as plans of their own, inside the frame of their node.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace hearth::onnx {
namespace control_ops {
namespace {

std::string check_if(const NodeInfo& node) {
  return node.has("then_branch") && node.has("else_branch") ? "" : "a branch is missing";
}

void branch(Call& call) {
  const bool is_true = call.integer(0) != 0;
  std::vector<OnnxValue> results = call.run_body(is_true ? "then_branch" : "else_branch", {});
  for (std::size_t i = 0; i < results.size(); ++i) {
    call.give(i, std::move(results[i]));
  }
}

std::string check_body(const NodeInfo& node) {
  return node.has("body") ? "" : "attribute body is missing";
}

// Values of all iterations, stacked along a new axis.
class Scanned final {
 public:
  explicit Scanned(std::size_t count) : values_(count) {}

  void add(std::size_t i, OnnxValue value) {
    if (i < values_.size()) {
      values_[i].push_back(std::move(value));
    }
  }
  // Requires all values of output i on the device, or all on the host.
  [[nodiscard]] OnnxValue stacked(Call& call, std::size_t i, int axis, bool is_reverse) {
    std::vector<Tensor> parts;
    OnnxType type = OnnxType::f32;
    for (OnnxValue& value : values_[i]) {
      type = value.type();
      parts.push_back(value.has_tensor() ? value.tensor()
                                         : upload(value.host(), call.device(), call.context().loc));
    }
    if (parts.empty()) {
      return {zeros(call.device(), {0}), OnnxType::undefined};
    }
    if (is_reverse) {
      std::ranges::reverse(parts);
    }
    return {stack(parts, axis), type};
  }

 private:
  std::vector<std::vector<OnnxValue>> values_;
};

bool is_true(Call& call, const OnnxValue& condition) {
  if (condition.has_host()) {
    return integers_of(condition.host()).at(0) != 0;
  }
  ++call.context().sync_points;
  const HostArray read =
      download(condition.tensor(), condition.type(), call.context().wait, call.context().loc);
  return integers_of(read).at(0) != 0;
}

// One iteration. The body takes iteration, condition and carried values, and gives condition,
// carried values and scanned ones. Returns whether the loop goes on.
bool iterate(Call& call, std::int64_t trip, std::vector<OnnxValue>& carried, Scanned& scanned) {
  const std::size_t count = carried.size();
  std::vector<OnnxValue> arguments{OnnxValue(host_integers({trip}, Shape{})),
                                   OnnxValue(host_integers({1}, Shape{}, OnnxType::boolean))};
  std::ranges::move(carried, std::back_inserter(arguments));
  std::vector<OnnxValue> results = call.run_body("body", std::move(arguments));
  if (results.size() < 1 + count) {
    call.refuse("its body has {} results for {} carried values", results.size(), count);
  }
  for (std::size_t i = 0; i < count; ++i) {
    carried[i] = std::move(results[i + 1]);
  }
  for (std::size_t i = 1 + count; i < results.size(); ++i) {
    scanned.add(i - 1 - count, std::move(results[i]));
  }
  return is_true(call, results[0]);
}

// Inputs: trip count, condition, carried values.
void loop(Call& call) {
  const std::int64_t trips =
      call.has(0) ? call.integer(0) : std::numeric_limits<std::int64_t>::max();
  bool goes_on = !call.has(1) || call.integer(1) != 0;
  std::vector<OnnxValue> carried;
  for (std::size_t i = 2; i < call.count(); ++i) {
    carried.push_back(call.value(i));
  }
  const std::size_t count = carried.size();
  const std::size_t outputs = call.node().is_wanted.size();
  Scanned scanned(outputs > count ? outputs - count : 0);
  for (std::int64_t trip = 0; trip < trips && goes_on; ++trip) {
    goes_on = iterate(call, trip, carried, scanned);
  }
  for (std::size_t i = 0; i < count; ++i) {
    call.give(i, std::move(carried[i]));
  }
  for (std::size_t i = count; i < outputs; ++i) {
    if (call.wants(i)) {
      call.give(i, scanned.stacked(call, i - count, 0, false));
    }
  }
}

Sizes attribute_or_zeros(const Call& call, std::string_view name, std::size_t count) {
  const Sizes* const given = call.node().integers(name);
  return given == nullptr ? Sizes(count, 0) : *given;
}

// One run of a Scan over the inputs from `first` on.
void scan_over(Call& call,
               std::vector<OnnxValue> inputs,
               std::size_t state_count,
               std::int64_t length,
               std::vector<OnnxValue>& results) {
  const std::size_t scan_count = inputs.size() - state_count;
  const std::size_t outputs = call.node().is_wanted.size();
  const bool is_old = call.opset() < 9;
  const Sizes axes = attribute_or_zeros(call, "scan_input_axes", scan_count);
  const Sizes backwards =
      attribute_or_zeros(call, is_old ? "directions" : "scan_input_directions", scan_count);
  const Sizes out_axes = attribute_or_zeros(call, "scan_output_axes", outputs - state_count);
  const Sizes out_backwards =
      attribute_or_zeros(call, "scan_output_directions", outputs - state_count);
  std::vector<OnnxValue> state(inputs.begin(),
                               inputs.begin() + static_cast<std::ptrdiff_t>(state_count));
  Scanned scanned(outputs - state_count);
  for (std::int64_t step = 0; step < length; ++step) {
    std::vector<OnnxValue> arguments = std::move(state);
    for (std::size_t i = 0; i < scan_count; ++i) {
      const OnnxValue& from = inputs[state_count + i];
      const Tensor& x = from.tensor();
      const int axis = call.axis(axes[i], x.rank());
      const std::int64_t at = backwards[i] != 0 ? length - 1 - step : step;
      Tensor part = slice(x, axis, {.start = at, .stop = at + 1});
      arguments.emplace_back(squeeze(std::move(part), axis), from.type());
    }
    std::vector<OnnxValue> given = call.run_body("body", std::move(arguments));
    if (given.size() != outputs) {
      call.refuse("its body has {} results, the node {}", given.size(), outputs);
    }
    state.assign(std::make_move_iterator(given.begin()),
                 std::make_move_iterator(given.begin() + static_cast<std::ptrdiff_t>(state_count)));
    for (std::size_t i = state_count; i < outputs; ++i) {
      scanned.add(i - state_count, std::move(given[i]));
    }
  }
  results = std::move(state);
  for (std::size_t i = 0; i < outputs - state_count; ++i) {
    // A negative axis counts from the end of the stacked result.
    const int axis = static_cast<int>(out_axes[i]);
    results.push_back(scanned.stacked(call, i, axis, out_backwards[i] != 0));
  }
}

std::string check_scan(const NodeInfo& node) {
  if (const std::string why = check_body(node); !why.empty()) {
    return why;
  }
  const std::int64_t count = node.integer("num_scan_inputs", 0);
  return count >= 1 && count <= static_cast<std::int64_t>(node.input_count)
             ? ""
             : fmt::format("num_scan_inputs is {} of {} inputs", count, node.input_count);
}

void scan(Call& call) {
  const auto scan_count = static_cast<std::size_t>(call.node().integer("num_scan_inputs", 0));
  const std::size_t state_count = call.count() - scan_count;
  std::vector<OnnxValue> inputs;
  for (std::size_t i = 0; i < call.count(); ++i) {
    if (i >= state_count) {
      static_cast<void>(call.tensor(i));
    }
    inputs.push_back(call.value(i));
  }
  const Sizes axes = attribute_or_zeros(call, "scan_input_axes", scan_count);
  const std::int64_t length =
      inputs[state_count].shape()[call.axis(axes[0], inputs[state_count].shape().rank())];
  std::vector<OnnxValue> results;
  scan_over(call, std::move(inputs), state_count, length, results);
  for (std::size_t i = 0; i < results.size(); ++i) {
    call.give(i, std::move(results[i]));
  }
}

// Opset 8: input 0 has the lengths, and axis 0 of all others is a batch.
void batched_scan(Call& call) {
  const auto scan_count = static_cast<std::size_t>(call.node().integer("num_scan_inputs", 0));
  const std::size_t state_count = call.count() - 1 - scan_count;
  if (call.has(0)) {
    call.refuse("lengths of sequences in opset 8 are not supported");
  }
  const std::int64_t batch = call.shape(1)[0];
  std::vector<std::vector<Tensor>> all(call.node().is_wanted.size());
  for (std::int64_t row = 0; row < batch; ++row) {
    std::vector<OnnxValue> inputs;
    for (std::size_t i = 1; i < call.count(); ++i) {
      Tensor part = slice(call.tensor(i), 0, {.start = row, .stop = row + 1});
      inputs.emplace_back(squeeze(std::move(part), 0), call.type(i));
    }
    const std::int64_t length = inputs[state_count].shape()[0];
    std::vector<OnnxValue> results;
    scan_over(call, std::move(inputs), state_count, length, results);
    for (std::size_t i = 0; i < results.size(); ++i) {
      all[i].push_back(results[i].tensor());
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    call.give(i, OnnxValue(stack(all[i], 0)));
  }
}

// Runs the body for each place of the sequences; other inputs are given whole.
void map_sequence(Call& call) {
  const std::size_t count = call.value(0).items().size();
  std::vector<std::vector<OnnxValue>> results(call.node().is_wanted.size());
  for (std::size_t at = 0; at < count; ++at) {
    std::vector<OnnxValue> arguments;
    for (std::size_t i = 0; i < call.count(); ++i) {
      const OnnxValue& value = call.value(i);
      arguments.push_back(value.is_sequence() ? value.items().at(at) : value);
    }
    std::vector<OnnxValue> given = call.run_body("body", std::move(arguments));
    for (std::size_t i = 0; i < std::min(given.size(), results.size()); ++i) {
      results[i].push_back(std::move(given[i]));
    }
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const OnnxType type = results[i].empty() ? call.type(0) : results[i].front().type();
    call.give(i, OnnxValue::sequence(std::move(results[i]), type));
  }
}

constexpr OpRow kRows[] = {
    {.op = "If", .run = branch, .host_inputs = inputs(0), .check = check_if},
    {.op = "Loop", .run = loop, .host_inputs = inputs(0, 1), .check = check_body},
    {.op = "Scan", .since = 8, .run = batched_scan, .check = check_scan},
    {.op = "Scan", .since = 9, .run = scan, .check = check_scan},
    {.op = "SequenceMap", .since = 17, .run = map_sequence, .check = check_body},
};

}  // namespace
}  // namespace control_ops

std::span<const OpRow> control_rows() {
  return control_ops::kRows;
}

}  // namespace hearth::onnx
