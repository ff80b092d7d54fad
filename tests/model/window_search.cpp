#include "window_search.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace hearth::model {
namespace {

constexpr std::uint32_t kNobody = ~std::uint32_t{0};

std::uint64_t hash_of(const WindowState& state) {
  std::array<std::uint64_t, (sizeof state + 7) / 8> words{};
  std::memcpy(words.data(), &state, sizeof state);
  std::uint64_t hash = 0;
  for (const std::uint64_t word : words) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32U;
  }
  return hash;
}

/// All visited states in order of discovery, and a hash table of their places.
class States {
 public:
  struct Met {
    WindowState state;
    std::uint32_t parent;
    WindowStep step;  ///< from the parent
  };

  /// Returns the state's number, and whether it is new.
  std::pair<std::uint32_t, bool> add(const WindowState& state,
                                     std::uint32_t parent,
                                     WindowStep step) {
    if (2 * met_.size() >= table_.size()) {
      grow();
    }
    std::size_t at = hash_of(state) & (table_.size() - 1);
    while (table_[at] != kNobody) {
      if (std::memcmp(&met_[table_[at]].state, &state, sizeof state) == 0) {
        return {table_[at], false};
      }
      at = (at + 1) & (table_.size() - 1);
    }
    table_[at] = static_cast<std::uint32_t>(met_.size());
    met_.push_back({state, parent, step});
    return {table_[at], true};
  }
  [[nodiscard]] const Met& operator[](std::uint32_t number) const { return met_[number]; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(met_.size()); }

 private:
  void grow() {
    table_.assign(std::max<std::size_t>(4096, 2 * table_.size()), kNobody);
    for (std::uint32_t i = 0; i < size(); ++i) {
      std::size_t at = hash_of(met_[i].state) & (table_.size() - 1);
      while (table_[at] != kNobody) {
        at = (at + 1) & (table_.size() - 1);
      }
      table_[at] = i;
    }
  }

  std::vector<Met> met_;
  std::vector<std::uint32_t> table_;
};

class Search {
 public:
  Search(const WindowProgram& program, const WindowRules& rules, std::uint64_t most_states)
      : program_(program), model_(program, rules), most_states_(most_states) {}

  WindowSearch run() {
    states_.add(model_.start(), kNobody, WindowStep::push0);
    for (std::uint32_t from = 0; from < states_.size() && !result_.counterexample; ++from) {
      expand(from);
    }
    if (!result_.counterexample) {
      require_ways_to_an_end();
    }
    result_.states = states_.size();
    return result_;
  }

 private:
  void expand(std::uint32_t from) {
    bool goes_on = false;
    for (int i = 0; i < kSteps; ++i) {
      WindowState next = states_[from].state;
      const auto step = static_cast<WindowStep>(i);
      if (!model_.take(next, step)) {
        continue;
      }
      goes_on = true;
      ++result_.steps;
      if (model_.wrong()) {
        tell(from, step, *model_.wrong());
        return;
      }
      const std::uint32_t to = states_.add(next, from, step).first;
      edges_.push_back({from, to});
      if (states_.size() > most_states_) {
        throw std::length_error(program_.name + ": too many states");
      }
    }
    if (goes_on) {
      return;
    }
    ends_.push_back(from);
    ++result_.ends;
    model_.require_end(states_[from].state);
    if (model_.wrong()) {
      tell(from, std::nullopt, *model_.wrong());
    }
  }

  /// Requires that no cycle is without exit: going backwards from the ends reaches all states.
  void require_ways_to_an_end() {
    std::vector<std::uint32_t> first(states_.size() + 1, 0);
    for (const Edge& edge : edges_) {
      ++first[edge.to + 1];
    }
    for (std::size_t i = 1; i < first.size(); ++i) {
      first[i] += first[i - 1];
    }
    std::vector<std::uint32_t> sources(edges_.size());
    std::vector<std::uint32_t> filled(first.begin(), first.end() - 1);
    for (const Edge& edge : edges_) {
      sources[filled[edge.to]++] = edge.from;
    }
    std::vector<bool> can_end(states_.size(), false);
    std::vector<std::uint32_t> waiting = ends_;
    for (const std::uint32_t end : ends_) {
      can_end[end] = true;
    }
    while (!waiting.empty()) {
      const std::uint32_t to = waiting.back();
      waiting.pop_back();
      for (std::uint32_t i = first[to]; i < first[to + 1]; ++i) {
        if (!can_end[sources[i]]) {
          can_end[sources[i]] = true;
          waiting.push_back(sources[i]);
        }
      }
    }
    for (std::uint32_t i = 0; i < states_.size(); ++i) {
      if (!can_end[i]) {
        tell(i, std::nullopt, "steps go on for ever and lead to no end");
        return;
      }
    }
  }

  /// Writes the steps to the state, and the step after it.
  void tell(std::uint32_t to, std::optional<WindowStep> last, const std::string& what) {
    std::vector<WindowStep> steps;
    for (std::uint32_t at = to; states_[at].parent != kNobody; at = states_[at].parent) {
      steps.push_back(states_[at].step);
    }
    std::ranges::reverse(steps);
    if (last) {
      steps.push_back(*last);
    }
    std::string story = what + "\n  " + program_.name + "\n  lane 0: " + program_.text[0] +
                        "\n  lane 1: " + program_.text[1] + "\n";
    model_.tell(&story);
    WindowState state = model_.start();
    for (const WindowStep step : steps) {
      const std::size_t before = story.size();
      static_cast<void>(model_.take(state, step));
      if (story.size() > before) {
        story[before + 2] = '-';  // a text without a dash belongs to the same step
      }
    }
    model_.tell(nullptr);
    result_.counterexample = std::move(story);
  }

  struct Edge {
    std::uint32_t from;
    std::uint32_t to;
  };

  const WindowProgram& program_;
  WindowModel model_;
  const std::uint64_t most_states_;
  States states_;
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> ends_;
  WindowSearch result_;
};

}  // namespace

WindowSearch search(const WindowProgram& program,
                    const WindowRules& rules,
                    std::uint64_t most_states) {
  return Search(program, rules, most_states).run();
}

}  // namespace hearth::model
