// Memory and kernels: blocks, batches, and the device's accesses at a batch's end. Each lane has
// its own queue of the device; a batch takes effect at its point.
#include "window_model.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace hearth::model {

bool WindowModel::is_in_flight(Byte block, int but_not_of) const {
  return std::ranges::any_of(state_->batches, [&](const BatchNow& batch) {
    const bool names = std::ranges::find(batch.in, block) != batch.in.end() ||
                       std::ranges::find(batch.out, block) != batch.out.end();
    return batch.phase != Phase::free && batch.lane != but_not_of && names;
  });
}

Byte WindowModel::free_block(Byte taken) const {
  for (Byte block = 0; block < program_.blocks; ++block) {
    const auto owns = [&](const TensorNow& tensor) { return tensor.block == block; };
    if (!has(taken, block) && !std::ranges::any_of(state_->tensors, owns) &&
        !(rules_.flight_holds_blocks && is_in_flight(block, kNone))) {
      return block;
    }
  }
  return kNone;
}

bool WindowModel::is_shared(Byte tensor) const {
  const Byte block = tensor_of(tensor).block;
  return block != kNone && std::ranges::count(state_->tensors, block, &TensorNow::block) > 1;
}

// Phases: find a free batch; allocate all results; fill the batch; mark the results as computed for
// work behind its point; end last uses.
Park WindowModel::issue(int lane, RecordSet records, RecordSet virtual_outputs) {
  auto* const place = std::ranges::find(state_->batches, Phase::free, &BatchNow::phase);
  if (!program_.is_host && place == state_->batches.end()) {
    return Park::flight;
  }
  BatchNow batch{.phase = Phase::running, .lane = static_cast<Byte>(lane), .records = records};
  if (!bind(batch, virtual_outputs)) {
    return Park::memory;
  }
  batch.after = points_of(batch);
  if (program_.is_host) {
    run_batch(batch);
  } else {
    *place = batch;
  }
  finish_issue(batch);
  return Park::none;
}

// Finds blocks for the batch's operands and results; returns false if memory is short.
bool WindowModel::bind(BatchNow& batch, RecordSet virtual_outputs) const {
  Byte taken = 0;
  std::array<Byte, kMostTensors> made{};
  made.fill(kNone);
  std::size_t op = 0;
  for (int i = 0; i < kMostRecords; ++i) {
    if (!has(batch.records, i)) {
      continue;
    }
    const WindowRecord& record = plan_.record(batch.lane, i);
    for (std::size_t k = 0; k < record.in.size() && record.in.at(k) != kNone; ++k) {
      const Byte own = made.at(record.in.at(k));
      batch.in.at(2 * op + k) = own != kNone ? own : tensor_of(record.in.at(k)).block;
    }
    if (record.out != kNone && !has(virtual_outputs, i)) {
      const Byte block = block_for(batch.lane, record, taken);
      if (block == kNone) {
        return false;
      }
      taken |= bit_of(block);
      made.at(record.out) = block;
      batch.out.at(op) = block;
    }
    ++op;
  }
  return true;
}

// In place if the first operand ends here and no batch of the other queue holds its bytes.
Byte WindowModel::block_for(int lane, const WindowRecord& record, Byte taken) const {
  const Byte old = record.takes ? tensor_of(record.in[0]).block : kNone;
  const bool in_place = old != kNone && !(rules_.in_place_asks && is_in_flight(old, lane)) &&
                        !(rules_.views_share && is_shared(record.in[0]));
  return in_place ? old : free_block(taken);
}

void WindowModel::finish_issue(const BatchNow& batch) {
  LaneNow& a = lane_of(batch.lane);
  a.acted |= batch.records;
  std::size_t op = 0;
  for (int i = 0; i < kMostRecords; ++i) {
    if (!has(batch.records, i)) {
      continue;
    }
    const WindowRecord& record = plan_.record(batch.lane, i);
    say([&] { return plan_.text_of(batch.lane, i) + " is issued"; });
    if (record.kind == Kind::op || program_.is_host) {
      a.done |= bit_of(i);
    }
    if (record.takes) {
      release(record.in[0]);
    }
    if (record.out != kNone) {
      tensor_of(record.out) = {TensorState::live, batch.out.at(op)};
      wake_slot_waits(record.out);
    }
    ++op;
  }
}

// The batches that must complete before this one: those before it in its queue, and producers of
// its inputs in the other queue. Batches hold their blocks, so no other batch uses the blocks that
// this one writes.
Byte WindowModel::points_of(const BatchNow& batch) const {
  const auto meets = [](const auto& some, const auto& others) {
    return std::ranges::any_of(some, [&](Byte block) {
      return block != kNone && std::ranges::find(others, block) != others.end();
    });
  };
  Byte after = 0;
  for (int i = 0; i < kBatches; ++i) {
    const BatchNow& other = state_->batches.at(static_cast<std::size_t>(i));
    const bool needs =
        other.lane == batch.lane || (rules_.batches_wait && meets(batch.in, other.out));
    after |= other.phase == Phase::running && needs ? bit_of(i) : Byte{0};
  }
  return after;
}

// A value without a block never leaves its batch.
void WindowModel::run_batch(const BatchNow& batch) {
  std::size_t op = 0;
  for (int i = 0; i < kMostRecords; ++i) {
    if (!has(batch.records, i)) {
      continue;
    }
    const WindowRecord& record = plan_.record(batch.lane, i);
    for (std::size_t k = 0; k < record.in.size(); ++k) {
      const Byte operand = record.in.at(k);
      const Byte block = batch.in.at(2 * op + k);
      if (operand == kNone) {
        continue;
      }
      const WindowPlan::Place maker = plan_.tensors.at(operand).maker;
      const bool is_here = block == kNone ? maker.lane == batch.lane && maker.record < i &&
                                                has(batch.records, maker.record)
                                          : state_->content.at(block) == plan_.root_of(operand);
      require(is_here,
              "the kernel of " + plan_.text_of(batch.lane, i) + " reads something else than " +
                  plan_.name_of(operand));
    }
    if (batch.out.at(op) != kNone) {
      state_->content.at(batch.out.at(op)) = record.out;
    }
    ++op;
  }
}

void WindowModel::wake_slot_waits(Byte tensor) {
  for (int lane = 0; lane < kLanes; ++lane) {
    if (lane_of(lane).park == Park::slot && lane_of(lane).awaited == tensor) {
      unpark(lane);
    }
  }
}

void WindowModel::wake_memory_waits() {
  for (int lane = 0; lane < kLanes; ++lane) {
    if (lane_of(lane).park == Park::memory) {
      unpark(lane);
    }
  }
}

// Ends a tensor: all records before its drop have used it.
void WindowModel::release(Byte tensor) {
  TensorNow& now = tensor_of(tensor);
  for (int lane = 0; lane < kLanes; ++lane) {
    const RecordSet users = plan_.tensors.at(tensor).users.at(static_cast<std::size_t>(lane));
    require((users & ~lane_of(lane).acted) == 0,
            plan_.name_of(tensor) + " is dropped before " + name_of(lane) + " has used it");
  }
  require(now.state == TensorState::live || now.state == TensorState::poisoned,
          plan_.name_of(tensor) + " is dropped and was not there");
  now = {TensorState::gone, kNone};
  say([&] { return plan_.name_of(tensor) + " is gone"; });
  wake_memory_waits();
}

// Normalizes what no lane can observe: the places of batches, and the contents of free blocks.
void WindowModel::normalize(WindowState& state) const {
  std::array<std::size_t, kBatches> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t place) {
    const BatchNow& batch = state.batches.at(place);
    return std::tuple(batch.phase == Phase::free, batch.lane, batch.records);
  };
  std::ranges::sort(order, {}, key);
  const auto old = state.batches;
  for (std::size_t to = 0; to < order.size(); ++to) {
    BatchNow batch = old.at(order.at(to));
    const Byte after = std::exchange(batch.after, Byte{0});
    for (std::size_t place = 0; place < order.size(); ++place) {
      const std::size_t from = order.at(place);
      const bool waits = has(after, static_cast<int>(from)) &&
                         old.at(from).phase == Phase::running && batch.phase == Phase::running;
      batch.after |= waits ? bit_of(static_cast<int>(place)) : Byte{0};
    }
    state.batches.at(to) = batch;
  }
  for (LaneNow& lane : state.lanes) {
    lane.single_until = lane.single_until > lane.consumed ? lane.single_until : Byte{0};
    lane.shown &= static_cast<Byte>(~(bit_of(lane.consumed) - 1));
  }
  for (Byte block = 0; block < kBlocks; ++block) {
    const auto owns = [&](const TensorNow& tensor) { return tensor.block == block; };
    if (!std::ranges::any_of(state.tensors, owns) && !is_in_flight(block, kNone)) {
      state.content.at(block) = kNone;
    }
  }
}

// ---- the end ----

void WindowModel::require_end(const WindowState& state) {
  WindowState copy = state;
  state_ = &copy;
  wrong_.reset();
  for (int lane = 0; lane < kLanes; ++lane) {
    const LaneNow& a = lane_of(lane);
    const std::string who = name_of(lane);
    const bool stays = program_.threads_stay && a.pushed == plan_.length(lane);
    require(a.producer == Producer::ended || (stays && a.producer == Producer::running),
            "the thread of " + who + " waits for ever");
    require(a.consumed == a.pushed, "records of " + who + " wait for ever");
    require((a.done | a.failed | a.rejected) == bit_of(a.pushed) - 1,
            "a record of " + who + " never ends");
    require((a.done & a.failed) == 0 && ((a.done | a.failed) & a.rejected) == 0,
            "a record of " + who + " ends twice");
    if (copy.actor != Actor::stopped) {
      require(a.deferred == 0, "a drop of " + who + " waits for ever");
      require(a.closed || program_.threads_stay, who + " never ends");
    }
  }
  require(!has_flight(), "a batch is in flight for ever");
  require(copy.stop == Stop::none || copy.actor == Actor::stopped, "the shutdown never ends");
  require(copy.ask == Ask::none || copy.ask == Ask::answered, "a question is never answered");
  for (std::size_t i = 0; i < plan_.tensors.size() && copy.actor != Actor::stopped; ++i) {
    const bool is_dropped = plan_.tensors.at(i).last.lane != kNone || plan_.dropped_outside == i;
    const TensorState now = copy.tensors.at(i).state;
    require(now != TensorState::pending, "a value is pending for ever");
    require(is_dropped == (now == TensorState::gone),
            plan_.name_of(static_cast<Byte>(i)) + " is dropped and never goes");
  }
}

}  // namespace hearth::model
