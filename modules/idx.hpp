// Reads IDX files, the format of MNIST and Fashion-MNIST, gzipped or not.
// Stateless. Threads: any.
// Invariant: what is returned agrees with its header to the last byte; anything else throws and
// names the file and the byte.
#pragma once

#include <hearth/modules/labelled_images.hpp>

#include <hearth/runtime/base/source_loc.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace hearth {

/// The contents of one IDX file of bytes.
struct IdxArray {
  std::vector<std::int64_t> dims;
  std::vector<std::uint8_t> values;  ///< Row-major.
};

/// Reads an IDX file of unsigned bytes of any rank, unpacking gzip on the way.
///
/// Units: byte offsets in errors count the unpacked bytes.
/// Errors: FileError: not_found, io_error, bad_format (wrong magic number, truncated, bytes after
/// the end, broken gzip); OutOfMemory. Cost: memory grows with what the file really holds, whatever
/// its header claims.
[[nodiscard]] IdxArray read_idx(const std::filesystem::path& file,
                                SourceLoc loc = SourceLoc::current());

/// Reads pictures and their classes and checks that they belong together.
///
/// Shapes: images [count, height, width], labels [count].
/// Errors: those of read_idx(); bad_format for another rank, no pictures, pictures without pixels,
/// different counts, or a label from class_count on.
[[nodiscard]] LabelledImages read_labelled_images(const std::filesystem::path& images,
                                                  const std::filesystem::path& labels,
                                                  int class_count = 10,
                                                  SourceLoc loc = SourceLoc::current());

struct MnistData {
  LabelledImages train;
  LabelledImages test;
  bool is_split_of_test_files = false;  ///< The training files were not there.
  std::string
      description;  ///< One sentence for the user: what was read from where, and how it was split.
};

/// Reads MNIST or Fashion-MNIST from a folder with the four usual names, each with or without .gz.
///
/// With the test files alone, their first four fifths (8,000 of 10,000) become the training set and
/// the rest the test set, in file order; is_split_of_test_files and the description say so. Errors:
/// FileError: not_found with the names that were looked for, and those of read_labelled_images().
[[nodiscard]] MnistData find_mnist(const std::filesystem::path& folder,
                                   SourceLoc loc = SourceLoc::current());

}  // namespace hearth
