// ImageFolder: pictures in a folder, a subfolder for each class, read and scaled when they are
// needed.
// Owns the list of files, not the pictures. Threads: any, after construction.
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
  /// What every picture is scaled to; 0: the size of the first one, which all must have then.
  std::int64_t height = 0;
  std::int64_t width = 0;  ///< Width after scaling; see height.
  int channels = 3;        ///< 1: grey; 3: red, green, blue; whatever the files have.
  /// Pixels are (value/255 - mean)/deviation; one number for all channels, or one for each.
  std::vector<float> mean = {0};
  std::vector<float> deviation = {1};  ///< One for all channels, or one for each.
  /// The numbers of classes, as another folder has them (`train.classes()`): a folder that lacks
  /// one has none of its pictures, and one of another name is refused. Empty: the folder's own.
  std::vector<std::string> classes = {};
};

class ImageFolder final : public Dataset {
 public:
  /// Lists the files whose names end in .png, .jpg or .jpeg (or in capitals); their bytes decide
  /// between PNG and JPEG. Classes are numbered in the order of their names, pictures in the
  /// order of classes and names. Links are followed.
  ///
  /// Passed by, kept in skipped(), and counted in the log (level info): names that begin with a dot
  /// and `__MACOSX`, unless options.classes names them; files beside the classes; in a class other
  /// files, and folders with all that they hold.
  ///
  /// Errors: FileError: not_found for no such folder, one without subfolders, or a link that leads
  /// nowhere; io_error for what cannot be looked at; bad_format for a class without pictures or one
  /// that is not among options.classes, and the error of read_picture() for the first picture when
  /// its size is used; ArgumentError for options that do not fit.
  explicit ImageFolder(const std::filesystem::path& folder,
                       ImageFolderOptions options = {},
                       SourceLoc loc = SourceLoc::current());

  [[nodiscard]] std::int64_t size() const override {
    return static_cast<std::int64_t>(files_.size());
  }
  /// Shapes: inputs f32 [n, channels, height, width], targets i64 [n], the class.
  /// Errors: FileError naming the picture: those of read_picture(); bad_format for another size.
  [[nodiscard]] Examples read(std::span<const std::int64_t> indices) const override;

  /// The names of the subfolders, or options.classes.
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept { return classes_; }
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const noexcept { return files_; }
  /// Entries of the folder and of its classes that are no pictures of the data set.
  [[nodiscard]] const std::vector<std::filesystem::path>& skipped() const noexcept {
    return skipped_;
  }
  [[nodiscard]] const ImageFolderOptions& options() const noexcept { return options_; }

 private:
  void list(const std::filesystem::path& folder, SourceLoc loc);
  void list_class(const std::filesystem::path& folder, std::int64_t label, SourceLoc loc);
  void note_skipped(const std::filesystem::path& folder) const;

  ImageFolderOptions options_;
  bool is_scaled_ = false;
  std::vector<std::string> classes_;
  std::vector<std::filesystem::path> files_;
  std::vector<std::filesystem::path> skipped_;
  std::vector<std::int64_t> labels_;
};

}  // namespace hearth
