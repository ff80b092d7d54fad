#include "kernel_journal.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <hearth/streams/op_table.hpp>

#include "runtime/client/runtime_tables.hpp"

namespace hearth {
namespace {

constexpr std::uint64_t kUnnamed = 0;
constexpr std::string_view kUpdate =
    "it updates a parameter: an update group runs whole or not at all, each update by itself";
constexpr std::string_view kEachAlone = "the device groups no ops: fusion is off, or single";

std::uint64_t name_of(const Operand& operand) noexcept {
  return (std::uint64_t{operand.slot.value} << 32U) | operand.generation;
}

/// Counts elements that an axis repeats once.
std::int64_t bytes_of(const TensorView& view) noexcept {
  std::int64_t count = 1;
  for (int axis = 0; axis < view.layout->shape.rank(); ++axis) {
    const std::int64_t size = view.layout->shape[axis];
    count *= view.layout->strides[static_cast<std::size_t>(axis)] == 0
                 ? std::min<std::int64_t>(size, 1)
                 : size;
  }
  return count * size_bytes(view.dtype);
}

/// Whether the same elements were read before, in any order.
bool has(const std::vector<KernelJournal::Read>& reads, const KernelJournal::Read& read) {
  return std::ranges::find(reads, read) != reads.end();
}

}  // namespace

KernelJournal::Tensor KernelJournal::shown_by(const Operand& operand) const {
  const auto view = views_.find(name_of(operand));
  return view == views_.end() ? name_of(operand) : view->second;
}

void KernelJournal::record_view(const Operand& from, const Operand& view) {
  views_[name_of(view)] = shown_by(from);
}

// An operand that a kernel reads twice counts once. A copy that the device makes for itself has
// unnamed operands: it moves bytes, but the program does not need them.
void KernelJournal::record_read(const TensorView& view,
                                const Operand& operand,
                                std::vector<Read>& seen,
                                ExplainedKernel& kernel) {
  const Read read{view.data, bytes_of(view)};
  if (has(seen, read)) {
    return;
  }
  seen.push_back(read);
  kernel.bytes_read += read.size_bytes;
  const Tensor tensor = shown_by(operand);
  if (tensor == kUnnamed) {
    return;
  }
  Bytes& bytes = bytes_[tensor];
  if (bytes.written == 0 && !has(bytes.read, read)) {
    bytes.read.push_back(read);
  }
}

void KernelJournal::record_written(const TensorView& view,
                                   const Operand& operand,
                                   ExplainedKernel& kernel) {
  const std::int64_t size = bytes_of(view);
  kernel.bytes_written += size;
  if (const Tensor tensor = name_of(operand); tensor != kUnnamed) {
    bytes_[tensor].written = size;
  }
}

std::string kernel_name(const KernelCall& call, const RuntimeTables& tables) {
  const Expression* const expression =
      call.epilogue != nullptr ? call.epilogue->expression : call.expression;
  std::string own(expression != nullptr ? std::string_view(expression->name)
                                        : tables.op_name(call.op.record()));
  return call.prologue == nullptr ? own : kernel_name(*call.prologue->call, tables) + " > " + own;
}

// Uses the names of the program's ops; a shared plan knows only kinds.
std::string kernel_name(const FusedGroup& group, const RuntimeTables& tables) {
  constexpr std::size_t kMostNamed = 8;
  std::string text = group.before != nullptr ? kernel_name(*group.before, tables) + " > " : "";
  std::size_t count = 0;
  for (const FusedGroup::Member& member : group.members) {
    const bool runs = !member.is_recomputed && (member.role == FusedGroup::Role::computes ||
                                                member.role == FusedGroup::Role::anchor);
    if (runs && ++count <= kMostNamed) {
      text += count > 1 ? "+" : "";
      text += tables.op_name(member.op.record());
    }
  }
  return count > kMostNamed ? fmt::format("{}+{} more", text, count - kMostNamed) : text;
}

// The value between a prologue and its anchor is neither read nor written.
void KernelJournal::record_reads(const KernelCall& call,
                                 std::vector<Read>& seen,
                                 ExplainedKernel& kernel) {
  if (call.prologue != nullptr) {
    record_reads(*call.prologue->call, seen, kernel);
  }
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const int input = static_cast<int>(i);
    if (call.prologue == nullptr || call.prologue->input != input) {
      record_read(call.inputs[i], call.op.input(input), seen, kernel);
    }
  }
  if (call.epilogue != nullptr) {
    for (std::size_t i = 0; i < call.epilogue->inputs.size(); ++i) {
      record_read(call.epilogue->inputs[i], call.epilogue->operands[i], seen, kernel);
    }
  }
}

void KernelJournal::note(const KernelCall& call,
                         std::size_t op_count,
                         const RuntimeTables& tables) {
  const OpRecord& record = call.op.record();
  const Epilogue* const epilogue = call.epilogue;
  ExplainedKernel kernel{.name = kernel_name(call, tables),
                         .op_count = static_cast<std::int64_t>(op_count),
                         .module_path = tables.paths.path(record.path),
                         .location = tables.sources.location(record.source),
                         .boundary = std::exchange(boundary_, {})};
  if (kernel.boundary.empty()) {
    kernel.boundary = is_update(record) ? kUpdate : tables.fuses ? "" : kEachAlone;
  }
  std::vector<Read> seen;
  record_reads(call, seen, kernel);
  const std::size_t beside = epilogue != nullptr ? epilogue->inputs.size() : 0;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    record_written(
        call.outputs[i],
        epilogue != nullptr ? epilogue->operands[beside + i] : call.op.output(static_cast<int>(i)),
        kernel);
  }
  explanation_.kernels.push_back(std::move(kernel));
}

void KernelJournal::record_copy(const KernelCall& call,
                                const OpView& op,
                                const RuntimeTables& tables) {
  const std::string boundary = std::exchange(
      boundary_,
      fmt::format("it copies what {} needs in row-major order", tables.op_name(op.record())));
  note(call, 1, tables);
  explanation_.kernels.back().module_path = tables.paths.path(op.record().path);
  explanation_.kernels.back().location = tables.sources.location(op.record().source);
  boundary_ = boundary;
}

void KernelJournal::record_members(const FusedGroup& group, const RuntimeTables& tables) {
  ExplainedKernel& kernel = explanation_.kernels.back();
  kernel.name = kernel_name(group, tables);
  const auto is_unneeded = [](const FusedGroup::Member& member) {
    return member.role == FusedGroup::Role::unneeded && !member.is_recomputed;
  };
  for (const FusedGroup* const each : {static_cast<const FusedGroup*>(group.before), &group}) {
    const auto count = each == nullptr ? 0 : std::ranges::count_if(each->members, is_unneeded);
    kernel.op_count -= count;
    explanation_.unneeded_ops += count;
  }
}

// A tensor counts as live if it or a view of it is.
Explanation KernelJournal::read(HandleTable& handles, std::string device) {
  const auto is_live = [&](Tensor tensor) {
    return handles.is_live(SlotId{static_cast<std::uint32_t>(tensor >> 32U)},
                           static_cast<std::uint32_t>(tensor));
  };
  std::vector<Tensor> shown;
  for (const auto& [view, tensor] : views_) {
    if (is_live(view)) {
      shown.push_back(tensor);
    }
  }
  std::ranges::sort(shown);
  for (const auto& [tensor, bytes] : bytes_) {
    const bool is_stored = is_live(tensor) || std::ranges::binary_search(shown, tensor);
    explanation_.ideal_bytes += is_stored ? bytes.written : 0;
    for (const Read& each : bytes.read) {
      explanation_.ideal_bytes += each.size_bytes;
    }
  }
  explanation_.device = std::move(device);
  return std::move(explanation_);
}

}  // namespace hearth
