#include "tnt/comm/base/array.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace tnt::comm {
namespace {

using Shape = std::vector<std::ptrdiff_t>;

std::uint64_t pack(const Shape& shape) {
  return pack_shape(shape.data(), shape.size());
}

TEST(ArrayShape, TheCountSaysAllOfOneAxis) {
  EXPECT_EQ(pack({}), 0U);
  EXPECT_EQ(pack({6}), 0U);
  EXPECT_EQ(describe_shape(0), "");
}

TEST(ArrayShape, LengthsAreShown) {
  EXPECT_EQ(describe_shape(pack({3, 2})), " of shape (3, 2)");
  EXPECT_EQ(describe_shape(pack({0, 1073741823})), " of shape (0, 1073741823)");
  EXPECT_EQ(describe_shape(pack({1048575, 1, 7})), " of shape (1048575, 1, 7)");
  EXPECT_EQ(describe_shape(pack({15, 32767, 0, 4})), " of shape (15, 32767, 0, 4)");
  EXPECT_EQ(describe_shape(pack({1, 2, 3, 4, 4095})), " of shape (1, 2, 3, 4, 4095)");
  EXPECT_EQ(describe_shape(pack({1, 2, 3, 4, 5, 1023})), " of shape (1, 2, 3, 4, 5, 1023)");
}

TEST(ArrayShape, OfRowsTheFirstAxisDoesNotCount) {
  const auto pack_rows = [](const Shape& shape) {
    return pack_row_shape(shape.data(), shape.size());
  };
  EXPECT_EQ(pack_rows({6}), 0U);
  EXPECT_EQ(pack_rows({2, 3}), pack_rows({5, 3}));
  EXPECT_EQ(describe_shape(pack_rows({2, 3})), " of shape (3)");
  EXPECT_EQ(describe_shape(pack_rows({2, 0, 4})), " of shape (0, 4)");
  EXPECT_EQ(describe_shape(pack_rows({})), " of shape ()");
}

TEST(ArrayShape, ShapesDiffer) {
  const std::ptrdiff_t large = std::ptrdiff_t{1} << 40;
  const std::vector<Shape> shapes = {{6},
                                     {6, 1},
                                     {1, 6},
                                     {3, 2},
                                     {2, 3},
                                     {1, 2, 3},
                                     {large, 2},
                                     {2, large},
                                     {large, 1, 2},
                                     {1, 1, 1, 1, 1, 1, 6},
                                     {1, 1, 1, 1, 1, 6, 1}};
  std::set<std::uint64_t> packed;
  for (const Shape& shape : shapes) packed.insert(pack(shape));
  EXPECT_EQ(packed.size(), shapes.size());
}

TEST(ArrayShape, WhatIsNoShapeIsDescribedToo) {
  EXPECT_EQ(describe_shape(pack({1, 1, 1, 1, 1, 1, 6})).rfind(" of shape id ", 0), 0U);
  EXPECT_EQ(describe_shape(5), " of shape id 5");
  EXPECT_EQ(describe_shape(~0ULL), " of shape id 65535");
}

}  // namespace
}  // namespace tnt::comm
