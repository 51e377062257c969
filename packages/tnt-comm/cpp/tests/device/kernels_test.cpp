#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "device/memory_of_test.hpp"
#include "errors.hpp"
#include "fake_cuda/fake_cuda.hpp"
#include "tnt/comm/kernel/kernels.hpp"

// Each kernel for GPUs against that for processors, bit by bit. The stand-in computes with the same
// functions as the GPU.

namespace tnt::comm {
namespace {

using tests::device_of_test;
using tests::FakeCuda;
using tests::HostArray;
using tests::OnDevice;

constexpr std::uint64_t kOdd = 1237;  // elements

// Numbers of all kinds: any bits, and often those that are special.
HostArray bits_of(DType dtype, std::size_t count, unsigned seed) {
  constexpr std::array<std::uint64_t, 10> kSpecial16 = {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400,
                                                        0x7bff, 0x7c00, 0xfc00, 0x7e01, 0xfd12};
  constexpr std::array<std::uint64_t, 12> kSpecial32 = {
      0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff,
      0x7f800000, 0xff800000, 0x7fc12345, 0xffa00001, 0x477fefff, 0x33000001};
  constexpr std::array<std::uint64_t, 10> kSpecial64 = {0,
                                                        1ULL << 63,
                                                        1,
                                                        0x800fffffffffffff,
                                                        0x7fefffffffffffff,
                                                        0x7ff0000000000000,
                                                        0xfff0000000000000,
                                                        0x7ff8000000012345,
                                                        0xfff4000000000001,
                                                        0x0010000000000000};
  std::mt19937_64 random(seed);
  HostArray result(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = random();
    if (random() % 4 == 0) {
      bits = size_of(dtype) == 8       ? kSpecial64[random() % kSpecial64.size()]
             : size_of(dtype) == 4     ? kSpecial32[random() % kSpecial32.size()]
             : dtype == DType::float16 ? kSpecial16[random() % kSpecial16.size()]
                                       : kSpecial32[random() % kSpecial32.size()] >> 16;
    }
    std::memcpy(result.data() + i * size_of(dtype), &bits, size_of(dtype));
  }
  return result;
}

// At most one NaN among the elements of one place: which of two comes out is the choice of the
// compiler of the kernels for processors.
void keep_one_nan(DType dtype, std::vector<HostArray>& arrays, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    bool has_nan = false;
    for (HostArray& array : arrays) {
      std::uint64_t bits = 0;
      std::byte* element = array.data() + i * size_of(dtype);
      std::memcpy(&bits, element, size_of(dtype));
      const std::uint64_t infinity = dtype == DType::float64    ? 0x7ff0000000000000
                                     : dtype == DType::float32  ? 0x7f800000
                                     : dtype == DType::bfloat16 ? 0x7f80
                                                                : 0x7c00;
      const std::uint64_t sign = std::uint64_t{1} << (8 * size_of(dtype) - 1);
      if ((bits & ~sign) > infinity && std::exchange(has_nan, true)) {
        std::memset(element, 0, size_of(dtype));
      }
      // Infinities of both signs would give a second one.
      if ((bits & ~sign) == infinity && std::exchange(has_nan, true)) {
        std::memset(element, 0, size_of(dtype));
      }
    }
  }
}

class DeviceKernels : public ::testing::TestWithParam<DType> {
 protected:
  FakeCuda driver_;
  std::shared_ptr<Device> device_ = device_of_test();
  DeviceStream stream_{device_};
};

TEST_P(DeviceKernels, SumsHaveTheBitsOfProcessors) {
  const DType dtype = GetParam();
  for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 49, 64}) {
    for (const std::size_t offset : {0, 1, 3}) {  // elements
      std::vector<HostArray> sources;
      for (int i = 0; i < size; ++i) {
        sources.push_back(bits_of(dtype, kOdd, static_cast<unsigned>(100 * size + i)));
      }
      keep_one_nan(dtype, sources, kOdd);
      tests::expect_sum(stream_, SumTree(size), dtype, sources, offset);
    }
  }
}

TEST_P(DeviceKernels, SumsOfSubnormalNumbersAndOfOppositeInfinitiesAreThoseOfProcessors) {
  const DType dtype = GetParam();
  const auto of_kind = [&](std::uint64_t bits16, std::uint64_t bits_b16, std::uint64_t bits32,
                           std::uint64_t bits64) {
    const std::uint64_t bits = dtype == DType::float16    ? bits16
                               : dtype == DType::bfloat16 ? bits_b16
                               : dtype == DType::float32  ? bits32
                                                          : bits64;
    HostArray array(size_of(dtype) * 17);
    for (std::size_t i = 0; i < 17; ++i) {
      std::memcpy(array.data() + i * size_of(dtype), &bits, size_of(dtype));
    }
    return array;
  };
  const HostArray smallest = of_kind(1, 1, 1, 1);
  const HostArray infinity = of_kind(0x7c00, 0x7f80, 0x7f800000, 0x7ff0000000000000);
  const HostArray minus_infinity = of_kind(0xfc00, 0xff80, 0xff800000, 0xfff0000000000000);
  const HostArray minus_zero = of_kind(0x8000, 0x8000, 0x80000000, 0x8000000000000000);
  tests::expect_sum(stream_, SumTree(2), dtype, {smallest, smallest}, 0);
  tests::expect_sum(stream_, SumTree(2), dtype, {infinity, minus_infinity}, 0);
  tests::expect_sum(stream_, SumTree(2), dtype, {minus_infinity, infinity}, 0);
  tests::expect_sum(stream_, SumTree(3), dtype, {minus_zero, minus_zero, minus_zero}, 0);
  tests::expect_sum(stream_, SumTree(1), dtype, {minus_zero}, 0);
}

TEST_P(DeviceKernels, SumsAreNansWhereThoseOfProcessorsAre) {
  const DType dtype = GetParam();
  std::vector<HostArray> sources;
  for (unsigned i = 0; i < 5; ++i) sources.push_back(bits_of(dtype, kOdd, i));
  tests::expect_sum(stream_, SumTree(5), dtype, sources, 0, tests::Nans::any);
}

TEST_P(DeviceKernels, FewerSourcesThanTheTreeHasAreAddedOneByOne) {
  std::vector<HostArray> sources;
  for (unsigned i = 0; i < 4; ++i) sources.push_back(bits_of(GetParam(), kOdd, i));
  keep_one_nan(GetParam(), sources, kOdd);
  tests::expect_sum(stream_, SumTree(6), GetParam(), sources, 0);
}

TEST_P(DeviceKernels, SumsFollowATreeOfTheUser) {
  std::vector<HostArray> sources;
  for (unsigned i = 0; i < 12; ++i) sources.push_back(bits_of(GetParam(), kOdd, i));
  keep_one_nan(GetParam(), sources, kOdd);
  tests::expect_sum(stream_, SumTree(std::vector<int>{3, 2, 2}), GetParam(), sources, 0);
  sources.resize(6);
  tests::expect_sum(stream_, SumTree(std::vector<int>{3, 2}), GetParam(), sources, 0);
}

TEST_P(DeviceKernels, SumsAreWrittenOverTheirSources) {
  const DType dtype = GetParam();
  std::vector<HostArray> sources;
  for (unsigned i = 0; i < 3; ++i) sources.push_back(bits_of(dtype, kOdd, i));
  keep_one_nan(dtype, sources, kOdd);
  const HostArray expected = tests::sum_on_host(SumTree(3), dtype, sources);
  std::vector<std::unique_ptr<OnDevice>> arrays;
  std::vector<DevicePointer> places;
  for (const HostArray& source : sources) {
    arrays.push_back(std::make_unique<OnDevice>(stream_, source, 0));
    places.push_back(arrays.back()->data());
  }
  stream_.sum({places, places, dtype, kOdd}, SumTree(3));
  for (const auto& array : arrays) EXPECT_EQ(array->read(stream_), expected);
}

TEST_P(DeviceKernels, ScalesHaveTheBitsOfProcessors) {
  const DType dtype = GetParam();
  for (const double factor :
       {0.0, 1.0, 0.5, 1.0 / 3, -1e-40, 1e300, std::numeric_limits<double>::infinity()}) {
    for (const std::size_t offset : {0, 1, 3}) {
      const HostArray source = bits_of(dtype, kOdd, 5);
      HostArray expected(source.size());
      pack_scaled(expected.data(), source.data(), kOdd, dtype, factor);
      const OnDevice from(stream_, source, offset * size_of(dtype));
      const OnDevice to(stream_, HostArray(source.size()), offset * size_of(dtype));
      stream_.pack_scaled(to.data(), from.data(), kOdd, dtype, factor);
      EXPECT_EQ(to.read(stream_), expected) << name_of(dtype) << " times " << factor;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DeviceKernels,
                         ::testing::Values(DType::float16, DType::bfloat16, DType::float32,
                                           DType::float64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

class NarrowKernels : public DeviceKernels {};

TEST_P(NarrowKernels, NarrowedNumbersHaveTheBitsOfProcessors) {
  for (const double factor : {0.0, 1.0, 0.5, 1.0 / 3, 3e38}) {
    for (const std::size_t offset : {0, 1, 2, 3, 4}) {
      const HostArray source = bits_of(DType::float32, kOdd, 6);
      HostArray expected(kOdd * 2);
      pack_narrowed(expected.data(), source.data(), kOdd, GetParam(), factor);
      const OnDevice from(stream_, source, offset * 4);
      const OnDevice to(stream_, HostArray(kOdd * 2), (offset == 2 ? 0 : offset) * 2);
      stream_.pack_narrowed(to.data(), from.data(), kOdd, GetParam(), factor);
      EXPECT_EQ(to.read(stream_), expected) << "times " << factor << ", from " << offset;
    }
  }
}

TEST_P(NarrowKernels, EachOfTheNarrowNumbersIsWidenedAndNarrowedAsByProcessors) {
  constexpr std::size_t kAll = 65536;
  HostArray all(kAll * 2);
  for (std::uint32_t i = 0; i < kAll; ++i) std::memcpy(all.data() + 2 * i, &i, 2);
  HostArray widened(kAll * 4);
  unpack_widened(widened.data(), all.data(), kAll, GetParam());
  const OnDevice narrow(stream_, all, 0);
  const OnDevice wide(stream_, HostArray(kAll * 4), 0);
  stream_.unpack_widened(wide.data(), narrow.data(), kAll, GetParam());
  EXPECT_EQ(wide.read(stream_), widened);
  HostArray narrowed(kAll * 2);
  pack_narrowed(narrowed.data(), widened.data(), kAll, GetParam(), 1.0);
  stream_.pack_narrowed(narrow.data(), wide.data(), kAll, GetParam(), 1.0);
  EXPECT_EQ(narrow.read(stream_), narrowed);
}

// Between all neighbours: what is half way, and just below and above it.
TEST_P(NarrowKernels, EachRoundingIsThatOfProcessors) {
  std::vector<std::uint32_t> bits;
  const unsigned shift = GetParam() == DType::float16 ? 13 : 16;
  for (std::uint32_t upper = 0; upper < (1U << (32 - shift)); upper += 3) {
    for (const std::uint32_t lower : {0U, 1U, (1U << (shift - 1)) - 1, 1U << (shift - 1),
                                      (1U << (shift - 1)) + 1, (1U << shift) - 1}) {
      bits.push_back((upper << shift) | lower);
    }
  }
  HostArray source(bits.size() * 4);
  std::memcpy(source.data(), bits.data(), source.size());
  HostArray expected(bits.size() * 2);
  pack_narrowed(expected.data(), source.data(), bits.size(), GetParam(), 1.0);
  const OnDevice from(stream_, source, 0);
  const OnDevice to(stream_, HostArray(expected.size()), 0);
  stream_.pack_narrowed(to.data(), from.data(), bits.size(), GetParam(), 1.0);
  EXPECT_EQ(to.read(stream_), expected);
}

INSTANTIATE_TEST_SUITE_P(Types, NarrowKernels, ::testing::Values(DType::float16, DType::bfloat16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(DeviceSums, OfNoElementsTouchNothing) {
  const FakeCuda driver;
  DeviceStream stream(device_of_test());
  const std::vector<DevicePointer> nowhere = {0};
  stream.sum({nowhere, nowhere, DType::float32, 0}, SumTree(1));
  stream.pack_scaled(0, 0, 0, DType::float32, 0.5);
  stream.pack_narrowed(0, 0, 0, DType::float16, 0.5);
  stream.unpack_widened(0, 0, 0, DType::float16);
  stream.synchronize(Deadline(60));
}

TEST(DeviceSums, OfIntegersAndOfTooManyArraysAreRefused) {
  const FakeCuda driver;
  const auto device = device_of_test();
  DeviceStream stream(device);
  const DeviceBuffer buffer(device, 256);
  const std::vector<DevicePointer> one = {buffer.data()};
  const std::vector<DevicePointer> many(65, buffer.data());
  EXPECT_THROW(stream.sum({one, one, DType::int32, 1}, SumTree(1)), UsageError);
  EXPECT_THROW(stream.sum({many, one, DType::float32, 1}, SumTree(65)), UsageError);
  EXPECT_THROW(stream.sum({one, many, DType::float32, 1}, SumTree(1)), UsageError);
  EXPECT_THROW(stream.pack_scaled(buffer.data(), buffer.data(), 1, DType::int32, 0.5), UsageError);
}

TEST(DeviceScales, IntegersAreCopiedAndMadeZero) {
  const FakeCuda driver;
  DeviceStream stream(device_of_test());
  HostArray source(12, std::byte{3});
  const OnDevice from(stream, source, 0);
  const OnDevice to(stream, HostArray(12), 0);
  stream.pack_scaled(to.data(), from.data(), 3, DType::int32, 1.0);
  EXPECT_EQ(to.read(stream), source);
  stream.pack_scaled(to.data(), from.data(), 3, DType::int32, 0.0);
  EXPECT_EQ(to.read(stream), HostArray(12));
}

}  // namespace
}  // namespace tnt::comm
