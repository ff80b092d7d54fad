// ImageFolder: a folder of images with one subfolder per class. Images are decoded and scaled on
// demand.
// Owns the list of files, not the images. Threads: any, after construction.
#pragma once

#include <hearth/modules/dataset.hpp>
#include <hearth/modules/image_file.hpp>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace hearth {

struct ImageFolderOptions {
  /// Height to which every image is scaled. 0: the size of the first image, which all others must
  /// have.
  std::int64_t height = 0;
  std::int64_t width = 0;  ///< Width to which every image is scaled; see height.
  /// Channels of an example: 1 (grey) or 3 (red, green, blue). Files are converted.
  int channels = 3;
  /// Subtracted from value/255: pixels become (value/255 - mean)/deviation. One number for all
  /// channels, or one per channel.
  std::vector<float> mean = {0};
  /// Divisor of value/255 - mean. One number for all channels, or one per channel.
  std::vector<float> deviation = {1};
  /// Class names in label order, usually those of another folder (`train.classes()`). The folder
  /// may lack some of them, but a subfolder of any other name is an error. Empty: the folder's own
  /// subfolders.
  std::vector<std::string> classes = {};
};

class ImageFolder final : public Dataset {
 public:
  /// Lists the files that end in .png, .jpg or .jpeg, in any case; their first bytes decide between
  /// PNG and JPEG. Classes are numbered in the order of their names. Images are ordered by class
  /// and name. Links are followed.
  ///
  /// Skipped entries are listed in skipped() and counted in the log (level info). They are:
  /// - names that begin with a dot, and folders of other programs (`__MACOSX`, `@eaDir`,
  ///   `#recycle`, `$RECYCLE.BIN`, `System Volume Information`, `lost+found`, `__pycache__`),
  ///   unless options.classes names them;
  /// - files beside the classes;
  /// - other files in a class, and folders in a class with all their content.
  ///
  /// Errors: FileError: not_found for a missing folder, one without subfolders, or a dangling link;
  /// io_error for entries that cannot be read; bad_format for a class without images or outside
  /// options.classes, and as read_picture() for the first image if its size is used; ArgumentError
  /// for invalid options.
  explicit ImageFolder(const std::filesystem::path& folder,
                       ImageFolderOptions options = {},
                       SourceLoc loc = SourceLoc::current());

  [[nodiscard]] std::int64_t size() const override {
    return static_cast<std::int64_t>(files_.size());
  }
  /// Reads, decodes and scales examples.
  ///
  /// Shapes: inputs f32 [n, channels, height, width], targets i64 [n], the class.
  /// Errors: FileError naming the image: those of read_picture(); bad_format for another size.
  [[nodiscard]] Examples read(std::span<const std::int64_t> indices) const override;

  /// Names of the subfolders, or options.classes.
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept { return classes_; }
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const noexcept { return files_; }
  /// Entries of the folder and its classes that are not images of the data set.
  [[nodiscard]] const std::vector<std::filesystem::path>& skipped() const noexcept {
    return skipped_;
  }
  [[nodiscard]] const ImageFolderOptions& options() const noexcept { return options_; }

 private:
  void list(const std::filesystem::path& folder, SourceLoc loc);
  void list_class(const std::filesystem::path& folder, std::int64_t label, SourceLoc loc);
  void log_skipped(const std::filesystem::path& folder) const;

  ImageFolderOptions options_;
  bool is_scaled_ = false;
  std::vector<std::string> classes_;
  std::vector<std::filesystem::path> files_;
  std::vector<std::filesystem::path> skipped_;
  std::vector<std::int64_t> labels_;
};

}  // namespace hearth
