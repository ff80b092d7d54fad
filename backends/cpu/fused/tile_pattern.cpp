#include "tile_pattern.hpp"

#include <hearth/streams/kernel/op_expression.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

namespace hearth::cpu {

namespace {

// Builds the expression of one op on elements of one type. Attributes only become parameters, which
// match any values.
template <class Attributes>
TilePattern pattern_of(OpKind kind,
                       const Attributes& attributes,
                       std::span<const DType> inputs,
                       std::span<const DType> outputs) {
  OpRecord record;
  record.kind = kind;
  record.input_count = static_cast<std::uint16_t>(inputs.size());
  record.output_count = static_cast<std::uint16_t>(outputs.size());
  const int extra = std::max(record.operand_count() - kInlineOperands, 0);
  const std::size_t offset = static_cast<std::size_t>(extra) * sizeof(Operand);
  std::vector<std::byte> blob(offset + sizeof(attributes));
  std::memcpy(blob.data() + offset, &attributes, sizeof(attributes));
  record.blob_size_bytes = static_cast<std::uint32_t>(blob.size());
  const auto specs_of = [](std::span<const DType> types) {
    std::vector<TensorSpec> specs;
    for (const DType type : types) {
      specs.push_back({type, Shape{1}});
    }
    return specs;
  };
  KernelIR kernel =
      op_kernel(OpView(record, blob.data()), specs_of(inputs), specs_of(outputs)).value();
  TilePattern pattern{.input_count = kernel.inputs.size(),
                      .parameter_count = kernel.parameters.size()};
  for (const KernelOutput& output : kernel.outputs) {
    // The loop's result is not yet in a 16-bit type.
    const KernelNode& last = kernel.body[static_cast<std::size_t>(output.value)];
    pattern.roots.push_back(last.primitive == Primitive::convert ? last.operands[0] : output.value);
  }
  pattern.body = std::move(kernel.body);
  return pattern;
}

// One attempt to match a pattern in a kernel.
class Matcher {
 public:
  Matcher(const TilePattern& pattern, const KernelIR& kernel, const std::vector<bool>& is_cell)
      : pattern_(pattern),
        kernel_(kernel),
        is_cell_(is_cell),
        bound_(pattern.input_count + pattern.parameter_count, kNoNode),
        image_(pattern.body.size(), kNoNode) {}

  std::optional<TileMatch> run(std::int32_t node) {
    if (!matches(pattern_.roots[0], node)) {
      return std::nullopt;
    }
    TileMatch match{.operands = std::move(bound_)};
    for (const std::int32_t root : pattern_.roots) {
      match.results.push_back(image_[static_cast<std::size_t>(root)]);
      if (root != pattern_.roots[0] && is_used_before(match.results.back(), node)) {
        return std::nullopt;
      }
    }
    return match;
  }

 private:
  // Binds `slot` to a node. Fails if it holds another one.
  static bool bind(std::int32_t& slot, std::int32_t node) {
    const bool is_free = slot == kNoNode;
    slot = is_free ? node : slot;
    return slot == node;
  }

  bool matches(std::int32_t place, std::int32_t node) {
    const KernelNode& want = pattern_.body[static_cast<std::size_t>(place)];
    const KernelNode& have = kernel_.body[static_cast<std::size_t>(node)];
    if (want.type != have.type || !bind(image_[static_cast<std::size_t>(place)], node)) {
      return false;
    }
    const auto number = static_cast<std::size_t>(want.number);
    if (want.primitive == Primitive::input) {
      return bind(bound_[number], node);
    }
    if (want.primitive == Primitive::parameter) {
      return is_cell_[static_cast<std::size_t>(node)] &&
             bind(bound_[pattern_.input_count + number], node);
    }
    if (want.primitive != have.primitive || want.bits != have.bits || want.number != have.number) {
      return false;
    }
    for (std::size_t i = 0; i < want.operands.size() && want.operands[i] != kNoNode; ++i) {
      if (!matches(want.operands[i], have.operands[i])) {
        return false;
      }
    }
    return true;
  }

  // Whether a node before the instance's result uses this one without being part of the instance.
  [[nodiscard]] bool is_used_before(std::int32_t node, std::int32_t result) const {
    for (std::int32_t i = node + 1; i < result; ++i) {
      const KernelNode& other = kernel_.body[static_cast<std::size_t>(i)];
      if (std::ranges::find(other.operands, node) != other.operands.end() &&
          std::ranges::find(image_, i) == image_.end()) {
        return true;
      }
    }
    return false;
  }

  const TilePattern& pattern_;
  const KernelIR& kernel_;
  const std::vector<bool>& is_cell_;
  std::vector<std::int32_t> bound_;
  std::vector<std::int32_t> image_;  ///< By node of the pattern.
};

class Patterns {
 public:
  explicit Patterns(IsaLevel isa) : isa_(isa) {}

  // dropout contains bernoulli, so it comes first.
  std::vector<TilePattern> take() {
    add_random();
    for (const DType type : {DType::f32, DType::f64}) {
      add_adam(type, false);
      add_adam(type, true);
      add_map(OpKind::sigmoid, type);
      add_map(OpKind::rsqrt, type);
      add_map(OpKind::log1p, type);
      add_map(OpKind::expm1, type);
      // ceil contains floor, and both contain round.
      add_map(OpKind::ceil, type);
      add_map(OpKind::floor, type);
      add_map(OpKind::trunc, type);
      add_map(OpKind::round, type);
    }
    for (const DType type : {DType::f32, DType::f64, DType::i32, DType::i64}) {
      add_map(OpKind::relu, type);
      add_combine(OpKind::relu_backward, type, type);
      add_combine(OpKind::not_equal, type, DType::boolean);
    }
    return std::move(patterns_);
  }

 private:
  TilePattern& add(TilePattern made) {
    patterns_.push_back(std::move(made));
    TilePattern& pattern = patterns_.back();
    pattern.instruction.type = pattern.body[static_cast<std::size_t>(pattern.roots[0])].type;
    pattern.instruction.out_count = static_cast<std::uint8_t>(pattern.roots.size());
    return pattern;
  }
  TilePattern& add(OpKind kind, std::span<const DType> inputs, DType output) {
    return add(pattern_of(kind, RandomAttributes{}, inputs, std::array{output}));
  }

  void add_adam(DType type, bool is_decoupled) {
    const AdamAttributes attributes{.decoupled = is_decoupled ? 1 : 0};
    TileInstruction& instruction = add(pattern_of(OpKind::adam_step,
                                                  attributes,
                                                  std::array{type, type, type, type},
                                                  std::array{type, type, type}))
                                       .instruction;
    instruction.step = TileStep::adam;
    instruction.updates = &optimizer_loops(isa_);
    instruction.is_decoupled = is_decoupled;
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

std::optional<TileMatch> match(const TilePattern& pattern,
                               const KernelIR& kernel,
                               std::int32_t node,
                               const std::vector<bool>& is_cell) {
  return Matcher(pattern, kernel, is_cell).run(node);
}

}  // namespace hearth::cpu
