#include <hearth/modules/idx.hpp>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/host_memory.hpp>

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>

namespace hearth {
namespace {

constexpr int kUnsignedByte = 0x08;
constexpr const char* kHexDigits = "0123456789abcdef";
constexpr int kClasses = 10;
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

// A file and the line of the program's call.
struct Source {
  std::filesystem::path file;
  SourceLoc loc;
};

[[noreturn]] void fail(ErrorCode code, const Source& from, const std::string& text) {
  throw FileError(Error{
      .code = code, .text = "idx: " + from.file.string() + ": " + text, .location = from.loc});
}

[[noreturn]] void fail_format(const Source& from, std::uint64_t offset, const std::string& text) {
  fail(ErrorCode::bad_format, from, "at byte " + std::to_string(offset) + ": " + text);
}

// The bytes of a file in order. Gzip is unpacked; zlib passes plain files through.
class ByteSource {
 public:
  explicit ByteSource(const Source& from) : from_(from), stream_(nullptr, &gzclose) {
    std::error_code ignored;
    if (!std::filesystem::exists(from.file, ignored)) {
      fail(ErrorCode::not_found, from, "there is no such file");
    }
    if (std::filesystem::is_directory(from.file, ignored)) {
      fail(ErrorCode::io_error, from, "is a folder, expected a file");
    }
    errno = 0;
    stream_.reset(gzopen(from.file.c_str(), "rb"));
    if (!stream_) {
      fail(ErrorCode::io_error, from, std::string("cannot be opened: ") + std::strerror(errno));
    }
  }

  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }

  /// Reads up to `size` bytes; fewer only at the end of the file.
  std::size_t read(std::uint8_t* to, std::size_t size) {
    std::size_t done = 0;
    while (done < size) {
      const auto step = static_cast<unsigned>(std::min(size - done, kChunkBytes));
      const int got = gzread(stream_.get(), to + done, step);
      check(got);
      if (got == 0) {
        break;
      }
      done += static_cast<std::size_t>(got);
      offset_ += static_cast<std::uint64_t>(got);
    }
    return done;
  }

 private:
  // For a truncated gzip stream, zlib first returns the bytes and afterwards Z_BUF_ERROR.
  void check(int got) {
    int code = Z_OK;
    const char* message = gzerror(stream_.get(), &code);
    if (code == Z_ERRNO) {
      fail(ErrorCode::io_error, from_, std::string("cannot be read: ") + std::strerror(errno));
    }
    if (got < 0 || (got == 0 && code == Z_BUF_ERROR)) {
      fail_format(from_, offset_, std::string("the gzip stream is broken: ") + message);
    }
  }

  const Source& from_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> stream_;
  std::uint64_t offset_ = 0;
};

std::uint32_t big_endian(const std::array<std::uint8_t, 4>& bytes) {
  return (std::uint32_t{bytes[0]} << 24U) | (std::uint32_t{bytes[1]} << 16U) |
         (std::uint32_t{bytes[2]} << 8U) | std::uint32_t{bytes[3]};
}

std::array<std::uint8_t, 4> read_word(ByteSource& source,
                                      const Source& from,
                                      const std::string& what) {
  const std::uint64_t offset = source.offset();
  std::array<std::uint8_t, 4> bytes{};
  const std::size_t got = source.read(bytes.data(), bytes.size());
  if (got < bytes.size()) {
    fail_format(from, offset + got, "the file ends, expected 4 bytes of " + what);
  }
  return bytes;
}

std::string hex(const std::array<std::uint8_t, 4>& bytes) {
  std::string text = "0x";
  for (const std::uint8_t byte : bytes) {
    text += kHexDigits[byte >> 4U];
    text += kHexDigits[byte & 15U];
  }
  return text;
}

std::vector<std::int64_t> read_header(ByteSource& source, const Source& from) {
  const auto magic = read_word(source, from, "the magic number");
  if (magic[0] != 0 || magic[1] != 0) {
    fail_format(from, 0, "the magic number is " + hex(magic) + ", expected 0x000008 and the rank");
  }
  if (magic[2] != kUnsignedByte) {
    fail_format(
        from,
        2,
        "the element type is " + std::to_string(magic[2]) + ", expected 8 (unsigned bytes)");
  }
  if (magic[3] == 0) {
    fail_format(from, 3, "the rank is 0, expected at least 1");
  }
  std::vector<std::int64_t> dims;
  dims.reserve(magic[3]);
  for (int axis = 0; axis < magic[3]; ++axis) {
    dims.push_back(std::int64_t{
        big_endian(read_word(source, from, "the size of axis " + std::to_string(axis)))});
  }
  return dims;
}

std::uint64_t element_count(const std::vector<std::int64_t>& dims, const Source& from) {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) {
    return 0;
  }
  std::uint64_t count = 1;
  for (const std::int64_t dim : dims) {
    if (count > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / dim)) {
      fail_format(from, 4, "the sizes of the axes multiply to more than 2^63 values");
    }
    count *= static_cast<std::uint64_t>(dim);
  }
  return count;
}

std::filesystem::path find_file(const std::filesystem::path& folder, const std::string& name) {
  std::error_code ignored;
  for (const char* ending : {"", ".gz"}) {
    std::filesystem::path file = folder / (name + ending);
    if (std::filesystem::is_regular_file(file, ignored)) {
      return file;
    }
  }
  return {};
}

LabelledImages slice(const LabelledImages& from, std::int64_t begin, std::int64_t end) {
  const std::int64_t size = from.height * from.width;
  return {.count = end - begin,
          .height = from.height,
          .width = from.width,
          .class_count = from.class_count,
          .pixels = {from.pixels.begin() + begin * size, from.pixels.begin() + end * size},
          .labels = {from.labels.begin() + begin, from.labels.begin() + end}};
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& file, SourceLoc loc) {
  const Source from{file, loc};
  ByteSource source(from);
  IdxArray array{.dims = read_header(source, from), .values = {}};
  const std::uint64_t expected = element_count(array.dims, from);
  const std::uint64_t data_offset = source.offset();
  while (array.values.size() < expected) {
    const std::size_t have = array.values.size();
    const auto step =
        static_cast<std::size_t>(std::min<std::uint64_t>(expected - have, kChunkBytes));
    resize_on_host(array.values, have + step, "idx: " + file.string(), loc).value();
    const std::size_t got = source.read(array.values.data() + have, step);
    if (got < step) {
      fail_format(from,
                  source.offset(),
                  "the file ends, expected " + std::to_string(expected) + " values from byte " +
                      std::to_string(data_offset) + " on");
    }
  }
  std::uint8_t extra = 0;
  if (source.read(&extra, 1) != 0) {
    fail_format(from, data_offset + expected, "more bytes follow, expected the end of the file");
  }
  return array;
}

LabelledImages read_labelled_images(const std::filesystem::path& images,
                                    const std::filesystem::path& labels,
                                    int class_count,
                                    SourceLoc loc) {
  IdxArray pictures = read_idx(images, loc);
  if (pictures.dims.size() != 3) {
    fail_format({images, loc},
                3,
                "the rank is " + std::to_string(pictures.dims.size()) +
                    ", expected 3 (count, height, width)");
  }
  constexpr std::array<const char*, 3> kAxes = {"count", "height", "width"};
  for (std::size_t axis = 0; axis < kAxes.size(); ++axis) {
    if (pictures.dims[axis] == 0) {
      fail_format({images, loc},
                  4 + 4 * axis,
                  std::string("the ") + kAxes[axis] + " is 0, expected images: 1 or more");
    }
  }
  IdxArray classes = read_idx(labels, loc);
  if (classes.dims.size() != 1) {
    fail_format({labels, loc},
                3,
                "the rank is " + std::to_string(classes.dims.size()) + ", expected 1 (count)");
  }
  if (classes.dims[0] != pictures.dims[0]) {
    fail_format({labels, loc},
                4,
                "the count is " + std::to_string(classes.dims[0]) + ", expected " +
                    std::to_string(pictures.dims[0]) + " as in " + images.string());
  }
  for (std::size_t i = 0; i < classes.values.size(); ++i) {
    if (classes.values[i] >= class_count) {
      fail_format({labels, loc},
                  8 + i,
                  "the label is " + std::to_string(classes.values[i]) + ", expected less than " +
                      std::to_string(class_count));
    }
  }
  return {.count = pictures.dims[0],
          .height = pictures.dims[1],
          .width = pictures.dims[2],
          .class_count = class_count,
          .pixels = std::move(pictures.values),
          .labels = std::move(classes.values)};
}

MnistData find_mnist(const std::filesystem::path& folder, SourceLoc loc) {
  const std::filesystem::path test_images = find_file(folder, "t10k-images-idx3-ubyte");
  const std::filesystem::path test_labels = find_file(folder, "t10k-labels-idx1-ubyte");
  const std::filesystem::path train_images = find_file(folder, "train-images-idx3-ubyte");
  const std::filesystem::path train_labels = find_file(folder, "train-labels-idx1-ubyte");
  if (test_images.empty() || test_labels.empty()) {
    fail(ErrorCode::not_found,
         {folder, loc},
         "expected t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte here, each with or without "
         ".gz, and if possible "
         "train-images-idx3-ubyte and train-labels-idx1-ubyte");
  }
  if (train_images.empty() != train_labels.empty()) {
    fail(ErrorCode::not_found,
         {folder, loc},
         train_labels.empty()
             ? "train-images-idx3-ubyte is here, but train-labels-idx1-ubyte is not"
             : "train-labels-idx1-ubyte is here, but train-images-idx3-ubyte is not");
  }
  MnistData data;
  LabelledImages test = read_labelled_images(test_images, test_labels, kClasses, loc);
  if (train_images.empty()) {
    if (test.count < 2) {
      fail_format(
          {test_images, loc}, 4, "the count is 1, expected 2 or more to train and to test with");
    }
    const std::int64_t train_count = test.count * 4 / 5;
    data.train = slice(test, 0, train_count);
    data.test = slice(test, train_count, test.count);
    data.is_split_of_test_files = true;
    data.description = folder.string() + " has no training files: the first " +
                       std::to_string(data.train.count) + " of the " + std::to_string(test.count) +
                       " test images train, the last " + std::to_string(data.test.count) +
                       " test; do not compare with published figures.";
    return data;
  }
  data.train = read_labelled_images(train_images, train_labels, kClasses, loc);
  if (data.train.height != test.height || data.train.width != test.width) {
    fail(ErrorCode::bad_format,
         {train_images, loc},
         "images are " + std::to_string(data.train.height) + "x" +
             std::to_string(data.train.width) + ", expected " + std::to_string(test.height) + "x" +
             std::to_string(test.width) + " as in " + test_images.string());
  }
  data.test = std::move(test);
  data.description = folder.string() + ": " + std::to_string(data.train.count) + " training and " +
                     std::to_string(data.test.count) + " test images.";
  return data;
}

}  // namespace hearth
