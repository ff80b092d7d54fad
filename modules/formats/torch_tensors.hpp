// The tensors of a pickle that torch.save() wrote: their names in the tree, and where their
// elements lie in which storage. Nothing is executed. Private to modules. Values; any thread.
#pragma once

#include "pickle.hpp"

#include <hearth/modules/weight_file.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace hearth::detail {

/// Element type of a storage.
struct TorchType {
  std::string name = {};  ///< "FloatStorage", or a dtype of PyTorch.
  std::size_t size_bytes = 0;
  DType dtype = DType::f32;
  StoredType stored = StoredType::same;
  bool is_known = false;  ///< Whether tensors have the type. size_bytes is right in any case.
};

/// A view of a storage.
struct TorchTensor {
  std::string name;          ///< Path in the tree: "model.fc.weight".
  std::string storage = {};  ///< Key of the storage.
  TorchType type = {};
  std::int64_t offset = 0;  ///< First element.
  std::vector<std::int64_t> sizes = {};
  std::vector<std::int64_t> strides = {};
  /// Reason why it is no tensor for this library. The fields but `name` are then meaningless.
  std::string unsupported = {};
};

struct TorchTree {
  std::vector<TorchTensor> tensors;  ///< In the order of the pickle.
  Metadata words;                    ///< Numbers and texts by their paths: "epoch" → "5".
  std::string main_part;             ///< As WeightFile::main_part().
};

/// Walks the tree.
///
/// Errors: bad_format: a tree deeper than 200 levels, with more than a million tensors or ten
/// million places; a tensor whose arguments are damaged; a path longer than 4 KiB; a root that is
/// neither a dict nor a tensor. The text lacks the file.
[[nodiscard]] Result<TorchTree> read_torch_tree(const Pickle& pickle);

/// The types of all storages that the pickle names, by their keys.
[[nodiscard]] std::map<std::string, TorchType> torch_storages(const Pickle& pickle);

}  // namespace hearth::detail
