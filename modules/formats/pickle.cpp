#include "pickle_machine.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <utility>

namespace hearth::detail {

Result<Pickle> PickleMachine::read() {
  constexpr std::uint8_t kStop = '.';
  const std::uint64_t begin = stream_.place();
  for (std::size_t steps = 0;; ++steps) {
    place_ = stream_.place();
    HEARTH_TRY(opcode_, stream_.take_byte());
    if (opcode_ == kStop) {
      HEARTH_TRY(pickle_.root, pop());
      return std::move(pickle_);
    }
    if (steps == kMostPickleSteps || place_ - begin > kMostPickleBytes) {
      return bad("the pickle is too long: it has more than {} steps or {} bytes",
                 kMostPickleSteps,
                 kMostPickleBytes);
    }
    HEARTH_TRY_STATUS(step());
  }
}

Status PickleMachine::step() {
  for (Step (PickleMachine::*const group)() : {&PickleMachine::memo_step,
                                               &PickleMachine::number_step,
                                               &PickleMachine::text_step,
                                               &PickleMachine::list_step,
                                               &PickleMachine::object_step,
                                               &PickleMachine::frame_step}) {
    HEARTH_TRY(const bool is_known, (this->*group)());
    if (is_known) {
      return {};
    }
  }
  return bad("no pickle has it; the file is damaged or of another kind");
}

Status PickleMachine::push(PickleId id) {
  if (stack_.size() == kMostPickleValues) {
    return bad("the pickle has more than {} values", kMostPickleValues);
  }
  stack_.push_back(id);
  return {};
}

Status PickleMachine::push_value(PickleValue value) {
  if (pickle_.values.size() == kMostPickleValues) {
    return bad("the pickle has more than {} values", kMostPickleValues);
  }
  pickle_.values.push_back(std::move(value));
  return push(static_cast<PickleId>(pickle_.values.size() - 1));
}

Result<PickleId> PickleMachine::pop() {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() <= floor) {
    return bad("it needs a value, and the stack is empty");
  }
  const PickleId id = stack_.back();
  stack_.pop_back();
  return id;
}

Result<std::size_t> PickleMachine::place_of_last(std::size_t count) const {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() < floor + count) {
    return bad("it needs {} values, and the stack has {}", count, stack_.size() - floor);
  }
  return stack_.size() - count;
}

Result<std::size_t> PickleMachine::pop_mark() {
  if (marks_.empty()) {
    return bad("it needs a mark, and there is none");
  }
  const std::size_t mark = marks_.back();
  marks_.pop_back();
  return mark;
}

std::vector<PickleId> PickleMachine::cut(std::size_t from) {
  std::vector<PickleId> ids(stack_.begin() + static_cast<std::ptrdiff_t>(from), stack_.end());
  stack_.resize(from);
  return ids;
}

// ---- numbers ----

PickleMachine::Step PickleMachine::number_step() {
  switch (opcode_) {
    case 'N':
      HEARTH_TRY_STATUS(push_value({}));
      return true;
    case 0x88:
    case 0x89:
      HEARTH_TRY_STATUS(
          push_value({.kind = PickleKind::boolean, .integer = opcode_ == 0x88 ? 1 : 0}));
      return true;
    case 'J': {
      HEARTH_TRY(const std::uint64_t number, stream_.take_number(4));
      HEARTH_TRY_STATUS(push_integer(static_cast<std::int32_t>(number)));
      return true;
    }
    case 'K':
    case 'M': {
      HEARTH_TRY(const std::uint64_t number, stream_.take_number(opcode_ == 'K' ? 1 : 2));
      HEARTH_TRY_STATUS(push_integer(static_cast<std::int64_t>(number)));
      return true;
    }
    case 0x8a:
    case 0x8b:
      HEARTH_TRY_STATUS(push_long(opcode_ == 0x8a ? 1 : 4));
      return true;
    case 'G': {
      HEARTH_TRY(std::string bytes, stream_.take(8));
      std::uint64_t bits = 0;
      for (const char byte : bytes) {  // the most significant byte comes first
        bits = bits << 8U | static_cast<unsigned char>(byte);
      }
      HEARTH_TRY_STATUS(
          push_value({.kind = PickleKind::real, .real = std::bit_cast<double>(bits)}));
      return true;
    }
    case 'I':
    case 'L':
    case 'F':
      HEARTH_TRY_STATUS(push_line_number(opcode_ == 'L'));
      return true;
    default:
      return false;
  }
}

// A signed number of any length, little-endian. What 64 bits cannot hold stays a text.
Status PickleMachine::push_long(int length_bytes) {
  HEARTH_TRY(const std::uint64_t length, stream_.take_number(length_bytes));
  HEARTH_TRY(const std::string bytes, stream_.take(length));
  PickleValue value{.kind = PickleKind::integer};
  if (bytes.size() > sizeof(std::int64_t)) {
    value.text = fmt::format("a number of {} bytes", bytes.size());
    for (std::size_t i = 0; i < bytes.size() && bytes.size() <= 16; ++i) {
      value.text += fmt::format(" {:02x}", static_cast<unsigned char>(bytes[i]));
    }
    return push_value(std::move(value));
  }
  std::uint64_t bits = !bytes.empty() && (bytes.back() & '\x80') != 0 ? ~std::uint64_t{0} : 0;
  std::memcpy(&bits, bytes.data(), bytes.size());
  value.integer = static_cast<std::int64_t>(bits);
  return push_value(std::move(value));
}

// Numbers of protocol 0 are lines of text; I01 and I00 are True and False.
Status PickleMachine::push_line_number(bool is_long) {
  HEARTH_TRY(std::string line, stream_.take_line());
  if (opcode_ == 'I' && (line == "01" || line == "00")) {
    return push_value({.kind = PickleKind::boolean, .integer = line == "01" ? 1 : 0});
  }
  if (is_long && line.ends_with('L')) {
    line.pop_back();
  }
  PickleValue value{.kind = opcode_ == 'F' ? PickleKind::real : PickleKind::integer};
  const char* const end = line.data() + line.size();
  const auto read = opcode_ == 'F' ? std::from_chars(line.data(), end, value.real)
                                   : std::from_chars(line.data(), end, value.integer);
  if (read.ec == std::errc::result_out_of_range) {
    value.text = line;
  } else if (read.ec != std::errc() || read.ptr != end) {
    return bad("'{}' is no number", line.substr(0, 40));
  }
  return push_value(std::move(value));
}

// ---- texts ----

PickleMachine::Step PickleMachine::text_step() {
  struct Form {
    std::uint8_t opcode;
    PickleKind kind;
    int length_bytes;
  };
  static constexpr std::array<Form, 9> kForms{{{'U', PickleKind::text, 1},
                                               {'T', PickleKind::text, 4},
                                               {'X', PickleKind::text, 4},
                                               {0x8c, PickleKind::text, 1},
                                               {0x8d, PickleKind::text, 8},
                                               {'C', PickleKind::bytes, 1},
                                               {'B', PickleKind::bytes, 4},
                                               {0x8e, PickleKind::bytes, 8},
                                               {0x96, PickleKind::bytes, 8}}};
  for (const Form& form : kForms) {
    if (form.opcode == opcode_) {
      HEARTH_TRY_STATUS(push_text(form.kind, form.length_bytes));
      return true;
    }
  }
  if (opcode_ != 'S' && opcode_ != 'V') {
    return false;
  }
  HEARTH_TRY(std::string line, stream_.take_line());
  if (opcode_ == 'S' && line.size() >= 2) {  // in quotes; escapes stay as they are
    line = line.substr(1, line.size() - 2);
  }
  HEARTH_TRY_STATUS(push_value({.kind = PickleKind::text, .text = std::move(line)}));
  return true;
}

Status PickleMachine::push_text(PickleKind kind, int length_bytes) {
  HEARTH_TRY(const std::uint64_t length, stream_.take_number(length_bytes));
  HEARTH_TRY(std::string text, stream_.take(length));
  return push_value({.kind = kind, .text = std::move(text)});
}

std::string Pickle::name_of(PickleId id) const {
  const PickleValue& value = values.at(id);
  if (value.kind == PickleKind::global) {
    return value.text;
  }
  return value.kind == PickleKind::call ? "the result of a call" : "a value that is no class";
}

Result<Pickle> read_pickle(const FileReader& reader, PickleStream& stream) {
  return PickleMachine(reader, stream).read();
}

}  // namespace hearth::detail
