#include "executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include <hearth/runtime/base/error.hpp>

namespace hearth::onnx {

// The values of one run of one plan. Bodies have frames of their own, inside that of their node.
class Frame final {
 public:
  Frame(const Plan& plan, const RunInputs& run, Frame* outer)
      : plan_(plan), run_(run), outer_(outer), values_(plan.place_count) {}

  [[nodiscard]] const RunInputs& run() const noexcept { return run_; }
  void set(std::size_t place, OnnxValue value) { values_[place] = std::move(value); }
  [[nodiscard]] OnnxValue get(const ValueRef& ref) {
    switch (ref.kind) {
      case ValueRef::Kind::none:
        return {};
      case ValueRef::Kind::local:
        return ref.is_last_use ? std::move(values_[ref.index]) : values_[ref.index];
      case ValueRef::Kind::outer: {
        Frame* frame = this;
        for (int i = 0; i < ref.depth; ++i) {
          frame = frame->outer_;
        }
        return frame->values_[ref.index];
      }
      case ValueRef::Kind::constant:
      default:
        return constant(ref.index);
    }
  }
  [[nodiscard]] const Buffer* buffer(const ValueRef& ref) const noexcept {
    if (ref.kind != ValueRef::Kind::constant) {
      return nullptr;
    }
    const std::int64_t index = run_.program.constants[ref.index].buffer;
    return index < 0 ? nullptr : &run_.buffers[static_cast<std::size_t>(index)];
  }
  void enter(const PlanNode& node) noexcept { node_ = &node; }
  [[nodiscard]] const PlanNode* node() const noexcept { return node_; }

 private:
  [[nodiscard]] OnnxValue constant(std::uint32_t index) const {
    const Constant& constant = run_.program.constants[index];
    OnnxValue value;
    if (constant.parameter >= 0) {
      // The tensor's own type: to_dtype() may have changed it.
      value = OnnxValue(run_.parameters[static_cast<std::size_t>(constant.parameter)]);
    } else if (constant.buffer >= 0) {
      const Buffer& buffer = run_.buffers[static_cast<std::size_t>(constant.buffer)];
      value =
          OnnxValue(Tensor(buffer), is_float(constant.type) ? OnnxType::undefined : constant.type);
    }
    if (constant.host != nullptr) {
      value = value.has_tensor() ? std::move(value) : OnnxValue::on_host(constant.host);
      value.set_host(constant.host);
    }
    return value;
  }

  const Plan& plan_;
  const RunInputs& run_;
  Frame* outer_;
  std::vector<OnnxValue> values_;
  const PlanNode* node_ = nullptr;
};

namespace {

[[noreturn]] void throw_for_node(const Error& mistake, const NodeInfo& node, SourceLoc loc) {
  Error named = mistake;
  named.text = fmt::format("node '{}' ({}{}{}, opset {}): {}",
                           node.name,
                           node.domain,
                           node.domain.empty() ? "" : ".",
                           node.op,
                           node.opset,
                           mistake.text);
  named.op = node.op;
  named.location = loc;
  throw_error(std::move(named));
}

bool is_on_host(const std::vector<OnnxValue>& inputs) {
  return std::ranges::all_of(inputs, [](const OnnxValue& input) {
    return input.is_none() || (input.has_host() && !input.is_sequence());
  });
}

void run_handler(const PlanNode& node, Call& call, bool is_host) {
  const OpRow& row = *node.row;
  if (is_host && row.on_host != nullptr && row.on_host(call)) {
    return;
  }
  if (row.run == nullptr) {
    if (!row.on_host(call)) {
      call.refuse("its elements are too many for the host, at most {} are computed there",
                  kMostHostElements);
    }
    return;
  }
  row.run(call);
}

struct NodeResults {
  std::vector<OnnxValue> values;
  bool has_read = false;
};

NodeResults run_node(const PlanNode& node, Frame& frame, RunContext& context) {
  std::vector<OnnxValue> inputs;
  inputs.reserve(node.inputs.size());
  for (const ValueRef& ref : node.inputs) {
    inputs.push_back(frame.get(ref));
  }
  const bool is_host = node.row->on_host != nullptr && is_on_host(inputs);
  frame.enter(node);
  Call call(node.info, context, frame, std::move(inputs));
  const std::size_t reads_before = context.sync_points;
  try {
    run_handler(node, call, is_host);
  } catch (const ArgumentError& mistake) {
    throw_for_node(mistake.error(), node.info, context.loc);
  }
  const bool has_read = context.sync_points != reads_before || call.is_random();
  return {.values = std::move(call).results(), .has_read = has_read};
}

std::vector<OnnxValue> results_of(const Plan& plan, Frame& frame) {
  std::vector<OnnxValue> results;
  for (const ValueRef& ref : plan.outputs) {
    results.push_back(frame.get(ref));
  }
  return results;
}

void store(const PlanNode& node, std::vector<OnnxValue> results, Frame& frame) {
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] >= 0) {
      frame.set(static_cast<std::size_t>(node.outputs[i]), std::move(results[i]));
    }
  }
}

std::vector<OnnxValue> run_body(const Plan& body,
                                Frame& outer,
                                RunContext& context,
                                std::vector<OnnxValue> inputs) {
  if (inputs.size() != body.inputs.size()) {
    throw_error(Error{
        .code = ErrorCode::invalid_argument,
        .text = fmt::format(
            "its graph has {} inputs, the node gives {}", body.inputs.size(), inputs.size())});
  }
  Frame frame(body, outer.run(), &outer);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    frame.set(i, std::move(inputs[i]));
  }
  for (const PlanNode& node : body.nodes) {
    store(node, run_node(node, frame, context).values, frame);
  }
  return results_of(body, frame);
}

}  // namespace

const Buffer* Call::buffer(std::size_t i) const noexcept {
  const PlanNode* const node = frame_.node();
  return node == nullptr || i >= node->inputs.size() ? nullptr : frame_.buffer(node->inputs[i]);
}

namespace {

// Sets the results of a node from an earlier run. Returns false if one is unknown.
bool set_known(const PlanNode& node, const KnownValues& known, Frame& frame) {
  bool has_result = false;
  for (const std::int64_t output : node.outputs) {
    if (output >= 0) {
      has_result = true;
      if (known[static_cast<std::size_t>(output)] == nullptr) {
        return false;
      }
    }
  }
  for (const std::int64_t output : node.outputs) {
    if (output >= 0) {
      const auto place = static_cast<std::size_t>(output);
      frame.set(place, OnnxValue::on_host(known[place]));
    }
  }
  return has_result;
}

// Runs the main plan and notes the values that later runs with these shapes will have too.
class FirstRun final {
 public:
  explicit FirstRun(std::size_t places) : known_(places), is_read_(places) {}

  void note(const PlanNode& node, bool has_read, const std::vector<OnnxValue>& results) {
    for (const ValueRef& input : node.inputs) {
      has_read = has_read || (input.kind == ValueRef::Kind::local && is_read_[input.index]);
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] < 0) {
        continue;
      }
      const auto place = static_cast<std::size_t>(node.outputs[i]);
      const OnnxValue& result = results[i];
      is_read_[place] = has_read;
      if (!has_read && result.has_host() && !result.has_tensor()) {
        known_[place] = std::make_shared<const HostArray>(result.host());
      }
    }
  }
  [[nodiscard]] KnownValues take() && { return std::move(known_); }

 private:
  KnownValues known_;
  std::vector<bool> is_read_;  // depends on elements that the device computed
};

}  // namespace

RunOutputs run_program(const RunInputs& run, RunContext& context, std::vector<OnnxValue> inputs) {
  context.run_body = run_body;
  const Plan& plan = run.program.plan;
  Frame frame(plan, run, nullptr);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    frame.set(i, std::move(inputs[i]));
  }
  FirstRun first(run.known == nullptr ? plan.place_count : 0);
  for (const PlanNode& node : plan.nodes) {
    if (run.known != nullptr && set_known(node, *run.known, frame)) {
      continue;
    }
    NodeResults done = run_node(node, frame, context);
    if (run.known == nullptr) {
      first.note(node, done.has_read, done.values);
    }
    store(node, std::move(done.values), frame);
  }
  return {.values = results_of(plan, frame), .known = std::move(first).take()};
}

}  // namespace hearth::onnx
