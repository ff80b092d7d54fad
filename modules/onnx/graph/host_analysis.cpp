#include "host_analysis.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace hearth::onnx {
namespace {

// A value is known if no device computes it. Needs flow from the nodes that want elements on the
// host backwards through all known nodes.
class Analysis final {
 public:
  Analysis(std::vector<ConstantSource>& constants, std::vector<OnnxSyncPoint>& sync_points)
      : constants_(constants), sync_points_(sync_points) {}

  void run(Plan& plan) {
    Frame frame{.is_known = std::vector<bool>(plan.place_count, false),
                .is_needed = std::vector<bool>(plan.place_count, false),
                .names = std::vector<std::string>(plan.place_count)};
    for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
      frame.names[i] = plan.inputs[i].name;
    }
    frames_.push_back(std::move(frame));
    find_known(plan);
    for (auto node = plan.nodes.rbegin(); node != plan.nodes.rend(); ++node) {
      visit(*node);
    }
    for (const ValueRef& output : plan.outputs) {
      need_on_device(output);
    }
    find_last_uses(plan);
    frames_.pop_back();
  }

 private:
  struct Frame {
    std::vector<bool> is_known;
    std::vector<bool> is_needed;
    std::vector<std::string> names;
    std::vector<std::uint32_t> captured = {};  // places that bodies use
  };

  Frame& frame_of(const ValueRef& ref) { return frames_[frames_.size() - 1 - ref.depth]; }

  bool is_known(const ValueRef& ref) {
    switch (ref.kind) {
      case ValueRef::Kind::none:
        return true;
      case ValueRef::Kind::constant: {
        const ConstantSource& constant = constants_[ref.index];
        return constant.shape.element_count() <= kMostHostElements;
      }
      default:
        return frame_of(ref).is_known[ref.index];
    }
  }

  void find_known(Plan& plan) {
    Frame& frame = frames_.back();
    for (PlanNode& node : plan.nodes) {
      const bool has_known_inputs = std::ranges::all_of(
          node.inputs, [this](const ValueRef& input) { return is_known(input); });
      node.is_known = node.row->is_known || (node.row->on_host != nullptr && has_known_inputs);
      for (const std::int64_t output : node.outputs) {
        if (output >= 0) {
          frame.is_known[static_cast<std::size_t>(output)] = node.is_known;
          frame.names[static_cast<std::size_t>(output)] = node.info.name;
        }
      }
    }
  }

  void need_on_host(const ValueRef& ref) {
    if (ref.kind == ValueRef::Kind::constant) {
      constants_[ref.index].is_on_host = true;
    } else if (ref.kind != ValueRef::Kind::none) {
      frame_of(ref).is_needed[ref.index] = true;
    }
  }

  void need_on_device(const ValueRef& ref) {
    if (ref.kind == ValueRef::Kind::constant) {
      constants_[ref.index].is_on_device = true;
    }
  }

  void visit(PlanNode& node) {
    for (const Attribute& attribute : node.info.attributes) {
      if (const auto* body = std::get_if<std::shared_ptr<const Plan>>(&attribute.value)) {
        // The plan is not published yet, so no other thread reads the body.
        run(const_cast<Plan&>(**body));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
      }
    }
    const bool is_shape = node.row->is_known;
    const bool is_needed = std::ranges::any_of(node.outputs, [this](std::int64_t output) {
      return output >= 0 && frames_.back().is_needed[static_cast<std::size_t>(output)];
    });
    const InputSet wanted = node.row->run == nullptr ? kAllInputs : node.row->host_inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueRef& input = node.inputs[i];
      const bool is_wanted = i < 32 && ((wanted >> i) & 1U) != 0;
      if (is_shape) {
        need_known(input);  // for its shape alone
        continue;
      }
      const bool is_plain = i < 32 && ((node.row->plain_inputs >> i) & 1U) != 0;
      if (is_wanted) {
        need_on_host(input);
        note_sync_point(node, input);
      } else if (is_plain && is_known(input)) {
        need_on_host(input);
      } else if (node.is_known) {
        // Computed on the host; the elements matter only to later nodes.
        if (is_needed || node.row->run == nullptr) {
          need_on_host(input);
        } else {
          need_known(input);
        }
      } else {
        need_on_device(input);
      }
      if (node.row->op == "BatchNormalization" && i >= 3) {
        note_statistic(input);
      }
    }
  }

  // A known node whose result only devices use: its constants stay on the host too, except weights,
  // which training changes.
  void need_known(const ValueRef& ref) {
    if (ref.kind == ValueRef::Kind::constant && constants_[ref.index].is_initialiser &&
        is_float(constants_[ref.index].type)) {
      constants_[ref.index].is_on_device = true;
    } else {
      need_on_host(ref);
    }
  }

  void note_statistic(const ValueRef& ref) {
    if (ref.kind == ValueRef::Kind::constant) {
      constants_[ref.index].is_statistic = true;
    }
  }

  void note_sync_point(const PlanNode& node, const ValueRef& input) {
    if (input.kind == ValueRef::Kind::constant || is_known(input)) {
      return;
    }
    const bool is_outermost = frames_.size() == input.depth + std::size_t{1};
    sync_points_.push_back({.node = node.info.name,
                            .op = node.info.op,
                            .value = frame_of(input).names[input.index],
                            .is_input = is_outermost && input.index < input_count_});
  }

  void find_last_uses(Plan& plan) {
    std::vector<bool> is_used(plan.place_count, false);
    for (const ValueRef& output : plan.outputs) {
      if (output.kind == ValueRef::Kind::local) {
        is_used[output.index] = true;
      }
    }
    for (const std::uint32_t place : frames_.back().captured) {
      is_used[place] = true;  // a body may run again
    }
    for (auto node = plan.nodes.rbegin(); node != plan.nodes.rend(); ++node) {
      for (auto input = node->inputs.rbegin(); input != node->inputs.rend(); ++input) {
        if (input->kind == ValueRef::Kind::local) {
          input->is_last_use = !is_used[input->index];
          is_used[input->index] = true;
        }
      }
    }
    note_captures(plan);
  }

  void note_captures(const Plan& plan) {
    const auto note = [this](const ValueRef& ref) {
      if (ref.kind == ValueRef::Kind::outer) {
        frame_of(ref).captured.push_back(ref.index);
      }
    };
    for (const PlanNode& node : plan.nodes) {
      std::ranges::for_each(node.inputs, note);
    }
    std::ranges::for_each(plan.outputs, note);
  }

 public:
  void set_input_count(std::size_t count) noexcept { input_count_ = count; }

 private:
  std::vector<ConstantSource>& constants_;
  std::vector<OnnxSyncPoint>& sync_points_;
  std::vector<Frame> frames_;
  std::size_t input_count_ = 0;
};

}  // namespace

std::vector<OnnxSyncPoint> analyse_hosts(Plan& plan, std::vector<ConstantSource>& constants) {
  std::vector<OnnxSyncPoint> sync_points;
  Analysis analysis(constants, sync_points);
  analysis.set_input_count(plan.inputs.size());
  analysis.run(plan);
  std::ranges::reverse(sync_points);
  return sync_points;
}

}  // namespace hearth::onnx
