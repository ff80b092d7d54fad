// Reads IDX files, the format of MNIST and Fashion-MNIST, gzipped or not.
// Stateless. Threads: any.
// Invariant: a result agrees with its file's header to the last byte; any other file throws an
// error with the file and the byte.
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

/// Reads an IDX file of unsigned bytes of any rank; gzip is detected and unpacked.
///
/// Units: byte offsets in errors count the unpacked bytes.
/// Errors: FileError: not_found, io_error, bad_format (wrong magic number, truncated, trailing
/// bytes, broken gzip); OutOfMemory.
/// Cost: memory grows with the actual content, whatever the header claims.
[[nodiscard]] IdxArray read_idx(const std::filesystem::path& file,
                                SourceLoc loc = SourceLoc::current());

/// Reads images and their labels, and checks that they match.
///
/// Shapes: images [count, height, width], labels [count].
/// Errors: those of read_idx(); bad_format for another rank, no images, images without pixels,
/// different counts, or a label outside [0, class_count).
[[nodiscard]] LabelledImages read_labelled_images(const std::filesystem::path& images,
                                                  const std::filesystem::path& labels,
                                                  int class_count = 10,
                                                  SourceLoc loc = SourceLoc::current());

struct MnistData {
  LabelledImages train;
  LabelledImages test;
  bool is_split_of_test_files = false;  ///< Whether the training files were missing.
  std::string
      description;  ///< One sentence for the user: files that were read, and how they were split.
};

/// Reads MNIST or Fashion-MNIST from a folder with the four usual names, each with or without .gz.
///
/// If only the test files exist, their first four fifths (8,000 of 10,000) become the training set
/// and the rest the test set, in file order. is_split_of_test_files and the description report
/// that.
///
/// Errors: FileError: not_found with the names that were tried, and those of
/// read_labelled_images().
[[nodiscard]] MnistData find_mnist(const std::filesystem::path& folder,
                                   SourceLoc loc = SourceLoc::current());

}  // namespace hearth
