#include "tile_assignment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace hearth::cpu {

namespace {

// A tile is free after the last instruction that reads it. An instruction writes its result over an
// operand that ends with it, where allowed. An output's tile is never shared, because it may be in
// the output's memory, which may also be an input's.
class TileAssignment {
 public:
  TileAssignment(TileProgram& program, const MayOverwrite& may_overwrite)
      : program_(program), may_overwrite_(may_overwrite), first_(program.first_tile()) {}

  // Phases: definition and last read of each value; the tiles; the outputs' numbers.
  Status run() {
    find_lives();
    for (std::size_t i = 0; i < program_.body.size(); ++i) {
      replace_operands(i);
      place_results(i);
    }
    for (TileOutput& output : program_.outputs) {
      output.value = tile_[output.value - first_];
    }
    const std::size_t values = first_ + std::size_t{program_.tile_count};
    if (values + TileProgram::kMostInputs > TileProgram::kMostValues) {
      return Error{.code = ErrorCode::unsupported,
                   .text = fmt::format("kernel: the CPU's tile programs have no room for {} values "
                                       "at a time",
                                       values)};
    }
    return {};
  }

 private:
  static constexpr std::size_t kNever = static_cast<std::size_t>(-1);

  [[nodiscard]] static std::size_t spare_tiles(const TileInstruction& each) noexcept {
    switch (each.step) {
      case TileStep::adam:
        return 4;
      case TileStep::fold:
      case TileStep::row:
        return each.operand_count;
      default:
        return 0;
    }
  }

  void find_lives() {
    std::size_t count = 0;
    for (const TileInstruction& each : program_.body) {
      count += each.out_count;
    }
    tile_.assign(count, 0);
    last_read_.assign(count, 0);
    std::vector<std::size_t> made_by(count, 0);
    for (std::size_t i = 0; i < program_.body.size(); ++i) {
      const TileInstruction& each = program_.body[i];
      for (std::size_t k = 0; k < each.out_count; ++k) {
        made_by[each.out[k] - first_] = i;
      }
      for (std::size_t k = 0; k < each.operand_count; ++k) {
        if (each.in[k] >= first_) {
          last_read_[each.in[k] - first_] = i;
        }
      }
    }
    for (TileOutput& output : program_.outputs) {
      last_read_[output.value - first_] = kNever;
      for (std::size_t i = made_by[output.value - first_] + 1; i < program_.body.size(); ++i) {
        output.read_after |= inputs_read(program_.body[i]);
      }
    }
  }

  [[nodiscard]] std::uint32_t inputs_read(const TileInstruction& instruction) const {
    std::uint32_t inputs = 0;
    for (std::size_t k = 0; k < instruction.operand_count; ++k) {
      inputs |= instruction.in[k] < program_.first_cell() ? 1U << instruction.in[k] : 0U;
    }
    return inputs;
  }

  // Replaces operands by their tiles; collects those that end here, and one that may be
  // overwritten.
  void replace_operands(std::size_t i) {
    TileInstruction& each = program_.body[i];
    ended_.clear();
    over_.reset();
    for (std::size_t k = 0; k < each.operand_count; ++k) {
      if (each.in[k] < first_) {
        continue;
      }
      const std::size_t made = each.in[k] - first_;
      each.in[k] = tile_[made];
      if (last_read_[made] != i || std::ranges::find(ended_, tile_[made]) != ended_.end()) {
        continue;
      }
      ended_.push_back(tile_[made]);
      over_ = may_overwrite_(each, k) ? tile_[made] : over_;
    }
  }

  void place_results(std::size_t i) {
    TileInstruction& each = program_.body[i];
    for (std::size_t k = 0; k < each.out_count; ++k) {
      const std::size_t mine = each.out[k] - first_;
      const bool is_output = last_read_[mine] == kNever;
      if (!is_output && over_.has_value()) {
        tile_[mine] = *over_;
        std::erase(ended_, *over_);
      } else if (!is_output && !free_.empty()) {
        tile_[mine] = free_.back();
        free_.pop_back();
      } else {
        tile_[mine] = static_cast<ValueNumber>(first_ + program_.tile_count++);
      }
      each.out[k] = tile_[mine];
    }
    if (const std::size_t spares = spare_tiles(each); spares > 0) {
      each.spare = static_cast<ValueNumber>(first_ + program_.tile_count);
      program_.tile_count = static_cast<std::uint16_t>(program_.tile_count + spares);
    }
    free_.insert(free_.end(), ended_.begin(), ended_.end());
  }

  TileProgram& program_;
  const MayOverwrite& may_overwrite_;
  const ValueNumber first_;
  std::vector<ValueNumber> tile_;       // by value
  std::vector<std::size_t> last_read_;  // by value: an instruction, or kNever for outputs
  std::vector<ValueNumber> free_;
  std::vector<ValueNumber> ended_;   // with the current instruction
  std::optional<ValueNumber> over_;  // the operand that its result may overwrite
};

}  // namespace

Status assign_tiles(TileProgram& program, const MayOverwrite& may_overwrite) {
  return TileAssignment(program, may_overwrite).run();
}

}  // namespace hearth::cpu
