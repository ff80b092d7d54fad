#include "tile_pattern.hpp"

#include "cast_loops.hpp"

#include <hearth/streams/kernel/op_expression.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <array>
#include <cstring>
#include <span>
#include <utility>

namespace hearth::cpu {

namespace {

// The expression of one op on elements of one type. Attributes only become parameters, which stand
// for any values.
TilePattern pattern_of(OpKind kind, std::span<const DType> inputs, DType output) {
  const RandomAttributes attributes;
  std::array<std::byte, sizeof(attributes)> blob{};
  std::memcpy(blob.data(), &attributes, sizeof(attributes));
  OpRecord record;
  record.kind = kind;
  record.input_count = static_cast<std::uint16_t>(inputs.size());
  record.output_count = 1;
  record.blob_size_bytes = sizeof(attributes);
  std::vector<TensorSpec> specs;
  for (const DType type : inputs) {
    specs.push_back({type, Shape{1}});
  }
  const TensorSpec result{output, Shape{1}};
  KernelIR kernel = op_kernel(OpView(record, blob.data()), specs, std::span(&result, 1)).value();
  TilePattern pattern{.root = kernel.outputs[0].value,
                      .input_count = kernel.inputs.size(),
                      .parameter_count = kernel.parameters.size()};
  // What the loop gives is not yet in a 16-bit type.
  const KernelNode& last = kernel.body[static_cast<std::size_t>(pattern.root)];
  if (last.primitive == Primitive::convert) {
    pattern.root = last.operands[0];
  }
  pattern.body = std::move(kernel.body);
  return pattern;
}

// Whether a value can be what a leaf of the pattern stands for.
bool bind(std::int32_t& bound, std::int32_t node) {
  if (bound != kNoNode && bound != node) {
    return false;
  }
  bound = node;
  return true;
}

bool matches(const TilePattern& pattern,
             std::int32_t place,
             const KernelIR& kernel,
             std::int32_t node,
             const std::vector<bool>& is_cell,
             std::vector<std::int32_t>& bound) {
  const KernelNode& want = pattern.body[static_cast<std::size_t>(place)];
  const KernelNode& have = kernel.body[static_cast<std::size_t>(node)];
  if (want.type != have.type) {
    return false;
  }
  const auto number = static_cast<std::size_t>(want.number);
  if (want.primitive == Primitive::input) {
    return bind(bound[number], node);
  }
  if (want.primitive == Primitive::parameter) {
    return is_cell[static_cast<std::size_t>(node)] &&
           bind(bound[pattern.input_count + number], node);
  }
  if (want.primitive != have.primitive || want.bits != have.bits || want.number != have.number) {
    return false;
  }
  for (std::size_t i = 0; i < want.operands.size() && want.operands[i] != kNoNode; ++i) {
    if (!matches(pattern, want.operands[i], kernel, have.operands[i], is_cell, bound)) {
      return false;
    }
  }
  return true;
}

class Patterns {
 public:
  explicit Patterns(IsaLevel isa) : isa_(isa) {}

  // dropout holds bernoulli, so it stands before it.
  std::vector<TilePattern> take() {
    add_random();
    for (const DType type : {DType::f32, DType::f64}) {
      add_map(OpKind::sigmoid, type);
      add_map(OpKind::rsqrt, type);
    }
    for (const DType type : {DType::f32, DType::f64, DType::i32, DType::i64}) {
      add_map(OpKind::relu, type);
      add_combine(OpKind::relu_backward, type, type);
      add_combine(OpKind::not_equal, type, DType::boolean);
    }
    return std::move(patterns_);
  }

 private:
  TilePattern& add(OpKind kind, std::span<const DType> inputs, DType output) {
    patterns_.push_back(pattern_of(kind, inputs, output));
    TilePattern& pattern = patterns_.back();
    pattern.instruction.type = pattern.body[static_cast<std::size_t>(pattern.root)].type;
    return pattern;
  }

  void add_map(OpKind kind, DType type) {
    TileInstruction& instruction = add(kind, std::array{type}, type).instruction;
    instruction.step = TileStep::map;
    instruction.map_loop = unary_loops(isa_).at(kind, type);
  }

  void add_combine(OpKind kind, DType type, DType result) {
    TileInstruction& instruction = add(kind, std::array{type, type}, result).instruction;
    instruction.step = TileStep::combine;
    instruction.forms = &binary_loops(isa_).at(kind, type);
  }

  void add_random() {
    const RandomLoops& loops = random_loops(isa_);
    const std::array<std::pair<DType, RandomLoops::Uniform>, 4> uniforms{
        std::pair{DType::f32, loops.uniform_f32},
        std::pair{DType::f64, loops.uniform_f64},
        std::pair{DType::f16, loops.uniform_f16},
        std::pair{DType::bf16, loops.uniform_bf16}};
    for (const auto& [type, loop] : uniforms) {
      TileInstruction& instruction = add(OpKind::random_uniform, {}, type).instruction;
      instruction.step = TileStep::uniform;
      instruction.uniform_loop = loop;
    }
    for (const DType type : {DType::f32, DType::f64}) {
      add(OpKind::random_normal, {}, type).instruction.step = TileStep::normal;
      add(OpKind::dropout, std::array{type}, type).instruction.step = TileStep::dropout;
    }
    add(OpKind::random_bernoulli, {}, DType::boolean).instruction.step = TileStep::hits;
  }

  IsaLevel isa_;
  std::vector<TilePattern> patterns_ = {};
};

}  // namespace

std::vector<TilePattern> tile_patterns(IsaLevel isa) {
  return Patterns(isa).take();
}

std::optional<std::vector<std::int32_t>> match(const TilePattern& pattern,
                                               const KernelIR& kernel,
                                               std::int32_t node,
                                               const std::vector<bool>& is_cell) {
  std::vector<std::int32_t> bound(pattern.input_count + pattern.parameter_count, kNoNode);
  if (!matches(pattern, pattern.root, kernel, node, is_cell, bound)) {
    return std::nullopt;
  }
  return bound;
}

}  // namespace hearth::cpu
