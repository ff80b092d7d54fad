#include "window_program.hpp"

#include <algorithm>
#include <bit>
#include <cctype>
#include <sstream>
#include <stdexcept>

namespace hearth::model {
namespace {

[[noreturn]] void refuse(std::string_view word, const char* why) {
  throw std::invalid_argument(std::string(word) + ": " + why);
}

/// One past the last record of the set.
Byte end_of(RecordSet records) {
  return static_cast<Byte>(std::bit_width(records));
}

}  // namespace

// Capitals first, so that their numbers are those below `given`.
WindowPlan::WindowPlan(const WindowProgram& program) {
  for (const char letter : program.text[0] + program.text[1] + program.dropped_outside) {
    if (std::isupper(static_cast<unsigned char>(letter)) != 0) {
      static_cast<void>(tensor_of(letter));
    }
  }
  given = static_cast<int>(tensors.size());
  for (int lane = 0; lane < kLanes; ++lane) {
    parse(lane, program.text.at(static_cast<std::size_t>(lane)));
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    record_uses(lane);
  }
  if (program.dropped_outside != 0) {
    dropped_outside = tensor_of(program.dropped_outside);
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    record_needs(lane);
    record_windows(lane, program.ring / 2);
  }
}

Byte WindowPlan::tensor_of(char letter) {
  const auto known = std::ranges::find(tensors, letter, &Tensor::letter);
  if (known == tensors.end()) {
    if (tensors.size() == kMostTensors) {
      refuse(std::string(1, letter), "too many tensors");
    }
    tensors.push_back({.letter = letter, .maker = {}, .last = {}});
    return static_cast<Byte>(tensors.size() - 1);
  }
  return static_cast<Byte>(known - tensors.begin());
}

void WindowPlan::parse(int lane, std::string_view text) {
  std::istringstream words{std::string(text)};
  std::vector<WindowRecord>& records = lanes.at(static_cast<std::size_t>(lane));
  for (std::string word; words >> word;) {
    WindowRecord record;
    std::size_t at = 1;
    switch (word.front()) {
      case '~':
        record.kind = Kind::drop;
        break;
      case '?':
      case '>':
        record.kind = Kind::read;
        record.waits = word.front() == '?';
        break;
      case '@':
        record.kind = Kind::adopt;
        break;
      case '|':
        record.kind = Kind::sync;
        break;
      case '{':
        record.kind = Kind::group_begin;
        break;
      case '}':
        record.kind = Kind::group_end;
        break;
      default:
        if (word.size() < 2 || (word[1] != '=' && word[1] != '^')) {
          refuse(word, "no record");
        }
        record.out = tensor_of(word.front());
        record.shows = word[1] == '^';
        at = 2;
    }
    for (std::size_t operands = 0; at < word.size(); ++at) {
      if (word[at] == '!') {
        record.takes = true;
      } else if (word[at] == '%') {
        record.fails = true;
      } else {
        record.in.at(operands++) = tensor_of(word[at]);
      }
    }
    records.push_back(record);
    words_.at(static_cast<std::size_t>(lane)).push_back(word);
  }
  if (records.size() > kMostRecords) {
    refuse(text, "too many records");
  }
}

void WindowPlan::record_uses(int lane) {
  for (Byte i = 0; i < length(lane); ++i) {
    const WindowRecord& record = this->record(lane, i);
    if (record.out != kNone) {
      tensors.at(record.out).maker = {static_cast<Byte>(lane), i};
    }
    for (const Byte operand : record.in) {
      if (operand != kNone && record.kind != Kind::drop && record.kind != Kind::adopt) {
        tensors.at(operand).users.at(static_cast<std::size_t>(lane)) |= bit_of(i);
      }
    }
    if (record.kind == Kind::drop || record.takes) {
      tensors.at(record.in[0]).last = {static_cast<Byte>(lane), i};
    }
  }
}

Byte WindowPlan::root_of(Byte tensor) const {
  const Place maker = tensors.at(tensor).maker;
  return maker.lane != kNone && record(maker.lane, maker.record).shows
             ? root_of(record(maker.lane, maker.record).in[0])
             : tensor;
}

Byte WindowPlan::awaited(Byte tensor, int lane, int other) const {
  const Tensor& of = tensors.at(tensor);
  Byte end = end_of(of.users.at(static_cast<std::size_t>(other)));
  if (of.maker.lane == other && of.maker.lane != lane) {
    end = std::max(end, static_cast<Byte>(of.maker.record + 1));
  }
  return end;
}

// A program names only submitted tensors; a drop or an adoption follows all uses.
void WindowPlan::record_needs(int lane) {
  const int other = 1 - lane;
  for (Byte i = 0; i < length(lane); ++i) {
    const WindowRecord& record = this->record(lane, i);
    Byte need = 0;
    for (const Byte operand : record.in) {
      if (operand == kNone) {
        continue;
      }
      const Tensor& tensor = tensors.at(operand);
      if (tensor.maker.lane == other) {
        need = std::max(need, static_cast<Byte>(tensor.maker.record + 1));
      }
      if (record.kind == Kind::drop || record.kind == Kind::adopt || record.takes) {
        need = std::max(need, awaited(operand, lane, other));
      }
    }
    needs.at(static_cast<std::size_t>(lane)).at(i) = need;
  }
}

// Derived from program order alone, without the actor's code: the checker compares the actor's
// plans with these. Records after the last boundary are never planned.
void WindowPlan::record_windows(int lane, int most_records) {
  std::vector<Range>& found = windows.at(static_cast<std::size_t>(lane));
  int ops = 0;
  int records = 0;
  Byte first_op = kNone;
  bool in_group = false;
  const auto end_at = [&](Byte to) {
    if (ops > 0) {
      found.push_back({first_op, to});
    }
    ops = 0;
    records = 0;
  };
  for (Byte i = 0; i < length(lane); ++i) {
    const Kind kind = record(lane, i).kind;
    if (is_boundary(kind) || in_group) {
      end_at(i);
      in_group = kind == Kind::group_begin || (in_group && kind != Kind::group_end);
      continue;
    }
    if (kind == Kind::op && ops++ == 0) {
      first_op = i;
    }
    if (ops == kWindowOps || ++records == most_records) {
      end_at(static_cast<Byte>(i + 1));
    }
  }
}

std::string WindowPlan::text_of(int lane, int index) const {
  return "lane " + std::to_string(lane) + "'s record " + std::to_string(index + 1) + " \"" +
         words_.at(static_cast<std::size_t>(lane)).at(static_cast<std::size_t>(index)) + "\"";
}

}  // namespace hearth::model
