#include "memory_blocks.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/chrome_trace.hpp>

namespace hearth::bench {
namespace {

/// Walks a trace once and classifies each tensor.
class Judge {
 public:
  explicit Judge(const MemoryTrace& trace)
      : trace_(trace), ends_(trace.size(), 2 * trace.size() + kSoon) {
    std::map<std::uint64_t, std::size_t> begins;
    for (std::size_t i = 0; i < trace.size(); ++i) {
      const MemoryEvent& event = trace[i];
      if (event.what != MemoryEvent::What::made && begins.contains(event.block)) {
        ends_[begins.at(event.block)] = i;
      }
      begins[event.block] = i;
      if (event.tensor.is_exclusive) {
        paths_.insert(event.tensor.origin.module_path);
        sizes_[layer_of_tensor(event.tensor)].insert(event.tensor.size_bytes);
        has_updates_ = has_updates_ || is_update(event);
      }
    }
  }

  /// Must be called in the order of events.
  [[nodiscard]] BlockKind kind_of(std::size_t event) {
    const LiveTensor& tensor = trace_[event].tensor;
    if (tensor.is_exclusive) {
      if (is_update(trace_[event])) {
        layers_met_.clear();  // an update ends a step
      }
      return kind_of_state(tensor.origin.module_path);
    }
    if (tensor.origin.op == "upload") {
      return BlockKind::inputs;
    }
    if (is_gradient(tensor)) {
      return BlockKind::gradients;
    }
    return ends_[event] - event > kSoon ? BlockKind::activations : BlockKind::temporaries;
  }

 private:
  /// A long-lived tensor that did not exist at the beginning.
  [[nodiscard]] bool is_update(const MemoryEvent& event) const {
    return event.tensor.is_exclusive && event.time != trace_.front().time;
  }
  static std::string layer_of_tensor(const LiveTensor& tensor) {
    return std::string(layer_of(tensor.origin.module_path));
  }

  // "mean.x" is optimizer state if there is an "x": a layer may be called mean.
  [[nodiscard]] BlockKind kind_of_state(std::string_view path) const {
    const std::pair<std::string_view, BlockKind> states[] = {
        {"mean.", BlockKind::optimizer_mean},
        {"variance.", BlockKind::optimizer_variance},
        {"momentum.", BlockKind::optimizer_state}};
    for (const auto& [prefix, kind] : states) {
      if (path.starts_with(prefix) && paths_.contains(std::string(path.substr(prefix.size())))) {
        return kind;
      }
    }
    return BlockKind::parameters;
  }

  // Gradients are results of backward ops, and flat, joined tensors without a layer, which devices
  // exchange. A product or sum with as many bytes as a weight of its layer is that weight's
  // gradient. The layer's first result in the step is excepted. Without updates only results of
  // backward ops are gradients.
  [[nodiscard]] bool is_gradient(const LiveTensor& tensor) {
    const TensorOrigin& origin = tensor.origin;
    const bool is_flat = origin.type.find(',') == std::string::npos;
    const bool is_joined = origin.op == "lend" || origin.op == "concat";
    if (origin.op.find("_backward") != std::string::npos ||
        (has_updates_ && is_joined && is_flat && origin.module_path.empty())) {
      return true;
    }
    if (origin.module_path.empty() || !has_updates_) {
      return false;
    }
    const std::string layer = layer_of_tensor(tensor);
    const bool is_first = layers_met_.insert(layer).second;
    const auto sizes = sizes_.find(layer);
    return !is_first && sizes != sizes_.end() && sizes->second.contains(tensor.size_bytes);
  }

  const MemoryTrace& trace_;
  std::vector<std::size_t> ends_;  // by the event that made a tensor: its end, or a far event
  std::set<std::string> paths_;    // of long-lived tensors
  std::map<std::string, std::set<std::int64_t>> sizes_;  // of a layer's weights
  std::set<std::string> layers_met_;                     // in this step
  bool has_updates_ = false;
};

}  // namespace

std::string_view name_of(BlockKind kind) noexcept {
  switch (kind) {
    case BlockKind::parameters:
      return "parameters";
    case BlockKind::optimizer_mean:
      return "optimizer mean";
    case BlockKind::optimizer_variance:
      return "optimizer variance";
    case BlockKind::optimizer_state:
      return "optimizer momentum";
    case BlockKind::inputs:
      return "inputs";
    case BlockKind::activations:
      return "activations";
    case BlockKind::gradients:
      return "gradients";
    case BlockKind::temporaries:
      return "temporaries";
  }
  return "";
}

std::string name_of(const LiveTensor& tensor) {
  const TensorOrigin& origin = tensor.origin;
  if (origin.module_path.empty()) {
    return origin.op;
  }
  return tensor.is_exclusive ? origin.module_path
                             : fmt::format("{} of {}", origin.op, layer_of(origin.module_path));
}

std::string place_of(const LiveTensor& tensor) {
  const SourceLoc location = tensor.origin.location;
  if (location.line == 0) {
    return {};
  }
  const std::string_view file = location.file;
  return fmt::format("{}:{}", file.substr(file.find_last_of('/') + 1), location.line);
}

MemoryBlocks blocks_of(const MemoryTrace& trace) {
  Judge judge(trace);
  std::map<std::tuple<BlockKind, std::string, std::string, std::string>, std::size_t> known;
  MemoryBlocks blocks;
  blocks.by_event.assign(trace.size(), 0);
  for (std::size_t i = 0; i < trace.size(); ++i) {
    if (trace[i].what == MemoryEvent::What::freed) {
      continue;
    }
    const LiveTensor& tensor = trace[i].tensor;
    const BlockKind kind = judge.kind_of(i);
    // A program makes long-lived tensors on other lines than its updates.
    const auto [place, is_new] = known.try_emplace(
        {kind, name_of(tensor), tensor.origin.type, lives_long(kind) ? "" : place_of(tensor)},
        blocks.groups.size());
    if (is_new) {
      blocks.groups.push_back({.kind = kind, .tensor = tensor, .first_event = i});
    }
    blocks.groups[place->second].count += 1;
    blocks.by_event[i] = place->second;
  }
  std::vector<std::size_t> order(blocks.groups.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t group) {
    return blocks.groups[group].tensor.size_bytes;
  });
  std::vector<BlockGroup> sorted(order.size());
  std::vector<std::size_t> numbers(order.size());
  for (std::size_t number = 0; number < order.size(); ++number) {
    numbers[order[number]] = number;
    sorted[number] = std::move(blocks.groups[order[number]]);
  }
  blocks.groups = std::move(sorted);
  for (std::size_t i = 0; i < trace.size(); ++i) {
    if (trace[i].what != MemoryEvent::What::freed) {
      blocks.by_event[i] = numbers[blocks.by_event[i]];
    }
  }
  return blocks;
}

}  // namespace hearth::bench
