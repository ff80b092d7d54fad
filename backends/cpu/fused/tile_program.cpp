#include "tile_program.hpp"

#include "fold_loops.hpp"
#include "tile_assignment.hpp"
#include "tile_pattern.hpp"
#include "tile_wrapped.hpp"

#include <hearth/streams/kernel/pointwise.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string>
#include <utility>

namespace hearth::cpu {

namespace {

Error too_much(std::string what) {
  return {.code = ErrorCode::unsupported,
          .text = "kernel: the CPU's tile programs have " + std::move(what)};
}

// Returns the kind whose loops compute a primitive.
std::optional<OpKind> unary_kind(Primitive primitive) {
  switch (primitive) {
    case Primitive::neg:
      return OpKind::neg;
    case Primitive::abs:
      return OpKind::abs;
    case Primitive::sqrt:
      return OpKind::sqrt;
    case Primitive::exp:
      return OpKind::exp;
    case Primitive::log:
      return OpKind::log;
    case Primitive::sin:
      return OpKind::sin;
    case Primitive::cos:
      return OpKind::cos;
    case Primitive::tanh:
      return OpKind::tanh;
    case Primitive::erf:
      return OpKind::erf;
    case Primitive::atan:
      return OpKind::atan;
    default:
      return std::nullopt;
  }
}

// Truth values are 0 and 1: "and" is their minimum, "or" their maximum, "not" compares with 0.
std::optional<OpKind> binary_kind(Primitive primitive) {
  switch (primitive) {
    case Primitive::add:
      return OpKind::add;
    case Primitive::sub:
      return OpKind::sub;
    case Primitive::mul:
      return OpKind::mul;
    case Primitive::div:
      return OpKind::div;
    case Primitive::pow:
      return OpKind::pow;
    case Primitive::min:
    case Primitive::logical_and:
      return OpKind::min;
    case Primitive::max:
    case Primitive::logical_or:
      return OpKind::max;
    case Primitive::equal:
    case Primitive::logical_not:
      return OpKind::equal;
    case Primitive::less:
      return OpKind::less;
    case Primitive::less_equal:
      return OpKind::less_equal;
    case Primitive::bit_and:
      return OpKind::bitwise_and;
    case Primitive::bit_or:
      return OpKind::bitwise_or;
    case Primitive::bit_xor:
      return OpKind::bitwise_xor;
    case Primitive::shift_left:
      return OpKind::shift_left;
    case Primitive::shift_right:
      return OpKind::shift_right;
    default:
      return std::nullopt;
  }
}

bool is_pointwise_kernel(const KernelIR& kernel) {
  const auto lies_along = [](const std::vector<AffineIndex>& map) {
    return map.size() == 1 && map[0].is_plain();
  };
  return kernel.axis_count() == 1 &&
         std::ranges::all_of(kernel.inputs, lies_along, &KernelInput::map);
}

// Approximate cost of an element in picoseconds, without the memory that it moves.
std::int64_t cost_of(const TileInstruction& instruction, const KernelIR& kernel) {
  constexpr std::int64_t kCheap = 50;
  constexpr std::int64_t kFunction = 500;
  constexpr std::int64_t kLibraryFunction = 15000;
  switch (instruction.step) {
    case TileStep::uniform:
    case TileStep::hits:
    case TileStep::dropout:
      return kFunction;
    case TileStep::normal:
      return instruction.type == DType::f64 ? 2 * kLibraryFunction : 2 * kFunction;
    case TileStep::words:
      return kLibraryFunction;
    case TileStep::adam:
    case TileStep::row:
    case TileStep::wrapped:
      return kFunction;
    case TileStep::expand:
      return kCheap;
    default:
      break;
  }
  switch (kernel.node(instruction.node).primitive) {
    case Primitive::exp:
    case Primitive::log:
    case Primitive::sin:
    case Primitive::cos:
    case Primitive::tanh:
    case Primitive::erf:
    case Primitive::atan:
    case Primitive::pow:
      return instruction.type == DType::f64 ? kLibraryFunction : kFunction;
    default:
      return kCheap;
  }
}

// Compiles nodes to instructions. Values are node numbers until the numbers of cells and tiles are
// known.
class Compiler {
 public:
  Compiler(const KernelIR& kernel, IsaLevel isa)
      : isa_(isa),
        patterns_(tile_patterns(isa)),
        is_cell_(kernel.body.size()),
        is_needed_(kernel.body.size()),
        is_made_beside_(kernel.body.size()),
        use_count_(kernel.body.size()),
        chosen_(kernel.body.size()),
        value_(kernel.body.size()),
        expanded_(kernel.body.size()) {
    program_.kernel = kernel;
    program_.has_rows = is_row_kernel(kernel);
    if (program_.has_rows) {
      stays_ = staying_nodes(kernel);
    }
  }

  // Phases: cells, which depend on parameters alone; nodes that become instructions; numbers of
  // cells; tiles.
  Result<TileProgram> run() {
    HEARTH_TRY_STATUS(check_limits());
    program_.is_pointwise = is_pointwise_kernel(kernel());
    find_cells();
    count_uses();
    choose_instructions();
    number_inputs_and_cells();
    write_instructions();
    HEARTH_TRY_STATUS(
        assign_tiles(program_, [this](const TileInstruction& each, std::size_t operand) {
          return may_overwrite(each, operand);
        }));
    find_sizes();
    return std::move(program_);
  }

 private:
  using Place = std::size_t;
  struct Chosen {
    TileInstruction instruction = {};
    std::vector<std::int32_t> operands = {};  ///< Nodes.
    std::vector<std::int32_t> results = {};   ///< Nodes; the first is the instruction's own.
  };

  [[nodiscard]] const KernelIR& kernel() const { return program_.kernel; }
  [[nodiscard]] const KernelNode& node(Place place) const { return program_.kernel.body[place]; }
  [[nodiscard]] bool is_leaf(Place place) const {
    return operand_count(node(place).primitive) == 0;
  }
  /// Whether the node has one element for each row, rather than one for all rows.
  [[nodiscard]] bool is_of_rows(Place place) const {
    return program_.has_rows && stays_[place] && !is_cell_[place];
  }
  [[nodiscard]] bool is_input(Place place) const {
    return node(place).primitive == Primitive::input;
  }

  [[nodiscard]] Status check_limits() const {
    if (kernel().folded != 0 && !program_.has_rows) {
      return too_much("no folds but along the rows of row kernels");
    }
    const auto is_index = [](const KernelNode& each) { return each.primitive == Primitive::index; };
    if (program_.has_rows && std::ranges::any_of(kernel().body, is_index)) {
      return too_much("no indices in row kernels");
    }
    const auto check = [](std::string_view what, std::size_t most, std::size_t count) {
      return count <= most ? Status()
                           : too_much(fmt::format("at most {} {}, not {}", most, what, count));
    };
    HEARTH_TRY_STATUS(check("inputs", TileProgram::kMostInputs, kernel().inputs.size()));
    HEARTH_TRY_STATUS(check("outputs", TileProgram::kMostOutputs, kernel().outputs.size()));
    // Counts each node, and each output a second time.
    return check("values",
                 TileProgram::kMostValues - TileProgram::kMostOutputs - 1,
                 kernel().inputs.size() + kernel().body.size());
  }

  void find_cells() {
    for (Place place = 0; place < is_cell_.size(); ++place) {
      const Primitive primitive = node(place).primitive;
      bool is_cell = primitive == Primitive::constant || primitive == Primitive::parameter;
      if (!is_leaf(place)) {
        is_cell = true;
        for (const std::int32_t operand : node(place).operands) {
          is_cell = is_cell && (operand == kNoNode || is_cell_[static_cast<Place>(operand)]);
        }
      }
      is_cell_[place] = is_cell;
    }
  }

  void count_uses() {
    for (const KernelNode& each : kernel().body) {
      for (const std::int32_t operand : each.operands) {
        use_count_[static_cast<Place>(std::max(operand, 0))] += operand == kNoNode ? 0 : 1;
      }
    }
    for (const KernelOutput& output : kernel().outputs) {
      ++use_count_[static_cast<Place>(output.value)];
    }
  }

  // From the outputs up: a node inside a pattern is computed only if another node uses it.
  void choose_instructions() {
    for (const KernelOutput& output : kernel().outputs) {
      is_needed_[static_cast<Place>(output.value)] = true;
    }
    for (Place place = kernel().body.size(); place-- > 0;) {
      const bool is_made_here =
          node(place).primitive == Primitive::index || node(place).primitive == Primitive::position;
      if (!is_needed_[place] || is_made_beside_[place] || (is_leaf(place) && !is_made_here)) {
        continue;
      }
      chosen_[place] = is_leaf(place) ? plain(place) : best(place);
      chosen_[place].instruction.node = static_cast<std::int32_t>(place);
      for (const std::int32_t result : chosen_[place].results) {
        is_made_beside_[static_cast<Place>(result)] = true;
      }
      for (const std::int32_t operand : chosen_[place].operands) {
        is_needed_[static_cast<Place>(operand)] = true;
      }
    }
  }

  [[nodiscard]] Chosen best(Place place) const {
    for (const TilePattern& pattern : patterns_) {
      if (is_cell_[place] && pattern.roots.size() > 1) {
        continue;
      }
      if (auto found = match(pattern, kernel(), static_cast<std::int32_t>(place), is_cell_)) {
        return {pattern.instruction, std::move(found->operands), std::move(found->results)};
      }
    }
    if (auto found =
            match_wrapped(kernel(), static_cast<std::int32_t>(place), is_cell_, use_count_)) {
      // Requires both or neither to have one element for each row.
      const bool is_alike =
          is_of_rows(static_cast<Place>(found->function_node)) == is_of_rows(place);
      const WrappedLoop loop = wrapped_loops(isa_).at(found->function);
      if (is_alike && loop != nullptr) {
        return wrapped(std::move(*found), loop);
      }
    }
    auto products = sum_of_products(place);
    return products.has_value() ? std::move(*products) : plain(place);
  }

  [[nodiscard]] Chosen wrapped(WrappedMatch found, WrappedLoop loop) const {
    Chosen chosen{.operands = std::move(found.operands)};
    chosen.instruction.step = TileStep::wrapped;
    chosen.instruction.wrapped_loop = loop;
    chosen.instruction.parts = found.parts;
    chosen.instruction.forms = &binary_loops(isa_).at(OpKind::div, DType::f32);
    return chosen;
  }

  // Whether a node is a product that only the current node uses.
  [[nodiscard]] bool is_own_product(std::int32_t operand) const {
    const auto place = static_cast<Place>(operand);
    return node(place).primitive == Primitive::mul && !is_cell_[place] && use_count_[place] == 1;
  }

  // Fuses a product and a sum into one loop.
  [[nodiscard]] std::optional<Chosen> sum_of_products(Place place) const {
    const KernelNode& of = node(place);
    const bool is_add = of.primitive == Primitive::add;
    if (is_cell_[place] || (of.type != DType::f32 && of.type != DType::f64) ||
        (!is_add && of.primitive != Primitive::sub)) {
      return std::nullopt;
    }
    const auto [left, right, none] = of.operands;
    const bool starts_left = is_own_product(left);
    if (!starts_left && !is_own_product(right)) {
      return std::nullopt;
    }
    Chosen chosen;
    chosen.instruction.step = TileStep::product;
    chosen.instruction.type = of.type;
    chosen.instruction.sum = is_add        ? ProductSum::plus
                             : starts_left ? ProductSum::minus
                                           : ProductSum::from;
    const KernelNode& product = node(static_cast<Place>(starts_left ? left : right));
    const std::int32_t rest = starts_left ? right : left;
    chosen.operands = {product.operands[0], product.operands[1]};
    chosen.instruction.products = &product_loops(isa_).at(of.type);
    if (left != right && is_own_product(rest)) {
      const KernelNode& other = node(static_cast<Place>(rest));
      chosen.operands.insert(chosen.operands.end(), {other.operands[0], other.operands[1]});
    } else {
      chosen.operands.push_back(rest);
    }
    return chosen;
  }

  // Maps one primitive to one loop.
  [[nodiscard]] Chosen plain(Place place) const {
    const KernelNode& of = node(place);
    Chosen chosen;
    for (const std::int32_t operand : of.operands) {
      if (operand != kNoNode) {
        chosen.operands.push_back(operand);
      }
    }
    TileInstruction& to = chosen.instruction;
    to.type = of.type;
    to.number = of.number;
    const DType type =
        chosen.operands.empty() ? of.type : node(static_cast<Place>(chosen.operands[0])).type;
    if (of.primitive == Primitive::fold) {
      choose_fold(to, of);
    } else if (is_row_function(of.primitive)) {
      to.step = TileStep::row;
      to.rows = &row_loops(isa_);
    } else if (const auto unary = unary_kind(of.primitive)) {
      to.map_loop = unary_loops(isa_).at(*unary, type);
    } else if (const auto binary = binary_kind(of.primitive)) {
      to.step = TileStep::combine;
      to.kind = *binary;
      to.forms = &binary_loops(isa_).at(*binary, type);
      to.may_fail = !is_float(type) && (*binary == OpKind::div || *binary == OpKind::pow);
    } else if (of.primitive == Primitive::convert) {
      to.map_loop = cast_loops(isa_).at(type, of.type);
    } else if (of.primitive == Primitive::select) {
      to.step = TileStep::choose;
      to.selects = &move_loops(isa_).selects[MoveLoops::size_index(size_bytes(of.type))];
    } else {
      to.step = of.primitive == Primitive::philox     ? TileStep::words
                : of.primitive == Primitive::position ? TileStep::position
                                                      : TileStep::index;
    }
    return chosen;
  }

  // Uses the loops of the separate reduction.
  void choose_fold(TileInstruction& to, const KernelNode& of) const {
    constexpr std::array kKinds{OpKind::reduce_sum,
                                OpKind::reduce_max,
                                OpKind::reduce_min,
                                OpKind::reduce_mean,
                                OpKind::reduce_prod};
    static_assert(kKinds.size() == kFoldOpCount);
    const DType slot = is_float(of.type) ? DType::f64 : DType::i64;
    to.step = TileStep::fold;
    to.kind = kKinds[static_cast<std::size_t>(of.number)];
    to.fold_loop = fold_loops(to.kind, of.type, slot, isa_).row;
    to.fold_start = fold_start(to.kind, slot);
    to.fold_store = cast_loops(isa_).at(slot, of.type);
  }

  // Every parameter gets a cell, used or not, to keep their order.
  void number_inputs_and_cells() {
    program_.parameters.resize(kernel().parameters.size());
    for (Place place = 0; place < kernel().body.size(); ++place) {
      const KernelNode& of = node(place);
      const bool is_parameter = of.primitive == Primitive::parameter;
      if (is_input(place)) {
        value_[place] = static_cast<ValueNumber>(of.number);
      } else if (is_cell_[place] && (is_needed_[place] || is_parameter)) {
        value_[place] = add_cell(of.primitive == Primitive::constant ? constant_cell(of) : 0);
        if (is_parameter) {
          program_.parameters[static_cast<std::size_t>(of.number)] = value_[place];
        }
      }
    }
    zero_ = add_cell(0);
  }
  ValueNumber add_cell(TileCell cell) {
    program_.cells.push_back(cell);
    return static_cast<ValueNumber>(program_.first_tile() - 1);
  }
  [[nodiscard]] TileCell constant_cell(const KernelNode& of) const {
    ScalarAttributes value;
    if (is_float(of.type)) {
      value.real = std::bit_cast<double>(of.bits);
    } else {
      value.integer = std::bit_cast<std::int64_t>(of.bits);
    }
    return make_cell(cast_loops(isa_), of.type, value);
  }

  // Numbers tiles in definition order, after the cells, until assign_tiles().
  void write_instructions() {
    ValueNumber next = program_.first_tile();
    for (Place place = 0; place < kernel().body.size(); ++place) {
      Chosen& chosen = chosen_[place];
      TileInstruction& to = chosen.instruction;
      if (to.node == kNoNode) {
        continue;
      }
      to.is_of_rows = is_of_rows(place);
      for (const std::int32_t operand : chosen.operands) {
        to.in[to.operand_count++] = value_for(place, static_cast<Place>(operand), next);
      }
      if (node(place).primitive == Primitive::logical_not && to.operand_count == 1) {
        to.in[to.operand_count++] = zero_;
      }
      if (!is_cell_[place]) {
        value_[place] = next++;
      }
      to.out[0] = value_[place];
      for (std::size_t k = 1; k < to.out_count; ++k) {
        to.out[k] = value_[static_cast<Place>(chosen.results[k])] = next++;
      }
      program_.may_fail = program_.may_fail || to.may_fail;
      (is_cell_[place] ? program_.once : program_.body).push_back(to);
    }
    for (const KernelOutput& output : kernel().outputs) {
      const auto place = static_cast<Place>(output.value);
      ValueNumber value = value_[place];
      if (value < program_.first_tile()) {  // an input or a cell, unchanged
        TileInstruction move{.type = output.dtype,
                             .node = output.value,
                             .is_of_rows = is_of_rows(place),
                             .operand_count = 1,
                             .out = {next},
                             .in = {value},
                             .map_loop = cast_loops(isa_).at(output.dtype, output.dtype)};
        program_.body.push_back(move);
        value = next++;
      }
      program_.outputs.push_back(
          {.value = value, .is_of_rows = program_.has_rows && stays_[place]});
    }
  }

  // A value with one element for each row is first expanded along the rows, once, for users with
  // more elements.
  [[nodiscard]] ValueNumber value_for(Place user, Place operand, ValueNumber& next) {
    if (!is_of_rows(operand) || is_of_rows(user)) {
      return value_[operand];
    }
    if (expanded_[operand] == 0) {
      expanded_[operand] = next++;
      program_.body.push_back({.step = TileStep::expand,
                               .type = node(operand).type,
                               .node = static_cast<std::int32_t>(operand),
                               .operand_count = 1,
                               .out = {expanded_[operand]},
                               .in = {value_[operand]}});
    }
    return expanded_[operand];
  }

  // Loops between types of different sizes read ahead of what they write.
  [[nodiscard]] bool may_overwrite(const TileInstruction& each, std::size_t operand) const {
    const Chosen& chosen = chosen_[static_cast<Place>(each.node)];
    if (each.step == TileStep::expand || operand >= chosen.operands.size()) {
      return false;
    }
    const DType type = node(static_cast<Place>(chosen.operands[operand])).type;
    const bool is_convert = node(static_cast<Place>(each.node)).primitive == Primitive::convert;
    switch (each.step) {
      case TileStep::map:
      case TileStep::combine:
      case TileStep::choose:
      case TileStep::product:
      case TileStep::wrapped:
        return !is_convert && size_bytes(type) == size_bytes(each.type);
      default:
        return false;
    }
  }

  void find_sizes() {
    std::int64_t cost = 300;  // of loading and storing an element
    for (const KernelInput& input : kernel().inputs) {
      program_.element_bytes = std::max(program_.element_bytes, size_bytes(input.dtype));
    }
    for (const TileInstruction& each : program_.body) {
      program_.element_bytes = std::max(program_.element_bytes, size_bytes(each.type));
      cost += cost_of(each, kernel());
    }
    const auto tiles = static_cast<std::int64_t>(kernel().inputs.size()) + program_.tile_count;
    const std::int64_t most = TileProgram::kTileBytes / (tiles * program_.element_bytes);
    const auto rounded = static_cast<std::int64_t>(
        std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(most, 1))));
    program_.tile_elements = std::min(rounded, TileProgram::kMostElements);
    // Waking a core takes 34 µs, so a part is 35 to 70 µs of work (BM_Expression_*).
    constexpr std::int64_t kPart = 70'000'000;
    program_.grain = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(kPart / cost))),
        1024,
        std::int64_t{1} << 17);
  }

  IsaLevel isa_;
  std::vector<TilePattern> patterns_;
  TileProgram program_ = {};
  std::vector<bool> is_cell_;
  std::vector<bool> is_needed_;
  /// Computed by another node's instruction, or already chosen.
  std::vector<bool> is_made_beside_;
  std::vector<int> use_count_;      ///< By node.
  std::vector<Chosen> chosen_;      ///< By node.
  std::vector<ValueNumber> value_;  ///< By node.
  std::vector<ValueNumber>
      /// By node with one element for each row: its elements along the row. 0: not needed.
      expanded_;
  /// By node, in row kernels: one element for each row, or one for all.
  std::vector<bool> stays_ = {};
  ValueNumber zero_ = 0;
};

}  // namespace

TileCell make_cell(const CastLoops& casts, DType type, const ScalarAttributes& value) noexcept {
  TileCell cell = 0;
  if (type == DType::f32) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(value.real));
  }
  if (type == DType::f64) {
    return std::bit_cast<std::uint64_t>(value.real);
  }
  if (is_float(type)) {
    casts.at(DType::f64, type)(&cell, &value.real, 1);
  } else {
    casts.at(DType::i64, type)(&cell, &value.integer, 1);
  }
  return cell;
}

Result<TileProgram> make_tile_program(const KernelIR& kernel, IsaLevel isa) {
  return Compiler(kernel, isa).run();
}

}  // namespace hearth::cpu
