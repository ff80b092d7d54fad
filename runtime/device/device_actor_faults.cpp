// Loss of the device, and the begin of a new generation.
#include "device_actor.hpp"

#include <utility>

#include <fmt/format.h>

namespace hearth {

void DeviceActor::lose(ErrorRef error) {
  if (!dispatch_.lost()) {
    dispatch_.lose(std::move(error));
  }
  if (!is_lost_) {
    become_lost();  // on request, so there is nothing to report
  }
}

// The error of a device that is lost while it works names the op that was running.
void DeviceActor::record_work_ended(const WorkEnded& ended) {
  if (ended.generation != endpoint_->generation()) {
    return;
  }
  completions_.record_wait_end();
  if (ended.status.has_value() || dispatch_.lost()) {
    return;
  }
  Error lost = ended.status.error();
  lost.device = endpoint_->name();
  if (const auto oldest = in_flight_.oldest(dispatch_.ended_ops())) {
    const RuntimeTables& tables = endpoint_->tables();
    lost.op = tables.op_name(oldest->record);
    lost.stream = oldest->lane.value;
    lost.sequence = oldest->record.sequence;
    lost.location = tables.sources.location(oldest->record.source);
  }
  dispatch_.lose(
      endpoint_->tables().failures().enter(std::make_shared<const Error>(std::move(lost))));
  record_loss();
}

void DeviceActor::record_loss() {
  endpoint_->tables().log.error(
      fmt::format("device {} is lost: {}", endpoint_->name(), dispatch_.lost()->to_string()));
  become_lost();
}

void DeviceActor::become_lost() {
  is_lost_ = true;
  endpoint_->mark_lost();
  completions_.abandon(dispatch_.lost());
  // A lane that waits for a slot or for other lanes needs no help: the work that it waits for fails
  // by itself now.
  for (LaneState* lane : std::vector<LaneState*>(queues_.parked())) {
    if (lane->parked != ParkReason::slot && lane->parked != ParkReason::lanes) {
      expire(*lane);
    }
  }
}

// Called when everything queued before has been consumed (answer_questions): records in the lanes
// came later and belong to the new generation. Lanes may still be parked for a slot or for other
// lanes; they continue as before.
void DeviceActor::restart() {
  const ErrorRef lost = dispatch_.lost();
  if (!lost) {
    return;  // two restarts were requested at once, and the first has done the work
  }
  detail::mark_read(*lost);  // a program that restarts a device knows of the loss
  std::unique_ptr<Backend> backend = options_.reopen().value();
  auto memory = std::make_shared<DeviceMemory>(std::move(backend), options_);
  records_.loans.forget();
  // A device that is never idle answers before each prepared group has had its turn. The group's
  // memory is returned while its strategy exists; at its turn the group allocates again and fails
  // with its operands.
  // The same holds for bytes to be lent, and for copies in parts, which begin anew.
  queues_.for_each([this](LaneState& lane) {
    lane.prepared.reset();
    dispatch_.end_copy(lane);
    lane.lending.reset();
    lane.lending_copy = {};
    lane.awaited_work.reset();
  });
  handles_.restart(*memory->strategy, lost);
  dispatch_.restart(*memory->backend, *memory->scratch);
  in_flight_.restart();
  memory_ = std::move(memory);
  is_lost_ = false;
  endpoint_->mark_restarted();
}

}  // namespace hearth
