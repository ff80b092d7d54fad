// A thread writes one word of 16 bytes of the copy. For contiguous lines it reads the one or two
// aligned words that hold them, and shifts; else it reads element by element. An aligned word that
// holds an element of the side lies in mapped memory as a whole. Its other bytes are masked.
#include "side_copy.hpp"

#include <string>

#include <fmt/format.h>

#include "backends/gpu/space/strided.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"

namespace hearth::gpu {
namespace {

constexpr std::int64_t kSideWordBytes = 16;

constexpr std::string_view kSideMembers =
    "uint64_t from; uint64_t to; int64_t line_stride; int64_t step; uint words; uint line_words; "
    "uint word_factor; uint word_shift; uint copied_lines; uint line_factor; uint line_shift; "
    "int lines; int line_length; ";

// The first `count` bytes from an address on, then zeros.
constexpr std::string_view kNeighbours = R"(
FN uvec4 word_at(uint64_t at, uint count) {
  const uint shift = uint(at) & 15u;
  const uint64_t begin = at - uint64_t(shift);
  const uvec4 low = Source(begin).v;
  const uvec4 high = shift + count > 16u ? Source(begin + 16ul).v : uvec4(0u);
  uint near[8] = LIST8(uint, low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w);
  if ((shift & 8u) != 0u) {
    UNROLLED for (int i = 0; i < 6; ++i) {
      near[i] = near[i + 2];
    }
  }
  if ((shift & 4u) != 0u) {
    UNROLLED for (int i = 0; i < 5; ++i) {
      near[i] = near[i + 1];
    }
  }
  const uint bits = (shift & 3u) * 8u;
  uvec4 word;
  UNROLLED for (int i = 0; i < 4; ++i) {
    const uint own = bits == 0u ? near[i] : (near[i] >> bits) | (near[i + 1] << (32u - bits));
    const uint kept = clamp(count, uint(4 * i), uint(4 * i + 4)) - uint(4 * i);
    word[i] = kept == 4u ? own : own & ((1u << (kept * 8u)) - 1u);
  }
  return word;
}
)";

// Elements of ELEMENT_BYTES, `count` of which exist.
constexpr std::string_view kApart = R"(
FN uvec4 word_of_elements(uint64_t at, int64_t stride, int count) {
  uvec4 word = uvec4(0u);
  UNROLLED for (int j = 0; j < 16 / ELEMENT_BYTES; ++j) {
    if (j < count) {
      const uint64_t from = at + uint64_t(stride * int64_t(j));
#if ELEMENT_BYTES == 8
      word[2 * j] = Words32u(from).v[0];
      word[2 * j + 1] = Words32u(from).v[1];
#elif ELEMENT_BYTES == 4
      word[j] = Words32u(from).v[0];
#elif ELEMENT_BYTES == 2
      word[j / 2] |= uint(Words16(from).v[0]) << (j % 2 * 16);
#else
      word[j / 4] |= uint(Words8(from).v[0]) << (j % 4 * 8);
#endif
    }
  }
  return word;
}
)";

constexpr std::string_view kSideMain = R"(
FN void main() {{
  const uint i = GROUP * {0}u + THREAD;
  if (i >= p.words) {{
    return;
  }}
  const uint all_lines = divide(i, p.word_factor, p.word_shift);
  const uint matrix = divide(all_lines, p.line_factor, p.line_shift);
  const int line = int(all_lines - matrix * p.copied_lines);
  const int first = int(i - all_lines * p.line_words) * (16 / ELEMENT_BYTES);
  uvec4 word = uvec4(0u);
  if (line < p.lines && first < p.line_length) {{
    int64_t at = int64_t(line) * p.line_stride + int64_t(first) * p.step;
    uint rest = matrix;
{1}    const uint64_t address = p.from + uint64_t(at * int64_t(ELEMENT_BYTES));
    const int count = min(16 / ELEMENT_BYTES, p.line_length - first);
    word = {2};
  }}
  Word(p.to + uint64_t(i) * 16ul).v = word;
}}
)";

std::string side_copy_text(const SideCopy& copy, std::size_t parameter_bytes) {
  std::string members(kSideMembers);
  std::string places;
  for (int i = copy.batch_rank - 1; i >= 0; --i) {
    places += fmt::format(
        "    at += int64_t(rest % p.size_{0}) * p.stride_{0};\n    rest /= p.size_{0};\n", i);
  }
  for (int i = 0; i < copy.batch_rank; ++i) {
    members += fmt::format("int64_t stride_{0}; uint size_{0}; ", i);
  }
  const bool has_neighbours = copy.step == 1;
  std::string text = glsl_prelude({.threads = kGroupThreads});
  text += glsl_parameters(members, parameter_bytes);
  text += glsl_divide();
  text += fmt::format(
      "#define ELEMENT_BYTES {}\n"
      "READ_BUFFER_ONE(Source, uvec4, 16);\nWRITE_BUFFER_ONE(Word, uvec4, 16);\n",
      size_bytes(copy.dtype));
  text += has_neighbours ? kNeighbours : kApart;
  return text + fmt::format(fmt::runtime(kSideMain),
                            kGroupThreads,
                            places,
                            has_neighbours
                                ? "word_at(address, uint(count) * uint(ELEMENT_BYTES))"
                                : "word_of_elements(address, p.step * int64_t(ELEMENT_BYTES), "
                                  "count)");
}

// Copies lines that lie apart to neighbouring lines. A thread writes 16 bytes of the copy, from one
// line if it can.
constexpr std::string_view kTrimmedMembers =
    "uint64_t from; uint64_t to; uint64_t line_bytes; uint words; uint elements; uint length; "
    "uint factor; uint shift; ";
constexpr std::string_view kTrimmedMain = R"(
#if ELEMENT_BYTES == 4
#define ELEMENT_AT(address) Words32u(address).v[0]
#define PUT_ELEMENT(address, x) OneElement(address).v = x
WRITE_BUFFER_ONE(OneElement, uint, 4);
#else
#define ELEMENT_AT(address) uint(Words16(address).v[0])
#define PUT_ELEMENT(address, x) OneElement(address).v = uint16_t(x)
WRITE_BUFFER_ONE(OneElement, uint16_t, 2);
#endif
FN uint64_t place_of(uint e) {{
  const uint line = divide(e, p.factor, p.shift);
  return p.from + uint64_t(line) * p.line_bytes + uint64_t((e - line * p.length) * uint(ELEMENT_BYTES));
}}
FN void main() {{
  const uint count = 16u / uint(ELEMENT_BYTES);
  const uint i = GROUP * {0}u + THREAD;
  if (i >= p.words) {{
    return;
  }}
  const uint first = i * count;
  const uint64_t at = place_of(first);
  if (first + count <= p.elements &&
      place_of(first + count - 1u) == at + uint64_t((count - 1u) * uint(ELEMENT_BYTES))) {{
    Word(p.to + uint64_t(i) * 16ul).v = word_at(at, 16u);
    return;
  }}
  for (uint e = first; e < min(first + count, p.elements); ++e) {{
    PUT_ELEMENT(p.to + uint64_t(e) * uint64_t(ELEMENT_BYTES), ELEMENT_AT(place_of(e)));
  }}
}}
)";

std::string trimmed_text(DType dtype, std::size_t parameter_bytes) {
  std::string text = glsl_prelude({.threads = kGroupThreads});
  text += glsl_parameters(kTrimmedMembers, parameter_bytes);
  text += glsl_divide();
  text += fmt::format(
      "#define ELEMENT_BYTES {}\n"
      "READ_BUFFER_ONE(Source, uvec4, 16);\nWRITE_BUFFER_ONE(Word, uvec4, 16);\n",
      size_bytes(dtype));
  text += kNeighbours;
  return text + fmt::format(fmt::runtime(kTrimmedMain), kGroupThreads);
}

}  // namespace

// ---- sides ----

SideWalk a_walk_of(const MatrixProduct& p) noexcept {
  return {p.a, p.rows, p.a_row, p.a_depth, &BatchAxis::a};
}
SideWalk b_walk_of(const MatrixProduct& p) noexcept {
  return {p.b, p.columns, p.b_column, p.b_depth, &BatchAxis::b};
}

std::int64_t rounded_up(std::int64_t size, std::int64_t unit) noexcept {
  return (size + unit - 1) / unit * unit;
}

SideForm form_of_copy(const SideWalk& walk, int width) noexcept {
  const bool is_nearer = std::abs(walk.depth_stride) <= std::abs(walk.side_stride);
  return {.along_depth = walk.depth_stride == 1 || (walk.side_stride != 1 && is_nearer),
          .width = width};
}

SideCopy copy_of(const MatrixProduct& p,
                 const SideWalk& walk,
                 std::int64_t depth,
                 SideForm form) noexcept {
  const std::int64_t unit = std::max<std::int64_t>(form.width, 16 / size_bytes(p.dtype));
  SideCopy copy{.dtype = p.dtype, .from = walk.data};
  if (form.along_depth) {
    copy.length = p.depth;
    copy.step = walk.depth_stride;
    copy.lines = walk.side_size;
    copy.line_stride = walk.side_stride;
    copy.copied_length = rounded_up(depth, unit);
    copy.copied_lines = walk.side_size;
  } else {
    copy.length = walk.side_size;
    copy.step = walk.side_stride;
    copy.lines = p.depth;
    copy.line_stride = walk.depth_stride;
    copy.copied_length = rounded_up(walk.side_size, unit);
    copy.copied_lines = depth;
  }
  for (int i = 0; i < p.batch_rank; ++i) {
    const BatchAxis& axis = p.batch[static_cast<std::size_t>(i)];
    if (axis.*walk.batch_stride != 0) {
      const auto at = static_cast<std::size_t>(copy.batch_rank++);
      copy.batch_size[at] = axis.size;
      copy.batch_stride[at] = axis.*walk.batch_stride;
    }
  }
  return copy;
}

void use_copy(MatrixProduct& p,
              const SideCopy& copy,
              SideForm form,
              const std::byte* data,
              bool is_a) noexcept {
  (is_a ? p.a : p.b) = data;
  (is_a ? p.a_row : p.b_column) = form.along_depth ? copy.copied_length : 1;
  (is_a ? p.a_depth : p.b_depth) = form.along_depth ? 1 : copy.copied_length;
  std::int64_t stride = copy.copied_lines * copy.copied_length;
  for (int i = p.batch_rank - 1; i >= 0; --i) {
    BatchAxis& axis = p.batch[static_cast<std::size_t>(i)];
    std::int64_t& own = is_a ? axis.a : axis.b;
    if (own != 0) {
      own = stride;
      stride *= axis.size;
    }
  }
}

// ---- copies ----

std::int64_t SideCopy::matrices() const noexcept {
  std::int64_t count = 1;
  for (int i = 0; i < batch_rank; ++i) {
    count *= batch_size[static_cast<std::size_t>(i)];
  }
  return count;
}

std::int64_t SideCopy::bytes() const noexcept {
  return matrices() * copied_lines * copied_length * size_bytes(dtype);
}

Status encode_side_copy(const SideCopy& copy, std::uint64_t to, KernelEncoder& encoder) {
  const std::int64_t words = copy.bytes() / kSideWordBytes;
  const std::int64_t line_words = copy.copied_length * size_bytes(copy.dtype) / kSideWordBytes;
  const Divisor by_words(line_words);
  const Divisor by_lines(copy.copied_lines);
  ParameterBlock parameters;
  parameters
      .add(std::uint64_t{reinterpret_cast<std::uintptr_t>(copy.from)})  // NOLINT: a device address
      .add(to)
      .add(copy.line_stride)
      .add(copy.step)
      .add(static_cast<std::uint32_t>(words))
      .add(static_cast<std::uint32_t>(line_words))
      .add(by_words.factor)
      .add(by_words.shift)
      .add(static_cast<std::uint32_t>(copy.copied_lines))
      .add(by_lines.factor)
      .add(by_lines.shift)
      .add(static_cast<std::int32_t>(copy.lines))
      .add(static_cast<std::int32_t>(copy.length));
  for (int i = 0; i < copy.batch_rank; ++i) {
    parameters.add(copy.batch_stride[static_cast<std::size_t>(i)])
        .add(static_cast<std::uint32_t>(copy.batch_size[static_cast<std::size_t>(i)]));
  }
  KernelKey key(KernelFamily::side_copy);
  key.add(static_cast<std::uint32_t>(size_bytes(copy.dtype)))
      .add(copy.step == 1)
      .add(copy.batch_rank);
  const auto text = [&] { return side_copy_text(copy, parameters.size_bytes()); };
  return encoder.dispatch(
      key, text, parameters, encoder.linear((words + kGroupThreads - 1) / kGroupThreads));
}

Status encode_trimmed_copy(DType dtype,
                           std::uint64_t from,
                           std::int64_t line_bytes,
                           std::int64_t length,
                           std::int64_t lines,
                           std::uint64_t to,
                           KernelEncoder& encoder) {
  const std::int64_t elements = length * lines;
  const std::int64_t words = (elements * size_bytes(dtype) + kSideWordBytes - 1) / kSideWordBytes;
  const Divisor by_length(length);
  ParameterBlock parameters;
  parameters.add(from)
      .add(to)
      .add(static_cast<std::uint64_t>(line_bytes))
      .add(static_cast<std::uint32_t>(words))
      .add(static_cast<std::uint32_t>(elements))
      .add(static_cast<std::uint32_t>(length))
      .add(by_length.factor)
      .add(by_length.shift);
  KernelKey key(KernelFamily::side_copy);
  key.add(static_cast<std::uint32_t>(size_bytes(dtype))).add(2U);  // others have 0 or 1
  const auto text = [&] { return trimmed_text(dtype, parameters.size_bytes()); };
  return encoder.dispatch(
      key, text, parameters, encoder.linear((words + kGroupThreads - 1) / kGroupThreads));
}

}  // namespace hearth::gpu
