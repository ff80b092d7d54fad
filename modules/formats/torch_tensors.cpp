#include "torch_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace hearth::detail {
namespace {

template <class... Args>
Error bad_tree(fmt::format_string<Args...> format, Args&&... args) {
  return Error{.code = ErrorCode::bad_format,
               .text = fmt::format(format, std::forward<Args>(args)...)};
}

// ---- types ----

// By their names without module: first storages, then dtypes.
const std::array<TorchType, 42>& torch_types() {
  using S = StoredType;
  static const std::array<TorchType, 42> kTypes{{
      {"FloatStorage", 4, DType::f32, S::same, true},
      {"DoubleStorage", 8, DType::f64, S::same, true},
      {"HalfStorage", 2, DType::f16, S::same, true},
      {"BFloat16Storage", 2, DType::bf16, S::same, true},
      {"LongStorage", 8, DType::i64, S::same, true},
      {"IntStorage", 4, DType::i32, S::same, true},
      {"ShortStorage", 2, DType::i32, S::i16, true},
      {"CharStorage", 1, DType::i8, S::same, true},
      {"ByteStorage", 1, DType::u8, S::same, true},
      {"BoolStorage", 1, DType::boolean, S::same, true},
      {"UntypedStorage", 1, DType::u8, S::same, true},
      {"ComplexFloatStorage", 8, DType::f32, S::same, false},
      {"ComplexDoubleStorage", 16, DType::f32, S::same, false},
      {"QUInt8Storage", 1, DType::u8, S::same, false},
      {"QInt8Storage", 1, DType::i8, S::same, false},
      {"QInt32Storage", 4, DType::i32, S::same, false},
      {"QUInt4x2Storage", 1, DType::u8, S::same, false},
      {"QUInt2x4Storage", 1, DType::u8, S::same, false},
      {"float32", 4, DType::f32, S::same, true},
      {"float64", 8, DType::f64, S::same, true},
      {"float16", 2, DType::f16, S::same, true},
      {"bfloat16", 2, DType::bf16, S::same, true},
      {"int64", 8, DType::i64, S::same, true},
      {"int32", 4, DType::i32, S::same, true},
      {"int16", 2, DType::i32, S::i16, true},
      {"int8", 1, DType::i8, S::same, true},
      {"uint8", 1, DType::u8, S::same, true},
      {"uint16", 2, DType::i32, S::u16, true},
      {"uint32", 4, DType::i64, S::u32, true},
      {"uint64", 8, DType::i64, S::u64, true},
      {"bool", 1, DType::boolean, S::same, true},
      {"complex32", 4, DType::f32, S::same, false},
      {"complex64", 8, DType::f32, S::same, false},
      {"complex128", 16, DType::f32, S::same, false},
      {"float8_e4m3fn", 1, DType::u8, S::same, false},
      {"float8_e5m2", 1, DType::u8, S::same, false},
      {"float8_e4m3fnuz", 1, DType::u8, S::same, false},
      {"float8_e5m2fnuz", 1, DType::u8, S::same, false},
      {"float8_e8m0fnu", 1, DType::u8, S::same, false},
      {"float4_e2m1fn_x2", 1, DType::u8, S::same, false},
      {"quint8", 1, DType::u8, S::same, false},
      {"qint8", 1, DType::i8, S::same, false},
  }};
  return kTypes;
}

// "torch.FloatStorage", "torch.cuda.FloatStorage", "torch.float32". Unknown types have size 0.
TorchType type_of(const Pickle& pickle, PickleId id) {
  const std::string name = pickle.name_of(id);
  const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
  if (name.starts_with("torch.")) {
    const auto found = std::ranges::find(torch_types(), last, &TorchType::name);
    if (found != torch_types().end()) {
      return *found;
    }
  }
  return {.name = name};
}

// ---- storages ----

// The identifier of a storage in the pickle: ('storage', type, key, device, element count[, view]).
struct Storage {
  TorchType type;
  std::string key;
  std::int64_t offset = 0;  // of a view, in elements
};

std::optional<Storage> storage_of(const Pickle& pickle, PickleId id) {
  const PickleValue& value = pickle[id];
  if (value.kind != PickleKind::persistent || pickle[value.items[0]].items.size() < 5) {
    return std::nullopt;
  }
  const std::vector<PickleId>& parts = pickle[value.items[0]].items;
  const PickleValue& key = pickle[parts[2]];
  if (pickle[parts[0]].text != "storage" ||
      (key.kind != PickleKind::text && key.kind != PickleKind::integer)) {
    return std::nullopt;
  }
  Storage storage{.type = type_of(pickle, parts[1]),
                  .key = key.kind == PickleKind::text ? key.text : std::to_string(key.integer)};
  if (parts.size() > 5 && pickle[parts[5]].items.size() == 3) {
    storage.offset = pickle[pickle[parts[5]].items[1]].integer;
  }
  return storage;
}

// ---- tensors ----

// Functions of PyTorch that make a tensor from a storage.
bool makes_tensor(std::string_view name) {
  return name == "torch._utils._rebuild_tensor" || name == "torch._utils._rebuild_tensor_v2" ||
         name == "torch._utils._rebuild_tensor_v3";
}
// Functions whose first argument is the tensor.
bool wraps_tensor(std::string_view name) {
  return name == "torch._utils._rebuild_parameter" ||
         name == "torch._utils._rebuild_parameter_with_state" ||
         name == "torch.nn.parameter.Parameter" || name == "torch.nn.parameter.Buffer";
}
// Classes of values that are no weights, and whose loss is none.
bool is_plain(std::string_view name) {
  static constexpr std::array<std::string_view, 12> kPlain{"torch.Size",
                                                           "torch.device",
                                                           "torch.serialization._get_layout",
                                                           "collections.Counter",
                                                           "builtins.set",
                                                           "__builtin__.set",
                                                           "builtins.slice",
                                                           "builtins.complex",
                                                           "_codecs.encode",
                                                           "numpy.dtype",
                                                           "numpy.core.multiarray.scalar",
                                                           "numpy._core.multiarray.scalar"};
  return std::ranges::find(kPlain, name) != kPlain.end();
}

std::optional<std::vector<std::int64_t>> counts_of(const Pickle& pickle, PickleId id) {
  const PickleValue* value = &pickle[id];
  if (value->kind == PickleKind::call && pickle.name_of(value->items[0]) == "torch.Size" &&
      pickle[value->items[1]].items.size() == 1) {
    value = &pickle[pickle[value->items[1]].items[0]];
  }
  if (value->kind != PickleKind::list) {
    return std::nullopt;
  }
  std::vector<std::int64_t> counts;
  for (const PickleId item : value->items) {
    const PickleValue& count = pickle[item];
    if (count.kind != PickleKind::integer || count.integer < 0 || !count.text.empty()) {
      return std::nullopt;
    }
    counts.push_back(count.integer);
  }
  return counts;
}

// Phases: the storage; offset, sizes and strides; a dtype that differs from the storage's (v3).
Result<TorchTensor> tensor_of(const Pickle& pickle,
                              const std::string& path,
                              const std::string& function,
                              const std::vector<PickleId>& arguments) {
  if (arguments.size() < 4) {
    return bad_tree("tensor '{}': {} has {} arguments, not 4", path, function, arguments.size());
  }
  const std::optional<Storage> storage = storage_of(pickle, arguments[0]);
  const PickleValue& offset = pickle[arguments[1]];
  const auto sizes = counts_of(pickle, arguments[2]);
  const auto strides = counts_of(pickle, arguments[3]);
  constexpr std::int64_t kMostOffset = std::int64_t{1} << 60;
  if (!storage || offset.kind != PickleKind::integer || offset.integer < 0 ||
      offset.integer > kMostOffset || storage->offset < 0 || storage->offset > kMostOffset ||
      !sizes || !strides || sizes->size() != strides->size()) {
    return bad_tree("tensor '{}': the arguments of {} are no storage, offset, sizes and strides",
                    path,
                    function);
  }
  TorchTensor tensor{.name = path,
                     .storage = storage->key,
                     .type = storage->type,
                     .offset = offset.integer + storage->offset,
                     .sizes = *sizes,
                     .strides = *strides};
  if (function.ends_with("_v3") && arguments.size() > 6) {
    tensor.type = type_of(pickle, arguments[6]);
  }
  if (!tensor.type.is_known) {
    tensor.unsupported = fmt::format("{}[{}] has a type of PyTorch that tensors here have not",
                                     tensor.type.name,
                                     fmt::join(*sizes, ", "));
  }
  return tensor;
}

// ---- the tree ----

class TorchWalk final {
 public:
  explicit TorchWalk(const Pickle& pickle) : pickle_(pickle) {}
  Status walk(PickleId id, const std::string& path, int depth);
  TorchTree tree;

 private:
  Status walk_pairs(const std::vector<PickleId>& pairs, const std::string& path, int depth);
  Status walk_list(const std::vector<PickleId>& items, const std::string& path, int depth);
  Status walk_call(PickleId id, const std::string& path, int depth);
  Status walk_function(const std::string& function,
                       PickleId arguments,
                       const std::string& path,
                       int depth);
  Status walk_object(const PickleValue& call, const std::string& path, int depth);
  Status add(TorchTensor tensor);
  void note_word(const PickleValue& value, const std::string& path);

  const Pickle& pickle_;
  std::size_t places_ = 0;
};

std::string joined(const std::string& path, std::string_view step) {
  return path.empty() ? std::string(step) : fmt::format("{}.{}", path, step);
}

Status TorchWalk::add(TorchTensor tensor) {
  constexpr std::size_t kMostTensors = 1'000'000;
  if (tree.tensors.size() == kMostTensors) {
    return bad_tree("it has more than {} tensors", kMostTensors);
  }
  tree.tensors.push_back(std::move(tensor));
  return {};
}

Status TorchWalk::walk(PickleId id, const std::string& path, int depth) {
  constexpr std::size_t kMostPlaces = 10'000'000;
  constexpr int kMostDepth = 200;
  constexpr std::size_t kMostPathBytes = 4096;
  if (++places_ > kMostPlaces || depth > kMostDepth || path.size() > kMostPathBytes) {
    return bad_tree(
        "its tree of values has more than {} levels, {} places, or a path of more than "
        "{} bytes; it reached '{}...'",
        kMostDepth,
        kMostPlaces,
        kMostPathBytes,
        path.substr(0, 80));
  }
  const PickleValue& value = pickle_[id];
  switch (value.kind) {
    case PickleKind::dict:
      return walk_pairs(value.items, path, depth);
    case PickleKind::list:
      return walk_list(value.items, path, depth);
    case PickleKind::call:
      return walk_call(id, path, depth);
    case PickleKind::boolean:
    case PickleKind::integer:
    case PickleKind::real:
    case PickleKind::text:
      note_word(value, path);
      return {};
    case PickleKind::none:
    case PickleKind::bytes:
    case PickleKind::global:
    case PickleKind::persistent:
      break;
  }
  return {};
}

void TorchWalk::note_word(const PickleValue& value, const std::string& path) {
  constexpr std::size_t kMostWords = 100'000;
  constexpr std::size_t kMostWordBytes = 4096;
  if (tree.words.size() == kMostWords || value.text.size() > kMostWordBytes) {
    return;
  }
  if (value.kind == PickleKind::boolean) {
    tree.words[path] = value.integer != 0 ? "true" : "false";
  } else if (value.kind == PickleKind::real && value.text.empty()) {
    tree.words[path] = fmt::format("{}", value.real);
  } else if (value.kind == PickleKind::integer && value.text.empty()) {
    tree.words[path] = std::to_string(value.integer);
  } else {
    tree.words[path] = value.text;
  }
}

Status TorchWalk::walk_pairs(const std::vector<PickleId>& pairs,
                             const std::string& path,
                             int depth) {
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const PickleValue& key = pickle_[pairs[i]];
    const bool is_name = key.kind == PickleKind::text;
    if (is_name || key.kind == PickleKind::integer) {
      const std::string step = is_name ? key.text : std::to_string(key.integer);
      HEARTH_TRY_STATUS(walk(pairs[i + 1], joined(path, step), depth + 1));
    }
  }
  return {};
}

Status TorchWalk::walk_list(const std::vector<PickleId>& items,
                            const std::string& path,
                            int depth) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    HEARTH_TRY_STATUS(walk(items[i], joined(path, std::to_string(i)), depth + 1));
  }
  return {};
}

Status TorchWalk::walk_call(PickleId id, const std::string& path, int depth) {
  const PickleValue& call = pickle_[id];
  std::string function = pickle_.name_of(call.items[0]);
  PickleId arguments = call.items[1];
  if (function == "torch._tensor._rebuild_from_type_v2" &&
      pickle_[arguments].items.size() >= 3) {  // function, class, its arguments, state
    const std::vector<PickleId>& inner = pickle_[arguments].items;
    function = pickle_.name_of(inner[0]);
    arguments = inner[2];
  }
  if (makes_tensor(function) || wraps_tensor(function)) {
    return walk_function(function, arguments, path, depth);
  }
  return walk_object(call, path, depth);
}

Status TorchWalk::walk_function(const std::string& function,
                                PickleId arguments,
                                const std::string& path,
                                int depth) {
  const std::vector<PickleId>& given = pickle_[arguments].items;
  if (makes_tensor(function)) {
    HEARTH_TRY(TorchTensor tensor, tensor_of(pickle_, path, function, given));
    return add(std::move(tensor));
  }
  if (given.empty()) {
    return bad_tree("tensor '{}': {} has no argument", path, function);
  }
  return walk(given[0], path, depth + 1);
}

// An object's attributes are read as a dict. A module of PyTorch keeps its tensors in three of
// them, which are no part of their names.
Status TorchWalk::walk_object(const PickleValue& call, const std::string& path, int depth) {
  const std::string name = pickle_.name_of(call.items[0]);
  HEARTH_TRY_STATUS(walk_pairs(call.members, path, depth));
  const bool has_state = call.items.size() > 2 && pickle_[call.items[2]].kind == PickleKind::dict;
  if (!has_state) {
    if (!call.members.empty() || is_plain(name)) {
      return {};
    }
    TorchTensor unknown;
    unknown.name = path;
    unknown.unsupported = fmt::format(
        "is made by '{}', an unknown class or function: nothing of a file is run", name);
    return add(std::move(unknown));
  }
  const std::vector<PickleId>& state = pickle_[call.items[2]].items;
  bool is_module = false;
  for (std::size_t i = 0; i + 1 < state.size(); i += 2) {
    const std::string& key = pickle_[state[i]].text;
    if (key == "_parameters" || key == "_buffers" || key == "_modules") {
      is_module = true;
      HEARTH_TRY_STATUS(walk(state[i + 1], path, depth + 1));
    }
  }
  return is_module ? Status() : walk_pairs(state, path, depth);
}

// The part that holds the weights, if the root is a dict that holds no tensor itself. The name
// "model.weight" of a tensor in the root is no part.
std::string main_part_of(const Pickle& pickle, const TorchTree& tree) {
  std::set<std::string> parts;
  const std::vector<PickleId>& root = pickle[pickle.root].items;
  for (std::size_t i = 0; i + 1 < root.size(); i += 2) {
    parts.insert(pickle[root[i]].text);
  }
  std::set<std::string> filled;
  for (const TorchTensor& tensor : tree.tensors) {
    if (tensor.unsupported.empty() && parts.contains(tensor.name)) {
      return {};
    }
    filled.insert(tensor.name.substr(0, tensor.name.find('.')));
  }
  for (const char* const part :
       {"model_state_dict", "state_dict", "model", "module", "params_ema", "params"}) {
    if (parts.contains(part) && filled.contains(part)) {
      return part;
    }
  }
  return {};
}

}  // namespace

Result<TorchTree> read_torch_tree(const Pickle& pickle) {
  const PickleKind root = pickle[pickle.root].kind;
  if (root != PickleKind::dict && root != PickleKind::call && root != PickleKind::list) {
    return bad_tree("its root is neither a dict of tensors nor a tensor nor a module");
  }
  TorchWalk walk(pickle);
  HEARTH_TRY_STATUS(walk.walk(pickle.root, "", 0));
  if (walk.tree.tensors.size() == 1 && !walk.tree.tensors[0].unsupported.empty() &&
      walk.tree.tensors[0].name.empty()) {
    return bad_tree("its root {}", walk.tree.tensors[0].unsupported);
  }
  if (root == PickleKind::dict) {
    walk.tree.main_part = main_part_of(pickle, walk.tree);
  }
  return std::move(walk.tree);
}

std::map<std::string, TorchType> torch_storages(const Pickle& pickle) {
  std::map<std::string, TorchType> types;
  for (PickleId id = 0; id < pickle.values.size(); ++id) {
    if (std::optional<Storage> storage = storage_of(pickle, id)) {
      types.insert_or_assign(storage->key, storage->type);
    }
  }
  return types;
}

}  // namespace hearth::detail
