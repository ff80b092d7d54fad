// MemoryJournal: the purpose of each block of a device's memory and, during a trace, every change
// with its time. Private to runtime. Owned by the handle table, touched by the token holder only:
// no locks.
// Invariant: during a trace each block's events are `made`, any number of `replaced`, at most one
// `freed`.
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

/// Purpose of a block. describe() converts it to text when a report is read.
struct BlockOrigin {
  OpKind kind = OpKind::fill;
  DType dtype = DType::f32;
  CalledAs called = CalledAs::itself;
  std::uint32_t own = 0;  ///< For kind `expression` or `custom`: the op's number in the table.
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
  /// Adds a change. Cost: one clock read and a push_back.
  void note(Entry entry);
  /// Adds a block that existed before the journal.
  void record_present(Entry entry);
  /// Sets the program's name of the block's tensor.
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
