#include <hearth/streams/trace/op_trace_reducer.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

namespace hearth {
namespace {

using LaneOfDevice = std::pair<std::uint32_t, std::uint64_t>;

// Removes group ends without a kept begin, and begins without a kept end.
std::vector<bool> without_halves(const OpTrace& trace, std::vector<bool> keep) {
  std::map<LaneOfDevice, std::size_t> begins;
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const TraceOp& op = trace.ops[i];
    const LaneOfDevice lane{op.device, op.lane};
    if (op.record.kind == OpKind::group_begin) {
      begins[lane] = i;
    } else if (op.record.kind == OpKind::group_end) {
      const auto begin = begins.find(lane);
      if (begin == begins.end()) {
        keep[i] = false;
        continue;
      }
      keep[i] = keep[i] && keep[begin->second];
      keep[begin->second] = keep[i];
    }
  }
  return keep;
}

// Copies ops into a new trace whose tables hold only what they name.
class Selection {
 public:
  explicit Selection(const OpTrace& from) : from_(from) {
    to_.notes = from.notes;
    to_.devices = from.devices;
  }

  // Skips an op that lost an input.
  void add(std::size_t index) {
    const TraceOp& source = from_.ops[index];
    const OpView view = source.view();
    for (int i = 0; i < source.record.input_count; ++i) {
      if (!values_.contains(view.input(i).slot.value)) {
        return;
      }
    }
    TraceOp op = source;
    for (int i = 0; i < source.record.operand_count(); ++i) {
      Operand operand = view.operand(i);
      const bool is_output = i >= source.record.input_count;
      const std::uint32_t old_number = operand.slot.value;
      operand.slot.value = is_output ? values_[old_number] = next_value_++ : values_.at(old_number);
      operand.shape.value = moved(shapes_, operand.shape.value, from_.shapes, to_.shapes);
      if (!is_output && operand.use == Use::read_last) {
        values_.erase(old_number);
      }
      put(op, i, operand);
    }
    op.record.source.value = op.record.source.value == 0
                                 ? 0
                                 : moved(places_, op.record.source.value, from_.places, to_.places);
    op.record.path.value =
        op.record.path.value == 0 ? 0 : moved(paths_, op.record.path.value, from_.paths, to_.paths);
    if (op.record.kind == OpKind::expression) {
      auto attributes = view.attributes<ExpressionAttributes>();
      attributes.expression =
          moved(expressions_, attributes.expression, from_.expressions, to_.expressions);
      std::memcpy(op.record.immediate, &attributes, sizeof attributes);
    }
    op.data = op.data == 0 ? 0 : moved(data_, op.data - 1, from_.data, to_.data) + 1;
    if (op.copied_from != 0) {
      const auto read = ops_.find(op.copied_from);
      op.copied_from = read == ops_.end() ? 0 : read->second;
    }
    to_.ops.push_back(std::move(op));
    ops_.emplace(static_cast<std::uint32_t>(index + 1), static_cast<std::uint32_t>(to_.ops.size()));
  }

  OpTrace take() { return std::move(to_); }

 private:
  using Numbers = std::unordered_map<std::uint32_t, std::uint32_t>;

  template <class Entry>
  static std::uint32_t moved(Numbers& numbers,
                             std::uint32_t old_place,
                             const std::vector<Entry>& from,
                             std::vector<Entry>& to) {
    const auto [entry, is_new] = numbers.emplace(old_place, static_cast<std::uint32_t>(to.size()));
    if (is_new) {
      to.push_back(from[old_place]);
    }
    return entry->second;
  }

  static void put(TraceOp& op, int index, const Operand& operand) {
    if (index < kInlineOperands) {
      op.record.operands[index] = operand;
    } else {
      std::memcpy(
          op.blob.data() + static_cast<std::size_t>(index - kInlineOperands) * sizeof(Operand),
          &operand,
          sizeof operand);
    }
  }

  const OpTrace& from_;
  OpTrace to_;
  Numbers values_;  // live values, by their old numbers
  Numbers shapes_;
  Numbers places_;
  Numbers paths_;
  Numbers expressions_;
  Numbers data_;
  Numbers ops_;
  std::uint32_t next_value_ = 1;
};

TraceOp zeros_for(const TraceOp& op, int output) {
  TraceOp zeros{.record = {}, .device = op.device, .lane = op.lane};
  zeros.record.kind = OpKind::fill;
  zeros.record.output_count = 1;
  zeros.record.sequence = op.record.sequence;
  zeros.record.source = op.record.source;
  zeros.record.path = op.record.path;
  zeros.record.operands[0] = op.view().output(output);
  return zeros;
}

// Returns the trace with the op replaced by a fill with zeros for each of its results.
OpTrace with_zeros(const OpTrace& trace, std::size_t index) {
  OpTrace out = trace;
  const TraceOp op = trace.ops[index];
  out.ops.erase(out.ops.begin() + static_cast<std::ptrdiff_t>(index));
  for (int i = op.record.output_count - 1; i >= 0; --i) {
    out.ops.insert(out.ops.begin() + static_cast<std::ptrdiff_t>(index), zeros_for(op, i));
  }
  const auto added = static_cast<std::uint32_t>(op.record.output_count);
  for (TraceOp& later : out.ops) {
    if (later.copied_from > index) {
      later.copied_from = later.copied_from == index + 1 ? 0 : later.copied_from + added - 1;
    }
  }
  // Values that the op used up live until the end: no later op names them.
  return select_ops(out, std::vector<bool>(out.ops.size(), true));
}

// Returns the trace from that op on, with zeros for inputs from before.
OpTrace tail_of(const OpTrace& trace, std::size_t begin) {
  std::set<std::uint32_t> needed;
  for (std::size_t i = begin; i < trace.ops.size(); ++i) {
    const OpView view = trace.ops[i].view();
    for (int k = 0; k < trace.ops[i].record.input_count; ++k) {
      needed.insert(view.input(k).slot.value);
    }
  }
  OpTrace out = trace;
  out.ops.clear();
  for (std::size_t i = 0; i < begin; ++i) {
    for (int k = 0; k < trace.ops[i].record.output_count; ++k) {
      if (needed.contains(trace.ops[i].view().output(k).slot.value)) {
        out.ops.push_back(zeros_for(trace.ops[i], k));
      }
    }
  }
  const std::size_t added = out.ops.size();
  for (std::size_t i = begin; i < trace.ops.size(); ++i) {
    TraceOp op = trace.ops[i];
    op.copied_from =
        op.copied_from <= begin ? 0 : op.copied_from - static_cast<std::uint32_t>(begin - added);
    out.ops.push_back(std::move(op));
  }
  return select_ops(out, std::vector<bool>(out.ops.size(), true));
}

bool can_be_zeros(const TraceOp& op) {
  return op.record.kind != OpKind::fill && op.record.output_count > 0;
}

class Reducer {
 public:
  Reducer(const OpTrace& trace, const TraceQuestion& still_fails, const TraceReduceOptions& options)
      : best_(trace),
        still_fails_(still_fails),
        runs_left_(options.max_runs),
        until_(options.until) {}

  OpTrace reduce() {
    // Terminates: each success shortens the trace, or replaces an op by zeros.
    do {
      has_changed_ = false;
      remove_beginning();
      remove_chunks();
      put_zeros();
    } while (has_changed_ && has_runs_left());
    return std::move(best_);
  }

 private:
  bool has_runs_left() const { return runs_left_ > 0 && !until_.has_passed(); }

  bool try_out(OpTrace candidate) {
    if (!has_runs_left() || candidate.ops.empty()) {
      return false;
    }
    --runs_left_;
    if (!still_fails_(candidate)) {
      return false;
    }
    best_ = std::move(candidate);
    has_changed_ = true;
    return true;
  }

  // In a long chain every op needs the one before it: no chunk can be removed, but its beginning
  // can.
  void remove_beginning() {
    for (std::size_t size = best_.ops.size() / 2; size > 0 && has_runs_left();) {
      OpTrace candidate = tail_of(best_, size);
      const bool is_smaller = candidate.ops.size() < best_.ops.size();
      if (is_smaller && try_out(std::move(candidate))) {
        size = std::min(size, best_.ops.size() / 2);
      } else {
        size /= 2;
      }
    }
  }

  void remove_chunks() {
    for (std::size_t size = std::max<std::size_t>(best_.ops.size() / 2, 1); has_runs_left();
         size /= 2) {
      // From the end, because later ops depend on earlier ones and not the other way round.
      std::size_t end = best_.ops.size();
      while (end > 0 && has_runs_left()) {
        const std::size_t begin = end > size ? end - size : 0;
        std::vector<bool> keep(best_.ops.size(), true);
        std::fill(keep.begin() + static_cast<std::ptrdiff_t>(begin),
                  keep.begin() + static_cast<std::ptrdiff_t>(end),
                  false);
        try_out(select_ops(best_, keep));
        end = std::min(begin, best_.ops.size());
      }
      if (size <= 1) {
        return;
      }
    }
  }

  void put_zeros() {
    for (std::size_t i = best_.ops.size(); i-- > 0 && has_runs_left();) {
      if (i < best_.ops.size() && can_be_zeros(best_.ops[i])) {
        try_out(with_zeros(best_, i));
      }
    }
  }

  OpTrace best_;
  bool has_changed_ = false;
  const TraceQuestion& still_fails_;
  int runs_left_;
  const Deadline until_;
};

}  // namespace

OpTrace select_ops(const OpTrace& trace, const std::vector<bool>& keep) {
  const std::vector<bool> kept = without_halves(trace, keep);
  Selection selection(trace);
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    if (kept[i]) {
      selection.add(i);
    }
  }
  return selection.take();
}

OpTrace reduce_trace(const OpTrace& trace,
                     const TraceQuestion& still_fails,
                     const TraceReduceOptions& options) {
  return Reducer(trace, still_fails, options).reduce();
}

}  // namespace hearth
