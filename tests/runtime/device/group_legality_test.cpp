// The legality of groups. Random windows are gathered, and a model that knows only lifetimes finds
// no violation. After one decision of the group is flipped, it finds one.
// LEGALITY_WINDOWS sets the number (3,000 by default), LEGALITY_FIRST the first seed.
#include "runtime/device/fusion/group_legality.hpp"

#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/backends/reference/reference_backend.hpp>
#include <hearth/streams/op_attributes.hpp>

#include "runtime/device/fusion/group_gather.hpp"
#include "runtime/device/memory/device_memory.hpp"

namespace hearth {
namespace {

constexpr std::uint32_t kGeneration = 1;

/// The state around a gather, without an actor.
class Window {
 public:
  explicit Window(std::uint32_t seed) : random_(seed) {
    for (const Shape& shape : {Shape{2, 3}, Shape{2, 1}, Shape{3, 2}}) {
      shapes_.push_back(tables_->shapes.intern(shape).value());
    }
    for (int i = 0; i < 3; ++i) {
      const std::uint32_t slot = new_slot();
      make_live(slot, shapes_[pick(2)]);
    }
    make_live(new_slot(), shapes_[2]);  // the right side of products
  }

  /// A random program of `ops` ops, whose tensors are dropped at their last use, after it, or
  /// never.
  void fill(int ops) {
    for (int i = 0; i < ops; ++i) {
      push_op();
      while (pick(4) == 0 && !living_.empty()) {
        drop(pick(living_.size()));
      }
    }
    while (pick(5) != 0 && !living_.empty()) {
      drop(pick(living_.size()));
    }
    lane_.window.end(true);
  }
  [[nodiscard]] FusedGroup& gather(std::size_t most_ops, GroupReach reach) {
    gather_.gather(lane_, most_ops, reach);
    return group_;
  }
  [[nodiscard]] GroupLegality legality() {
    records_.clear();
    for (std::uint64_t ahead = 0; const OpRecord* record = ring_.peek(ahead); ++ahead) {
      records_.push_back({OpView(*record, ring_.peek_blob(ahead)), false});
    }
    return {ring_.id(), records_, {}, [this](SlotId id) {
              const Slot& slot = handles_.slot(id);
              return GroupLegality::AtStart{.generation = slot.generation,
                                            .is_live = slot.state == SlotState::live,
                                            .is_poisoned = slot.state == SlotState::poisoned,
                                            .is_pending = slot.state == SlotState::pending,
                                            .home = slot.home};
            }};
  }
  [[nodiscard]] HandleTable& handles() noexcept { return handles_; }
  [[nodiscard]] std::size_t pick(std::size_t count) { return random_() % count; }

 private:
  struct Living {
    std::uint32_t slot = 0;
    ShapeId shape;
  };

  [[nodiscard]] std::uint32_t new_slot() { return next_slot_++; }
  void make_live(std::uint32_t slot, ShapeId shape) {
    Slot& member = handles_.slot(SlotId{slot});
    member.state = SlotState::live;
    member.generation = kGeneration;
    member.home = pick(4) == 0 ? LaneId{9} : ring_.id();
    member.layout = &tables_->shapes.layout(shape);
    living_.push_back({slot, shape});
  }
  [[nodiscard]] static Operand operand(const Living& of, Use use) {
    return {SlotId{of.slot}, kGeneration, of.shape, DType::f32, use};
  }
  void push(OpRecord& record) {
    ASSERT_TRUE(ring_.try_push(record, {}));
    const OpRecord& pushed = *ring_.peek(ring_.backlog() - 1);
    static_cast<void>(lane_.window.join(pushed, record.kind != OpKind::drop));
  }
  /// Another input of this shape; null: a first one of any shape.
  [[nodiscard]] const Living* find(const ShapeId* shape) {
    std::vector<const Living*> fitting;
    for (const Living& each : living_) {
      if (shape == nullptr || each.shape == *shape) {
        fitting.push_back(&each);
      }
    }
    return fitting.empty() ? nullptr : fitting[pick(fitting.size())];
  }

  void push_op() {
    constexpr OpKind kKinds[] = {OpKind::add,
                                 OpKind::mul,
                                 OpKind::neg,
                                 OpKind::relu,
                                 OpKind::exp,
                                 OpKind::reduce_sum,
                                 OpKind::expand,
                                 OpKind::reshape,
                                 OpKind::cumsum,
                                 OpKind::matmul,
                                 OpKind::matmul,
                                 OpKind::matmul,
                                 OpKind::fill,
                                 OpKind::softmax};
    OpRecord record;
    record.kind = kKinds[pick(std::size(kKinds))];
    std::vector<Living> inputs;
    if (record.kind != OpKind::fill) {
      // A product often reads and ends the latest value: a group may then precede it.
      const bool is_chained = record.kind == OpKind::matmul && pick(4) != 0;
      const Living* const first = is_chained && !living_.empty() ? &living_.back() : find(nullptr);
      if (first == nullptr) {
        return;
      }
      inputs.push_back(*first);
    }
    ShapeId out = inputs.empty() ? shapes_[pick(2)] : inputs[0].shape;
    if (!place(record, inputs, out)) {
      return;
    }
    const bool is_product = record.kind == OpKind::matmul;
    const bool ends = !inputs.empty() && (is_product ? pick(4) != 0 : pick(3) == 0);
    const std::size_t last = ends && !is_product ? pick(inputs.size()) : 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      record.operands[i] = operand(inputs[i], ends && i == last ? Use::read_last : Use::read);
    }
    record.input_count = static_cast<std::uint16_t>(inputs.size());
    record.output_count = 1;
    const Living member{new_slot(), out};
    record.operands[inputs.size()] = operand(member, Use::out);
    Slot& slot = handles_.slot(SlotId{member.slot});
    slot.state = SlotState::pending;
    slot.home = ring_.id();
    push(record);
    if (ends) {
      std::erase_if(living_, [&](const Living& each) { return each.slot == inputs[last].slot; });
    }
    living_.push_back(member);
  }
  /// Sets the op's other inputs, its attributes and the shape of its result. Returns false if it
  /// fits nowhere.
  [[nodiscard]] bool place(OpRecord& record, std::vector<Living>& inputs, ShapeId& out) {
    const auto give = [&record](const auto& attributes) {
      std::memcpy(record.immediate, &attributes, sizeof attributes);
    };
    switch (record.kind) {
      case OpKind::add:
      case OpKind::mul:
        inputs.push_back(*find(&inputs[0].shape));
        return true;
      case OpKind::reduce_sum:
        give(ReduceAttributes{.axes = 2, .keep_dims = 1});
        out = shapes_[1];
        return inputs[0].shape == shapes_[0];
      case OpKind::softmax:
        give(AxisAttributes{.axis = 1});
        return inputs[0].shape == shapes_[0];
      case OpKind::expand:
        out = shapes_[0];
        return inputs[0].shape == shapes_[1];
      case OpKind::matmul: {
        const Living* const right = find(&shapes_[2]);
        if (right == nullptr || inputs[0].shape != shapes_[1]) {
          return inputs[0].shape == shapes_[1] && (inputs.push_back(inputs[0]), true);
        }
        inputs.push_back(*right);
        return true;
      }
      default:
        return true;
    }
  }
  void drop(std::size_t which) {
    OpRecord record;
    record.kind = OpKind::drop;
    record.input_count = 1;
    record.operands[0] = operand(living_[which], Use::read_last);
    push(record);
    living_.erase(living_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  std::mt19937 random_;
  std::shared_ptr<RuntimeTables> tables_ = std::make_shared<RuntimeTables>(RuntimeId{1});
  IntrusivePtr<DeviceEndpoint> endpoint_ =
      make_intrusive<DeviceEndpoint>("reference:0", "", tables_, 1, true, std::vector<int>{});
  DeviceMemory memory_{std::make_unique<reference::ReferenceBackend>(),
                       {.budget_bytes = std::int64_t{1} << 20U}};
  HandleTable handles_{*memory_.strategy};
  InFlight in_flight_;
  Dispatch dispatch_{*endpoint_, *memory_.backend, *memory_.scratch, handles_, in_flight_};
  Lane ring_{LaneId{3}};
  LaneState lane_{ring_};
  FusedGroup group_;
  FusedGroup before_;
  GroupGather gather_{handles_, dispatch_, group_, before_};
  std::vector<ShapeId> shapes_ = {};
  std::vector<Living> living_ = {};
  std::vector<GroupLegality::Record> records_ = {};
  std::uint32_t next_slot_ = 0;
};

std::uint32_t number_from(const char* variable, std::uint32_t otherwise) {
  const char* const text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  return text != nullptr ? static_cast<std::uint32_t>(std::atoi(text)) : otherwise;
}

/// Calls `look` for many gathered groups of at least two ops.
template <class Look>
int for_each_group(const Look& look) {
  const std::uint32_t first = number_from("LEGALITY_FIRST", 1);
  const std::uint32_t count = number_from("LEGALITY_WINDOWS", 3000);
  int groups = 0;
  for (std::uint32_t seed = first; seed < first + count; ++seed) {
    Window window(seed);
    window.fill(2 + static_cast<int>(window.pick(14)));
    for (const std::size_t most : {std::size_t{64}, std::size_t{3}}) {
      constexpr GroupReach kReaches[] = {
          GroupReach::chained, GroupReach::chained, GroupReach::single, GroupReach::plain};
      FusedGroup& group = window.gather(most, kReaches[window.pick(std::size(kReaches))]);
      if (group.op_count() >= 2) {
        ++groups;
        look(window, group, "seed " + std::to_string(seed));
      }
    }
  }
  return groups;
}

TEST(GroupLegality, FindsNothingInWhatIsGathered) {
  int chains = 0;
  const int groups =
      for_each_group([&](Window& window, FusedGroup& group, const std::string& what) {
        const GroupLegality legality = window.legality();
        EXPECT_EQ(legality.breach_of_window(), "") << what;
        EXPECT_EQ(legality.breach_of(group), "") << what;
        chains += group.before != nullptr ? 1 : 0;
      });
  EXPECT_GT(groups, 300);
  EXPECT_GT(chains, 20);
}

// ---- groups with one flipped decision ----

struct Mutation {
  const char* name;
  /// Flips one decision; returns false if the group has none.
  bool (*turn)(Window& window, FusedGroup& group);
};

FusedGroup::Member* find_made(Window& window,
                              FusedGroup& group,
                              bool (*fits)(const FusedGroup::Member&)) {
  std::vector<FusedGroup::Member*> fitting;
  for (FusedGroup::Member& member : group.members) {
    if (fits(member)) {
      fitting.push_back(&member);
    }
  }
  return fitting.empty() ? nullptr : fitting[window.pick(fitting.size())];
}

const Mutation kMutations[] = {
    {"a value that somebody needs is not stored",
     [](Window& window, FusedGroup& group) {
       auto* const member = find_made(window, group, [](const auto& m) { return m.is_output(); });
       return member != nullptr && (member->is_internal = true);
     }},
    {"a value that nobody needs is stored",
     [](Window& window, FusedGroup& group) {
       auto* const member = find_made(window, group, [](const auto& m) { return m.is_internal; });
       return member != nullptr && !(member->is_internal = false);
     }},
    {"an op is left alone that its record does not make again",
     [](Window& window, FusedGroup& group) {
       auto* const member = find_made(window, group, [](const auto& m) { return m.is_recomputed; });
       return member != nullptr && !(member->is_recomputed = false);
     }},
    {"an end is forgotten",
     [](Window& window, FusedGroup& group) {
       std::vector<std::size_t> own;
       for (std::size_t i = 0; i < group.ends.size(); ++i) {
         if (!group.ends[i].is_drop) {
           own.push_back(i);
         }
       }
       if (own.empty()) {
         return false;
       }
       group.ends.erase(group.ends.begin() +
                        static_cast<std::ptrdiff_t>(own[window.pick(own.size())]));
       return true;
     }},
    {"an end at its record's turn comes with the group",
     [](Window&, FusedGroup& group) {
       for (FusedGroup::End& end : group.ends) {
         for (FusedGroup::Input& input : group.inputs) {
           if (end.is_deferred && input.operand.slot == end.operand.slot) {
             end.is_deferred = false;
             return input.is_last = true;
           }
         }
       }
       return false;
     }},
    {"an end with the group comes again at its record's turn",
     [](Window&, FusedGroup& group) {
       for (FusedGroup::End& end : group.ends) {
         if (!end.is_deferred) {
           return end.is_deferred = true;
         }
       }
       return false;
     }},
    {"an end is applied twice",
     [](Window&, FusedGroup& group) {
       if (group.ends.empty() || group.ends[0].is_deferred) {
         return false;
       }
       group.drops.push_back(group.ends[0].operand.slot);
       return true;
     }},
    {"the last use of an input is made up",
     [](Window& window, FusedGroup& group) {
       if (group.inputs.empty()) {
         return false;
       }
       FusedGroup::Input& input = group.inputs[window.pick(group.inputs.size())];
       return !input.is_last && (input.is_last = true);
     }},
    {"an op that others need is left out",
     [](Window&, FusedGroup& group) {
       for (std::size_t i = 0; i + 1 < group.members.size(); ++i) {
         for (const GroupSource& source : group.sources) {
           if (group.members[i].role == GroupRole::computes && source.is_made &&
               source.number == i) {
             const FusedGroup::Member& reader = group.members.back();
             const bool reads = reader.role == GroupRole::computes && reader.source_count > 0 &&
                                group.sources[reader.first_source].is_made &&
                                group.sources[reader.first_source].number == i;
             if (reads) {
               group.members[i].role = GroupRole::unneeded;
               return true;
             }
           }
         }
       }
       return false;
     }},
    {"an op takes another value for its own",
     [](Window&, FusedGroup& group) {
       for (const FusedGroup::Member& member : group.members) {
         for (std::size_t i = 0; member.role == GroupRole::computes && i < member.source_count;
              ++i) {
           GroupSource& source = group.sources[member.first_source + i];
           if (source.is_made && source.number > 0) {
             --source.number;
             return true;
           }
         }
       }
       return false;
     }},
    {"a result lies in a slot of another lane",
     [](Window& window, FusedGroup& group) {
       window.handles().slot(group.members.back().operand.slot).home = LaneId{8};
       return !group.members.back().is_recomputed;
     }},
    {"a value before the anchor is needed elsewhere",
     [](Window& window, FusedGroup& group) {
       if (group.before == nullptr) {
         return false;
       }
       auto* const member = find_made(window, *group.before, [](const auto&) { return true; });
       return !(member->is_internal = false);
     }},
    {"nothing is handed on",
     [](Window&, FusedGroup& group) {
       if (group.before == nullptr) {
         return false;
       }
       for (FusedGroup::Member& member : group.before->members) {
         member.feeds_next_anchor = false;
       }
       return true;
     }},
    {"an op before the anchor is taken that has no turn yet",
     [](Window&, FusedGroup& group) {
       if (group.before == nullptr) {
         return false;
       }
       std::swap(group.before->members.front().ahead, group.members.front().ahead);
       return true;
     }},
    {"the last use of what is read before the anchor is made up",
     [](Window&, FusedGroup& group) {
       if (group.before == nullptr || group.before->inputs.empty()) {
         return false;
       }
       FusedGroup::Input& input = group.before->inputs.front();
       return !input.is_last && (input.is_last = true);
     }},
    {"an op is taken that has no turn yet", [](Window&, FusedGroup& group) {
       std::swap(group.members.front(), group.members.back());
       return group.members.size() > 1;
     }}};

TEST(GroupLegality, RefusesAGroupWithOneDecisionTurnedOver) {
  std::map<std::string, int> refused;
  for_each_group([&](Window& window, FusedGroup& group, const std::string& what) {
    const Mutation& mutation = kMutations[window.pick(std::size(kMutations))];
    const GroupLegality legality = window.legality();
    if (mutation.turn(window, group)) {
      EXPECT_NE(legality.breach_of(group), "") << what << ": " << mutation.name;
      ++refused[mutation.name];
    }
  });
  for (const Mutation& mutation : kMutations) {
    EXPECT_GT(refused[mutation.name], 0) << mutation.name;
  }
}

// The text names the record and the rule.
TEST(GroupLegality, NamesRecordAndRule) {
  for (std::uint32_t seed = 1;; ++seed) {
    Window window(seed);
    window.fill(8);
    FusedGroup& group = window.gather(64, GroupReach::chained);
    if (group.op_count() >= 2 && kMutations[1].turn(window, group)) {
      const std::string said = window.legality().breach_of(group);
      EXPECT_NE(said.find("never"), std::string::npos) << said;
      EXPECT_EQ(said.find("record "), 0U) << said;
      return;
    }
  }
}

}  // namespace
}  // namespace hearth
