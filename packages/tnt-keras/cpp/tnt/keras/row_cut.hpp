// Which numbers of a draw are wanted: every so many rows of an axis.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tnt::keras {

/// Rows `first`, `first + step`, ... of the middle axis of a draw of shape
/// `(lead, num_rows, row_size)`, one after the other.
struct RowCut {
  int64_t lead;
  int64_t num_rows;
  int64_t row_size;
  int64_t first;
  int64_t step;

  /// How many rows of each `num_rows` are wanted.
  int64_t num_taken() const { return first < num_rows ? (num_rows - first + step - 1) / step : 0; }

  /// How many numbers are wanted.
  int64_t size() const { return lead * num_taken() * row_size; }

  /// Calls `copy(from, count, to)` for the numbers [begin, end) of those that are wanted: `count`
  /// of them lie together, from position `from` of the draw on.
  template <typename Copy>
  void for_each_run(int64_t begin, int64_t end, Copy copy) const {
    if (begin == end) return;
    int64_t row = begin / row_size % num_taken();
    int64_t block = begin / row_size / num_taken();
    int64_t offset = begin % row_size;
    for (int64_t to = begin; to < end;) {
      const int64_t count = std::min(row_size - offset, end - to);
      copy((block * num_rows + first + row * step) * row_size + offset, count, to);
      to += count;
      offset = 0;
      if (++row == num_taken()) {
        row = 0;
        ++block;
      }
    }
  }
};

}  // namespace tnt::keras
