// What the actor does when its device is lost, and how a new generation begins.
#include "device_actor.hpp"

#include <utility>

#include <fmt/format.h>

#include <hearth/streams/op_table.hpp>

namespace hearth {

void DeviceActor::lose(ErrorRef error) {
  if (!dispatch_.lost()) {
    dispatch_.lose(std::move(error));
  }
  if (!is_lost_) {
    become_lost();  // on request, so that there is nothing to report
  }
}

void DeviceActor::note_loss() {
  endpoint_->tables().log.error(
      fmt::format("device {} is lost: {}", endpoint_->name(), dispatch_.lost()->to_string()));
  become_lost();
}

void DeviceActor::become_lost() {
  is_lost_ = true;
  endpoint_->mark_lost();
  // A lane that waits for a slot, or for other lanes, needs no help: what it waits for fails by
  // itself now.
  for (LaneState* lane : std::vector<LaneState*>(parked_)) {
    if (lane->parked != ParkReason::slot && lane->parked != ParkReason::lanes) {
      expire(*lane);
    }
  }
}

// Called when all that was queued before has been consumed (answer_questions): what is in the lanes
// now came later and belongs to the new generation. Lanes may still be parked for a slot or for
// other lanes; they go on as before.
void DeviceActor::restart() {
  const ErrorRef lost = dispatch_.lost();
  mark_read(*lost);  // a program that restarts a device knows that it was lost
  std::unique_ptr<Backend> backend = options_.reopen().value();
  auto memory = std::make_shared<DeviceMemory>(std::move(backend), options_);
  quarantine_.clear();  // the regions keep their bytes; end_loan() knows them no more
  // A device that is never idle answers before each prepared group has had its turn. What the group
  // holds goes back while its memory is there; at its turn the group asks again, and fails with its
  // operands.
  lanes_.for_each([](LaneState& lane) { lane.prepared.reset(); });
  handles_.restart(*memory->strategy, lost);
  dispatch_.restart(*memory->backend, *memory->scratch);
  memory_ = std::move(memory);
  is_lost_ = false;
  endpoint_->mark_restarted();
}

// ---- what it waits for ----

std::string DeviceActor::describe() {
  std::string text = fmt::format("generation {}, {}; {} of {} kernels done",
                                 endpoint_->generation(),
                                 is_lost_ ? "lost" : "alive",
                                 memory_->backend->completed(),
                                 memory_->backend->submitted());
  lanes_.for_each([&](const LaneState& lane) {
    if (lane.lane->front() != nullptr || lane.parked != ParkReason::none || lane.in_group) {
      text += "\n    " + describe(lane);
    }
  });
  return text;
}

std::string DeviceActor::describe(const LaneState& lane) {
  const std::uint64_t queued = lane.lane->pushed_seen() - lane.lane->consumed();
  std::string text = fmt::format("stream {}: {} ops queued", lane.id.value, queued);
  const auto waits = [&](const std::string& for_what) {
    text += fmt::format(", waits for {}: {}",
                        for_what,
                        time_left(lane.limit ? lane.limit->deadline() : lane.deadline));
  };
  switch (lane.parked) {
    case ParkReason::none:
      text += lane.in_group ? ", in the middle of an update group" : ", ready to run";
      break;
    case ParkReason::slot:
      waits("a tensor that another stream has not made yet");
      break;
    case ParkReason::lanes:
      waits("other streams to be done with a tensor");
      break;
    case ParkReason::loan:
      waits(fmt::format("the bytes of loan {} to come back", lane.loan.number));
      break;
    case ParkReason::transfer:
      waits("bytes from another device");
      break;
    case ParkReason::memory:
      waits("memory that other streams release");
      break;
    case ParkReason::decision:
      waits("the decision on its update");
      break;
  }
  if (const OpRecord* next = lane.lane->front(); next != nullptr) {
    const SourceLoc source = endpoint_->tables().sources.location(next->source);
    text += fmt::format("; next is op number {}, {}", next->sequence, op_info(next->kind).name);
    if (source.line != 0) {
      text += fmt::format(", called at {}:{}", source.file, source.line);
    }
  }
  return text;
}

std::string DeviceActor::report() {
  return fmt::format("watchdog report, who waits for whom:{}\n  device {}: {}",
                     endpoint_->tables().watchdog->waits(),
                     endpoint_->name(),
                     describe());
}

}  // namespace hearth
