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
#include "tnt/comm/kernel/vectors.hpp"

namespace tnt::comm {
namespace {

// What is done to elements, given as vectors. Integers wrap around as numpy's do: they are added
// and multiplied as unsigned ones.
constexpr auto kSum = [](auto a, auto b) { return a + b; };
constexpr auto kProd = [](auto a, auto b) { return a * b; };
// There is no multiplication of bytes: of each two neighbours, both products are formed in 16 bits.
constexpr auto kByteProd = [](Vector<std::uint8_t> a, Vector<std::uint8_t> b) {
  const auto left = __builtin_bit_cast(Vector<std::uint16_t>, a);
  const auto right = __builtin_bit_cast(Vector<std::uint16_t>, b);
  const auto products = ((left * right) & 0x00ff) | ((left >> 8) * (right & 0xff00));
  return __builtin_bit_cast(Vector<std::uint8_t>, products);
};
constexpr auto kMin = [](auto a, auto b) { return a < b ? a : b; };
constexpr auto kMax = [](auto a, auto b) { return a > b ? a : b; };
// A NaN on either side gives NaN, as in numpy.
constexpr auto kFloatMin = [](auto a, auto b) { return ((a < b) | (a != a)) ? a : b; };
constexpr auto kFloatMax = [](auto a, auto b) { return ((a > b) | (a != a)) ? a : b; };
constexpr auto kAnd = [](auto a, auto b) { return a & b; };
constexpr auto kOr = [](auto a, auto b) { return a | b; };

// outs[k][i] = function(ins[i]...), where each of outs may be one of ins. Results that several
// ranks need are written to all places at once: a copy from the first place would read them again
// and wait for other lines. Whole cache lines go to each place, since some processors write those
// faster.
template <std::size_t kLanes, std::size_t kTargets, typename Out, typename Function, typename... In>
void map(Out* const (&outs)[kTargets], std::size_t count, Function function, const In*... ins) {
  constexpr std::size_t kAtOnce = 4;
  const std::size_t end_of_groups = count - count % (kAtOnce * kLanes);
  const std::size_t end_of_vectors = count - count % kLanes;
  std::size_t i = 0;
  for (; i < end_of_groups; i += kAtOnce * kLanes) {
    Vector<Out, kLanes> results[kAtOnce];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kAtOnce; ++v) {
      results[v] = function(load<In, kLanes>(ins + i + v * kLanes)...);
    }
#pragma GCC unroll 4
    for (Out* out : outs) {
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kAtOnce; ++v) {
        __builtin_memcpy(out + i + v * kLanes, &results[v], sizeof results[v]);
      }
    }
  }
  for (; i < end_of_vectors; i += kLanes) {
    const Vector<Out, kLanes> result = function(load<In, kLanes>(ins + i)...);
    for (Out* out : outs) __builtin_memcpy(out + i, &result, sizeof result);
  }
  if (i < count) {
    const Vector<Out, kLanes> result = function(load_part<In, kLanes>(ins + i, count - i)...);
    for (Out* out : outs) __builtin_memcpy(out + i, &result, (count - i) * sizeof(Out));
  }
}

template <typename T, auto kOp, std::size_t kLanes, std::size_t kTargets>
void combine(void* const* dsts, const void* a, const void* b, std::size_t count) {
  T* outs[kTargets];
  for (std::size_t k = 0; k < kTargets; ++k) outs[k] = static_cast<T*>(dsts[k]);
  map<kLanes>(outs, count, kOp, static_cast<const T*>(a), static_cast<const T*>(b));
}

template <typename Out, typename In, typename Function>
void map_floats(void* dst, const void* src, std::size_t count, Function function) {
  constexpr std::size_t kLanes = kVectorBytes / (sizeof(In) == 8 ? 8 : 4);  // float16: as float32
  Out* const outs[] = {static_cast<Out*>(dst)};
  map<kLanes>(outs, count, function, static_cast<const In*>(src));
}

template <typename T>
void scale(void* dst, const void* src, std::size_t count, double factor) {
  const T by = static_cast<T>(factor);
  map_floats<T, T>(dst, src, count, [by](Vector<T> values) { return by * values; });
}

template <Floats (*kWiden)(Halves)>
void widen(float* dst, const Half* src, std::size_t count) {
  map_floats<float, Half>(dst, src, count, [](Halves values) { return kWiden(values); });
}

template <Halves (*kNarrow)(Floats)>
void narrow(Half* dst, const float* src, std::size_t count) {
  map_floats<Half, float>(dst, src, count, [](Floats values) { return kNarrow(values); });
}

template <Floats (*kWiden)(Halves), Halves (*kNarrow)(Floats)>
void scale_half(void* dst, const void* src, std::size_t count, double factor) {
  const float by = static_cast<float>(factor);
  map_floats<Half, Half>(dst, src, count,
                         [by](Halves values) { return kNarrow(by * kWiden(values)); });
}

template <Halves (*kNarrow)(Floats)>
void scale_narrow(Half* dst, const float* src, std::size_t count, float factor) {
  map_floats<Half, float>(dst, src, count,
                          [factor](Floats values) { return kNarrow(factor * values); });
}

#if defined(__AVX2__)
inline void store_past_caches(char* to, Vector<char> value) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), __builtin_bit_cast(__m256i, value));
}
#elif defined(__SSE2__)
inline void store_past_caches(char* to, Vector<char> value) {
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), __builtin_bit_cast(__m128i, value));
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
    for (std::size_t k = 0; k < kCacheLineBytes; k += kVectorBytes) {
      store_past_caches(to + i + k, load<char, kVectorBytes>(from + i + k));
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

template <typename T, auto kOp, std::size_t kLanes = kVectorBytes / sizeof(T)>
constexpr KernelTable::Combines combines() {
  static_assert(KernelTable::kMaxTargets == 4);
  return {{combine<T, kOp, kLanes, 1>, combine<T, kOp, kLanes, 2>, combine<T, kOp, kLanes, 3>,
           combine<T, kOp, kLanes, 4>}};
}

// The index of a type or an operation in the tables.
template <typename Enum>
constexpr std::size_t at(Enum value) {
  return static_cast<std::size_t>(value);
}

template <typename T>
void fill_floating(KernelTable& table, DType dtype) {
  KernelTable::Combines* row = table.combine[at(dtype)];
  row[at(ReduceOp::sum)] = combines<T, kSum>();
  row[at(ReduceOp::prod)] = combines<T, kProd>();
  row[at(ReduceOp::min)] = combines<T, kFloatMin>();
  row[at(ReduceOp::max)] = combines<T, kFloatMax>();
  table.scale[at(dtype)] = scale<T>;
}

template <typename T>
void fill_integer(KernelTable& table, DType dtype) {
  using Unsigned = std::make_unsigned_t<T>;
#if defined(__SSE2__) && !defined(__AVX2__)
  constexpr bool kIsCombinedSingly = sizeof(T) == 8;  // neither multiplied nor compared in vectors
#else
  constexpr bool kIsCombinedSingly = false;
#endif
  constexpr std::size_t kLanes = kIsCombinedSingly ? 1 : kVectorBytes / sizeof(T);
  KernelTable::Combines* row = table.combine[at(dtype)];
  row[at(ReduceOp::sum)] = combines<Unsigned, kSum>();
  if constexpr (sizeof(T) == 1) {
    row[at(ReduceOp::prod)] = combines<Unsigned, kByteProd>();
  } else {
    row[at(ReduceOp::prod)] = combines<Unsigned, kProd, kLanes>();
  }
  row[at(ReduceOp::min)] = combines<T, kMin, kLanes>();
  row[at(ReduceOp::max)] = combines<T, kMax, kLanes>();
  row[at(ReduceOp::land)] = combines<Unsigned, kAnd>();
  row[at(ReduceOp::lor)] = combines<Unsigned, kOr>();
}

void fill_boolean(KernelTable& table) {
  KernelTable::Combines* row = table.combine[at(DType::boolean)];  // bytes 0 and 1
  row[at(ReduceOp::min)] = row[at(ReduceOp::land)] = combines<std::uint8_t, kAnd>();
  row[at(ReduceOp::max)] = row[at(ReduceOp::lor)] = combines<std::uint8_t, kOr>();
}

KernelTable make_table() {
  KernelTable table{};
  fill_floating<float>(table, DType::float32);
  fill_floating<double>(table, DType::float64);
  fill_integer<std::int8_t>(table, DType::int8);
  fill_integer<std::int16_t>(table, DType::int16);
  fill_integer<std::int32_t>(table, DType::int32);
  fill_integer<std::int64_t>(table, DType::int64);
  fill_integer<std::uint8_t>(table, DType::uint8);
  fill_boolean(table);
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
