// The stack machine behind read_pickle(). Each opcode belongs to one group; pickle.cpp has numbers
// and texts, pickle_objects.cpp lists, dicts, the memo and all that stays words. Private to
// modules. Owned by one call.
#pragma once

#include "pickle.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hearth::detail {

// Phases of read(): opcodes until STOP, each by the group that knows it; the value on the stack.
class PickleMachine final {
 public:
  PickleMachine(const FileReader& reader, PickleStream& stream)
      : reader_(reader), stream_(stream) {}

  Result<Pickle> read();

 private:
  using Step = Result<bool>;  // whether the group knows the opcode

  template <class... Args>
  Error bad(fmt::format_string<Args...> format, Args&&... args) const {
    return Error{.code = ErrorCode::bad_format,
                 .text = fmt::format("file {}: the pickle's opcode 0x{:02x} at byte {}: {}",
                                     reader_.path().string(),
                                     opcode_,
                                     place_,
                                     fmt::format(format, std::forward<Args>(args)...))};
  }
  Status step();
  Step number_step();
  Step text_step();
  Step list_step();
  Step memo_step();
  Step object_step();
  Step frame_step();

  Status push(PickleId id);
  Status push_value(PickleValue value);
  Status push_integer(std::int64_t integer) {
    return push_value({.kind = PickleKind::integer, .integer = integer});
  }
  Status push_text(PickleKind kind, int length_bytes);
  Status push_long(int length_bytes);
  Status push_line_number(bool is_long);
  Status push_list(std::size_t from);
  Status push_call(PickleId function, PickleId arguments);
  Status push_persistent(PickleId id);
  Status push_global(std::string_view module, std::string_view name);
  Result<PickleId> pop();
  Result<std::size_t> pop_mark();
  // The place of the first of the last `count` values, all above the last mark.
  Result<std::size_t> place_of_last(std::size_t count) const;
  Result<PickleId> memo_at(std::uint64_t key) const;
  Status memorise(std::uint64_t key);
  Status append_from(std::size_t from);
  Status set_from(std::size_t from);
  Status build();
  Result<std::uint64_t> line_key();
  [[nodiscard]] bool is_dict(PickleId function) const;
  // Moves the ids from a place of the stack on.
  std::vector<PickleId> cut(std::size_t from);

  const FileReader& reader_;
  PickleStream& stream_;
  Pickle pickle_;
  std::vector<PickleId> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickleId> memo_;
  std::size_t copied_ = 0;  // pairs that became items of a dict a second time
  std::uint8_t opcode_ = 0;
  std::uint64_t place_ = 0;
};

}  // namespace hearth::detail
