// GLSL's vectors and functions, and the vocabulary, in C++: part of CUDA's prelude. Constants.
// Threads: any.
#pragma once

#include <string_view>

namespace hearth::cuda {

// Elements by index: `(&x)[i]`. A choice by conditions became three branches a store on an H200.
inline constexpr std::string_view kTypes = R"(
template <class T> struct Itself { typedef T type; };
template <class T, int n> struct Vec;
template <class T> struct alignas(2 * sizeof(T)) Vec<T, 2> {
  T x, y;
  Vec() = default;
  FN explicit Vec(T s) : x(s), y(s) {}
  FN Vec(T a, T b) : x(a), y(b) {}
  template <class U> FN explicit Vec(Vec<U, 2> v) : x(T(v.x)), y(T(v.y)) {}
  FN T& operator[](int i) { return (&x)[i]; }
  FN const T& operator[](int i) const { return (&x)[i]; }
};
template <class T> struct Vec<T, 3> {
  T x, y, z;
  Vec() = default;
  FN explicit Vec(T s) : x(s), y(s), z(s) {}
  FN Vec(T a, T b, T c) : x(a), y(b), z(c) {}
  template <class U> FN explicit Vec(Vec<U, 3> v) : x(T(v.x)), y(T(v.y)), z(T(v.z)) {}
  FN T& operator[](int i) { return (&x)[i]; }
  FN const T& operator[](int i) const { return (&x)[i]; }
};
template <class T> struct alignas(sizeof(T) < 4 ? 4 * sizeof(T) : 16) Vec<T, 4> {
  T x, y, z, w;
  Vec() = default;
  FN explicit Vec(T s) : x(s), y(s), z(s), w(s) {}
  FN Vec(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
  FN Vec(Vec<T, 2> v, Vec<T, 2> u) : x(v.x), y(v.y), z(u.x), w(u.y) {}
  FN Vec(Vec<T, 2> v, T c, T d) : x(v.x), y(v.y), z(c), w(d) {}
  FN Vec(Vec<T, 3> v, T d) : x(v.x), y(v.y), z(v.z), w(d) {}
  template <class U> FN explicit Vec(Vec<U, 4> v)
      : x(T(v.x)), y(T(v.y)), z(T(v.z)), w(T(v.w)) {}
  FN T& operator[](int i) { return (&x)[i]; }
  FN const T& operator[](int i) const { return (&x)[i]; }
};
typedef Vec<float, 2> vec2;
typedef Vec<float, 3> vec3;
typedef Vec<float, 4> vec4;
typedef Vec<double, 2> dvec2;
typedef Vec<double, 4> dvec4;
typedef Vec<int, 2> ivec2;
typedef Vec<int, 3> ivec3;
typedef Vec<int, 4> ivec4;
typedef Vec<uint, 2> uvec2;
typedef Vec<uint, 3> uvec3;
typedef Vec<uint, 4> uvec4;
typedef vec2 f16vec2;

// f(a.x, b.x, ...) of each element.
template <class T, class F> FN Vec<T, 2> each(F f, Vec<T, 2> a, Vec<T, 2> b) {
  return Vec<T, 2>(f(a.x, b.x), f(a.y, b.y));
}
template <class T, class F> FN Vec<T, 3> each(F f, Vec<T, 3> a, Vec<T, 3> b) {
  return Vec<T, 3>(f(a.x, b.x), f(a.y, b.y), f(a.z, b.z));
}
template <class T, class F> FN Vec<T, 4> each(F f, Vec<T, 4> a, Vec<T, 4> b) {
  return Vec<T, 4>(f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w));
}
#define VECTOR_OPERATOR(Name, op) \
struct Name { template <class T> FN T operator()(T a, T b) const { return T(a op b); } }; \
template <class T, int n> FN Vec<T, n> operator op(Vec<T, n> a, Vec<T, n> b) { \
  return each(Name(), a, b); \
} \
template <class T, int n> FN Vec<T, n> operator op(Vec<T, n> a, typename Itself<T>::type b) { \
  return each(Name(), a, Vec<T, n>(b)); \
} \
template <class T, int n> FN Vec<T, n> operator op(typename Itself<T>::type a, Vec<T, n> b) { \
  return each(Name(), Vec<T, n>(a), b); \
} \
template <class T, int n> FN Vec<T, n>& operator op##=(Vec<T, n>& a, Vec<T, n> b) { \
  return a = a op b; \
} \
template <class T, int n> \
FN Vec<T, n>& operator op##=(Vec<T, n>& a, typename Itself<T>::type b) { \
  return a = a op b; \
}
VECTOR_OPERATOR(Plus, +)
VECTOR_OPERATOR(Minus, -)
VECTOR_OPERATOR(Times, *)
VECTOR_OPERATOR(Over, /)
VECTOR_OPERATOR(And, &)
VECTOR_OPERATOR(Or, |)
VECTOR_OPERATOR(Xor, ^)
VECTOR_OPERATOR(Left, <<)
VECTOR_OPERATOR(Right, >>)
template <class T, int n> FN Vec<T, n> operator-(Vec<T, n> a) { return Vec<T, n>(T(0)) - a; }

// The type of an operation of two numbers.
template <class A, class B> struct Common { typedef decltype(A() + B()) type; };
template <class A, class B> FN typename Common<A, B>::type min(A a, B b) {
  typedef typename Common<A, B>::type T;
  return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B> FN typename Common<A, B>::type max(A a, B b) {
  typedef typename Common<A, B>::type T;
  return T(a) < T(b) ? T(b) : T(a);
}
struct Smaller { template <class T> FN T operator()(T a, T b) const { return b < a ? b : a; } };
struct Larger { template <class T> FN T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T, int n> FN Vec<T, n> min(Vec<T, n> a, Vec<T, n> b) { return each(Smaller(), a, b); }
template <class T, int n> FN Vec<T, n> max(Vec<T, n> a, Vec<T, n> b) { return each(Larger(), a, b); }
template <class T> FN T clamp(T x, typename Itself<T>::type low, typename Itself<T>::type high) {
  return min(max(x, low), high);
}
template <class T> FN T mix(T a, typename Itself<T>::type b, bool takes_b) { return takes_b ? b : a; }
FN int abs(int x) { return x < 0 ? -x : x; }
FN int64_t abs(int64_t x) { return x < 0 ? -x : x; }
template <class T> FN T dot(Vec<T, 4> a, Vec<T, 4> b) {
  return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}
template <class T> FN Vec<T, 4> fma(Vec<T, 4> a, Vec<T, 4> b, Vec<T, 4> c) {
  return Vec<T, 4>(fma(a.x, b.x, c.x), fma(a.y, b.y, c.y), fma(a.z, b.z, c.z), fma(a.w, b.w, c.w));
}

FN float intBitsToFloat(int x) { return uintBitsToFloat((uint)x); }
FN int floatBitsToInt(float x) { return (int)floatBitsToUint(x); }
FN vec2 uintBitsToFloat(uvec2 v) { return vec2(uintBitsToFloat(v.x), uintBitsToFloat(v.y)); }
FN uvec2 floatBitsToUint(vec2 v) { return uvec2(floatBitsToUint(v.x), floatBitsToUint(v.y)); }
FN vec4 uintBitsToFloat(uvec4 v) {
  return vec4(uintBitsToFloat(v.x), uintBitsToFloat(v.y), uintBitsToFloat(v.z), uintBitsToFloat(v.w));
}
FN uint64_t packUint2x32(uvec2 v) { return (uint64_t)v.y << 32 | (uint64_t)v.x; }
FN uvec2 unpackUint2x32(uint64_t x) { return uvec2((uint)x, (uint)(x >> 32)); }
FN double packDouble2x32(uvec2 v) { return uint64BitsToDouble(packUint2x32(v)); }
FN uvec2 unpackDouble2x32(double x) { return unpackUint2x32(doubleBitsToUint64(x)); }
FN vec2 unpackFloat2x16(uint x) { return vec2(float_of_half(x & 0xffffu), float_of_half(x >> 16)); }
FN uint packFloat2x16(vec2 v) { return half_of_float(v.x) | half_of_float(v.y) << 16; }
FN uint packHalf2x16(vec2 v) { return packFloat2x16(v); }
FN void umulExtended(uint a, uint b, uint& high, uint& low) {
  high = high_of_product(a, b);
  low = a * b;
}
FN float shuffle_xor(float x, uint bits) {
  return uintBitsToFloat(shuffle_xor(floatBitsToUint(x), bits));
}
FN int shuffle_xor(int x, uint bits) { return (int)shuffle_xor((uint)x, bits); }
FN uvec2 shuffle_xor(uvec2 v, uint bits) {
  return uvec2(shuffle_xor(v.x, bits), shuffle_xor(v.y, bits));
}
FN double shuffle_xor(double x, uint bits) {
  return packDouble2x32(shuffle_xor(unpackDouble2x32(x), bits));
}
template <class T> FN Vec<T, 4> shuffle_xor(Vec<T, 4> v, uint bits) {
  return Vec<T, 4>(shuffle_xor(v.x, bits), shuffle_xor(v.y, bits), shuffle_xor(v.z, bits),
                   shuffle_xor(v.w, bits));
}

// An array by value.
template <class T, int n> struct Array {
  T v[n];
  FN explicit Array(T a) : v{a} {}
  FN Array(T a, T b, T c, T d) : v{a, b, c, d} {}
  FN operator T*() { return v; }
};
)";

inline constexpr std::string_view kWords = R"(
#define CONVERTS_F16
#define precise
#define IN(T) const T
#define OUT(T) T&
#define IN_OUT(T) T&
#define IN_ARRAY(T, name, n) const T* name
#define OUT_ARRAY(T, name, n) T* name
#define IN_OUT_ARRAY(T, name, n) T* name
#define COPY_ARRAY(T, name, n, from) \
  T name[n]; \
  for (int copied = 0; copied < n; ++copied) { \
    name[copied] = from[copied]; \
  }
#define ARRAY1(T) Array<T, 1>
#define ARRAY4(T) Array<T, 4>
#define LIST8(T, a, b, c, d, e, f, g, h) {a, b, c, d, e, f, g, h}
#define NEW_LIST8(T, E, a, b, c, d, e, f, g, h) T{{a, b, c, d, e, f, g, h}}
#define NEW1(T, a) T{a}
#define NEW2(T, a, b) T{a, b}
#define NEW3(T, a, b, c) T{a, b, c}
#define NEW4(T, a, b, c, d) T{a, b, c, d}
#define NEW7(T, a, b, c, d, e, f, g) T{a, b, c, d, e, f, g}
// Of a vector or a number, with one rounding.
template <class T, int n> FN void add_product(Vec<T, n>& sum, Vec<T, n> a, T b) {
  sum = fma(a, Vec<T, n>(b), sum);
}
template <class T, int n> FN void add_product(Vec<T, n>& sum, T a, Vec<T, n> b) {
  sum = fma(Vec<T, n>(a), b, sum);
}
#define ADD_PRODUCT(sum, a, b) add_product(sum, a, b)
FN float mul_add(float a, float b, float c) { return fma(a, b, c); }
FN float mul_sub(float a, float b, float c) { return fma(a, b, -c); }
// Computes both values: of `c ? a : b` the compiler makes a branch where one is long.
FN float choose(bool takes_first, float a, float b) { return takes_first ? a : b; }
#define CHOOSE(takes_first, a, b) choose(takes_first, a, b)
// NVRTC 13.0 never ends on some functions that return one of two vectors from two places.
#define RETURN_EITHER(T, takes_first, a, b) \
  T value = a; \
  if (!(takes_first)) { \
    value = b; \
  } \
  return value;
#define XY(v) vec_of((v).x, (v).y)
#define ZW(v) vec_of((v).z, (v).w)
#define YZW(v) vec_of((v).y, (v).z, (v).w)
template <class T> FN Vec<T, 2> vec_of(T a, T b) { return Vec<T, 2>(a, b); }
template <class T> FN Vec<T, 3> vec_of(T a, T b, T c) { return Vec<T, 3>(a, b, c); }
#define SHARED(T, name, n) \
  struct name##_bytes { alignas(16) char bytes[sizeof(T) * (n)]; }; \
  static FN T* name##_place() { SHARED_MEMORY name##_bytes memory; return (T*)&memory; } \
  T* const name = name##_place()
// Memory that may be larger than 48 KiB, one a kernel. The text defines its size, GROUP_SHARED_BYTES.
#ifdef __CUDACC_RTC__
#define DYNAMIC_SHARED(T, name, n) \
  static FN T* name##_place() { \
    alignas(16) extern SHARED_MEMORY char group_memory[]; \
    return (T*)group_memory; \
  } \
  T* const name = name##_place()
#else
#define DYNAMIC_SHARED(T, name, n) SHARED(T, name, n)
#endif
#define SHARED_ONE(T, name) \
  static FN T& name##_place() { SHARED_MEMORY T memory; return memory; } \
  T& name = name##_place()
#define BUFFER(name, T, align) \
  struct name { T* v; FN explicit name(uint64_t address) : v((T*)global_memory(address)) {} }
#define READ_BUFFER(name, T, align) BUFFER(name, const T, align)
#define WRITE_BUFFER(name, T, align) BUFFER(name, T, align)
template <class T> FN void put(T& at, T x) { at = x; }
FN void put(uvec2& at, uvec2 x) { store_8(&at, x.x, x.y); }
FN void put(uvec4& at, uvec4 x) { store_16(&at, x.x, x.y, x.z, x.w); }
FN void put(vec4& at, vec4 x) {
  store_16(&at, floatBitsToUint(x.x), floatBitsToUint(x.y), floatBitsToUint(x.z),
           floatBitsToUint(x.w));
}
// An element of memory.
template <class T> struct Place {
  T& at;
  FN explicit Place(uint64_t address) : at(*(T*)global_memory(address)) {}
  FN operator T() const { return at; }
  FN Place& operator=(T x) {
    put(at, x);
    return *this;
  }
};
#define BUFFER_ONE(name, T, align) \
  struct name { Place<T> v; FN explicit name(uint64_t address) : v(address) {} }
#define READ_BUFFER_ONE(name, T, align) \
  struct name { \
    const T& v; \
    FN explicit name(uint64_t address) : v(*(const T*)global_memory(address)) {} \
  }
#define WRITE_BUFFER_ONE(name, T, align) BUFFER_ONE(name, T, align)
#define BUFFER_HALVES(name, T, align) \
  struct name { \
    T& low; \
    T& high; \
    FN explicit name(uint64_t address) \
        : low(*(T*)global_memory(address)), high(*(T*)global_memory(address + sizeof(T))) {} \
  }
#define BUFFER_OF(name, align) struct alignas(align) name
#define AT(name, address) (*(name*)global_memory(address))
#define PARAMETERS struct Parameters {
#define END_PARAMETERS \
  }; \
  const Parameters& p; \
  FN explicit Kernel(const Parameters& parameters) : p(parameters) {}
#define LONG_PARAMETERS PARAMETERS
#define END_LONG_PARAMETERS END_PARAMETERS
#define GROUP_SIZE uint(GROUP_THREADS)
#define LANE_NUMBER (THREAD % 32u)
#define WARP_NUMBER (THREAD / 32u)
#define WARP_SIZE 32u
#define WARP_COUNT ((GROUP_THREADS + 31u) / 32u)
)";

// Functions of gpu/text/glsl_math.hpp by CUDA's math library. Largest errors in units in the last
// place: pow 4, sin, cos, tanh and erf 2, the others 1 (CUDA C++ Programming Guide, Mathematical
// Functions). Quotients and square roots are rounded once, but m_div_by may be one unit off where
// an operand or the result is next to an end of float's range. The library's tanh and erf of float
// branch in each element, so those of glsl_math stay.
inline constexpr std::string_view kMath = R"(
#define HAS_MATH
template <class T> FN T m_div(T a, T b) { return a / b; }
// A divisor that is the same for all elements, with its reciprocal. A scale keeps that in range.
#define NEW_DIVISOR(name, number) const Divisor name = Divisor(number);
#define DIVISOR(name, number) name
struct Divisor {
  float scale, number, reciprocal, near_reciprocal;
  FN static float scale_of(float b) {
    const uint exponent = (floatBitsToUint(b) >> 23) & 255u;
    return exponent < 27u ? 1.152921504606847e18f : exponent > 227u ? 8.673617379884035e-19f : 1.0f;
  }
  FN explicit Divisor(float b)
      : scale(scale_of(b)), number(b * scale), reciprocal(1.0f / number),
        near_reciprocal(near_div(1.0f, number)) {}
};
FN float m_div_by(float a, Divisor b) {
  const float near = a * b.reciprocal;
  const float better = fma(fma(-near, b.number, a), b.reciprocal, near);
  return (abs(near) > 0.0f && abs(near) < uintBitsToFloat(0x7f800000u) ? better : near) * b.scale;
}
template <class T> FN T m_sqrt(T x) { return sqrt(x); }
#define MATH_FUNCTION(name) \
FN float m_##name(float x) { return OF_MATH_LIBRARY(name##f)(x); } \
FN double m_##name(double x) { return OF_MATH_LIBRARY(name)(x); }
MATH_FUNCTION(exp)
MATH_FUNCTION(log)
MATH_FUNCTION(log1p)
MATH_FUNCTION(expm1)
MATH_FUNCTION(sin)
MATH_FUNCTION(cos)
FN double m_tanh(double x) { return OF_MATH_LIBRARY(tanh)(x); }
FN double m_erf(double x) { return OF_MATH_LIBRARY(erf)(x); }
FN float m_pow(float x, float y) { return OF_MATH_LIBRARY(powf)(x, y); }
FN double m_pow(double x, double y) { return OF_MATH_LIBRARY(pow)(x, y); }
)";

}  // namespace hearth::cuda
