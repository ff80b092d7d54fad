// A small program for the model of the window: the records of two lanes, and the events of the
// world around them. It is text, because people read counterexamples:
//   "x=A"  an op makes x from A     "y=x!"  and is the last use of x    "y=xB"  from two tensors
//   "x^A"  x is a view of A         "x^A!"  and A's last use
//   "y=x%" an op whose kernel fails "~x"    the drop of x               "@x"    adopts x
//   "?x"   reads x and waits        ">x"    reads x, and goes on        "|"     sync
//   "{" "}" an update group
// Capital letters are tensors that are there from the beginning; A and C are of lane 0, B of
// lane 1. Threads: one. A plain value.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::model {

using Byte = std::uint8_t;

inline constexpr Byte kNone = 255;
inline constexpr int kLanes = 2;
inline constexpr int kMostRecords = 7;   ///< of a lane
inline constexpr int kMostTensors = 10;  ///< of a program
inline constexpr Byte kWindowOps = 2;    ///< that end a window

/// A bit for each record of a lane.
using RecordSet = Byte;
[[nodiscard]] constexpr Byte bit_of(int index) noexcept {
  return static_cast<Byte>(1U << static_cast<unsigned>(index));
}
[[nodiscard]] constexpr bool has(Byte set, int index) noexcept {
  return (set & bit_of(index)) != 0;
}

enum class Kind : Byte { op, drop, read, sync, adopt, group_begin, group_end };

struct WindowRecord {
  Kind kind = Kind::op;
  Byte out = kNone;  ///< the tensor that it makes
  std::array<Byte, 2> in{kNone, kNone};
  bool takes = false;  ///< it is the last use of its first operand
  bool fails = false;  ///< its kernel fails
  bool waits = false;  ///< the producer waits for the value
  bool shows = false;  ///< it is a view: its result shares its operand's bytes
};

struct WindowProgram {
  std::string name = {};
  std::array<std::string, kLanes> text;
  int blocks = 4;              ///< memory, in tensors
  int ring = 4;                ///< records that a lane holds; half of that number ends a window
  bool is_host = true;         ///< kernels are done when submit returns; readers may borrow
  bool has_plans = false;      ///< every window finds a plan; otherwise its ops run singly
  bool can_stop = false;       ///< the runtime may close at any time
  bool can_ask = false;        ///< a question that waits for idle may arrive
  bool can_restart = false;    ///< such a question, which is a restart
  bool has_deadlines = false;  ///< readers and lanes that wait for a tensor may time out
  bool threads_stay = false;   ///< threads do not end after their last push
  char dropped_outside = 0;    ///< a thread without a lane drops it
};

/// Facts that follow from a program alone: the maker, users and drop of each tensor, and the ends
/// of windows by program order.
class WindowPlan {
 public:
  /// Errors: std::invalid_argument for text that is no program.
  explicit WindowPlan(const WindowProgram& program);

  struct Place {
    Byte lane = kNone;
    Byte record = kNone;
  };
  struct Tensor {
    char letter = 0;
    Place maker;                            ///< kNone: the tensor exists from the beginning
    Place last;                             ///< the drop or last use; kNone: it stays
    std::array<RecordSet, kLanes> users{};  ///< records that read it
  };
  /// The ops of the records [from, to) are planned as one window.
  struct Range {
    Byte from = 0;
    Byte to = 0;
    friend bool operator==(const Range&, const Range&) = default;
  };

  std::array<std::vector<WindowRecord>, kLanes> lanes;
  std::vector<Tensor> tensors;
  int given = 0;  ///< the part that exists from the beginning
  /// Number of the other lane's records that must be pushed before this one, which names their
  /// results.
  std::array<std::array<Byte, kMostRecords>, kLanes> needs{};
  /// The windows that program order gives.
  std::array<std::vector<Range>, kLanes> windows;
  Byte dropped_outside = kNone;

  [[nodiscard]] const WindowRecord& record(int lane, int index) const {
    return lanes.at(static_cast<std::size_t>(lane)).at(static_cast<std::size_t>(index));
  }
  [[nodiscard]] Byte length(int lane) const {
    return static_cast<Byte>(lanes.at(static_cast<std::size_t>(lane)).size());
  }
  /// Number of the other lane's records that must be done before the tensor can be released; 0:
  /// none.
  [[nodiscard]] Byte awaited(Byte tensor, int lane, int other) const;
  /// The record as in the program's text, with its place.
  [[nodiscard]] std::string text_of(int lane, int index) const;
  /// The tensor whose value lies in the tensor's bytes: itself, or the base of the view.
  [[nodiscard]] Byte root_of(Byte tensor) const;
  [[nodiscard]] std::string name_of(Byte tensor) const {
    return std::string(1, tensors.at(tensor).letter);
  }

 private:
  void parse(int lane, std::string_view text);
  [[nodiscard]] Byte tensor_of(char letter);
  void record_uses(int lane);
  void record_needs(int lane);
  void record_windows(int lane, int most_records);

  std::array<std::vector<std::string>, kLanes> words_;
};

[[nodiscard]] inline bool is_boundary(Kind kind) noexcept {
  return kind != Kind::op && kind != Kind::drop;
}

}  // namespace hearth::model
