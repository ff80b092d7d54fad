#include "pickle_machine.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

namespace hearth::detail {
namespace {

// Classes that are dicts. All other classes and functions stay words.
constexpr std::array<std::string_view, 4> kDicts{
    "collections.OrderedDict", "collections.defaultdict", "builtins.dict", "__builtin__.dict"};

}  // namespace

// ---- lists and dicts ----

PickleMachine::Step PickleMachine::list_step() {
  switch (opcode_) {
    case '(':
      if (marks_.size() == kMostPickleValues) {
        return bad("the pickle has more than {} values", kMostPickleValues);
      }
      marks_.push_back(stack_.size());
      return true;
    case ']':
    case ')':
    case 0x8f:
      HEARTH_TRY_STATUS(push_value({.kind = PickleKind::list}));
      return true;
    case '}':
      HEARTH_TRY_STATUS(push_value({.kind = PickleKind::dict}));
      return true;
    case 'l':
    case 't':
    case 0x91: {
      HEARTH_TRY(const std::size_t mark, pop_mark());
      HEARTH_TRY_STATUS(push_list(mark));
      return true;
    }
    case 'd': {
      HEARTH_TRY(const std::size_t mark, pop_mark());
      std::vector<PickleId> items = cut(mark);
      HEARTH_TRY_STATUS(push_value({.kind = PickleKind::dict}));
      stack_.insert(stack_.end(), items.begin(), items.end());
      HEARTH_TRY_STATUS(set_from(stack_.size() - items.size()));
      return true;
    }
    case 0x85:
    case 0x86:
    case 0x87: {
      HEARTH_TRY(const std::size_t from, place_of_last(opcode_ - 0x84U));
      HEARTH_TRY_STATUS(push_list(from));
      return true;
    }
    case 'a':
    case 's':
    case 'e':
    case 'u':
    case 0x90: {
      const bool is_one = opcode_ == 'a' || opcode_ == 's';
      std::size_t from = stack_.size();
      if (is_one) {
        HEARTH_TRY(from, place_of_last(opcode_ == 'a' ? 1 : 2));
      } else {
        HEARTH_TRY(from, pop_mark());
      }
      HEARTH_TRY_STATUS(opcode_ == 's' || opcode_ == 'u' ? set_from(from) : append_from(from));
      return true;
    }
    default:
      return false;
  }
}

Status PickleMachine::push_list(std::size_t from) {
  std::vector<PickleId> items = cut(from);
  return push_value({.kind = PickleKind::list, .items = std::move(items)});
}

// Appends to the list below. An object that a class makes drops appended values: only its members
// count.
Status PickleMachine::append_from(std::size_t from) {
  const std::vector<PickleId> items = cut(from);
  if (stack_.empty()) {
    return bad("it needs a list, and the stack is empty");
  }
  PickleValue& target = pickle_.values[stack_.back()];
  if (target.kind == PickleKind::list) {
    target.items.insert(target.items.end(), items.begin(), items.end());
  } else if (target.kind != PickleKind::call) {
    return bad("it appends to a value that is no list");
  }
  return {};
}

Status PickleMachine::set_from(std::size_t from) {
  const std::vector<PickleId> items = cut(from);
  if (stack_.empty() || items.size() % 2 != 0) {
    return bad("it needs a dict with keys and values, and the stack has {} values",
               stack_.size() + items.size());
  }
  PickleValue& target = pickle_.values[stack_.back()];
  if (target.kind != PickleKind::dict && target.kind != PickleKind::call) {
    return bad("it sets an item of a value that is no dict");
  }
  std::vector<PickleId>& into = target.kind == PickleKind::dict ? target.items : target.members;
  into.insert(into.end(), items.begin(), items.end());
  return {};
}

// ---- memo ----

PickleMachine::Step PickleMachine::memo_step() {
  std::uint64_t key = memo_.size();
  switch (opcode_) {
    case 'q':
    case 'r':
    case 'h':
    case 'j': {
      HEARTH_TRY(key, stream_.take_number(opcode_ == 'q' || opcode_ == 'h' ? 1 : 4));
      break;
    }
    case 'p':
    case 'g': {
      HEARTH_TRY(key, line_key());
      break;
    }
    case 0x94:
      break;
    case '0': {
      if (!marks_.empty() && marks_.back() == stack_.size()) {  // Python drops the mark then
        marks_.pop_back();
        return true;
      }
      HEARTH_TRY_STATUS(pop().status());
      return true;
    }
    case '1': {
      HEARTH_TRY(const std::size_t mark, pop_mark());
      stack_.resize(mark);
      return true;
    }
    case '2': {
      HEARTH_TRY(const PickleId id, pop());
      HEARTH_TRY_STATUS(push(id));
      HEARTH_TRY_STATUS(push(id));
      return true;
    }
    default:
      return false;
  }
  const bool is_read = opcode_ == 'h' || opcode_ == 'j' || opcode_ == 'g';
  if (!is_read) {
    HEARTH_TRY_STATUS(memorise(key));
    return true;
  }
  HEARTH_TRY(const PickleId id, memo_at(key));
  HEARTH_TRY_STATUS(push(id));
  return true;
}

Result<std::uint64_t> PickleMachine::line_key() {
  HEARTH_TRY(const std::string line, stream_.take_line());
  std::uint64_t key = 0;
  const auto read = std::from_chars(line.data(), line.data() + line.size(), key);
  if (read.ec != std::errc() || read.ptr != line.data() + line.size()) {
    return bad("'{}' is no number of a remembered value", line.substr(0, 40));
  }
  return key;
}

Result<PickleId> PickleMachine::memo_at(std::uint64_t key) const {
  const auto found = memo_.find(key);
  if (found == memo_.end()) {
    return bad("value {} was never remembered", key);
  }
  return found->second;
}

Status PickleMachine::memorise(std::uint64_t key) {
  if (stack_.empty() || memo_.size() == kMostPickleValues) {
    return bad(
        "it remembers a value, and the stack has {}, the memory {}", stack_.size(), memo_.size());
  }
  memo_[key] = stack_.back();
  return {};
}

// ---- classes, calls, and values outside of the pickle ----

PickleMachine::Step PickleMachine::object_step() {
  switch (opcode_) {
    case 'c':
    case 'i': {
      HEARTH_TRY(const std::string module, stream_.take_line());
      HEARTH_TRY(const std::string name, stream_.take_line());
      std::size_t mark = stack_.size();
      if (opcode_ == 'i') {
        HEARTH_TRY(mark, pop_mark());
        HEARTH_TRY_STATUS(push_list(mark));
      }
      HEARTH_TRY_STATUS(push_global(module, name));
      if (opcode_ == 'i') {
        HEARTH_TRY(const PickleId function, pop());
        HEARTH_TRY(const PickleId arguments, pop());
        HEARTH_TRY_STATUS(push_call(function, arguments));
      }
      return true;
    }
    case 0x93: {
      HEARTH_TRY(const PickleId name, pop());
      HEARTH_TRY(const PickleId module, pop());
      HEARTH_TRY_STATUS(push_global(pickle_[module].text, pickle_[name].text));
      return true;
    }
    case 0x92:
      HEARTH_TRY_STATUS(pop().status());  // arguments by name are not kept
      [[fallthrough]];
    case 'R':
    case 0x81: {
      HEARTH_TRY(const PickleId arguments, pop());
      HEARTH_TRY(const PickleId function, pop());
      HEARTH_TRY_STATUS(push_call(function, arguments));
      return true;
    }
    case 'o': {
      HEARTH_TRY(const std::size_t mark, pop_mark());
      if (stack_.size() <= mark) {
        return bad("it needs a class, and the stack is empty");
      }
      HEARTH_TRY_STATUS(push_list(mark + 1));
      HEARTH_TRY(const PickleId arguments, pop());
      HEARTH_TRY(const PickleId function, pop());
      HEARTH_TRY_STATUS(push_call(function, arguments));
      return true;
    }
    case 'b':
      HEARTH_TRY_STATUS(build());
      return true;
    case 'Q': {
      HEARTH_TRY(const PickleId id, pop());
      HEARTH_TRY_STATUS(push_persistent(id));
      return true;
    }
    case 'P': {
      HEARTH_TRY(std::string line, stream_.take_line());
      HEARTH_TRY_STATUS(push_value({.kind = PickleKind::text, .text = std::move(line)}));
      HEARTH_TRY(const PickleId id, pop());
      HEARTH_TRY_STATUS(push_persistent(id));
      return true;
    }
    default:
      return false;
  }
}

Status PickleMachine::push_global(std::string_view module, std::string_view name) {
  constexpr std::size_t kMostNameBytes = 4096;
  if (module.size() + name.size() > kMostNameBytes) {
    return bad("the name of a class has {} bytes (at most {} are allowed)",
               module.size() + name.size(),
               kMostNameBytes);
  }
  return push_value({.kind = PickleKind::global, .text = fmt::format("{}.{}", module, name)});
}

Status PickleMachine::push_persistent(PickleId id) {
  return push_value({.kind = PickleKind::persistent, .items = {id}});
}

bool PickleMachine::is_dict(PickleId function) const {
  const PickleValue& value = pickle_[function];
  return value.kind == PickleKind::global && std::ranges::find(kDicts, value.text) != kDicts.end();
}

// A dict of pairs is made at once, as it is pure data; any other call stays words.
Status PickleMachine::push_call(PickleId function, PickleId arguments) {
  if (!is_dict(function)) {
    return push_value({.kind = PickleKind::call, .items = {function, arguments}});
  }
  PickleValue dict{.kind = PickleKind::dict};
  const std::vector<PickleId>& given = pickle_[arguments].items;
  if (!given.empty() && pickle_[given.back()].kind == PickleKind::list) {
    const std::vector<PickleId>& pairs = pickle_[given.back()].items;
    copied_ += pairs.size();
    if (copied_ > kMostPickleValues) {
      return bad("the pickle has more than {} values", kMostPickleValues);
    }
    for (const PickleId pair : pairs) {
      if (pickle_[pair].items.size() == 2) {
        dict.items.insert(dict.items.end(), pickle_[pair].items.begin(), pickle_[pair].items.end());
      }
    }
  }
  return push_value(std::move(dict));
}

// The state of a dict holds notes of Python's classes only.
Status PickleMachine::build() {
  HEARTH_TRY(const PickleId state, pop());
  if (stack_.empty()) {
    return bad("it needs an object, and the stack is empty");
  }
  PickleValue& target = pickle_.values[stack_.back()];
  if (target.kind == PickleKind::call && target.items.size() == 2) {
    target.items.push_back(state);
  }
  return {};
}

// ---- frames ----

PickleMachine::Step PickleMachine::frame_step() {
  switch (opcode_) {
    case 0x80: {
      constexpr std::uint8_t kNewest = 5;
      HEARTH_TRY(const std::uint8_t protocol, stream_.take_byte());
      if (protocol > kNewest) {
        return bad("protocol {} is newer than {}", protocol, kNewest);
      }
      return true;
    }
    case 0x95:
      HEARTH_TRY_STATUS(stream_.take_number(8).status());
      return true;
    case 0x82:
    case 0x83:
    case 0x84: {  // classes by numbers of a registry that no file has
      HEARTH_TRY(const std::uint64_t number,
                 stream_.take_number(opcode_ == 0x84 ? 4 : opcode_ - 0x81));
      HEARTH_TRY_STATUS(push_global("copyreg", fmt::format("extension {}", number)));
      return true;
    }
    case 0x97:
    case 0x98:
      return bad("its bytes lie outside of the file");
    default:
      return false;
  }
}

}  // namespace hearth::detail
