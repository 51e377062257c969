#pragma once

#include <cstddef>
#include <cstdint>

// Vectors as wide as the registers of the instruction set, in the form that g++ and clang share:
// arithmetic, comparisons and ?: act on each element, in these very instructions. Neither has to
// find out that a loop can be vectorised. Header for the kernel variants only, as half.hpp.

namespace tnt::comm {
namespace {

#if defined(__AVX2__)
constexpr std::size_t kVectorBytes = 32;
#else
constexpr std::size_t kVectorBytes = 16;
#endif

template <typename T, std::size_t kLanes>
struct VectorOf {
  using Type __attribute__((vector_size(kLanes * sizeof(T)))) = T;
};
template <typename T>
struct VectorOf<T, 1> {
  using Type = T;
};

// A vector of a single element is the element itself.
template <typename T, std::size_t kLanes = kVectorBytes / sizeof(T)>
using Vector = typename VectorOf<T, kLanes>::Type;

template <typename T, std::size_t kLanes>
inline Vector<T, kLanes> load(const T* from) {
  Vector<T, kLanes> vector;
  __builtin_memcpy(&vector, from, sizeof vector);
#if defined(__SSE2__)
  // From here on it is in a register: g++ would read it again for each use.
  if constexpr (sizeof vector == kVectorBytes) asm("" : "+x"(vector));
#endif
  return vector;
}

// The first `count` elements; the others are zeros.
template <typename T, std::size_t kLanes>
inline Vector<T, kLanes> load_part(const T* from, std::size_t count) {
  Vector<T, kLanes> vector = {};
  __builtin_memcpy(&vector, from, count * sizeof(T));
  return vector;
}

}  // namespace
}  // namespace tnt::comm
