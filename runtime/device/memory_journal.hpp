// Who holds a device's memory: what each block was made for, and, while somebody asks for it, every
// change with its time. Private to runtime. Owned by the handle table, touched by the token holder
// only: no locks. Invariant: while it is on, each block's events are `made`, any `replaced`, at
// most one `freed`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/tensor_origin.hpp>
#include <hearth/streams/op_record.hpp>

namespace hearth {

struct RuntimeTables;

/// What a block was made for. The texts come later, when somebody reads them.
struct BlockOrigin {
  OpKind kind = OpKind::fill;
  DType dtype = DType::f32;
  CalledAs called = CalledAs::itself;
  std::uint32_t own = 0;  ///< Of an op of kind `expression` or `custom`: its number in the table.
  SourceId source;
  PathId path;
  ShapeId shape;
};

[[nodiscard]] TensorOrigin describe(const BlockOrigin& origin, const RuntimeTables& tables);

class MemoryJournal {
 public:
  struct Entry {
    MemoryEvent::What what = MemoryEvent::What::made;
    bool is_exclusive = false;
    std::uint64_t block = 0;
    std::int64_t size_bytes = 0;
    BlockOrigin origin;
    detail::TimePoint time;
  };

  /// Later changes are counted, not kept.
  static constexpr std::size_t kMostEntries = std::size_t{1} << 20U;

  MemoryJournal();
  /// Cost: a look at the clock and a push_back.
  void note(Entry entry);
  /// A block that is there at the journal's beginning.
  void note_present(Entry entry);
  /// What the block holds has a name, which the program gave it.
  void name(std::uint64_t block, PathId path) { names_.insert_or_assign(block, path); }
  [[nodiscard]] std::uint64_t dropped_count() const noexcept { return dropped_count_; }
  [[nodiscard]] MemoryTrace read(const RuntimeTables& tables) const;

 private:
  detail::TimePoint begin_;
  std::vector<Entry> entries_;
  std::unordered_map<std::uint64_t, PathId> names_;
  std::uint64_t dropped_count_ = 0;
};

}  // namespace hearth
