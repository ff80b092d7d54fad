#include "window_family.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

namespace hearth::model {

namespace {

// Windows alone, and uses, drops and adoptions of other lanes.
std::vector<WindowProgram> windows_and_other_lanes() {
  return {
      {.name = "a window left alone", .text = {"x=A y=x", "v=B"}, .threads_stay = true},
      {.name = "two windows and a sync", .text = {"x=A y=A z=A v=A |", ""}, .blocks = 6},
      {.name = "foreign uses of what is pending",
       .text = {"x=A y=x ~x ~y", "v=x w=v ~v ?w ~w"},
       .blocks = 6,
       .has_plans = true},
      {.name = "foreign uses on queues of their own",
       .text = {"x=A ~A y=x ~x", "v=x w=v ?w ~v"},
       .blocks = 5,
       .is_host = false,
       .has_plans = true},
      {.name = "a drop of a pending tensor with a foreign use",
       .text = {"x=A ~x y=A ~y", "v=x ?v ~v"},
       .has_plans = true},
      {.name = "a drop beside a window",
       .text = {"x=A ~A y=x ~x", "v=B ~B w=v ~w"},
       .ring = 6,
       .has_plans = true},
      {.name = "an adoption behind a window",
       .text = {"x=A ~A v=x ~v", "@x w=x! ?w ~w"},
       .has_plans = true,
       .threads_stay = true},
      {.name = "an adoption on queues of their own",
       .text = {"x=A ~A v=x ~v", "@x w=x! ?w ~w"},
       .blocks = 5,
       .is_host = false,
       .has_plans = true},
      {.name = "a drop without a lane",
       .text = {"x=A ~A v=x ~v", "w=x ?w ~w"},
       .blocks = 5,
       .has_plans = true,
       .threads_stay = true,
       .dropped_outside = 'x'},
  };
}

// Views of computed tensors.
std::vector<WindowProgram> windows_and_views() {
  return {
      {.name = "a view that another lane waits for",
       .text = {"x=A v^A", "w=v ?w"},
       .blocks = 5,
       .has_plans = true,
       .threads_stay = true},
      {.name = "a view and its tensor's last use",
       .text = {"v^A x=A! y=v ~v", "w=x"},
       .blocks = 5,
       .is_host = false,
       .has_plans = true},
      {.name = "a view that ends its tensor",
       .text = {"x=A v^A! y=v ~v", "w=v"},
       .blocks = 5,
       .has_plans = true},
      {.name = "a view of a view",
       .text = {"x=A v^A ~A y=v ~v", "w^v z=w ~w"},
       .ring = 6,
       .has_plans = true},
      {.name = "a restart beside a view",
       .text = {"x=A v^A y=v", "w=v ~w"},
       .blocks = 5,
       .has_plans = true,
       .can_restart = true},
  };
}

// Memory, and room in the ring.
std::vector<WindowProgram> windows_and_room() {
  return {
      {.name = "memory that a window holds back",
       .text = {"x=A! ~C z=x ~z", "y=B ~y ~B"},
       .blocks = 3,
       .ring = 6,
       .has_plans = true},
      {.name = "a lane that parks behind its drops",
       .text = {"x=A! ~C z=x!y ~z", "y=B ~y ~B"},
       .blocks = 3,
       .ring = 6,
       .has_plans = true},
      {.name = "memory in flight",
       .text = {"x=A ~A y=x ~x", "v=B ~B w=v ~w"},
       .blocks = 3,
       .is_host = false,
       .has_plans = true},
      {.name = "too little memory for all",
       .text = {"x=A y=A ~x ~y", "v=B w=B ~v ~w"},
       .blocks = 4,
       .has_plans = true},
      {.name = "a ring full of drops",
       .text = {"x=A ~C ~E ~G ~A ~x", ""},
       .blocks = 6,
       .has_plans = true,
       .threads_stay = true},
      {.name = "a producer that waits at a full ring",
       .text = {">A x=A y=x >y v=A ?v", ""},
       .blocks = 5,
       .has_plans = true,
       .threads_stay = true},
      {.name = "a producer whose next record frees memory",
       .text = {">A >A x=A y=x z=y >z v=B", "~B"},
       .ring = 6,
       .has_plans = true,
       .threads_stay = true},
  };
}

// Readers, shutdowns, questions and restarts.
std::vector<WindowProgram> windows_and_the_world() {
  return {
      {.name = "a reader with a deadline beside a window",
       .text = {"x=A y=x ~x", "v=B w=v ?w ~v"},
       .blocks = 6,
       .has_plans = true,
       .has_deadlines = true,
       .threads_stay = true},
      {.name = "a reader of the other lane's window",
       .text = {"x=A y=x z=y", "?x v=y ?v"},
       .blocks = 6,
       .has_deadlines = true,
       .threads_stay = true},
      {.name = "a shutdown with windows open",
       .text = {"x=A y=x ~x ?y", "v=x w=v ~v"},
       .blocks = 6,
       .has_plans = true,
       .can_stop = true},
      {.name = "a shutdown with work in flight",
       .text = {"x=A y=x ~x ?y", "v=x ~v"},
       .blocks = 6,
       .is_host = false,
       .has_plans = true,
       .can_stop = true},
      {.name = "a shutdown with a lane that lingers",
       .text = {"x=A", "v=B"},
       .can_stop = true,
       .threads_stay = true},
      {.name = "a question beside windows",
       .text = {"x=A ~A y=x", "v=x w=v"},
       .blocks = 5,
       .has_plans = true,
       .can_ask = true,
       .threads_stay = true},
      {.name = "a question with work in flight",
       .text = {"x=A ~A y=x", "v=x"},
       .blocks = 5,
       .is_host = false,
       .has_plans = true,
       .can_ask = true},
      {.name = "a restart beside windows",
       .text = {"x=A y=x ?y ~x", "v=x ~v"},
       .blocks = 5,
       .has_plans = true,
       .can_restart = true},
      {.name = "a restart with work in flight",
       .text = {"x=A y=x z=y", "v=x"},
       .blocks = 6,
       .is_host = false,
       .has_plans = true,
       .can_restart = true},
  };
}

// Update groups, and failures.
std::vector<WindowProgram> windows_and_failures() {
  return {
      {.name = "an update group beside a window",
       .text = {"x=A { y=x ~x } z=y", "v=x w=y"},
       .blocks = 6,
       .has_plans = true},
      {.name = "an update group short of memory",
       .text = {"x=A { y=x z=x } ~x", "v=B ~v w=B ~w"},
       .blocks = 5,
       .is_host = false,
       .has_plans = true},
      {.name = "a kernel that fails", .text = {"x=A% >A y=x ~x ~y", "v=x ~v"}, .has_plans = true},
      {.name = "poison at the beginning of a window",
       .text = {"x=A% | y=x z=A |", ""},
       .blocks = 5},
      {.name = "a lane that is chosen to fail",
       .text = {">A c=A", "a=B b=a d=b"},
       .blocks = 4,
       .has_plans = true,
       .threads_stay = true},
      {.name = "all at once",
       .text = {"x=A y=x ~x z=y", "v=x @y w=y! ?w"},
       .blocks = 5,
       .has_plans = true,
       .can_stop = true,
       .has_deadlines = true},
      {.name = "a wait that is given up",
       .text = {"x=A! z=x!y ~z", "y=B w=y"},
       .ring = 6,
       .has_plans = true,
       .has_deadlines = true},
  };
}

}  // namespace

std::vector<WindowProgram> chosen_programs() {
  std::vector<WindowProgram> programs = windows_and_other_lanes();
  for (const auto& more :
       {windows_and_views(), windows_and_room(), windows_and_the_world(), windows_and_failures()}) {
    programs.insert(programs.end(), more.begin(), more.end());
  }
  return programs;
}

WindowProgram chosen_program(const std::string& name) {
  for (WindowProgram& program : chosen_programs()) {
    if (program.name == name) {
      return std::move(program);
    }
  }
  throw std::out_of_range(name);
}

namespace {

/// splitmix64.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  [[nodiscard]] std::size_t roll(std::size_t sides) {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return static_cast<std::size_t>((z ^ (z >> 31U)) % sides);
  }

 private:
  std::uint64_t state_;
};

/// Writes both lanes record by record, so that each names only tensors submitted before it.
class Writer {
 public:
  explicit Writer(Dice& dice) : dice_(dice) {}

  std::array<std::string, kLanes> write(int records) {
    for (int i = 0; i < records; ++i) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        text_.at(lane) += (text_.at(lane).empty() ? "" : " ") + word(lane, records - i);
      }
    }
    return text_;
  }

 private:
  std::string word(std::size_t lane, int left) {
    std::string& own = own_.at(lane);
    const std::string& others = own_.at(1 - lane);
    if (in_group_.at(lane) && (left == 1 || dice_.roll(2) == 0)) {
      in_group_.at(lane) = false;
      own += std::exchange(made_in_group_.at(lane), {});
      return "}";
    }
    const std::size_t kind = in_group_.at(lane) ? dice_.roll(3) : dice_.roll(11);
    if (kind == 3 && own.size() > 1) {
      return "~" + take_last(own);
    }
    if (kind == 4 && !own.empty()) {
      return (dice_.roll(2) == 0 ? "?" : ">") + own.substr(own.size() - 1);
    }
    if (kind == 5 && others.size() > 1 && !in_group_.at(1 - lane) &&
        !is_in(adopted_, others.back())) {
      const std::string adopted = take_last(own_.at(1 - lane));
      own += adopted;
      adopted_ += adopted;
      return "@" + adopted;
    }
    if (kind == 6) {
      return "|";
    }
    if (kind == 7 && left > 2) {
      in_group_.at(lane) = true;
      return "{";
    }
    return op(lane, kind);
  }

  std::string op(std::size_t lane, std::size_t kind) {
    std::string& own = own_.at(lane);
    const std::string& others = own_.at(1 - lane);
    const std::string out(1, next_++);
    const bool shows = kind == 10 && !in_group_.at(lane);
    std::string word = out + (shows ? "^" : "=");
    if (kind == 2 && others.size() > 1) {
      word += others.back();
      foreign_ += others.back();
    } else if (kind == 8 && own.size() > 1 && !is_in(foreign_, own.back())) {
      word += take_last(own) + "!";
    } else {
      word += own.back();
    }
    if (kind == 9 && dice_.roll(3) == 0) {
      word += "%";
    }
    (in_group_.at(lane) ? made_in_group_.at(lane) : own) += out;
    return word;
  }

  static bool is_in(const std::string& letters, char letter) {
    return letters.find(letter) != std::string::npos;
  }
  static std::string take_last(std::string& letters) {
    std::string last(1, letters.back());
    letters.pop_back();
    return last;
  }

  Dice& dice_;
  std::array<std::string, kLanes> text_;
  std::array<std::string, kLanes> own_{"A", "B"};  // tensors that the lane may use and drop
  std::array<std::string, kLanes> made_in_group_;
  std::array<bool, kLanes> in_group_{};
  std::string foreign_;  // tensors that the other lane has used: only drops may end them
  std::string adopted_;  // each once
  char next_ = 'a';
};

}  // namespace

std::vector<WindowProgram> generated_programs(std::uint64_t seed, std::size_t count, int records) {
  Dice dice(seed);
  std::vector<WindowProgram> programs;
  std::set<std::string> known;
  while (programs.size() < count) {
    WindowProgram program;
    program.text = Writer(dice).write(records);
    const std::size_t options = dice.roll(80);
    program.is_host = options % 2 == 0;
    program.has_plans = options / 2 % 4 != 0;
    program.threads_stay = options / 8 % 2 == 0;
    const std::size_t world = options / 16;  // an event at any time; 0: none
    program.can_stop = world == 1 && program.is_host;
    program.can_ask = world == 2;
    program.can_restart = world == 3;
    program.has_deadlines = world == 4;
    program.blocks = 3 + static_cast<int>(dice.roll(4));
    program.ring = dice.roll(2) == 0 ? 4 : 6;
    program.name = "generated by seed " + std::to_string(seed) + ", number " +
                   std::to_string(programs.size()) + ", options " + std::to_string(options) +
                   ", blocks " + std::to_string(program.blocks) + ", ring " +
                   std::to_string(program.ring);
    const std::string suffix = std::to_string(options) + "/" + std::to_string(program.blocks);
    const std::string twin = program.text[1] + "/" + program.text[0] + "/" + suffix;
    if (known.insert(program.text[0] + "/" + program.text[1] + "/" + suffix).second) {
      known.insert(twin);
      programs.push_back(std::move(program));
    }
  }
  return programs;
}

}  // namespace hearth::model
