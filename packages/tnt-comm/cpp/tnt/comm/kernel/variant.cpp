// Element-wise loops. Compiled once per instruction set with TNT_KERNEL_TABLE naming the function
// that returns this variant's table. Everything is in an unnamed namespace and nothing of the
// standard library's inline code is used: the linker keeps one copy of such functions, which would
// be one for the wrong instruction set.

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <type_traits>

#include "tnt/comm/kernel/half.hpp"
#include "tnt/comm/kernel/table.hpp"

namespace tnt::comm {
namespace {

// Integers wrap around as numpy's do; unsigned arithmetic makes that defined.
// The products of small types are formed in 32 bits at least, since uint16 *
// uint16 would be promoted to int and could overflow.
template <typename T>
using Wrapping =
    std::conditional_t<!std::is_integral_v<T>, T,
                       std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>>;

constexpr auto kSum = []<typename T>(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
};
constexpr auto kProd = []<typename T>(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
};
// A NaN on either side gives NaN, as in numpy.
constexpr auto kMin = []<typename T>(T a, T b) { return a < b || a != a ? a : b; };
constexpr auto kMax = []<typename T>(T a, T b) { return a > b || a != a ? a : b; };
constexpr auto kAnd = []<typename T>(T a, T b) { return static_cast<T>(a & b); };
constexpr auto kOr = []<typename T>(T a, T b) { return static_cast<T>(a | b); };

// Results that several ranks need are written to all places at once: a copy
// from the first place would read them again and wait for other lines.
template <typename T, auto kOp, std::size_t kTargets>
void combine(void* const* dsts, const void* a, const void* b, std::size_t count) {
  T* outs[kTargets];
  for (std::size_t k = 0; k < kTargets; ++k) outs[k] = static_cast<T*>(dsts[k]);
  const T* left = static_cast<const T*>(a);
  const T* right = static_cast<const T*>(b);
  // An output may be `left` or `right` itself, which carries nothing from one element to another;
  // without the hint the compiler would fall back to a scalar loop in exactly that case.
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const T result = kOp(left[i], right[i]);
#pragma GCC unroll 4
    for (std::size_t k = 0; k < kTargets; ++k) outs[k][i] = result;
  }
}

template <typename Out, typename In, typename Function>
void map(void* dst, const void* src, std::size_t count, Function function) {
  Out* out = static_cast<Out*>(dst);
  const In* in = static_cast<const In*>(src);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) out[i] = function(in[i]);
}

template <typename T>
void scale(void* dst, const void* src, std::size_t count, double factor) {
  const T by = static_cast<T>(factor);
  map<T, T>(dst, src, count, [by](T value) { return by * value; });
}

using Half = std::uint16_t;

template <float (*kWiden)(Half)>
void widen(float* dst, const Half* src, std::size_t count) {
  map<float, Half>(dst, src, count, [](Half value) { return kWiden(value); });
}

template <Half (*kNarrow)(float)>
void narrow(Half* dst, const float* src, std::size_t count) {
  map<Half, float>(dst, src, count, [](float value) { return kNarrow(value); });
}

template <float (*kWiden)(Half), Half (*kNarrow)(float)>
void scale_half(void* dst, const void* src, std::size_t count, double factor) {
  const float by = static_cast<float>(factor);
  map<Half, Half>(dst, src, count, [by](Half value) { return kNarrow(by * kWiden(value)); });
}

template <Half (*kNarrow)(float)>
void scale_narrow(Half* dst, const float* src, std::size_t count, float factor) {
  map<Half, float>(dst, src, count, [factor](float value) { return kNarrow(factor * value); });
}

#if defined(__AVX2__)
using Vector = __m256i;
inline Vector load(const char* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
inline void store_past_caches(char* to, Vector value) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), value);
}
#elif defined(__SSE2__)
using Vector = __m128i;
inline Vector load(const char* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
inline void store_past_caches(char* to, Vector value) {
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), value);
}
#endif

void stream(void* dst, const void* src, std::size_t num_bytes) {
  char* to = static_cast<char*>(dst);
  const char* from = static_cast<const char*>(src);
#if defined(__SSE2__)
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(to) % kCacheLineBytes;
  std::size_t head = misaligned == 0 ? 0 : kCacheLineBytes - misaligned;
  if (head > num_bytes) head = num_bytes;
  __builtin_memcpy(to, from, head);
  std::size_t i = head;
  for (; i + kCacheLineBytes <= num_bytes; i += kCacheLineBytes) {
    for (std::size_t k = 0; k < kCacheLineBytes; k += sizeof(Vector)) {
      store_past_caches(to + i + k, load(from + i + k));
    }
  }
  __builtin_memcpy(to + i, from + i, num_bytes - i);
  // A later store with release, of who announces the copy, orders all stores but such ones. Pairs,
  // as that store does, with the load with acquire of who reads the copy.
  _mm_sfence();
#else
  __builtin_memcpy(to, from, num_bytes);
#endif
}

template <typename T, auto kOp>
constexpr KernelTable::Combines combines() {
  static_assert(KernelTable::kMaxTargets == 4);
  return {{combine<T, kOp, 1>, combine<T, kOp, 2>, combine<T, kOp, 3>, combine<T, kOp, 4>}};
}

// The index of a type or an operation in the tables.
template <typename Enum>
constexpr std::size_t at(Enum value) {
  return static_cast<std::size_t>(value);
}

template <typename T>
void fill_arithmetic(KernelTable& table, DType dtype) {
  KernelTable::Combines* row = table.combine[at(dtype)];
  row[at(ReduceOp::sum)] = combines<T, kSum>();
  row[at(ReduceOp::prod)] = combines<T, kProd>();
  row[at(ReduceOp::min)] = combines<T, kMin>();
  row[at(ReduceOp::max)] = combines<T, kMax>();
}

template <typename T>
void fill_logical(KernelTable& table, DType dtype) {
  table.combine[at(dtype)][at(ReduceOp::land)] = combines<T, kAnd>();
  table.combine[at(dtype)][at(ReduceOp::lor)] = combines<T, kOr>();
}

template <typename T>
void fill_integer(KernelTable& table, DType dtype) {
  fill_arithmetic<T>(table, dtype);
  fill_logical<T>(table, dtype);
}

KernelTable make_table() {
  KernelTable table{};
  fill_arithmetic<float>(table, DType::float32);
  fill_arithmetic<double>(table, DType::float64);
  fill_integer<std::int8_t>(table, DType::int8);
  fill_integer<std::int16_t>(table, DType::int16);
  fill_integer<std::int32_t>(table, DType::int32);
  fill_integer<std::int64_t>(table, DType::int64);
  fill_integer<std::uint8_t>(table, DType::uint8);
  fill_logical<std::uint8_t>(table, DType::boolean);  // bytes 0 and 1
  table.combine[at(DType::boolean)][at(ReduceOp::min)] = combines<std::uint8_t, kAnd>();
  table.combine[at(DType::boolean)][at(ReduceOp::max)] = combines<std::uint8_t, kOr>();
  table.scale[at(DType::float32)] = scale<float>;
  table.scale[at(DType::float64)] = scale<double>;
  table.scale[at(DType::float16)] = scale_half<widen_float16, narrow_float16>;
  table.scale[at(DType::bfloat16)] = scale_half<widen_bfloat16, narrow_bfloat16>;
  table.widen[0] = widen<widen_float16>;
  table.widen[1] = widen<widen_bfloat16>;
  table.narrow[0] = narrow<narrow_float16>;
  table.narrow[1] = narrow<narrow_bfloat16>;
  table.scale_narrow[0] = scale_narrow<narrow_float16>;
  table.scale_narrow[1] = scale_narrow<narrow_bfloat16>;
  table.stream = stream;
  return table;
}

}  // namespace

const KernelTable& TNT_KERNEL_TABLE() {
  static const KernelTable table = make_table();
  return table;
}

}  // namespace tnt::comm
