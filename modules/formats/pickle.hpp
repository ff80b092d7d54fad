// A reader of Python's pickles that executes nothing: it keeps calls and classes as words, and
// returns the tree of values that the pickle describes.
// Private to modules. Values; any thread.
// Invariants: (1) no class is made and no function is called, whatever the pickle names; (2) memory
// is bounded by the limits below; (3) every id in a Pickle names one of its values, so cycles of
// the pickle cost nothing.
#pragma once

#include <hearth/runtime/base/file_reader.hpp>
#include <hearth/runtime/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::detail {

/// Number of a value in its Pickle.
using PickleId = std::uint32_t;

enum class PickleKind : std::uint8_t {
  none,
  boolean,
  integer,
  real,
  text,
  bytes,
  list,  ///< list, tuple or set.
  dict,
  global,      ///< A class or function by its name, never looked up.
  call,        ///< A function or class with its arguments, never called.
  persistent,  ///< A value that the file keeps outside of the pickle.
};

struct PickleValue {
  PickleKind kind = PickleKind::none;
  std::int64_t integer = 0;  ///< integer; boolean: 0 or 1.
  double real = 0;
  /// text, bytes; global: "torch.FloatStorage"; integer: its digits if 64 bits cannot hold it.
  std::string text = {};
  /// list: its elements. dict: key, value, key, value. persistent: its identifier. call: function,
  /// arguments, and the state if there is one.
  std::vector<PickleId> items = {};
  /// call: what the pickle puts into the made object, as key, value, key, value.
  std::vector<PickleId> members = {};
};

class Pickle final {
 public:
  std::vector<PickleValue> values;
  PickleId root = 0;

  [[nodiscard]] const PickleValue& operator[](PickleId id) const { return values.at(id); }
  /// The name of a class or function, or a description of what stands in its place.
  [[nodiscard]] std::string name_of(PickleId id) const;
};

inline constexpr std::size_t kMostPickleBytes = std::size_t{256} << 20U;
inline constexpr std::size_t kMostPickleValues = 2'000'000;
inline constexpr std::size_t kMostPickleSteps = 16'000'000;

/// Bytes of a file between two places, read in order through a small buffer.
class PickleStream final {
 public:
  /// `reader` outlives the stream.
  PickleStream(const FileReader& reader, std::uint64_t begin, std::uint64_t end)
      : reader_(reader), place_(begin), end_(end) {}

  /// The place of the next byte in the file.
  [[nodiscard]] std::uint64_t place() const noexcept { return place_; }
  /// Takes bytes. Errors: bad_format at the end; those of FileReader::read_at().
  [[nodiscard]] Result<std::string> take(std::uint64_t count);
  [[nodiscard]] Result<std::uint8_t> take_byte();
  /// Takes an unsigned number, little-endian, of at most 8 bytes.
  [[nodiscard]] Result<std::uint64_t> take_number(int byte_count);
  /// Takes the text up to the next line feed, which is dropped.
  [[nodiscard]] Result<std::string> take_line();

 private:
  [[nodiscard]] Status fill();

  const FileReader& reader_;
  std::uint64_t place_;
  std::uint64_t end_;
  std::vector<std::byte> buffer_;
  std::size_t used_ = 0;
};

/// Reads one pickle of protocol 0 to 5, up to and with its end.
///
/// Errors: bad_format with the file, the place and the opcode. Causes are a truncated pickle, an
/// unknown opcode, a use of a value that is not there, and a passed limit.
[[nodiscard]] Result<Pickle> read_pickle(const FileReader& reader, PickleStream& stream);

}  // namespace hearth::detail
