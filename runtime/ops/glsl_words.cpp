#include "glsl_words.hpp"

#include <cstddef>

namespace hearth::detail {
namespace {

// Without the names of type families, which stand below.
constexpr std::string_view kKeywords =
    " const uniform buffer shared attribute varying coherent devicecoherent queuefamilycoherent "
    "workgroupcoherent subgroupcoherent shadercallcoherent nonprivate volatile restrict "
    "readonly writeonly layout centroid flat smooth noperspective patch sample invariant "
    "precise in out inout lowp mediump highp precision subroutine struct break continue do for "
    "while switch case default if else discard return true false void bool int uint float "
    "double atomic_uint sampler samplerShadow ";

constexpr std::string_view kKeptForLater =
    " common partition active asm class union enum typedef template this resource goto inline "
    "noinline public static extern external interface long short half fixed unsigned superp "
    "input output filter sizeof cast namespace using sampler3DRect ";

constexpr std::string_view kNumberTypes =
    " int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t float16_t float32_t "
    "float64_t ";

// Prefixes of vec2 to vec4: i of ivec2.
constexpr std::string_view kVectorKinds =
    "  i u b d h f i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64 ";
// Prefixes of mat2 to mat4x4.
constexpr std::string_view kMatrixKinds = "  d f16 f32 f64 ";

// Suffixes of sampler, image and texture: their shapes.
constexpr std::string_view kImageShapes =
    " 1D 2D 3D Cube Buffer 2DRect 2DMS 1DArray 2DArray CubeArray 2DMSArray ";

constexpr std::string_view kFunctionsOfOneInteger =
    " abs sign bitCount bitfieldReverse findLSB findMSB intBitsToFloat unpack8 unpack16 "
    "unpackInt2x16 ";

// Names in the generated text: documented names, functions and types of the prelude, and the
// vocabulary of kernel texts. Software drivers get more names (LoopWatch).
constexpr std::string_view kFrameWords =
    " p main kernel INDEX ID GROUP THREAD THREADS ELEMENT Parameters Root CONVERTS_F16 "
    "CONVERTS_BF16 LONG_GRIDS "
    "HAS_MATH mul_add mul_sub near_div m_div_by CHOOSE NEW_DIVISOR DIVISOR "
    "Words8 Words16 Words32 Words32f Words32u Words64 Words64f is_nan "
    "f16_to_f32 f16_pair_to_f32 f32_to_f16 f32_to_f16_pair "
    "bf16_to_f32 f32_to_bf16 f32_to_upper_bf16 f32_to_bf16_pair "
    "load_f32 load_f64 load_f16 load_bf16 load_i32 load_i64 load_u8 load_i8 load_bool "
    "store_f32 store_f64 store_f16 store_bf16 store_i32 store_i64 store_u8 store_i8 store_bool "
    "WatchedWord WATCHED_AT watched_at watched_main "
    "FN UNROLLED ROLLED IN OUT IN_OUT IN_ARRAY OUT_ARRAY IN_OUT_ARRAY COPY_ARRAY "
    "ARRAY1 ARRAY4 ARRAY8 LIST8 NEW_LIST8 NEW1 NEW2 NEW3 NEW4 NEW7 ADD_PRODUCT "
    "RETURN_EITHER XY ZW YZW SHARED SHARED_ONE MEMORY_AT BUFFER READ_BUFFER WRITE_BUFFER "
    "BUFFER_ONE READ_BUFFER_ONE WRITE_BUFFER_ONE BUFFER_HALVES BUFFER_OF AT PUSHED PARAMETERS "
    "END_PARAMETERS LONG_PARAMETERS "
    "END_LONG_PARAMETERS GROUP_SIZE GROUP_THREADS LANE_NUMBER WARP_NUMBER WARP_SIZE WARP_COUNT "
    "shuffle_xor warp_barrier ";

// Components of the vectors in ID, GROUP and THREAD, and qualifiers in the vocabulary's macros.
constexpr std::string_view kMacroWords = " x y offset push_constant scalar unroll dont_unroll ";

constexpr std::string_view kKeywordsOfCpp =
    " alignas alignof and and_eq auto bitand bitor catch char char16_t char32_t compl const_cast "
    "constexpr decltype delete dynamic_cast explicit export friend mutable new noexcept not not_eq "
    "nullptr operator or or_eq private protected register reinterpret_cast signed static_assert "
    "static_cast thread_local throw try typeid typename virtual wchar_t xor xor_eq ";

// Functions, types and objects of CUDA's prelude and of CUDA. An input or a result would hide them.
constexpr std::string_view kCudaWords =
    " Kernel kernel_entry hearth_kernel Itself Vec Common Smaller Larger Array Plus Minus Times "
    "Over "
    "And Or Xor Left Right each min max clamp mix abs dot fma sqrt floor ceil exp2 log2 barrier "
    "intBitsToFloat floatBitsToInt uintBitsToFloat floatBitsToUint uint64BitsToDouble "
    "doubleBitsToUint64 packUint2x32 unpackUint2x32 packDouble2x32 unpackDouble2x32 "
    "unpackFloat2x16 packFloat2x16 packHalf2x16 umulExtended high_of_product findMSB "
    "half_of_float float_of_half atomicCompSwap atomicAdd global_memory vec_of T memory bytes "
    "copied address threadIdx blockIdx blockDim gridDim warpSize shared_address load_matrices "
    "copy_16 copy_4 copies_end wait_copies add_product ADD_PRODUCT RETURN_EITHER GROUP_BLOCKS "
    "OF_MATH_LIBRARY MATH_FUNCTION DECLARED pack_bf16 store_16 store_8 global_address "
    "Place put Divisor choose "
    "load_matrices_turned multiply_f16 multiply_bf16 HEARTH_WARP_PRODUCT VECTOR_OPERATOR "
    "KERNEL_ENTRY "
    "BY_VALUE SHARED_MEMORY HEARTH_MACHINE ";

// Every word has a space on both sides; the empty word stands between two spaces.
bool is_among(std::string_view words, std::string_view word) {
  for (std::size_t at = words.find(word); at != std::string_view::npos;
       at = words.find(word, at + 1)) {
    if (at > 0 && words[at - 1] == ' ' && words.substr(at + word.size()).starts_with(' ')) {
      return true;
    }
  }
  return false;
}

bool is_size(std::string_view text) {
  return text == "2" || text == "3" || text == "4";
}

bool is_vector(std::string_view name) {
  const std::size_t at = name.find("vec");
  return at != std::string_view::npos && is_among(kVectorKinds, name.substr(0, at)) &&
         is_size(name.substr(at + 3));
}

bool is_matrix(std::string_view name) {
  const std::size_t at = name.find("mat");
  if (at == std::string_view::npos || !is_among(kMatrixKinds, name.substr(0, at))) {
    return false;
  }
  const std::string_view sizes = name.substr(at + 3);
  return is_size(sizes) || (sizes.size() == 3 && is_size(sizes.substr(0, 1)) && sizes[1] == 'x' &&
                            is_size(sizes.substr(2)));
}

bool is_image(std::string_view name) {
  if (name.starts_with('u') || (name.starts_with('i') && !name.starts_with("image"))) {
    name.remove_prefix(1);
  }
  if (name == "subpassInput" || name == "subpassInputMS") {
    return true;
  }
  for (const std::string_view kind : {"sampler", "image", "texture"}) {
    if (name.starts_with(kind)) {
      std::string_view shape = name.substr(kind.size());
      if (kind == "sampler" && shape.ends_with("Shadow")) {
        shape.remove_suffix(std::string_view("Shadow").size());
      }
      return is_among(kImageShapes, shape);
    }
  }
  return false;
}

}  // namespace

bool is_glsl_word(std::string_view name) {
  return name.starts_with("gl_") || name.starts_with("GL_") || is_among(kKeywords, name) ||
         is_among(kKeptForLater, name) || is_among(kNumberTypes, name) || is_vector(name) ||
         is_matrix(name) || is_image(name);
}

bool is_glsl_function(std::string_view name) {
  return is_among(kFunctionsOfOneInteger, name) || name.starts_with("subgroup");
}

bool is_frame_word(std::string_view name) {
  return is_among(kFrameWords, name);
}

bool is_macro_word(std::string_view name) {
  return is_among(kMacroWords, name);
}

bool is_cuda_word(std::string_view name) {
  return is_among(kKeywordsOfCpp, name) || is_among(kCudaWords, name);
}

std::vector<std::string> names_made_of(const std::string& operand, bool is_result) {
  std::vector<std::string> names;
  for (const char* const end : {"_address", "_count", "_rank", "_size", "_type"}) {
    names.push_back(operand + end);
  }
  if (is_result) {
    names.push_back("set_" + operand);
  }
  return names;
}

}  // namespace hearth::detail
