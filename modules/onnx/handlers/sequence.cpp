// Sequences and optionals. They are lists on the host, whose tensors stay where they are.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"

namespace hearth::onnx {
namespace sequence_ops {
namespace {

using Items = std::vector<OnnxValue>;

void construct(Call& call) {
  Items items;
  for (std::size_t i = 0; i < call.count(); ++i) {
    items.push_back(call.value(i));
  }
  const OnnxType type = items.empty() ? OnnxType::f32 : items.front().type();
  call.give(OnnxValue::sequence(std::move(items), type));
}

void empty(Call& call) {
  call.give(OnnxValue::sequence({}, onnx_type_of(call.node().integer("dtype", 1))));
}

// A position in a list, counted from the end if negative. `most`: the largest one.
std::size_t place(Call& call, std::size_t input, std::size_t count, std::size_t most) {
  const std::int64_t given = call.integer(input);
  const std::int64_t at = given < 0 ? given + static_cast<std::int64_t>(count) : given;
  if (at < 0 || at > static_cast<std::int64_t>(most)) {
    call.refuse("position {} is outside a sequence of {}", given, count);
  }
  return static_cast<std::size_t>(at);
}

void insert(Call& call) {
  Items items = call.value(0).items();
  const std::size_t at = call.has(2) ? place(call, 2, items.size(), items.size()) : items.size();
  items.insert(items.begin() + static_cast<std::ptrdiff_t>(at), call.value(1));
  call.give(OnnxValue::sequence(std::move(items), call.type(1)));
}

void erase(Call& call) {
  Items items = call.value(0).items();
  if (items.empty()) {
    call.refuse("the sequence is empty");
  }
  const std::size_t last = items.size() - 1;
  const std::size_t at = call.has(1) ? place(call, 1, items.size(), last) : last;
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
  call.give(OnnxValue::sequence(std::move(items), call.type(0)));
}

void at(Call& call) {
  const Items& items = call.value(0).items();
  if (items.empty()) {
    call.refuse("the sequence is empty");
  }
  call.give(OnnxValue(items[place(call, 1, items.size(), items.size() - 1)]));
}

void length(Call& call) {
  const auto count = static_cast<std::int64_t>(call.value(0).items().size());
  call.give(host_integers({count}, Shape{}));
}

void concat_items(Call& call) {
  const Items items = call.value(0).items();
  const OnnxType type = call.type(0);
  std::vector<Tensor> parts;
  for (const OnnxValue& item : items) {
    parts.push_back(item.has_tensor() ? item.tensor()
                                      : upload(item.host(), call.device(), call.context().loc));
  }
  if (parts.empty()) {
    call.refuse("the sequence is empty");
  }
  const bool is_new = call.node().integer("new_axis", 0) != 0;
  const int rank = parts.front().rank() + (is_new ? 1 : 0);
  const int axis = call.axis(call.node().integer("axis", 0), rank);
  call.give(is_new ? stack(parts, axis) : concat(parts, axis), type);
}

// Parts of one size, or of the sizes in input 1; single positions lose the axis without keepdims.
void split_items(Call& call) {
  const OnnxType type = call.type(0);
  const int axis = call.axis(call.node().integer("axis", 0), call.rank(0));
  const std::int64_t size = call.shape(0)[axis];
  Sizes sizes;
  bool loses_axis = false;
  if (!call.has(1)) {
    sizes.assign(static_cast<std::size_t>(size), 1);
    loses_axis = call.node().integer("keepdims", 1) == 0;
  } else if (call.rank(1) == 0) {
    const std::int64_t part = call.integer(1);
    if (part < 1) {
      call.refuse("parts of {} elements", part);
    }
    for (std::int64_t begin = 0; begin < size; begin += part) {
      sizes.push_back(std::min(part, size - begin));
    }
  } else {
    sizes = call.integers(1);
  }
  Items items;
  for (Tensor& part : split(call.take(0), sizes, axis)) {
    items.emplace_back(loses_axis ? squeeze(std::move(part), axis) : std::move(part), type);
  }
  call.give(OnnxValue::sequence(std::move(items), type));
}

// An optional is its content, or nothing.
void optional(Call& call) {
  call.give(call.has(0) ? OnnxValue(call.value(0)) : OnnxValue());
}

void content(Call& call) {
  if (!call.has(0)) {
    call.refuse("the optional is empty");
  }
  call.give(OnnxValue(call.value(0)));
}

void has_content(Call& call) {
  call.give(host_integers({call.has(0) ? 1 : 0}, Shape{}, OnnxType::boolean));
}

constexpr OpRow kRows[] = {
    {.op = "SequenceConstruct", .since = 11, .run = construct},
    {.op = "SequenceEmpty", .since = 11, .run = empty},
    {.op = "SequenceInsert", .since = 11, .run = insert, .host_inputs = inputs(2)},
    {.op = "SequenceErase", .since = 11, .run = erase, .host_inputs = inputs(1)},
    {.op = "SequenceAt", .since = 11, .run = at, .host_inputs = inputs(1)},
    {.op = "SequenceLength", .since = 11, .run = length},
    {.op = "ConcatFromSequence", .since = 11, .run = concat_items},
    {.op = "SplitToSequence", .since = 11, .run = split_items, .host_inputs = inputs(1)},
    {.op = "Optional", .since = 15, .run = optional},
    {.op = "OptionalGetElement", .since = 15, .run = content},
    {.op = "OptionalHasElement", .since = 15, .run = has_content},
};

}  // namespace
}  // namespace sequence_ops

std::span<const OpRow> sequence_rows() {
  return sequence_ops::kRows;
}

}  // namespace hearth::onnx
