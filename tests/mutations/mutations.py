"""One entry a mistake: what it is, the file, the right text, the wrong text, the test programs to ask."""

MUTATIONS = [
    ("a waiting producer is never woken",
     "streams/lane_definition.hpp",
     "    waiter_.load(std::memory_order_acquire)->unpark();\n",
     "    static_cast<void>(waiter_.load(std::memory_order_acquire));\n",
     ["streams_test", "runtime_actor_test"]),
    ("the producer announces by a plain store",
     "streams/lane_definition.hpp",
     "  producer_waits_.exchange(1, std::memory_order_acq_rel);  // partner: pop",
     "  producer_waits_.store(1, std::memory_order_release);",
     ["model_test"]),
    ("room is looked for before it is announced",
     "streams/lane_definition.hpp",
     "  producer_waits_.exchange(1, std::memory_order_acq_rel);  // partner: pop\n"
     "  head_seen_ = consumed();\n"
     "  if (has_room()) {\n"
     "    producer_waits_.exchange(0, std::memory_order_acq_rel);\n"
     "    return false;\n"
     "  }\n"
     "  return true;",
     "  head_seen_ = consumed();\n"
     "  if (has_room()) {\n"
     "    return false;\n"
     "  }\n"
     "  producer_waits_.exchange(1, std::memory_order_acq_rel);\n"
     "  return true;",
     ["streams_test", "model_test"]),
    ("a turn ends without a second look",
     "streams/lane_definition.hpp",
     "  if (consumed() == pushed_seen()) {\n"
     "    return Turn::empty;\n",
     "  if (true) {\n"
     "    return Turn::empty;\n",
     ["streams_test", "model_test"]),
    ("a blob's place is freed one record early",
     "streams/lane_definition.hpp",
     "    blob_head_.store(start + detail::round_up_blob(size),",
     "    blob_head_.store(start + 2 * detail::round_up_blob(size),",
     ["streams_test", "model_test"]),
    ("a ring on a sleeper wakes nobody",
     "streams/doorbell_definition.hpp",
     "      return wake ? Ring::wake : Ring::quiet;",
     "      return Ring::quiet;",
     ["streams_test", "runtime_actor_test"]),
    ("the token goes back while lanes are rung",
     "streams/doorbell_definition.hpp",
     "  while ((old & ~kTimed) == 0) {",
     "  while ((old & kFree) == 0) {",
     ["streams_test", "runtime_actor_test", "model_test"]),
    ("the parker parks by a plain store",
     "runtime/base/park_word.hpp",
     "    if (word_.exchange(kParked, std::memory_order_acq_rel) != kToken) {  // partner: leave_token\n"
     "      return true;\n"
     "    }\n"
     "    word_.exchange(kEmpty, std::memory_order_acq_rel);\n"
     "    return false;",
     "    word_.store(kParked, std::memory_order_release);\n"
     "    return true;",
     ["base_threads_test", "model_test"]),
    ("a timeline forgets its other waiters",
     "runtime/base/timeline.cpp",
     "        if (!waiters_.empty()) {\n"
     "          has_waiters_.exchange(1, std::memory_order_acq_rel);\n"
     "        }\n",
     "",
     ["base_threads_test"]),
    ("a drop does not wait for other lanes' uses",
     "runtime/device_actor_records.cpp",
     "  if (are_done(entry.uses, lane.id)) {\n"
     "    dispatch_.release_slot(slot);",
     "  if (true) {\n"
     "    dispatch_.release_slot(slot);",
     ["runtime_actor_test", "stress_test"]),
    ("a drop waits for one use less",
     "runtime/device_actor_records.cpp",
     "    uses.push_back({LaneId{blob.lane[i]}, blob.sequence[i]});",
     "    uses.push_back({LaneId{blob.lane[i]}, blob.sequence[i] - 1});",
     ["runtime_actor_test", "stress_test"]),
    ("users beyond the fourth are forgotten",
     "runtime/tensor_impl.cpp",
     "  has_many_users.store(true, std::memory_order_release);\n}\n\nLastUsesBlob",
     "}\n\nLastUsesBlob",
     ["runtime_actor_test", "stress_test"]),
    ("a foreign use is not marked as one",
     "runtime/tensor_impl.cpp",
     "  is_foreign.store(true, std::memory_order_release);\n  for",
     "  for",
     ["runtime_actor_test", "stress_test"]),
    ("a shared tensor counts as a last use",
     "runtime/op_submit.cpp",
     "impl.references.load(std::memory_order_acquire) != 1 ||\n"
     "      impl.home",
     "impl.references.load(std::memory_order_acquire) > 2 ||\n"
     "      impl.home",
     ["runtime_actor_test", "random_programs_test"]),
    ("op(std::move(a), a) reuses a",
     "runtime/op_submit.cpp",
     "      return false;  // op(std::move(a), a): the other operand still reads it",
     "      continue;",
     ["runtime_actor_test", "runtime_ops_test"]),
    ("in place though a view shares the bytes",
     "runtime/dispatch.cpp",
     "slot.storage->uses == 1 && slot.layout->contiguous &&\n"
     "        slot.data",
     "slot.layout->contiguous &&\n"
     "        slot.data",
     ["runtime_actor_test", "random_programs_test", "random_faults_test"]),
    ("in place on an input that is read again",
     "runtime/dispatch.cpp",
     "operand.use != Use::read_last || operand.dtype",
     "operand.dtype",
     ["runtime_actor_test", "random_programs_test"]),
    ("in place into another order of elements",
     "runtime/dispatch.cpp",
     "(optimizer || backend_->may_alias(op.kind(), i))",
     "true",
     ["runtime_actor_test", "random_programs_test", "runtime_ops_test"]),
    ("a failed kernel does not poison",
     "runtime/dispatch.cpp",
     "  const Status status = submit(op, storages_);\n"
     "  if (!status.has_value()) {\n"
     "    fail(op, lane, blame(status, op, lane.id));\n"
     "    return;\n"
     "  }\n"
     "  make_outputs",
     "  static_cast<void>(submit(op, storages_));\n"
     "  make_outputs",
     ["runtime_actor_test", "random_faults_test"]),
    ("poison stops after one op",
     "runtime/dispatch.cpp",
     "  if (ErrorRef poison = look_at_inputs(op, lane)) {\n"
     "    fail",
     "  if (ErrorRef poison = look_at_inputs(op, lane); poison && op.record().input_count > 1) {\n"
     "    fail",
     ["runtime_actor_test", "random_faults_test"]),
    ("a later cause replaces the first",
     "runtime/dispatch.cpp",
     "    if (slot.state == SlotState::poisoned) {\n"
     "      return slot.error;",
     "    if (slot.state == SlotState::poisoned) {\n"
     "      return with_provenance(*slot.error, op, LaneId{});",
     ["runtime_actor_test", "random_faults_test"]),
    ("a poisoned op keeps its operands",
     "runtime/dispatch.cpp",
     "  poison_outputs(op, lane, error);\n"
     "  consume_inputs(op);\n"
     "}",
     "  poison_outputs(op, lane, error);\n"
     "}",
     ["runtime_actor_test", "random_faults_test"]),
    ("device loss is forgotten",
     "runtime/dispatch.cpp",
     "    lost_ = error;",
     "",
     ["runtime_actor_test"]),
    ("an update group looks at no gradient",
     "runtime/dispatch_group.cpp",
     "    if (ErrorRef poison = first_poison(op)) {\n"
     "      return poison;\n"
     "    }\n",
     "",
     ["runtime_actor_test", "parallel_test", "random_faults_test"]),
    ("a step without momentum looks at no gradient",
     "runtime/dispatch_group.cpp",
     "    if (ErrorRef poison = first_poison(op)) {\n",
     "    if (ErrorRef poison = first_poison(op); poison && op.record().input_count > 2) {\n",
     ["random_faults_test"]),
    ("a step that failed at work looks done",
     "runtime/dispatch_group.cpp",
     "    if (status.has_value()) {\n"
     "      make_outputs(op, lane, memory[i]);\n",
     "    if (true) {\n"
     "      make_outputs(op, lane, memory[i]);\n",
     ["random_faults_test"]),
    ("a step given up gives the storage away",
     "runtime/dispatch_group.cpp",
     "      } else if (old.state == SlotState::live && old.layout->contiguous) {\n"
     "        HandleTable::share(*old.storage);\n",
     "      } else if (old.state == SlotState::live && old.layout->contiguous) {\n",
     ["runtime_actor_test", "random_faults_test"]),
    ("a copy on its way waits on a lost device",
     "runtime/device_actor_records.cpp",
     "  if (ticket->transfer && !ticket->transfer->is_ready && !dispatch_.lost()) {\n",
     "  if (ticket->transfer && !ticket->transfer->is_ready) {\n",
     ["runtime_actor_test"]),
    ("memory that is given up does not come back",
     "runtime/lane_state.hpp",
     "handles->unuse(storage);",
     "static_cast<void>(storage);",
     ["runtime_actor_test", "parallel_test"]),
    ("a prepared update does not wait for the decision",
     "runtime/device_actor_records.cpp",
     "  if (decision->is_open()) {\n",
     "  if (is_new && decision->is_open() && (announce(lane, ticket), true)) {\n"
     "    return Step::consumed;\n"
     "  }\n"
     "  if (decision->is_open()) {\n",
     ["runtime_actor_test", "parallel_test"]),
    ("an update that was called off happens",
     "runtime/device_actor_records.cpp",
     "  status = decision->error();\n",
     "",
     ["runtime_actor_test", "parallel_test"]),
    ("the bytes of a taker that throws are free at once",
     "runtime/device_actor_records.cpp",
     "    recall_loan(lane.id, lane.loan.number, thrown);  // the taker may have kept the bytes\n",
     "    end_loan(lane.id, lane.loan.number, thrown);\n",
     ["runtime_actor_test"]),
    ("a device that begins anew is still lost",
     "runtime/device_actor_faults.cpp",
     "  is_lost_ = false;\n",
     "",
     ["runtime_actor_test"]),
    ("old handles are good on a new generation",
     "runtime/device_actor_faults.cpp",
     "  handles_.restart(*memory->strategy, lost);\n",
     "  handles_.restart(*memory->strategy, nullptr);\n",
     ["runtime_actor_test", "random_faults_test"]),
    ("joined rows come back in another order",
     "runtime/dispatch_join.cpp",
     "row_of(*out.value(), done, out_bytes)",
     "row_of(*out.value(), lanes.size() - 1 - done, out_bytes)",
     ["row_join_test"]),
    ("like ops with other weights are joined",
     "runtime/dispatch_join.cpp",
     " || (i > 0 && own.data != other.data)",
     "",
     ["row_join_test"]),
    ("an adopted tensor does not wait for other lanes",
     "runtime/device_actor_records.cpp",
     "  if (op.record().blob_size_bytes > 0 &&\n"
     "      !are_done(uses_of_drop(op.attributes<LastUsesBlob>()), lane.id)) {\n"
     "    park(lane, ParkReason::lanes, Deadline::never());\n"
     "    return Step::parked;\n"
     "  }\n",
     "",
     ["runtime_actor_test", "stress_test"]),
    ("a late loan's bytes are not quarantined",
     "runtime/device_actor_records.cpp",
     "  HandleTable::share(*lane.loan.storage);\n"
     "  quarantine_.push_back(lane.loan);\n",
     "",
     ["runtime_actor_test"]),
    ("an op does not wait for its operand's creation",
     "runtime/device_actor_records.cpp",
     "    if (!lane.has_expired) {\n"
     "      park_on(*unborn, lane, Deadline::in(endpoint_->tables().wait_limit));\n"
     "      return Step::parked;\n"
     "    }\n"
     "    const ErrorRef error = late",
     "    if (lane.id.value == 0) {\n"
     "      park_on(*unborn, lane, Deadline::in(endpoint_->tables().wait_limit));\n"
     "      return Step::parked;\n"
     "    }\n"
     "    const ErrorRef error = late",
     ["runtime_actor_test", "stress_test"]),
    ("a returned slot keeps its generation",
     "streams/slot_pool.cpp",
     "  --block.generation[index];\n",
     "",
     ["streams_test", "runtime_actor_test"]),
    ("bytes are free before the other stream is done",
     "memory/release_queue.hpp",
     "      if (entry.last_use.values[stream] > completed_[stream]) {",
     "      if (entry.last_use.values[stream] > completed_[stream] + 1) {",
     ["memory_test"]),
    ("a block is free before the home stream is done",
     "memory/device_pool.cpp",
     "  heaps_[release.heap].give(release.index, release.last_use.values[0]);",
     "  heaps_[release.heap].give(release.index, 0);",
     ["memory_test"]),
    ("the budget is not looked at",
     "memory/device_pool.cpp",
     "  if (page_bytes > room_bytes) {\n"
     "    return Acquire::over_budget;\n"
     "  }\n",
     "",
     ["memory_test", "runtime_actor_test"]),
    ("gradients replace instead of adding up",
     "runtime/tape.cpp",
     "  slot = slot.is_empty() ? std::move(gradient)\n"
     "                         : add(Arg(std::move(slot), loc), Arg(std::move(gradient), loc));",
     "  static_cast<void>(loc);\n"
     "  slot = std::move(gradient);",
     ["runtime_ops_test"]),
    ("a saved tensor goes before it is used",
     "runtime/tape.cpp",
     "  Tensor gradient = std::move(gradients_[index]);\n"
     "  if (!gradient.is_empty()) {\n"
     "    vjp_row(node.kind).emit(VjpNode(*this, node), std::move(gradient));\n"
     "  }\n"
     "  saved_.resize(node.first_saved);",
     "  Tensor gradient = std::move(gradients_[index]);\n"
     "  if (!gradient.is_empty()) {\n"
     "    vjp_row(node.kind).emit(VjpNode(*this, node), std::move(gradient));\n"
     "  }\n"
     "  saved_.resize(0);",
     ["runtime_ops_test"]),
    ("a step commits though one rank failed",
     "parallel/coordinator_loop.cpp",
     "  if (rank.error) {\n"
     "    fail(found->second, rank.error);\n"
     "  }\n",
     "",
     ["parallel_test"]),
    ("a rank that never comes is waited for",
     "parallel/coordinator_loop.cpp",
     "    for (const auto& [index, bucket] : step.buckets) {\n"
     "      earliest = std::min(earliest, bucket.deadline);\n"
     "    }\n",
     "",
     ["parallel_test"]),
    ("the shares of uneven batches are forgotten",
     "parallel/replica.hpp",
     "static_cast<double>(shard.size) / static_cast<double>(task.sample_count)",
     "1.0 / static_cast<double>(task.sample_count > 0 ? 2 : 1)",
     ["parallel_test"]),
]
